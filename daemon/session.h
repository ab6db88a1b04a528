/*
 * session.h - a Lisp session: its place in the table, its queue of evaluations, the process that runs them.
 *
 * The states, and what leads from one to the next (session.c and, for the end of a process, succession.c
 * and reset.c have a function for each arrow):
 *
 *   CREATING  --its row is stored or found--> WAITING
 *   WAITING   --the zygote has spawned-->   DIALING
 *   DIALING   --the worker says hello-->    READY
 *   READY     --an evaluation is sent-->    RUNNING   (also at once, if the adopted worker was at work)
 *   RUNNING   --its result comes-->         READY
 *   any       --the worker is gone-->       DYING     --how it ended is known, or a second later-->  REVIVING
 *   REVIVING  --its copy listens-->         DIALING
 *   REVIVING  --it has no copy-->           EMPTY
 *   EMPTY     --an evaluation is asked-->   WAITING
 *   READY     --it is reset-->              ENDING    --its process has ended-->  WAITING
 *   READY     --it is in a file, see hibernation.h-->  ENDING  --its process has ended-->  no more
 *   any       --it is deleted-->            ENDING    --its process has ended-->  no more
 *   WAITING   --the zygote refuses-->       EMPTY
 *
 * Evaluations of one session run one after the other, in the order in which they came.
 */
#ifndef SESSION_H
#define SESSION_H

#include "limit.h"
#include "request.h"
#include "server.h"
#include "sessionid.h"
#include "visit.h"
#include "worker.h"
#include "worklink.h"

enum session_state {
	SESSION_CREATING,
	SESSION_WAITING,
	SESSION_DIALING,
	SESSION_READY,
	SESSION_RUNNING,
	SESSION_DYING,
	SESSION_REVIVING,
	SESSION_EMPTY,
	SESSION_ENDING,
};

TAILQ_HEAD(evaluation_list, evaluation);
struct cloning;

/* What is said of one that is not there, or is somebody else's. */
#define SESSION_UNKNOWN "No session \"%.64s\". list-sessions shows those that there are."

/* And to those who waited for it. */
#define SESSION_WAS_DELETED "The session was deleted while this call waited for it."

/* has_ended is false for a process that cannot be ended. */
typedef void (*session_ended_callback)(struct session *session, bool has_ended);

