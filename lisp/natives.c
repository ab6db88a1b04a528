/*
 * natives.c - compiled code leaves no record of its calls, but every return address on the C stack lies inside of a
 * function, and the code that was loaded has a table that says which one that is.
 *
 * Functions without a name are not in the table and not reported.
 */
#include "config.h"

#include "natives.h"

#include <unwind.h>

#define DEPTH_MAX 5000 /* of the C stack that is looked at */

static cl_object libraries; /* of the zygote */

void natives_init(void)
{
	libraries = cl_core.libraries;
	ecl_register_root(&libraries);
}

static cl_object name_in_block(const struct ecl_codeblock *block, const void *function)
{
	for (cl_index i = 0; i < block->cfuns_size; i++) {
		const struct ecl_cfunfixed *prototype = &block->cfuns[i];

		if ((const void *)prototype->entry == function || (const void *)prototype->entry_fixed == function)
			return block->data[ecl_fixnum(prototype->block)]; /* as ECL reads it, see read.d */
	}
	return NULL;
}

/* A library that was made of several files has a block for each, in a ring. */
static cl_object name_in_library(cl_object library, const void *function)
{
	cl_object block = library;

	do {
		cl_object name = name_in_block(&block->cblock, function);

		if (name)
			return name;
		block = block->cblock.next;
	} while (block && !Null(block) && block != library);
	return NULL;
}

static cl_object name_of(const void *function)
{
	for (cl_object list = cl_core.libraries; list != libraries && !Null(list); list = ECL_CONS_CDR(list)) {
		cl_object name = name_in_library(ECL_CONS_CAR(list), function);

		if (name)
			return name;
	}
	return NULL;
}

struct walk {
	const char *from;
	struct native *found;
	size_t count;
	size_t limit;
	size_t depth;
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;
	const char *at = (const char *)_Unwind_GetCFA(context);
	int is_instruction = 0;
	uintptr_t instruction = _Unwind_GetIPInfo(context, &is_instruction);

	if (walk->count == walk->limit || walk->depth++ == DEPTH_MAX)
		return _URC_END_OF_STACK;
	if (at <= walk->from || instruction == 0)
		return _URC_NO_REASON;
	/* where the function begins that the instruction belongs to */
	const void *function = _Unwind_FindEnclosingFunction((void *)(instruction - !is_instruction));
	cl_object name = function ? name_of(function) : NULL;
	if (name)
		walk->found[walk->count++] = (struct native){.at = at, .name = name};
	return _URC_NO_REASON;
}

size_t natives_on_stack(const char *from, struct native *found, size_t limit)
{
	struct walk walk = {.from = from, .found = found, .limit = limit};

	if (cl_core.libraries != libraries)
		_Unwind_Backtrace(visit, &walk);
	return walk.count;
}
