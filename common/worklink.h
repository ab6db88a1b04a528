/*
 * worklink.h - what the daemon says to the zygote and to the workers, in the frames of frame.h.
 *
 * Everything stands in the daemon's runtime directory: the zygote listens on WORKLINK_ZYGOTE_SOCKET, each worker on a
 * socket named by its session's id. Both accept a new connection at any time; the newest one counts and the older is
 * closed, because a daemon that connects is the successor of one that died.
 *
 * An evaluation is (session, incarnation, seq). A worker runs only seq = last + 1 and keeps the result until the daemon
 * says FORGET. ORIGIN is the daemon's own note on who asked; the worker returns it unread.
 *
 * A worker that dies is followed by its last copy, if it has one: the copy listens under the same name with the next
 * incarnation, without being asked. Numbers of evaluations go on where the dead one was.
 *
 * A worker can be asked to be followed by an earlier copy, by an operation (lisp/checkpoint.h): it leaves, and the copy
 * takes over in the same way. It tells so by ROLLED_BACK, in place of a RESULT.
 *
 * A worker can be cloned: a CLONE waits its turn among the evaluations, and is answered by CLONED on the same
 * connection. From then on the clone is the worker of its own session, with incarnation 1 and no evaluation so far; the
 * zygote says SPAWNED and DIED of it as of one that it has forked itself. A clone whose asker is gone before it is
 * complete ends by itself, and REFUSED is said of it. If the connection is lost before CLONED comes, there may be a
 * clone or not: ZYGOTE_KILL with its session makes sure that there is none, and a successor of the daemon finds it as
 * it finds all others.
 *
 * MEMO is the daemon's note too, on the session itself: what it must know of it if nothing else does.
 */
#ifndef WORKLINK_H
#define WORKLINK_H

#define WORKLINK_VERSION 1
#define WORKLINK_ZYGOTE_SOCKET "zygote"
#define WORKLINK_CRADLE_SOCKET "cradle" /* between clones and the zygote alone, see lisp/cradle.h */
#define WORKLINK_SESSION_ID_LENGTH 28   /* session-YYYYMMDD-HHMMSS-XXXX */
#define WORKLINK_MEMO_MAX 8192

/* Daemon to zygote. */
enum zygote_request {
	ZYGOTE_SPAWN = 'S', /* SESSION, DIRECTORY; SEQ and INCARNATION to go on from, if it has run before */
	ZYGOTE_KILL = 'K',  /* SESSION: end it; with PID only that process, which its copy may follow; DIED comes */
	ZYGOTE_QUIT = 'Q',  /* end all workers, then leave */
};

/* Zygote to daemon. READY comes first on every connection, once Lisp has booted, then one SPAWNED for each live worker.
 */
enum zygote_report {
	ZYGOTE_READY = 'R',   /* VERSION, PID, BOOT_MS, LISP, FALLBACK for each recipe that does not work here */
	ZYGOTE_SPAWNED = 'P', /* SESSION, PID: its socket is listening */
	ZYGOTE_REFUSED = 'X', /* SESSION, TEXT: why it could not be spawned */
	ZYGOTE_DIED = 'D',    /* SESSION, PID, STATUS as from waitpid; HEIR if its copy takes over */
};

/* Daemon to worker. */
enum worker_request {
	/* INCARNATION, SEQ, ORIGIN, TIME_LIMIT, HEAP_LIMIT, PROTECT, perhaps PACKAGE or OPERATION, CODE */
	WORKER_EVALUATE = 'E',
	WORKER_CANCEL = 'C', /* SEQ: stop it if it is the running one, else ignored */
	WORKER_FORGET = 'F', /* SEQ: results up to this one are stored; perhaps TOLD */
	WORKER_PEEK = 'P',   /* answered by PROGRESS if an evaluation runs */
	WORKER_CLONE = 'N',  /* SESSION: the new one's id, which has never had a process */
	WORKER_MEMO = 'M',   /* MEMO: to be said with each hello from now on */
	WORKER_QUIT = 'Q',   /* leave now */
};

/* Worker to daemon. HELLO comes first, then RESULT for each one kept. */
enum worker_report {
	/* VERSION, SESSION, PID, INCARNATION, SEQ of the last one begun; RUNNING and ORIGIN if it still runs; PROTECTED
	 * if it has a copy; the last MEMO. From a copy that took over: RESTORED, INHERITED, UNDONE_FROM, UNDONE,
	 * INTERRUPTED, ROLLED_BACK, until it hears that this has been TOLD. */
	WORKER_HELLO = 'h',
	WORKER_RESULT = 'r',   /* SEQ, ORIGIN, OUTCOME, ELAPSED, FORMS, PACKAGE, the texts */
	WORKER_PROGRESS = 'p', /* SEQ, ELAPSED, LINES, perhaps LAST_LINE */
	WORKER_COPIED = 'c',   /* PROTECTED; TEXT if no copy could be made since */
	WORKER_CLONED = 'n',   /* SESSION, and PID of the clone, which listens, or TEXT: why there is none */
	WORKER_FATAL = 'f',    /* SEQ, TEXT: written by a fault handler that cannot do more; the process is gone */
};

