/*
 * descriptors.h - keeping our own file descriptors away from those of user code.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

/* Moves fd to a high number, where programs that count on low ones do not meet it. The new number, or fd itself. */
int descriptors_raise(int fd);

/* Closes everything from 3 on, except keep (-1 for none). */
void descriptors_close_all_but(int keep);

/*
 * In a fork: calls let_go for each open descriptor, with another one that can be put in its place: a socket whose peer
 * is gone, where reading ends at once and writing fails. False if that cannot be done.
 */
bool descriptors_let_go(void (*let_go)(int fd, int dead)) __attribute__((warn_unused_result));

#endif
