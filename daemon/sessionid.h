/*
 * sessionid.h - ids such as session-20260120-143022-A4F2, local time and a random suffix; and names.
 */
#ifndef SESSIONID_H
#define SESSIONID_H

#include "worklink.h"

#include <stdbool.h>

bool session_id_valid(const char *id);

/* A name must not look like an id, and must fit into a line. */
#define SESSION_NAME_RULE "it must be one line of at most 256 bytes that does not begin with session-"
bool session_name_valid(const char *name);

/* Two may be alike; the store's constraint decides. */
void session_id_draw(char id[static WORKLINK_SESSION_ID_LENGTH + 1]);

#endif
