/*
 * lineage.h - what the processes of one session share: the worker, its sleeping copies, and those that came before.
 *
 * Shared memory that the zygote maps before it forks the worker; every copy inherits it. The living worker writes here
 * what its heir must know and cannot learn from its own memory, which is that of an earlier moment: which evaluations
 * were begun and answered since, and for whom the last one was run. User code can write here too, as it can anywhere in
 * its own process: whoever has more rights believes nothing of it.
 */
#ifndef LINEAGE_H
#define LINEAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"
#include "request.h"
#include "shelf.h"

/* How many evaluations are remembered by the beginning of their code. */
#define LINEAGE_RECENT 128
#define LINEAGE_CODE_MAX 80
/* The daemon keeps an origin below this; a longer one is not remembered. */
#define LINEAGE_ORIGIN_MAX (128u << 10)

struct lineage;

/* In the zygote. NULL if there is no memory. */
struct lineage *lineage_new(void);
/* One that a worker has made for its clone. NULL if what the descriptor refers to is none. */
struct lineage *lineage_open(int fd);
void lineage_free(struct lineage *lineage);
/* Nobody shall take over from now on. */
void lineage_end(struct lineage *lineage);
bool lineage_has_ended(const struct lineage *lineage);
/* Who takes over, or has taken over, from a worker that died; 0 if nobody. */
pid_t lineage_heir(const struct lineage *lineage);
/* The living worker, or the one that has died last; see process.h. */
uint64_t lineage_worker(const struct lineage *lineage);
struct shelf *lineage_shelf(struct lineage *lineage);

/* In a worker, for its clone: the descriptor, by which the zygote can open it too; or a negative errno. */
int lineage_create(struct lineage **lineage) __attribute__((warn_unused_result));
/* That will be the worker, but has not begun yet. */
void lineage_expect(struct lineage *lineage, pid_t worker);

/* In the worker, at its birth. */
void lineage_begin(struct lineage *lineage, uint64_t incarnation, uint64_t last_seq);
void lineage_note_begun(struct lineage *lineage, const struct request *request);
/* Its result is about to be sent. */
void lineage_note_answered(struct lineage *lineage, uint64_t seq);
void lineage_note_forgotten(struct lineage *lineage, uint64_t seq);
/* Clients know what became of the evaluations up to this one. */
void lineage_note_told(struct lineage *lineage, uint64_t seq);

/* What the daemon wants to be told by whoever is the worker. */
void lineage_set_memo(struct lineage *lineage, const uint8_t *memo, size_t length);
/* Adds it to a hello, if there is one. */
void lineage_put_memo(const struct lineage *lineage, struct frame_builder *hello);

/* In the copy, when the worker is dead. */
/* Makes the caller the worker, unless somebody else has become that since it died. */
bool lineage_inherit(struct lineage *lineage, uint64_t dead) __attribute__((warn_unused_result));
/* The next one, for who has inherited. */
uint64_t lineage_incarnate(struct lineage *lineage);
uint64_t lineage_begun(const struct lineage *lineage);
uint64_t lineage_forgotten(const struct lineage *lineage);
/* What was answered after `restored` is undone; */
void lineage_note_undone(struct lineage *lineage, uint64_t restored);
/* and all of which clients have not been told is added to a hello. */
void lineage_put_undone(const struct lineage *lineage, uint64_t restored, struct frame_builder *hello);
/* Adds for whom the last evaluation was run. */
void lineage_put_origin(const struct lineage *lineage, uint8_t tag, struct frame_builder *hello);

#endif
