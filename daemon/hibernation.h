/*
 * hibernation.h - a session gives up its process, and comes back as it was.
 *
 * Its state is written to a file by one operation (lisp/state.lisp) and read by another (lisp/restore.lisp); both are
 * evaluations that nobody waits for. Its row tells which of the two is the session: while it names a state file that
 * is, and a process that there may be has nothing that counts. So the steps are
 *
 *   READY, nothing waits --the file is whole--> undecided --the row names it--> ENDING --its process has ended--> no
 * more a row with a file is opened --> ... READY --restored--> undecided --the row names none--> READY, the file is
 * removed
 *
 * and nothing is evaluated from the row's naming it until the row does not any more. A daemon that dies in between is
 * followed by one that looks at the row, and ends the process or removes the file, whichever does not count.
 *
 * A session that goes on has its state written too when it rests, into another file that its row does not name: it is
 * for one whose process ends unforeseen, see recollection.h. What it was hibernated into becomes that when it is back.
 */
#ifndef HIBERNATION_H
#define HIBERNATION_H

#include "session.h"

struct evaluation;
struct result;

/* Once, when it is hibernated or known not to be: why_not is a sentence then. */
typedef void (*hibernation_callback)(void *context, const char *why_not);

/* done may be NULL; otherwise it may come at once. */
void hibernation_begin(struct session *session, hibernation_callback done, void *context);
/* Its state is written, if it may have changed since the last time, and it goes on: for a power cut. */
void hibernation_save(struct session *session);
/* Could it be, as it is now? */
bool hibernation_is_possible(const struct session *session);
/* For the method of that name: answers it when it is done. */
void hibernation_by_request(struct request *request, const char *id_or_name);
/* All that can be; done comes in bounded time, and nothing else is begun meanwhile. */
void hibernation_of_all(struct server *server, void (*done)(struct server *server));
/* When the daemon ends: nobody is told any more. */
void hibernation_end(struct server *server);

/*
 * Steps that session.c and succession.c take. It is READY, and its row may name a file: that comes first;
 */
void hibernation_attend(struct session *session);
/* somebody wants to evaluate, and does not wait until it is hibernated; */
void hibernation_disturb(struct session *session);
/* an evaluation is over that may be one of ours, with this result, */
void hibernation_take_result(struct session *session, const struct evaluation *evaluation, const struct result *result);
/* or its process has died, and it was not begun. */
void hibernation_drop(struct session *session, const struct evaluation *evaluation);

/*
 * Steps that opening.c takes: what the row says of a session that has no process,
 */
void hibernation_recall(struct session *session, const char *state_file);
/* and of an adopted one. False if its process does not count and ends. */
bool hibernation_adopt(struct session *session, const char *state_file);

/* The session is deleted: whoever waits is told so. */
void hibernation_forget(struct session *session);

#endif
