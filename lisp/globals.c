/*
 * globals.c - comparing values, in C because each form that is read pays for it.
 */
#include "config.h"

#include "globals.h"

bool globals_differ(cl_object symbols, cl_object values)
{
	cl_env_ptr env = ecl_process_env();

	for (cl_index i = 0; i < symbols->vector.dim; i++)
		if (ECL_SYM_VAL(env, symbols->vector.self.t[i]) != values->vector.self.t[i])
			return true;
	return false;
}

void globals_note(cl_object symbols, cl_object values)
{
	cl_env_ptr env = ecl_process_env();

	for (cl_index i = 0; i < symbols->vector.dim; i++)
		values->vector.self.t[i] = ECL_SYM_VAL(env, symbols->vector.self.t[i]);
}
