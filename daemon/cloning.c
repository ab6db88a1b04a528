/*
 * cloning.c - asking a worker for a clone, and taking care of what comes of it.
 */
#include "cloning.h"

#include "alloc.h"
#include "conversation.h"
#include "evaluation.h"
#include "log.h"
#include "session.h"
#include "store.h"

struct cloning {
	struct request *request;
	struct server *server;
	cloning_callback done;
	char id[WORKLINK_SESSION_ID_LENGTH + 1];
	/* Of the original, when its turn has come: */
	struct json_object *from;
	char *directory, *package;
	struct limits limits;
};

static void cloning_free(struct cloning *cloning)
{
	json_object_put(cloning->from);
	free(cloning->directory);
	free(cloning->package);
	free(cloning);
}

void cloning_drop(struct cloning *cloning)
{
	if (cloning->server->store) /* else the daemon ends, and the next one clears up */
		store_forget_birth(cloning->server->store, cloning->id);
	cloning_free(cloning);
}

/* ---- what is not to be */

static void on_undone(struct session *clone, bool has_ended)
{
	if (has_ended)
		store_forget_birth(clone->server->store, clone->id);
	else
		log_error("%s: a clone that is not to be does not end", clone->id);
	session_discard(clone);
}

void cloning_undo(struct session *clone)
{
	session_note_adopted(clone, clone->adopting);
	session_begin_ending(clone, on_undone);
	if (clone->worker) /* the zygote may be dead */
		worker_quit(clone->worker);
	session_kill_process(clone);
}

static void on_births_found(void *context, const char *ids)
{
	struct server *server = context;
	char id[WORKLINK_SESSION_ID_LENGTH + 1] = "";

	for (; ids && strlen(ids) >= sizeof(id) - 1; ids += strlen(id) + (ids[strlen(id)] == ' ')) {
		memcpy(id, ids, sizeof(id) - 1);
		struct session *clone = session_find(server, id);
		log_info("%s: the clone was not complete when the daemon died; it ends", id);
		if (clone)
			cloning_undo(clone);
		else /* it never listened, and so nobody let it live */
			store_forget_birth(server->store, id);
	}
}

void cloning_undo_all(struct server *server)
{
	store_find_births(server->store, on_births_found, server);
}

/* ---- the way to a clone */

bool cloning_is_possible(const struct session *original)
{
	return original && original->state != SESSION_CREATING && original->state != SESSION_EMPTY;
}

void cloning_start(struct session *original, struct request *request, const char *id, cloning_callback done)
{
	struct cloning *cloning = new_zeroed(sizeof(*cloning));

	cloning->request = request;
	cloning->server = original->server;
	cloning->done = done;
	memcpy(cloning->id, id, sizeof(cloning->id));
	session_clone(original, request, cloning);
}

/* The clone is in the table from its first moment on; only nobody knows of it yet. */
static struct session *enter(const struct cloning *cloning)
{
	struct session *clone = session_make(cloning->server, cloning->request->conversation->owner, cloning->id);

	clone->directory = new_text(cloning->directory);
	clone->package = new_text(cloning->package);
	clone->limits = cloning->limits;
	if (!session_dial(clone))
		session_enter(clone, SESSION_EMPTY);
	return clone;
}

static void on_cloned(void *context, uint64_t pid, const char *why_not)
{
	struct cloning *cloning = context;
	struct request *request = cloning->request;
	struct cloning_said said = {.why_not = why_not, .from = cloning->from};

	if (!cloning->server->store) { /* the daemon ends, and its requests are gone */
		cloning_free(cloning);
		return;
	}
	request->conversation->lookups--;
	struct session *clone = enter(cloning);
	clone->pid = pid;
	if (pid != 0 && clone->state == SESSION_EMPTY)
		said.why_not = "its process has died already";
	if (said.why_not || request->unwanted)
		cloning_undo(clone); /* if the connection was lost there may be one all the same */
	else
		said.clone = clone;
	cloning->done(request, &said);
	cloning_free(cloning);
}

static void note_original(struct cloning *cloning, const struct session *original)
{
	cloning->from = json_object_new_object();
	json_object_object_add(cloning->from, "session", json_object_new_string(original->id));
	if (original->name)
		json_object_object_add(cloning->from, "name", json_object_new_string(original->name));
	json_object_object_add(cloning->from, "evaluation", json_object_new_int64((int64_t)original->last_seq));
	cloning->directory = new_text(original->directory);
	cloning->package = new_text(original->package);
	cloning->limits = original->limits;
}

/* It is out of the queue. */
static struct cloning *take_over(struct evaluation *evaluation)
{
	struct cloning *cloning = evaluation->cloning;

	evaluation->cloning = NULL;
	evaluation->request->session = NULL;
	evaluation->request->evaluation = NULL;
	evaluation_free(evaluation);
	return cloning;
}

void cloning_begin(struct session *original, struct evaluation *evaluation)
{
	struct cloning *cloning = take_over(evaluation);

	note_original(cloning, original);
	cloning->request->conversation->lookups++;
	worker_clone(original->worker, cloning->id, on_cloned, cloning);
}

void cloning_refuse_all(struct session *original)
{
	struct evaluation *evaluation = TAILQ_FIRST(&original->evaluations), *next;

	for (; evaluation; evaluation = next) {
		next = TAILQ_NEXT(evaluation, next);
		if (!evaluation->cloning)
			continue;
		TAILQ_REMOVE(&original->evaluations, evaluation, next);
		struct cloning *cloning = take_over(evaluation);
		cloning->done(cloning->request, &(struct cloning_said){.why_not = "its process has died"});
		cloning_drop(cloning);
	}
}
