/*
 * evaluation.h - one evaluation of a session's, from the queue to its record in the transcript.
 */
#ifndef EVALUATION_H
#define EVALUATION_H

#include "origin.h"
#include "request.h"
#include "result.h"
#include "session.h"

struct cloning;

struct evaluation {
	TAILQ_ENTRY(evaluation) next;
	struct request *request; /* NULL once it was cancelled */
	uint8_t nonce[LINK_NONCE_SIZE];
	uint64_t line;
	uint32_t item;
	struct work work;        /* its texts are owned; code is NULL if it is not known any more */
	bool is_reading;         /* a resource is read by it: it leaves no trace */
	bool is_repeated;        /* see session_reset_survives */
	struct cloning *cloning; /* when its turn comes the session is cloned, and nothing evaluated; owned */
	uint64_t seq;            /* 0 until it is sent */
	uint64_t started_at;     /* universal time */
	double last_progress;
};

struct evaluation *evaluation_new(struct request *request, const struct work *work);
/* One that nobody waits for. */
struct evaluation *evaluation_new_for_nobody(const struct work *work);
/* What a former daemon had begun; its request lives on in the conversation it came from. */
struct evaluation *evaluation_adopt(struct server *server, struct session *session, const struct origin *origin);
/* Its request must have ended. */
void evaluation_free(struct evaluation *evaluation);

/* The client has cancelled: the request ends now, without an answer, also for a line that comes again. */
void evaluation_withdraw(struct evaluation *evaluation, struct store *store);

/* Ends it: the transcript keeps it, its request (if there still is one) is answered. */
void evaluation_finish(struct evaluation *evaluation, struct session *session, struct result *result);
/*
 * The session's processes keep for whom the last evaluation was begun, and of no other. Should this daemon die together
 * with the worker, a line whose answer did not leave and was not stored would be run once more: so the session waits.
 */
void evaluation_expose(struct session *session, uint64_t seq);

/* The same for a result of which we do not know whose it is: it leaves no trace but its number. */
void evaluation_skip(struct session *session, uint64_t seq);

/* Tells the request how far it is. */
void evaluation_progress(struct evaluation *evaluation, uint64_t elapsed_us, uint64_t lines, const char *last_line);

#endif
