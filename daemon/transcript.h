/*
 * transcript.h - a transcript's messages as people read them.
 */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include "text.h"

#include <json-c/json.h>

/* The data names a session: its id, and its name if it has one. */
void transcript_put_session(struct text *text, struct json_object *data);
/* "--- 7 tool, 2026-01-20 14:30:22, evaluation 4" and the content below, between newlines. */
void transcript_put_message(struct text *text, struct json_object *message);

#endif
