/*
 * selfanswer.h - the answer to a client's line when there is no daemon to give one.
 */
#ifndef SELFANSWER_H
#define SELFANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "bytes.h"

/*
 * Appends to out the JSON text that answers the line with an error, without a line end: one object, or for a batch an
 * array with one for each request in it. False, and nothing appended, if the line is to have no answer: a notification,
 * a response, a batch of only such. What cannot be understood is answered with the id null. text may be NULL: a line
 * that was too long to keep.
 */
bool selfanswer_make(const char *text, size_t length, const char *message, struct bytes *out);

#endif
