/*
 * arguments.h - a tool's arguments, whose types the schema has checked already.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct request;

/* Each is true if the argument is fine or missing; otherwise the request has been answered. */

/* *text is NULL if it is missing. No text may hold a NUL. */
bool argument_text(struct request *request, struct json_object *arguments, const char *name, const char **text);
/* The same for the argument `name`, which a session is to have; "" is none. */
bool argument_new_name(struct request *request, struct json_object *arguments, const char **name);
/* *number stays as it is if it is missing. */
bool argument_number(
	struct request *request, struct json_object *arguments, const char *name, uint64_t most, uint64_t *number);
/* False if it is missing. */
bool argument_flag(struct json_object *arguments, const char *name);

#endif
