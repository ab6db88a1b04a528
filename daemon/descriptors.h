/*
 * descriptors.h - how many files the daemon may have open, and who may have the last ones.
 *
 * Each client takes one and each session one. New clients are refused first, then new sessions; what is left is for the
 * database, for files that are exported, and for those who are there already.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

/* Takes as many as we may have. */
void descriptors_claim(void);

/* Is that one of those that new clients are not to have? */
bool descriptors_is_late(int fd);
/* Is there one for a new session? */
bool descriptors_allow_session(void);

/* As many as we may have now. */
unsigned long descriptors_limit(void);

#endif