struct session {
	LIST_ENTRY(session) next, next_alike; /* of all, and of those in the same place of the roster */
	struct server *server;
	unsigned owner; /* uid */
	char id[WORKLINK_SESSION_ID_LENGTH + 1];
	char *name;      /* NULL if it has none */
	unsigned draws;  /* ids that were taken already */
	bool may_be_new; /* if the store does not know its name */
	char *directory;
	uint64_t created_at;
	bool has_history;
	bool is_stored; /* it has a row, or will have: what is above is known */
	bool has_memo;  /* its process has told of one, see memo.h: it is known all the same */
	bool is_lost;   /* there is none, and nothing was known when that was found */
	enum session_state state;
	struct worker *worker; /* from DIALING to RUNNING */
	uint64_t pid;
	uint64_t ended_pid;           /* of a process that we have told to leave; 0 once the zygote has seen its end */
	session_ended_callback ended; /* in state ENDING */
	struct request *deletion;     /* that waits for the end; nothing else is served then */
	uint64_t incarnation;
	uint64_t last_seq; /* the last one that was begun */
	char *package;
	struct limits limits;
	char *obituary;        /* why the worker is going; until it is known who follows it */
	bool reaped;           /* the zygote has told of its end, */
	bool has_heir;         /* and that its copy takes over */
	unsigned revivals;     /* tries to reach it, or to see its end, since the last hello */
	bool is_unmet;         /* of an adopted one: no daemon has spoken with its process before, */
	bool stored_before;    /* and evaluations are stored all the same: it was not reset */
	char *epitaph;         /* a warning about that, to be shown with the next result, */
	uint64_t restored;     /* and the evaluation whose state has come back; 0 if nothing was undone */
	uint64_t epitaph_seq;  /* of a seq after this one: what it tells of was begun before; 0 if that is all */
	uint64_t told_seq;     /* clients were told what became of evaluations up to this one, */
	bool is_epitaph_noted; /* its process says it too, see memo.h */
	uint64_t telling_seq;  /* with the result of this one */
	uint64_t adopting;     /* results of an adopted worker that are still to come, and one for its hello */
	struct evaluation_list evaluations; /* the first one runs in state RUNNING */
	struct visit_list visits;           /* in state CREATING: they have to know what it is */
	uint64_t protected_seq;             /* a sleeping copy knows of evaluations up to this one */
	char *unprotected;                  /* why no copy could be made since, NULL if there is no such reason */
	uint64_t received_seq;              /* results up to this one have come, */
	uint64_t failed_seq;                /* and this one never will; */
	struct evaluation *fallen;          /* it, until the results before it have come; NULL: it is over */
	struct result *fallen_result;       /* what is said of it then, */
	bool is_fallen_told;                /* and whether that tells all there is to tell */
	uint64_t stored_seq;                /* results up to this one are safe; the worker is told by `forget` */
	uint64_t exposed_seq;               /* until this one is, nothing more is run: see evaluation_finish */
	bool is_filed;                      /* its row names a state file; this and what follows: see hibernation.h */
	bool is_undecided;                  /* the store has not told yet whether it does: nothing is evaluated */
	bool is_hibernating;                /* and until it is, or stays, */
	void (*hibernated)(void *context, const char *why_not); /* whoever asked for that waits; may be NULL */
	void *hibernated_context;
	unsigned restores;        /* tries to restore it */
	bool is_cut_off;          /* it names the transcript instead; this and the next two: see recollection.h */
	char *recollected;        /* what was evaluated since its last state was written; NULL until that is known */
	char *last_words;         /* how its process ended; NULL if that is not known */
	uint64_t saved_seq;       /* its state was written after this evaluation, or it was tried in vain; 0: never */
	uint64_t changed_seq;     /* the last one that may have changed something */
	bool is_saving;           /* its state is being written, and it goes on as if it */
	uint64_t saving_since_ms; /* had been idle since */
	char *awake;              /* why it could not be hibernated, NULL if there is no such reason */
	uint64_t idle_since_ms;   /* on the monotonic clock */
	uint64_t homeless_pid;    /* a process of it whose socket somebody has removed: see place.h */
	struct event *forget;
	uint64_t kept;          /* results that follow the hello and are not here yet */
	uint64_t stranger;      /* a running evaluation of which we only know the seq */
	struct event *tick;     /* each second while an evaluation with a progress token runs */
	struct event *overdue;  /* in state RUNNING, see overdue.h */
	struct event *patience; /* in states WAITING, DYING, REVIVING and RESETTING */
};

/* A new one, with an id of its own. */
struct session *session_new(struct server *server, unsigned owner, const char *directory);
/*
 * By id or name. One that has no process any more gets a new one, and tells so. A name that nobody has is a new
 * session's if a directory is given; whoever asks for anything else that is not there is told so.
 */
struct session *session_open(struct server *server, unsigned owner, const char *id_or_name, const char *directory);
/* NULL if none is in the table. */
struct session *session_find(struct server *server, const char *id);
/* By id or name, one of that user's. */
struct session *session_find_of(struct server *server, unsigned owner, const char *id_or_name);

/* Has it a process, or is about to have one? */
bool session_has_process(const struct session *session);
/* The work's texts are copied. */
void session_evaluate(struct session *session, struct request *request, const struct work *work);
/* Has the session cloned in its turn, see cloning.h; which passes to it. */
void session_clone(struct session *session, struct request *request, struct cloning *cloning);
/* done comes when the store has them; the context was allocated for this call and passes to the store. */
void session_set_limits(
	struct session *session, const struct limits *limits, store_status_callback done, void *context);
/* True if the store has not told yet what the session is: the request is then served again when it has. */
bool session_postpone(struct session *session, struct request *request);
/* The request's client does not want its answer any more. */
void session_cancel(struct session *session, struct request *request);
/* Goes on with what waited because a client did not read its answers. */
void session_advance_all(struct server *server);

