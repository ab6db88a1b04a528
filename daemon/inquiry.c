/*
 * inquiry.c - from a tool call to a job of the store, and back.
 */
#include "inquiry.h"

#include "alloc.h"
#include "card.h"
#include "conversation.h"
#include "job.h"
#include "jsontext.h"
#include "server.h"
#include "subscription.h"
#include "session.h"
#include "tools.h"

struct inquiry {
	struct request *request;
	struct job *job;
	inquiry_callback done;
	void (*otherwise)(struct server *server, const void *context);
	void *context;
};

struct inquiry *inquiry_new(struct request *request, enum database_statement statement)
{
	struct inquiry *inquiry = new_zeroed(sizeof(*inquiry));

	inquiry->request = request;
	inquiry->job = job_new(statement, false);
	job_put_number(inquiry->job, request->conversation->owner);
	return inquiry;
}

void inquiry_text(struct inquiry *inquiry, const char *text)
{
	job_put_text(inquiry->job, text);
}

void inquiry_number(struct inquiry *inquiry, int64_t number)
{
	job_put_number(inquiry->job, (uint64_t)number);
}

void inquiry_nonce(struct inquiry *inquiry)
{
	job_put_nonce(inquiry->job, inquiry->request->conversation->nonce);
}

void inquiry_set_aside(struct inquiry *inquiry, bool (*prepare)(struct job *job), void (*conclude)(struct job *job))
{
	inquiry->job->prepare = prepare;
	inquiry->job->conclude = conclude;
}

void inquiry_keep_answer(struct inquiry *inquiry, const char *tool)
{
	const struct request *request = inquiry->request;
	struct job *sequel = job_new(DATABASE_ADD_ANSWER, false);

	job_put_nonce(sequel, request->conversation->nonce);
	job_put_number(sequel, request->line);
	job_put_number(sequel, request->item);
	job_put_text(sequel, tool);
	inquiry->job->sequel = sequel;
	request->conversation->answers_stored = true;
}

/* What a statement changes, and which member of its data names the session. */
static const struct {
	const char *session;
	unsigned changes;
} changing[DATABASE_STATEMENTS] = {
	[DATABASE_CREATE_SESSION] = {"id", CHANGED_LIST | CHANGED_STATE},
	[DATABASE_IMPORT_SESSION] = {"id", CHANGED_LIST | CHANGED_STATE},
	[DATABASE_RENAME_SESSION] = {"id", CHANGED_LIST | CHANGED_STATE},
	[DATABASE_DELETE_SESSION] = {"id", CHANGED_ALL | CHANGED_END},
	[DATABASE_ADD_MESSAGE] = {"session", CHANGED_STATE | CHANGED(RESOURCE_TRANSCRIPT)},
	[DATABASE_SET_METADATA] = {"id", CHANGED_STATE},
};

static void announce(const struct inquiry *inquiry, struct json_object *data)
{
	const struct conversation *conversation = inquiry->request->conversation;
	enum database_statement statement = inquiry->job->statement;

	if (changing[statement].session)
		subscription_announce(conversation->server, conversation->owner,
			card_text(data, changing[statement].session), changing[statement].changes);
}

static void deliver(struct job *job)
{
	static const enum inquiry_status statuses[] = {
		[DATABASE_ROW] = INQUIRY_FOUND,
		[DATABASE_DONE] = INQUIRY_NOTHING,
		[DATABASE_EXISTS] = INQUIRY_EXISTS,
		[DATABASE_REFUSED] = INQUIRY_REFUSED,
	};
	struct inquiry *inquiry = job->context;
	struct request *request = inquiry->request;
	struct inquiry_said said = {0};
	const char *unreadable = NULL;

	request->conversation->lookups--;
	conversation_end_inquiry(request->conversation);
	if (job->result == DATABASE_ROW) {
		unreadable = jsontext_read(job->out[0].data, job->out[0].length, &said.data);
		announce(inquiry, said.data);
	}
	if (inquiry->otherwise && job->result != DATABASE_ROW)
		inquiry->otherwise(request->conversation->server, inquiry->context);
	if (request->unwanted) {
		request_withdraw(request);
	} else if (job->result == DATABASE_BROKEN) {
		const char *problem = store_problem(request->conversation->server->store);
		request_fail(request, "STORAGE-FAILED", "Nothing was changed: %s. Try again when that is mended.",
			problem ? problem : "the database did not answer");
	} else if (unreadable) { /* the statement made it, of what somebody else has put into the database */
		request_fail(request, "STORAGE-FAILED", "What the database holds cannot be shown. %s.", unreadable);
	} else {
		said.status = statuses[job->result];
		if (said.status != INQUIRY_FOUND)
			said.words = job->out[0].data;
		inquiry->done(request, &said, inquiry->context);
	}
	json_object_put(said.data);
	free(inquiry->context);
}

void inquiry_otherwise(struct inquiry *inquiry, void (*otherwise)(struct server *server, const void *context))
{
	inquiry->otherwise = otherwise;
}

void inquiry_send(struct inquiry *inquiry, inquiry_callback done, void *context)
{
	struct job *job = inquiry->job;

	inquiry->done = done;
	inquiry->context = context;
	inquiry->request->conversation->lookups++;
	conversation_begin_inquiry(inquiry->request->conversation);
	job->deliver = deliver;
	job->context = inquiry;
	job->owns_context = true;
	store_enqueue(inquiry->request->conversation->server->store, job);
}

void inquiry_refuse(struct request *request, const struct inquiry_said *said, const char *session)
{
	if (said->status == INQUIRY_EXISTS)
		request_fail(request, "SESSION-EXISTS",
			"A session of that name or id is there already. Choose another name, or go on with it: resume-session.");
	else if (said->status == INQUIRY_NOTHING)
		request_fail(request, "SESSION-NOT-FOUND", SESSION_UNKNOWN, session ? session : "");
	else if (said->words && strstr(said->words, "metadata_fits"))
		request_fail(request, "METADATA-OVERFLOW",
			"A session's metadata may have 64 KB, and this would be more. What was stored stays; remove keys first, or "
			"store less.");
	else
		request_fail(request, "INVALID-ARGUMENTS", "The database refuses that: %s.",
			said->words ? said->words : "for no reason");
}

struct errand {
	const char *tool;
	char session[];
};

static void on_errand_done(struct request *request, const struct inquiry_said *said, void *context)
{
	const struct errand *errand = context;

	if (said->status == INQUIRY_FOUND)
		tools_finish(request, errand->tool, said->data);
	else
		inquiry_refuse(request, said, errand->session);
}

void inquiry_send_for_tool(struct inquiry *inquiry, const char *tool, const char *session)
{
	size_t length = session ? strlen(session) : 0;
	struct errand *errand = new_zeroed(sizeof(*errand) + length + 1);

	errand->tool = tool;
	if (session)
		memcpy(errand->session, session, length);
	inquiry_send(inquiry, on_errand_done, errand);
}
