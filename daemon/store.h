/*
 * store.h - sessions, transcripts and conversations in SQLite, on a thread of its own.
 *
 * No call here waits for the disk: each queues a job, in order. What a job finds comes back through its callback, from
 * the event loop. Records of evaluations are committed in groups, some milliseconds later; everything else at once. A
 * failed commit is tried again until it succeeds, and store_problem tells why meanwhile.
 */
#ifndef STORE_H
#define STORE_H

#include "chore.h"
#include "link.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

/* The database has just been made, because there was none or a damaged one is set aside: what is added in this call
 * comes before everything that waits already. */
typedef void (*store_made_callback)(void *context);

/* Makes the directory if needed. Opening the database is the thread's first job. */
struct store *store_open(struct event_base *base, const char *directory, store_made_callback made, void *context);
/* Finishes what is queued, as far as the disk lets it. No callback comes after it. */
void store_close(struct store *store);

/* Somebody waits for what is queued: it is committed without waiting for company. */
void store_hurry(struct store *store);

/* NULL while records can be kept; otherwise a sentence for people. */
const char *store_problem(const struct store *store);
/* NULL unless a damaged database was set aside since the daemon began; otherwise a clause for people. */
const char *store_notice(const struct store *store);

/* What is stored of our user's sessions, as of the last commit. */
uint64_t store_used_bytes(const struct store *store);

/* False if another one is at work. The chore passes to the store. */
bool store_begin_chore(struct store *store, struct chore *chore);
/* How far the last one is. */
struct chore_said store_chore(struct store *store);

struct store_session {
	const char *id;
	const char *name; /* may be NULL */
	const char *directory;
	unsigned owner;
	uint64_t created_at; /* universal time */
	bool has_history;
	/* Of one that is stored again: */
	const char *limits;  /* as limit_encode wrote them */
	const char *package; /* NULL if it is not known */
	uint64_t last_seq;
};

enum store_status { STORE_DONE, STORE_EXISTS, STORE_FAILED };

typedef void (*store_status_callback)(void *context, enum store_status status);

void store_add_session(
	struct store *store, const struct store_session *session, store_status_callback done, void *context);
/* One whose row was lost. Its name is left out if another one has it now. */
void store_restore_session(struct store *store, const struct store_session *session);

struct store_found_session {
	const char *id;
	const char *name; /* may be NULL */
	const char *directory;
	const char *limits;     /* as limit_encode wrote them */
	const char *reload;     /* NULL unless a reset was broken off */
	const char *state_file; /* NULL unless it is hibernated, or to be made again, see recollection.h */
	uint64_t last_seq;
	uint64_t forgotten_seq; /* evaluations up to this one have no part in what it is */
	uint64_t created_at;
	bool has_history;
};

/* STORE_DONE with NULL if there is no such session; found lives until the callback returns. */
typedef void (*store_session_callback)(
	void *context, enum store_status status, const struct store_found_session *found);
void store_find_session(
	struct store *store, const char *id_or_name, unsigned owner, store_session_callback done, void *context);
/* By its id. The answer comes when the disk gives it, however long that takes. */
void store_expect_session(
	struct store *store, const char *id, unsigned owner, store_session_callback done, void *context);

/* With a space between; NULL if there is none. */
typedef void (*store_ids_callback)(void *context, const char *ids);
/* Clones that a daemon had begun. */
void store_find_births(struct store *store, store_ids_callback done, void *context);
void store_forget_birth(struct store *store, const char *id);

/* Sessions of that owner, as they are without a process, that were not used since that universal time. */
void store_find_unused(
	struct store *store, unsigned owner, uint64_t since, uint64_t most, store_ids_callback done, void *context);
/* STORE_FAILED if it was used meanwhile. The context was allocated for this call: the store frees it. */
void store_delete_unused(
	struct store *store, const char *id, uint64_t since, store_status_callback done, void *context);

/* Both: done may be NULL. The context was allocated for this call: the store frees it. */
void store_set_limits(
	struct store *store, const char *session, const char *limits, store_status_callback done, void *context);
/* What a reset has still to load; NULL: nothing. */
void store_set_reload(
	struct store *store, const char *session, const char *systems, store_status_callback done, void *context);

/* Where its state is. */
void store_set_state_file(
	struct store *store, const char *session, const char *file, store_status_callback done, void *context);
/* Nowhere any more; done comes when that has succeeded, however long it takes. */
void store_clear_state_file(struct store *store, const char *session, store_status_callback done, void *context);

struct store_evaluation {
	const char *session;
	uint64_t seq;
	const char *operation; /* NULL if the code was evaluated */
	const char *code;      /* NULL if it is not known any more */
	size_t code_length;
	const char *text; /* as answered */
	size_t text_length;
	const char *given; /* the package that the call named; NULL: none */
	const char *package;
	uint64_t forms; /* that ended as they should */
	int outcome;    /* enum worker_outcome */
	uint64_t started_at;
	uint64_t elapsed_us;
	uint64_t restored; /* the evaluation whose state has come back with it or before it; 0: none */
};

