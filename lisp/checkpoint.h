/*
 * checkpoint.h - the operations on a session's sleeping copies: keeping one under a name, going back to one, listing
 * them.
 *
 * They stand among the evaluations like those of the Lisp runtime (operations.lisp), but Lisp has no part in them:
 *
 *   checkpoint-session  "keep NAME", "replace NAME" or "remove NAME"
 *   rollback-session    "to NAME" or "back NUMBER", of evaluations
 *   list-checkpoints
 *
 * What they answer is for the daemon, which words it: see checkpoint.c. Going back has no result. The process leaves,
 * and the copy that takes over tells.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <ecl/ecl.h>
#include <stdbool.h>

#include "frame.h"
#include "lineage.h"
#include "request.h"

/* Beyond that no further copy gets a name: so much memory the named ones of a session may take in the worst case. */
#define CHECKPOINT_BYTES_MAX (UINT64_C(4) << 30)

enum checkpoint_step {
	CHECKPOINT_ANSWER, /* the result is all */
	CHECKPOINT_KEEP,   /* a copy is to be made under the name; if it cannot be, the failure is the result */
	CHECKPOINT_LEAVE,  /* the copy in the place is to take over; there is no result */
};

struct checkpoint_plan {
	enum checkpoint_step step;
	struct frame_builder result, failure;
	char name[SHELF_NAME_SIZE];
	int place; /* of who takes over; or of the older one of that name, which goes: SHELF_NONE if there is none */
};

bool checkpoint_is_asked(const struct request *request);
/* Does what needs no fork, and says what is to be done then. */
void checkpoint_perform(const struct request *request, struct lineage *lineage, struct checkpoint_plan *plan);

/* The names that there are, a list of Lisp strings. */
cl_object checkpoint_names(void);

#endif