/* How an evaluation ended. */
enum worker_outcome {
	OUTCOME_DONE = 0,      /* VALUEs are there */
	OUTCOME_ERROR = 1,     /* ERROR_TYPE, ERROR_MESSAGE, FRAMEs are there */
	OUTCOME_CANCELLED = 2, /* by CANCEL */
	OUTCOME_TIMEOUT = 3,   /* by its TIME_LIMIT */
	OUTCOME_OVERFLOW = 4,  /* the C stack; reported like an error */
	OUTCOME_EXIT = 5,      /* the code called quit or exit: EXIT_CODE; the session goes on */
	OUTCOME_ABORTED = 6,   /* the code invoked the abort restart */
};

enum worker_tag {
	WORK_VERSION = 1,        /* number */
	WORK_SESSION = 2,        /* text, WORKLINK_SESSION_ID_LENGTH characters */
	WORK_DIRECTORY = 3,      /* text */
	WORK_PID = 4,            /* number */
	WORK_STATUS = 5,         /* number */
	WORK_TEXT = 6,           /* text for people */
	WORK_BOOT_MS = 7,        /* number */
	WORK_LISP = 8,           /* text: "ECL 21.2.1" */
	WORK_FALLBACK = 9,       /* text: the name of a recipe, repeated */
	WORK_INCARNATION = 10,   /* number: rises when a snapshot takes over */
	WORK_SEQ = 11,           /* number, from 1 */
	WORK_RUNNING = 12,       /* number: the running seq */
	WORK_ORIGIN = 13,        /* bytes, opaque to the worker */
	WORK_TIME_LIMIT = 14,    /* number of milliseconds, 0 for none */
	WORK_PACKAGE = 15,       /* UTF-8: of the call; in RESULT the session's package afterwards */
	WORK_CODE = 16,          /* UTF-8, checked by the daemon */
	WORK_OUTCOME = 17,       /* number: enum worker_outcome */
	WORK_ELAPSED = 18,       /* number of microseconds */
	WORK_FORMS = 19,         /* number of forms whose evaluation ended normally */
	WORK_STDOUT = 20,        /* bytes: what user code wrote, not always UTF-8 */
	WORK_STDERR = 21,        /* bytes */
	WORK_STDOUT_TOTAL = 22,  /* number of bytes written, more than STDOUT holds if some were dropped */
	WORK_STDERR_TOTAL = 23,  /* number */
	WORK_WARNING = 24,       /* UTF-8, "TYPE: message", repeated */
	WORK_VALUE = 25,         /* UTF-8, one for each value, repeated */
	WORK_CUT = 26,           /* text: which of warnings, values, error, backtrace did not fit, repeated */
	WORK_ERROR_TYPE = 27,    /* UTF-8 */
	WORK_ERROR_MESSAGE = 28, /* UTF-8 */
	WORK_FRAME = 29,         /* UTF-8, "(FUNCTION ARG ...)", innermost first, repeated */
	WORK_EXIT_CODE = 30,     /* number */
	WORK_LINES = 31,         /* number of lines written so far */
	WORK_LAST_LINE = 32,     /* bytes: the last non-empty line written so far, at most 200 bytes */
	WORK_KEPT = 33,          /* number of results that follow the HELLO */
	WORK_HEIR = 34,          /* number: the pid of the process that takes over */
	WORK_RESTORED = 35,      /* number: the seq after which the session's state was this one */
	WORK_UNDONE = 36, /* UTF-8: what was finished later, its code or "OPERATION code", repeated, oldest first, */
	WORK_INTERRUPTED = 37,        /* number: a seq that was begun and of which there is no result */
	WORK_INTERRUPTED_ORIGIN = 38, /* bytes: its ORIGIN */
	WORK_PROTECTED = 39,          /* number: the seq after which its sleeping copy was made */
	WORK_PROTECT = 40,            /* number: 1 if a copy shall be made before the result is sent */
	WORK_OPERATION = 41,   /* text: which function of the runtime is called with CODE, instead of evaluating it */
	WORK_HEAP_LIMIT = 42,  /* number of bytes, absent for the default */
	WORK_MEMO = 43,        /* bytes, opaque to the worker, at most WORKLINK_MEMO_MAX */
	WORK_SHOWN = 44,       /* UTF-8: what is quoted of the code, absent if it may be quoted itself */
	WORK_ROLLED_BACK = 45, /* number: INTERRUPTED again, if it is what has made RESTORED the session's state */
	WORK_UNDONE_FROM = 46, /* number: the seq of the first one that is undone, if any is */
	WORK_UNDONE_SEQ = 50,  /* number: before each UNDONE which seq that was */
	WORK_INHERITED = 51,   /* number: the last seq that was begun before it took over */
	WORK_TOLD = 52,        /* number: clients know what became of evaluations up to this seq, and it is stored */
};

#endif
