/*
 * evaluations.h - what single evaluations cost, each pair interleaved on one core:
 *
 *   the definition of a function of ten lines, checked and unchecked;
 *   an error with its backtrace, against a success;
 *   a megabyte of output, against a plain ECL that writes it into a pipe.
 */
#ifndef EVALUATIONS_H
#define EVALUATIONS_H

#include "client.h"
#include "sample.h"

struct evaluations {
	struct sample checked, unchecked;
	struct sample error, success;
	struct sample output, plain_output;
};

/* False with a message on stderr. The client has been opened. */
bool evaluations_measure(struct evaluations *evaluations, struct client *client, const struct place *place)
	__attribute__((warn_unused_result));
void evaluations_print(struct evaluations *evaluations);
void evaluations_free(struct evaluations *evaluations);

#endif
