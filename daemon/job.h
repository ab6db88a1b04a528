/*
 * job.h - a statement on its way to the store's thread and back.
 *
 * For the modules that know the statements: records.c and inquiry.c.
 */
#ifndef JOB_H
#define JOB_H

#include "database.h"
#include "store.h"

#include <sys/queue.h>

#define JOB_IN_MAX 16
#define JOB_OUT_MAX 10

struct job {
	STAILQ_ENTRY(job) next;
	enum database_statement statement;
	/* Nobody waits for it: it may be grouped with others, and it is kept until the disk takes it. */
	bool patient;
	/* Somebody waits for it, but can wait for so many further tries. */
	unsigned tries;
	struct value in[JOB_IN_MAX];
	size_t in_count;
	struct value out[JOB_OUT_MAX];
	enum database_result result;
	/* On the store's thread, before and after the statement; they say no by job_refuse. Both may be NULL. */
	bool (*prepare)(struct job *job);
	void (*conclude)(struct job *job);
	/* Done with it or not at all, unless it found or changed nothing. Its last value is what this one gave. */
	struct job *sequel;
	void (*deliver)(struct job *job); /* on the event loop; may be NULL */
	union {
		store_status_callback status;
		store_session_callback session;
		store_ids_callback ids;
		store_text_callback text;
		store_answer_callback answer;
		store_output_callback output;
		store_conversation_callback conversation;
		store_last_used_callback last_used;
	} done;
	void *context;
	bool owns_context; /* it is freed with the job, also if the callback never comes */
};
STAILQ_HEAD(job_list, job);

struct job *job_new(enum database_statement statement, bool patient);
void job_free(struct job *job);

/* The statement's values in their order; what is given is copied. */
void job_put_bytes(struct job *job, enum value_kind kind, const void *data, size_t length);
void job_put_text(struct job *job, const char *text); /* NULL: NULL */
void job_put_number(struct job *job, uint64_t number);
void job_put_nothing(struct job *job);
void job_put_nonce(struct job *job, const uint8_t *nonce);

/* Its result is DATABASE_REFUSED, in these words. */
void job_refuse(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In place of what the statement was to get, or has given. */
void job_replace(struct value *value, const char *text, size_t length);

/* The job passes to the store. */
void store_enqueue(struct store *store, struct job *job);

#endif