/* Connects to a worker that a former daemon left; false if nobody listens there. adoption_done_one follows. */
bool session_adopt(struct server *server, const char *id);

/* Takes what its row says, which is not known here yet; there may be none. */
void session_learn(struct session *session);
/* The store has begun anew: the session gets a row again, with what the daemon and its process know of it. */
void session_restore(struct session *session);
/* Its name or its limits are others now: the process is told, see memo.h. */
void session_note_change(struct session *session);

/* The store has the result for good: the worker may let go of it. */
void session_stored(struct session *session, uint64_t seq);

/* What the zygote reports. */
void session_spawned(struct server *server, const char *id);
void session_refused(struct server *server, const char *id, const char *why);
/* The zygote is gone, perhaps with what it was asked for. */
void session_ask_again(struct server *server);
/* One of its processes; the sleeping copy may take over by itself. */
void session_died(struct server *server, const char *id, uint64_t pid, int status, bool has_heir);

/* Steps that opening.c takes: an entry in the table, and what leads to a process. */
struct session *session_make(struct server *server, unsigned owner, const char *id);
void session_release(struct session *session);
/* Serves what was postponed. */
void session_take_visits(struct session *session);
void session_spawn(struct session *session);
/* False if nobody listens there. */
bool session_dial(struct session *session);
/* What waits in one passes to the other, and the first is no more. */
void session_hand_over(struct session *from, struct session *to);
/* Answers all that wait with an error. */
void session_refuse_all(struct session *session, const char *type, const char *why);

/* Every change of state goes through here, and is announced. */
void session_enter(struct session *session, enum session_state state);
/* Does what the state allows for the queue. */
void session_advance(struct session *session);
/* A former daemon may have died while it began anew: nobody has been told. */
void session_look_whether_new(struct session *session);
/* Counts what an adopted worker has told, see `adopting`. */
void session_note_adopted(struct session *session, uint64_t count);

/* Steps that succession.c takes: the process is of no use any more, */
void session_lose_worker(struct session *session);
/* or is dead and was so before we could speak to it: false if nobody will follow it, */
bool session_await_heir(struct session *session);
/* or has taken over from one that died, or is not dead at all. */
void session_revived(struct session *session, const struct worker_hello *hello);
/* What a dead worker has left unfinished is over. */
void session_settle_fallen(struct session *session);
void session_drop_fallen(struct session *session);
/* Tells, once, what became of the process before; and of a copy that was asked for in vain. */
void session_add_notes(struct session *session, const struct evaluation *evaluation, struct result *result);
/* The zygote names a process that does not listen: it may be one that is just ending. */
void session_miss_process(struct session *session);
/* For the timer `patience`. */
void session_lose_patience(struct session *session);

/*
 * Steps that reset.c takes: an evaluation that belongs to a reset is over. True if there is more to do and the
 * evaluation waits again,
 */
bool session_reset_goes_on(struct session *session, struct evaluation *evaluation, struct result *result);
/* What a former daemon has left to load; NULL: nothing. */
void session_finish_reset(struct session *session, const char *systems);
/* The client has cancelled: true if the reset has begun and is finished for nobody. */
bool session_reset_goes_on_alone(const struct evaluation *evaluation);
/* The process died meanwhile: true if the evaluation belongs to a reset that this does not hinder, and waits again. */
bool session_reset_survives(struct session *session, struct evaluation *evaluation, bool has_heir);

/*
 * Steps to the end of a process (ending.c). It is decided: nothing is sent to it any more, ended comes when it is gone;
 */
void session_begin_ending(struct session *session, session_ended_callback ended);
/* it is asked to leave, or killed with its copies; */
void session_dismiss_process(struct session *session);
void session_kill_process(struct session *session);
/* is it gone? */
void session_await_end(struct session *session);

/* It is deleted: whoever still waits for it is told so. */
void session_discard(struct session *session);
/* Its row is gone: so is it, with the process that it may have got meanwhile. */
void session_drop(struct session *session);

struct json_object *session_status(const struct session *session);
/* Tells all workers to leave. */
void session_end_all(struct server *server);
/* Forgets all, when the daemon ends; the processes are not touched. */
void session_free_all(struct server *server);

#endif
