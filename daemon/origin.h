/*
 * origin.h - who asked for an evaluation, in a form that the worker keeps for us.
 *
 * A daemon that was restarted reads in it how to answer what its predecessor had begun.
 */
#ifndef ORIGIN_H
#define ORIGIN_H

#include "frame.h"
#include "link.h"
#include "request.h"
#include "worker.h"

/* Longer code is not kept with the origin; a transcript rebuilt after a crash says so. */
#define ORIGIN_CODE_MAX (64u << 10)
#define ORIGIN_PACKAGE_MAX 4096

struct origin {
	uint8_t nonce[LINK_NONCE_SIZE];
	uint64_t line;
	uint32_t item;
	uint64_t started_at; /* universal time */
	char *id;            /* NULL if nobody waits for the answer any more */
	char *progress_token;
	char *operation; /* NULL for an evaluation */
	char *package;   /* that the call named; NULL: none */
	char *uri;       /* of the resource that is read by it; NULL if it is a tool's */
	char *code;      /* without its secrets; NULL if it was too long */
	size_t code_length;
	uint64_t output_max, value_max; /* see struct work */
	const struct revision *revision;
	struct json_object *secrets;
	bool is_unrecorded;
	bool is_default; /* the session is its conversation's default */
};

/* Of a request that is about to be evaluated. */
void origin_encode(struct frame_builder *builder, const struct request *request, uint64_t started_at, bool is_default,
	const struct work *work);
/* False if it is not one of ours. */
bool origin_decode(const uint8_t *data, size_t length, struct origin *origin) __attribute__((warn_unused_result));
void origin_free(struct origin *origin);

#endif
