/*
 * shelf.h - the sleeping copies of a session: who takes over, and to which of them one can roll back.
 *
 * A table in the memory that the processes of a session share (lineage.h). The newest copy takes over from a worker
 * that dies. A few earlier ones stay, and those that somebody has given a name, the checkpoints. The living worker
 * alone writes here; copies read when it is dead, and the zygote.
 *
 * Since a session can be rolled back, its states are a tree. What lies aside is the state of a branch that was left: it
 * takes over only if it is chosen, or if nobody else is left.
 */
#ifndef SHELF_H
#define SHELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Copies that have a name. */
#define SHELF_NAMED_MAX 16
/* Those without one that stay beside the newest. */
#define SHELF_EARLIER_MAX 3
/* A new one is there before the one that it replaces goes. */
#define SHELF_PLACES (SHELF_NAMED_MAX + 1 + SHELF_EARLIER_MAX + 2)
/* With its NUL; cut like the names of sessions. */
#define SHELF_NAME_SIZE 257

#define SHELF_NONE (-1)

/* What a copy knows. */
struct shelf_state {
	uint64_t seq;   /* the last evaluation that it knows the end of */
	uint64_t depth; /* how many evaluations have led to its state */
	uint64_t at;    /* when it was made, seconds since 1970 */
	char name[SHELF_NAME_SIZE];
};

struct shelf_copy {
	_Atomic uint64_t process; /* see process.h; 0: the place is free. Written last. */
	uint64_t number;          /* the higher, the later it was made */
	bool is_aside;
	struct shelf_state state;
};

struct shelf {
	uint64_t last_number;
	_Atomic int chosen;     /* a place and one; 0: nobody rolls back */
	uint64_t chosen_number; /* of the copy there, when it was chosen, */
	bool chosen_aside;      /* and whether it lay aside */
	struct shelf_copy copies[SHELF_PLACES];
};

bool shelf_is_named(const struct shelf_copy *copy);
/* Its process lives. */
bool shelf_is_there(const struct shelf_copy *copy);

/* Puts a copy into a free place. There is one as long as those who add keep the limits above. The place, or SHELF_NONE.
 */
int shelf_add(struct shelf *shelf, uint64_t process, const struct shelf_state *state);
/* It takes the place of the one there, whose state it has, and is the newest. */
void shelf_renew(struct shelf *shelf, int place, uint64_t process);
/* Returns the process, which nobody needs any more. */
uint64_t shelf_remove(struct shelf *shelf, int place);

/* The newest; SHELF_NONE if there is no such copy, or its process is dead. */
int shelf_find_named(const struct shelf *shelf, const char *name);
int shelf_find_depth(const struct shelf *shelf, uint64_t depth);
unsigned shelf_count_named(const struct shelf *shelf);
/* Of those that have no name, beside the one there: the newest or the oldest, or SHELF_NONE; and how many they are. */
int shelf_newest_nameless(const struct shelf *shelf, int beside);
int shelf_oldest_nameless(const struct shelf *shelf, int beside);
unsigned shelf_count_nameless(const struct shelf *shelf, int beside);
/* Whose process this is; SHELF_NONE if it is none of them. */
int shelf_place_of(const struct shelf *shelf, pid_t pid);
pid_t shelf_pid(const struct shelf *shelf, int place);

/* Who takes over from a worker that is dead: the one that was chosen, else the newest. SHELF_NONE: nobody. */
int shelf_heir(const struct shelf *shelf);

/* The one there shall take over although others are newer. */
void shelf_choose(struct shelf *shelf, int place);
bool shelf_is_chosen(const struct shelf *shelf, int place);
/* The one that was chosen has taken over: what was made since lies aside, and what of that has no name is killed. */
void shelf_leave_branch(struct shelf *shelf, int place);
void shelf_forget_choice(struct shelf *shelf);

#endif