/*
 * Keeps an evaluation in its session's transcript. done comes when it is on its way to the disk for good. The context
 * was allocated for this call: the store frees it.
 */
void store_add_evaluation(
	struct store *store, const struct store_evaluation *evaluation, store_status_callback done, void *context);

/*
 * What the session has evaluated since that evaluation, as lisp/recollection.lisp reads it; NULL if there is no such
 * session, or it cannot be read. The context was allocated for this call: the store frees it.
 */
typedef void (*store_text_callback)(void *context, enum store_status status, const char *text);
void store_recollect(struct store *store, const char *session, uint64_t since, store_text_callback done, void *context);

/* Keeps of an evaluation nothing but its number. */
void store_skip_evaluation(struct store *store, const char *session, uint64_t seq, const char *package,
	store_status_callback done, void *context);

/* What an evaluation wrote and its answer does not show. */
struct store_output {
	const char *session;
	uint64_t seq;
	const char *stream;
	const char *data;
	size_t length;
	bool is_whole; /* there was no more */
};

void store_add_output(struct store *store, const struct store_output *output);

struct store_found_output {
	uint64_t seq;
	const char *text; /* the piece that was asked for */
	size_t length;
	uint64_t characters; /* of all that is kept */
	bool is_whole;
};

/* STORE_DONE with NULL if there is none. The context was allocated for this call: the store frees it. */
typedef void (*store_output_callback)(void *context, enum store_status status, const struct store_found_output *found);
/* seq 0: the last one that is kept. offset and length are characters. */
void store_find_output(struct store *store, const char *session, uint64_t seq, const char *stream, uint64_t offset,
	uint64_t length, store_output_callback done, void *context);

/* Keeps an answer until its line is settled; NULL means that the request was cancelled. */
void store_add_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	const char *answer, size_t length);
/* Answers to lines up to this one are not needed any more, save to those that are open. */
void store_settle(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, const uint64_t *open,
	size_t open_count);

struct store_found_answer {
	const char *text; /* NULL if it was cancelled */
	size_t length;
	const char *tool; /* not NULL: the text is data, and that tool makes the answer from it */
};

/* STORE_DONE with NULL if there is none. The context was allocated for this call: the store frees it. */
typedef void (*store_answer_callback)(void *context, enum store_status status, const struct store_found_answer *found);
void store_find_answer(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], uint64_t line, uint32_t item,
	store_answer_callback done, void *context);

struct store_conversation {
	const char *revision; /* NULL: none is agreed on */
	const char *session;  /* NULL: none of its own */
	const char *directory;
	const char *client; /* its name; NULL if it has not told */
	uint64_t initialize_line;
	bool has_begun;            /* its session was chosen once */
	const char *subscriptions; /* only of what is found: JSON, [{"uri":..., "session":...}] */
};

/* done may be NULL. */
void store_save_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	const struct store_conversation *conversation, store_status_callback done, void *context);
void store_forget_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE]);

/* STORE_DONE with NULL if there is none; found has no directory. The context was allocated for this call: the store
 * frees it. */
typedef void (*store_conversation_callback)(
	void *context, enum store_status status, const struct store_conversation *found);
void store_find_conversation(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	store_conversation_callback done, void *context);

struct store_subscription {
	unsigned owner;
	const char *uri;
	const char *session; /* NULL: it is of no single one */
	unsigned most;       /* that a conversation may have */
};

/* Of a conversation that is saved already, unless there is no such session. */
void store_add_subscription(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE],
	const struct store_subscription *subscription);

/* The conversation, which is saved already, uses that session: the last one of its client's from its directory. */
void store_use_session(struct store *store, const uint8_t nonce[static LINK_NONCE_SIZE], const char *session);

/* STORE_DONE with NULL if there is none. */
typedef void (*store_last_used_callback)(void *context, enum store_status status, const char *session);
/* The session that clients of that name used last from there. */
void store_last_used_session(struct store *store, unsigned owner, const char *directory, const char *client,
	store_last_used_callback done, void *context);

/* 1970 and 2020 as universal times. */
#define STORE_UNIX_EPOCH UINT64_C(2208988800)
#define STORE_FIRST_TIME UINT64_C(3786825600)
#define STORE_DAY_SECONDS UINT64_C(86400)

/* Seconds since 1900, the time that Lisp users know; not before 2020, whatever the clock says. */
uint64_t store_universal_time(void);
/* Of a time that somebody gives: from 2020 on, to a day from now. */
bool store_time_is_likely(uint64_t universal_time);
/* Sessions that were used under a clock that was more than a day ahead have been used now. */
void store_mend_times(struct store *store);

#endif
