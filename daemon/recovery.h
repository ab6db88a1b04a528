/*
 * recovery.h - what a new database gets of all that the daemon still knows.
 */
#ifndef RECOVERY_H
#define RECOVERY_H

/* For store_open; the context is the server. */
void recovery_fill_store(void *context);

#endif
