/*
 * recipes.h - the tricks that depend on the insides of ECL, and whether each works here.
 *
 * Every row of the table in recipes.c is tried out in a forked child before the zygote serves anybody. One that fails
 * is switched off, with a line in the log, and the modules that use it take the careful way instead.
 */
#ifndef RECIPES_H
#define RECIPES_H

#include <stdbool.h>

#include "frame.h"

enum recipe {
	RECIPE_INTERRUPT,        /* off: a cancel becomes a kill after the grace period */
	RECIPE_FAULT_HANDLER,    /* off: ECL's own handlers stay; overflow in C code ends the process */
	RECIPE_STACK_LIMITS,     /* off: ECL's limits stay as an overflow left them */
	RECIPE_HEAP_LIMIT,       /* off: no limit but the machine's */
	RECIPE_FLOAT_TRAPS,      /* off: user code that masks them masks them for good */
	RECIPE_ARGUMENTS,        /* off: backtraces name functions without their arguments */
	RECIPE_DEBUGGER_HOOK,    /* off: errors are caught by a handler around the evaluation */
	RECIPE_EXIT_REPLACEMENT, /* off: quit and exit do what ECL makes of them */
	RECIPE_OUTPUT_STREAM,    /* off: standard output goes through ECL's own streams and the pipes */
	RECIPE_PACKAGE_LOCK,     /* off: the runtime's package can be changed by user code */
	RECIPE_LINT,             /* off: definitions are not checked */
	RECIPES
};

bool recipe_is_active(enum recipe recipe);

/* Switches the recipe of that name off before it is tried. False if there is none. */
bool recipes_do_without(const char *name);

/* Tries out all recipes and switches off those that fail. Prints a line for each if verbose. */
void recipes_test(bool verbose);

/* Adds a FALLBACK field for each recipe that is off. */
void recipes_put_fallbacks(struct frame_builder *ready);

#endif
