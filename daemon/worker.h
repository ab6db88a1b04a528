/*
 * worker.h - the connection to the process of one session.
 */
#ifndef WORKER_H
#define WORKER_H

#include "result.h"

#include <event2/event.h>
#include <sys/types.h>

struct json_object;
struct worker;

/* pid 0 and why_not, a clause, if there is no clone. */
typedef void worker_clone_callback(void *context, uint64_t pid, const char *why_not);

#define WORKER_UNDONE_MAX 128

/* Evaluations that were answered and whose effects are gone, oldest first. */
struct worker_undone {
	uint64_t first; /* its number */
	size_t count;
	char *code[WORKER_UNDONE_MAX]; /* the beginning of each */
	uint64_t seq[WORKER_UNDONE_MAX];
};

struct worker_hello {
	uint64_t pid;
	uint64_t incarnation;
	uint64_t last_seq;     /* begun */
	uint64_t running_seq;  /* 0 if it is idle */
	uint64_t kept;         /* results that follow */
	const uint8_t *origin; /* of the running one */
	size_t origin_length;
	const uint8_t *memo; /* what worker_remember gave it, or a forerunner of its; NULL: nothing */
	size_t memo_length;
	uint64_t protected_seq; /* its sleeping copy knows of evaluations up to this one */
	/* Of a copy that took over from a process that died; said again until worker_forget has told_seq. */
	bool is_heir;
	uint64_t restored_seq;    /* its state is that after this one */
	uint64_t inherited_seq;   /* the last one that was begun before it took over */
	uint64_t interrupted_seq; /* begun, and never to be finished; 0 if there is none */
	const uint8_t *interrupted_origin;
	size_t interrupted_origin_length;
	uint64_t rolled_back_seq; /* the same again, if it is what has made the copy take over; else 0 */
	struct worker_undone undone;
};

struct worker_handler {
	void (*hello)(void *context, const struct worker_hello *hello);
	/* May change the result, but not free it. */
	void (*result)(void *context, struct result *result);
	void (*progress)(void *context, uint64_t seq, uint64_t elapsed_us, uint64_t lines, const char *last_line);
	/* It has a copy that knows of evaluations up to that one; why_not if none could be made since. */
	void (*copied)(void *context, uint64_t protected_seq, const char *why_not);
	/* The process says what is killing it; gone follows. */
	void (*fatal)(void *context, const char *text);
	/* The handler must close the connection. */
	void (*gone)(void *context, const char *reason);
};

/* NULL with errno if nobody listens there. */
struct worker *worker_dial(struct event_base *base, const char *path, const char *session_id,
	const struct worker_handler *handler, void *context);
void worker_close(struct worker *worker);

/* What a session is asked to do. */
struct work {
	const char *operation; /* NULL: the code is evaluated; else a function of the runtime gets it */
	const char *package;   /* NULL for the session's own */
	const char *code;      /* not necessarily NUL-terminated */
	size_t code_length;
	struct json_object *secrets; /* see secrets.h; NULL for none */
	bool is_unrecorded;          /* it leaves no messages */
	bool protect;                /* a copy is to know of it before it is answered */
	bool is_timed;               /* the call sets its own time limit; otherwise the session's counts */
	uint64_t time_limit_ms;      /* 0 for none */
	/* The session's, when it was begun: */
	uint64_t heap_limit; /* in bytes */
	uint64_t output_max; /* characters that the answer shows */
	uint64_t value_max;
};

#define OPERATION_LIST_DEFINITIONS "list-definitions"
#define OPERATION_LOAD_SYSTEM "load-system"
/* The two halves of reset-session, in the old process and in the new one. */
#define OPERATION_LOADED_SYSTEMS "loaded-systems"
#define OPERATION_RELOAD_SYSTEMS "reload-systems"
/* And of hibernating: the code begins with the path of a file, see lisp/state.lisp, restore.lisp, recollection.lisp. */
#define OPERATION_SAVE_STATE "save-state"
#define OPERATION_RESTORE_STATE "restore-state"
#define OPERATION_RECOLLECT_STATE "recollect-state"

/* On sleeping copies, see lisp/checkpoint.h. */
#define OPERATION_CHECKPOINT "checkpoint-session"
#define OPERATION_ROLLBACK "rollback-session"
#define OPERATION_LIST_CHECKPOINTS "list-checkpoints"

void worker_evaluate(struct worker *worker, uint64_t incarnation, uint64_t seq, const struct frame_builder *origin,
	const struct work *work);
void worker_cancel(struct worker *worker, uint64_t seq);
/* told_seq: clients know what became of evaluations up to it. */
void worker_forget(struct worker *worker, uint64_t seq, uint64_t told_seq);
void worker_peek(struct worker *worker);
/* It will say that with each hello. */
void worker_remember(struct worker *worker, const struct frame_builder *memo);
void worker_quit(struct worker *worker);

/*
 * Asks for a clone of the session as it is after all that was sent before; its worker listens under that id, which no
 * process has ever had. done is called once: by worker_close at the latest, and then there may be a clone all the same,
 * until zygote_kill has been told to end it.
 */
void worker_clone(struct worker *worker, const char *session_id, worker_clone_callback *done, void *context);

#endif
