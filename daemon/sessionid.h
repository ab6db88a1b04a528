/*
 * sessionid.h - ids such as session-20260120-143022-A4F2: local time and a random suffix.
 */
#ifndef SESSIONID_H
#define SESSIONID_H

#include "worklink.h"

#include <stdbool.h>

bool session_id_valid(const char *id);

/* Two may be alike; the store's constraint decides. */
void session_id_draw(char id[static WORKLINK_SESSION_ID_LENGTH + 1]);

#endif
