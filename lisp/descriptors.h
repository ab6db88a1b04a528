/*
 * descriptors.h - keeping our own file descriptors away from those of user code.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

/* Moves fd to a high number, where programs that count on low ones do not meet it. The new number, or fd itself. */
int descriptors_raise(int fd);

/* Closes everything from 3 on, except keep (-1 for none). */
void descriptors_close_all_but(int keep);

#endif
