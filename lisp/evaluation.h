/*
 * evaluation.h - one evaluation: the frame around it, how it ended, its result.
 */
#ifndef EVALUATION_H
#define EVALUATION_H

#include <ecl/ecl.h>
#include <stdbool.h>

#include "frame.h"
#include "request.h"
#include "worklink.h"

/* Once, in the zygote, when Lisp and the runtime are there. */
void evaluation_init(void);

/* The Lisp environment of the main thread. */
cl_env_ptr evaluation_env(void);
/* Are we inside the frame, so that evaluation_throw has somewhere to go? */
bool evaluation_is_running(void);

/* Runs it and builds its result. */
void evaluation_run(const struct request *request, struct frame_builder *result);

/* The result of something that Lisp has no part in: a value, or what went wrong. */
void evaluation_put_value(const struct request *request, const char *value, struct frame_builder *result);
void evaluation_put_error(
	const struct request *request, const char *type, const char *message, struct frame_builder *result);
void evaluation_put_cancelled(const struct request *request, struct frame_builder *result);

/* Ends the running evaluation. Only on the main thread. */
void evaluation_throw(enum worker_outcome outcome) __attribute__((noreturn));

/* The same, called from the compiled runtime (host.lisp). */
void evaluation_fail(void) __attribute__((noreturn));
void evaluation_abort(void) __attribute__((noreturn));
void evaluation_exit(int code) __attribute__((noreturn));
/* A form has been evaluated. */
void evaluation_count_form(void);

#endif
