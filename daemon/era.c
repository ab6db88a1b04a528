/*
 * era.c - the table of revisions and the choice for each message.
 */
#include "era.h"

#include "alloc.h"
#include "utf8.h"

#define META_PREFIX "io.modelcontextprotocol/"
#define META_VERSION META_PREFIX "protocolVersion"
#define META_CAPABILITIES META_PREFIX "clientCapabilities"

/* Of a version that we do not know, so many bytes are quoted. */
#define REQUESTED_MAX 64

#define RESOURCE_NOT_FOUND (-32002)

/* Oldest first. */
static const struct revision revisions[] = {
	{.name = "2024-11-05", .no_resource = RESOURCE_NOT_FOUND},
	{.name = "2025-03-26",
		.batches = true,
		.progress_message = true,
		.annotations = true,
		.completions = true,
		.no_resource = RESOURCE_NOT_FOUND},
	{.name = "2025-06-18",
		.progress_message = true,
		.annotations = true,
		.structured = true,
		.completions = true,
		.no_resource = RESOURCE_NOT_FOUND},
	{.name = "2025-11-25",
		.progress_message = true,
		.annotations = true,
		.structured = true,
		.argument_results = true,
		.unknown_id_absent = true,
		.completions = true,
		.no_resource = RESOURCE_NOT_FOUND},
	{.name = "2026-07-28",
		.stateless = true,
		.progress_message = true,
		.annotations = true,
		.structured = true,
		.argument_results = true,
		.unknown_id_absent = true,
		.completions = true,
		.no_resource = RPC_INVALID_PARAMS},
};

#define REVISIONS (sizeof(revisions) / sizeof(*revisions))

const struct revision *revision_find(const char *name)
{
	for (size_t i = 0; i < REVISIONS; i++)
		if (strcmp(revisions[i].name, name) == 0)
			return &revisions[i];
	return NULL;
}

static const struct revision *newest(bool stateless)
{
	for (size_t i = REVISIONS; i-- > 0;)
		if (revisions[i].stateless == stateless)
			return &revisions[i];
	return NULL;
}

const struct revision *revision_negotiate(const char *name)
{
	const struct revision *revision = revision_find(name);

	return revision && !revision->stateless ? revision : newest(false);
}

enum rpc_unknown_id era_unknown_id(const struct revision *agreed)
{
	return agreed && agreed->unknown_id_absent ? RPC_ID_ABSENT : RPC_ID_NULL;
}

static struct era_choice refuse(const struct revision *revision, const char *data)
{
	return (struct era_choice){.verdict = ERA_REFUSE,
		.revision = revision,
		.code = RPC_INVALID_PARAMS,
		.data = must(json_object_new_string(data))};
}

static struct era_choice refuse_version(const char *requested)
{
	struct json_object *data = json_object_new_object(), *supported = json_object_new_array();
	int length = (int)utf8_whole_characters(requested, strnlen(requested, REQUESTED_MAX));

	for (size_t i = 0; i < REVISIONS; i++)
		if (revisions[i].stateless)
			json_object_array_add(supported, json_object_new_string(revisions[i].name));
	json_object_object_add(data, "supported", supported);
	json_object_object_add(data, "requested", json_object_new_string_len(requested, length));
	return (struct era_choice){.verdict = ERA_REFUSE,
		.revision = newest(true),
		.code = ERA_UNSUPPORTED_VERSION,
		.message = "Unsupported protocol version",
		.data = data};
}

static struct era_choice choose_stateless(struct json_object *meta)
{
	struct json_object *version, *capabilities;

	if (!json_object_object_get_ex(meta, META_VERSION, &version) || !json_object_is_type(version, json_type_string))
		return refuse(newest(true), "_meta must hold the string " META_VERSION);
	if (!json_object_object_get_ex(meta, META_CAPABILITIES, &capabilities) ||
		!json_object_is_type(capabilities, json_type_object))
		return refuse(newest(true), "_meta must hold the object " META_CAPABILITIES);
	const struct revision *revision = revision_find(json_object_get_string(version));
	if (!revision || !revision->stateless)
		return refuse_version(json_object_get_string(version));
	return (struct era_choice){.verdict = ERA_SERVE, .revision = revision};
}

struct era_choice era_choose(const struct rpc_message *message, const struct revision *agreed)
{
	struct json_object *meta = NULL, *unused;
	bool has_version = false, stateless = false;

	if (json_object_is_type(message->params, json_type_object) &&
		json_object_object_get_ex(message->params, "_meta", &meta) &&
		json_object_is_type(meta, json_type_object)) {
		has_version = json_object_object_get_ex(meta, META_VERSION, &unused);
		stateless = has_version || json_object_object_get_ex(meta, META_CAPABILITIES, &unused) ||
			json_object_object_get_ex(meta, ERA_META_CLIENT, &unused);
	}
	if (strcmp(message->method, "initialize") == 0 && !has_version)
		return (struct era_choice){.verdict = ERA_HANDSHAKE, .revision = agreed};
	if (stateless)
		return choose_stateless(meta);
	if (strncmp(message->method, ERA_ADMINISTRATIVE_PREFIX, strlen(ERA_ADMINISTRATIVE_PREFIX)) == 0)
		return (struct era_choice){.verdict = ERA_FREE, .revision = agreed};
	if (agreed)
		return (struct era_choice){.verdict = ERA_SERVE, .revision = agreed};
	if (strcmp(message->method, "ping") == 0)
		return (struct era_choice){.verdict = ERA_FREE};
	return refuse(NULL,
		"No protocol version is agreed on: send initialize first, or put " META_VERSION
		" and " META_CAPABILITIES " into the request's params._meta");
}
