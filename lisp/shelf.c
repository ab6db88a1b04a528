/*
 * shelf.c - the table of sleeping copies.
 */
#include "config.h"

#include "shelf.h"

#include <string.h>

#include "process.h"

bool shelf_is_named(const struct shelf_copy *copy)
{
	return copy->state.name[0] != '\0';
}

bool shelf_is_there(const struct shelf_copy *copy)
{
	uint64_t process = copy->process;

	return process != 0 && process_is_alive(process);
}

/* ---- coming and going */

int shelf_add(struct shelf *shelf, uint64_t process, const struct shelf_state *state)
{
	int place = 0;

	while (place < SHELF_PLACES && shelf->copies[place].process)
		place++;
	if (place == SHELF_PLACES) /* somebody may have killed one */
		for (place = 0; place < SHELF_PLACES && shelf_is_there(&shelf->copies[place]);)
			place++;
	if (place == SHELF_PLACES)
		return SHELF_NONE;
	struct shelf_copy *copy = &shelf->copies[place];
	copy->process = 0;
	copy->number = ++shelf->last_number;
	copy->is_aside = false;
	copy->state = *state;
	copy->process = process;
	return place;
}

void shelf_renew(struct shelf *shelf, int place, uint64_t process)
{
	struct shelf_copy *copy = &shelf->copies[place];

	copy->number = ++shelf->last_number;
	copy->is_aside = false;
	copy->process = process;
}

uint64_t shelf_remove(struct shelf *shelf, int place)
{
	uint64_t process = shelf->copies[place].process;

	shelf->copies[place].process = 0;
	return process;
}

/* ---- finding */

int shelf_find_named(const struct shelf *shelf, const char *name)
{
	int found = SHELF_NONE;

	for (int i = 0; i < SHELF_PLACES; i++) {
		const struct shelf_copy *copy = &shelf->copies[i];
		bool fits =
			copy->process && strncmp(copy->state.name, name, SHELF_NAME_SIZE) == 0 && shelf_is_there(copy);
		if (fits && (found == SHELF_NONE || copy->number > shelf->copies[found].number))
			found = i;
	}
	return found;
}

/* The newest of those that qualify, or the oldest. */
static int find(const struct shelf *shelf, bool (*qualifies)(const struct shelf_copy *copy), int beside, bool newest)
{
	int found = SHELF_NONE;

	for (int i = 0; i < SHELF_PLACES; i++) {
		const struct shelf_copy *copy = &shelf->copies[i];
		if (i == beside || !copy->process || !qualifies(copy))
			continue;
		if (found == SHELF_NONE || (copy->number > shelf->copies[found].number) == newest)
			found = i;
	}
	return found;
}

/* Whether they live is not looked at: that would cost as much as making one. */
static bool is_nameless(const struct shelf_copy *copy)
{
	return copy->process && !shelf_is_named(copy);
}

int shelf_find_depth(const struct shelf *shelf, uint64_t depth)
{
	int found = SHELF_NONE;

	for (int i = 0; i < SHELF_PLACES; i++) {
		const struct shelf_copy *copy = &shelf->copies[i];
		bool fits = copy->process && !copy->is_aside && copy->state.depth == depth && shelf_is_there(copy);
		if (fits && (found == SHELF_NONE || copy->number > shelf->copies[found].number))
			found = i;
	}
	return found;
}

int shelf_newest_nameless(const struct shelf *shelf, int beside)
{
	return find(shelf, is_nameless, beside, true);
}

int shelf_oldest_nameless(const struct shelf *shelf, int beside)
{
	return find(shelf, is_nameless, beside, false);
}

unsigned shelf_count_named(const struct shelf *shelf)
{
	unsigned count = 0;

	for (int i = 0; i < SHELF_PLACES; i++)
		count += shelf_is_named(&shelf->copies[i]) && shelf_is_there(&shelf->copies[i]);
	return count;
}

unsigned shelf_count_nameless(const struct shelf *shelf, int beside)
{
	unsigned count = 0;

	for (int i = 0; i < SHELF_PLACES; i++)
		count += i != beside && is_nameless(&shelf->copies[i]);
	return count;
}

pid_t shelf_pid(const struct shelf *shelf, int place)
{
	return process_pid(shelf->copies[place].process);
}

int shelf_place_of(const struct shelf *shelf, pid_t pid)
{
	for (int i = 0; i < SHELF_PLACES; i++)
		if (shelf_pid(shelf, i) == pid)
			return i;
	return SHELF_NONE;
}

/* ---- who takes over */

static bool is_on_branch(const struct shelf_copy *copy)
{
	return !copy->is_aside && shelf_is_there(copy);
}

int shelf_heir(const struct shelf *shelf)
{
	int chosen = shelf->chosen - 1;

	if (chosen >= 0 && chosen < SHELF_PLACES && shelf_is_there(&shelf->copies[chosen]))
		return chosen;
	int heir = find(shelf, is_on_branch, SHELF_NONE, true);
	return heir == SHELF_NONE ? find(shelf, shelf_is_there, SHELF_NONE, true) : heir;
}

void shelf_choose(struct shelf *shelf, int place)
{
	shelf->chosen_number = shelf->copies[place].number;
	shelf->chosen_aside = shelf->copies[place].is_aside;
	shelf->chosen = place + 1;
}

bool shelf_is_chosen(const struct shelf *shelf, int place)
{
	return place != SHELF_NONE && shelf->chosen == place + 1;
}

/* From a branch that was left nobody knows the way to the others: all of them are left then. */
void shelf_leave_branch(struct shelf *shelf, int place)
{
	for (int i = 0; i < SHELF_PLACES; i++) {
		struct shelf_copy *copy = &shelf->copies[i];
		bool is_left = shelf->chosen_aside || copy->number > shelf->chosen_number;
		if (i == place || !copy->process || !is_left)
			continue;
		if (shelf_is_named(copy))
			copy->is_aside = true;
		else
			process_kill(shelf_remove(shelf, i));
	}
}

void shelf_forget_choice(struct shelf *shelf)
{
	shelf->chosen = 0;
}
