/*
 * completion.h - what a client's user may mean who has typed the beginning of a session's id or name.
 */
#ifndef COMPLETION_H
#define COMPLETION_H

#include "request.h"

/* The method completion/complete. */
void completion_complete(struct request *request);

#endif
