/*
 * card.c - completing cards, and showing them to people.
 */
#include "card.h"

#include "conversation.h"
#include "server.h"
#include "session.h"
#include "sessionid.h"
#include "store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *card_text(struct json_object *card, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(card, name));

	return text ? text : "";
}

int64_t card_number(struct json_object *card, const char *name)
{
	return json_object_get_int64(json_object_object_get(card, name));
}

/* ---- how it is */

/*
 * What the process has in memory beside files, shared with the zygote or not; -1 if nobody may know. What would be its
 * fair share costs the kernel a walk over all its pages, half a millisecond each: too much for a list.
 */
static int64_t memory_kb(uint64_t pid)
{
	char path[64], line[128] = "", *end;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/statm", pid);
	FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	strtoll(line, &end, 10); /* pages of address space, resident pages, those of files, ... */
	int64_t resident = strtoll(end, &end, 10), of_files = strtoll(end, &end, 10);
	return resident > 0 ? (resident - of_files) * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

static struct json_object *clients_of(struct server *server, const char *id)
{
	struct json_object *clients = json_object_new_array();
	const struct conversation *conversation;

	LIST_FOREACH(conversation, &server->conversations, next)
	{
		if (!conversation_is_in(conversation, id))
			continue;
		struct json_object *client = json_object_new_object();
		json_object_object_add(client, "name",
			json_object_new_string(conversation->client_name ? conversation->client_name : "?"));
		json_object_object_add(client, "pid", json_object_new_int64(conversation->pid));
		json_object_object_add(client, "since", json_object_new_int64((int64_t)conversation->since));
		json_object_array_add(clients, client);
	}
	return clients;
}

void card_complete(struct server *server, struct json_object *card)
{
	const char *id = card_text(card, "id"), *state = "stored";
	struct session *session = session_find(server, id);

	if (json_object_get_boolean(json_object_object_get(card, "hibernated")))
		state = "hibernated";
	json_object_object_del(card, "hibernated");
	json_object_object_add(card, "clients", clients_of(server, id));
	if (session) {
		struct json_object *now = session_status(session);
		state = json_object_get_string(json_object_object_get(now, "state"));
		json_object_object_add(card, "state", json_object_new_string(state));
		int64_t memory = session->pid ? memory_kb(session->pid) : -1;
		if (session->pid)
			json_object_object_add(card, "pid", json_object_new_int64((int64_t)session->pid));
		if (memory >= 0)
			json_object_object_add(card, "memory_kb", json_object_new_int64(memory));
		json_object_object_add(card, "waiting", json_object_get(json_object_object_get(now, "waiting")));
		json_object_object_add(card, "protected", json_object_get(json_object_object_get(now, "protected")));
		if (session->unprotected)
			json_object_object_add(
				card, "unprotected_because", json_object_new_string(session->unprotected));
		if (session->awake)
			json_object_object_add(card, "awake_because", json_object_new_string(session->awake));
		json_object_put(now);
	} else {
		json_object_object_add(card, "state", json_object_new_string(state));
	}
}

/* ---- cursors: "UPDATED_AT/ID" */

void card_write_cursor(struct json_object *card, char cursor[static CARD_CURSOR_SIZE])
{
	snprintf(cursor, CARD_CURSOR_SIZE, "%" PRId64 "/%s", card_number(card, "updated_at"), card_text(card, "id"));
}

bool card_read_cursor(const char *cursor, int64_t *updated_at, const char **id)
{
	char *end;

	*updated_at = strtoll(cursor, &end, 10);
	*id = end + 1;
	return end != cursor && *end == '/' && session_id_valid(end + 1);
}

/* ---- for people */

void card_put_time(struct text *text, int64_t universal_time)
{
	time_t at = (time_t)(universal_time - (int64_t)STORE_UNIX_EPOCH);
	char written[32];
	struct tm local;

	localtime_r(&at, &local);
	strftime(written, sizeof(written), "%Y-%m-%d %H:%M:%S", &local);
	text_puts(text, written);
}

static void put_name(struct text *text, struct json_object *card)
{
	text_puts(text, card_text(card, "id"));
	if (*card_text(card, "name"))
		text_printf(text, " \"%s\"", card_text(card, "name"));
}

static void put_count(struct text *text, int64_t count, const char *what)
{
	text_printf(text, "%" PRId64 " %s%s", count, what, count == 1 ? "" : "s");
}

static void put_clients(struct text *text, struct json_object *card)
{
	struct json_object *clients = json_object_object_get(card, "clients");

	for (size_t i = 0; i < json_object_array_length(clients); i++)
		text_printf(text, "%s%s", i ? ", " : "", card_text(json_object_array_get_idx(clients, i), "name"));
}

/* "claude-code (pid 4711) since 2026-01-20 14:30:22": the process is that of its shim. */
static void put_attached(struct text *text, struct json_object *card)
{
	struct json_object *clients = json_object_object_get(card, "clients");

	for (size_t i = 0; i < json_object_array_length(clients); i++) {
		struct json_object *client = json_object_array_get_idx(clients, i);
		text_printf(text, "%s%s (pid %" PRId64 ") since ", i ? ", " : "", card_text(client, "name"),
			card_number(client, "pid"));
		card_put_time(text, card_number(client, "since"));
	}
}

void card_put_line(struct text *text, struct json_object *card)
{
	put_name(text, card);
	text_printf(text, ": %s, ", card_text(card, "state"));
	put_count(text, card_number(card, "evaluations"), "evaluation");
	text_puts(text, ", ");
	put_count(text, card_number(card, "messages"), "message");
	if (json_object_object_get(card, "memory_kb"))
		text_printf(text, ", %.1f MB", (double)card_number(card, "memory_kb") / 1024);
	text_puts(text, ", used ");
	card_put_time(text, card_number(card, "updated_at"));
	if (json_object_array_length(json_object_object_get(card, "clients")) > 0) {
		text_puts(text, ", open in ");
		put_clients(text, card);
	}
	text_puts(text, "\n");
}

static void put_process(struct text *text, struct json_object *card)
{
	if (!json_object_object_get(card, "pid"))
		return;
	text_printf(text, "\nprocess: %" PRId64, card_number(card, "pid"));
	if (json_object_object_get(card, "memory_kb"))
		text_printf(text, ", %.1f MB", (double)card_number(card, "memory_kb") / 1024);
	if (card_number(card, "waiting") > 0)
		text_printf(text, ", %" PRId64 " calls wait", card_number(card, "waiting"));
	if (*card_text(card, "unprotected_because"))
		text_printf(text, "\nnot protected: %s", card_text(card, "unprotected_because"));
	if (*card_text(card, "awake_because"))
		text_printf(text, "\nnot hibernated: %s", card_text(card, "awake_because"));
}

void card_put_all(struct text *text, struct json_object *card)
{
	put_name(text, card);
	text_printf(text, "\nstate: %s\npackage: %s\ndirectory: %s\ncreated: ", card_text(card, "state"),
		card_text(card, "package"), card_text(card, "directory"));
	card_put_time(text, card_number(card, "created_at"));
	text_puts(text, "\nused: ");
	card_put_time(text, card_number(card, "updated_at"));
	text_puts(text, "\ntranscript: ");
	put_count(text, card_number(card, "evaluations"), "evaluation");
	text_puts(text, ", ");
	put_count(text, card_number(card, "messages"), "message");
	text_printf(text, ", %" PRId64 " bytes", card_number(card, "stored_bytes"));
	if (!json_object_get_boolean(json_object_object_get(card, "history")))
		text_puts(text, "; evaluations leave no messages");
	put_process(text, card);
	text_puts(text, "\nopen in: ");
	if (json_object_array_length(json_object_object_get(card, "clients")) > 0)
		put_attached(text, card);
	else
		text_puts(text, "no client");
	if (*card_text(card, "model"))
		text_printf(text, "\nmodel: %s", card_text(card, "model"));
	if (json_object_object_length(json_object_object_get(card, "metadata")) > 0)
		text_printf(text, "\nmetadata: %s",
			json_object_to_json_string_ext(
				json_object_object_get(card, "metadata"), JSON_C_TO_STRING_PLAIN));
}
