/*
 * chore.c - the slices.
 */
#include "chore.h"

#include "alloc.h"
#include "database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The index of words is merged in pieces of so many pages. */
#define MERGED_PAGES 500

struct chore {
	bool (*work)(struct chore *chore, struct database *database, struct chore_said *said);
	uint64_t step;
	char *path;
	char *temporary; /* beside it, until it is whole; NULL while there is none */
	int fd;
	struct database_copy *copy;
};

/* "PATH cannot be written: no space left" */
static bool fail(struct chore_said *said, const char *what, const char *is, const char *why)
{
	snprintf(said->words, sizeof(said->words), "%.300s %s: %s", what, is, why ? why : "unknown");
	said->state = CHORE_FAILED;
	return false;
}

static bool finish(struct chore_said *said)
{
	said->state = CHORE_DONE;
	return false;
}

/* ---- a copy */

static bool begin_copy(struct chore *chore, struct database *database, struct chore_said *said)
{
	const char *problem;

	if (access(chore->path, F_OK) == 0)
		return fail(said, chore->path, "is there already", "choose another name, or remove it first");
	if (asprintf(&chore->temporary, "%s.XXXXXX", chore->path) < 0)
		abort();
	chore->fd = mkostemp(chore->temporary, O_CLOEXEC);
	if (chore->fd < 0) {
		int error = errno;
		free(chore->temporary);
		chore->temporary = NULL;
		return fail(said, chore->path, "cannot be made", strerror(error));
	}
	chore->copy = database_copy_begin(database, chore->temporary, &problem);
	if (!chore->copy)
		return fail(said, chore->path, "cannot be written", problem);
	return true;
}

/* It is whole, and gets its name; never that of another file. */
static bool name_copy(struct chore *chore, struct chore_said *said)
{
	const char *problem = database_copy_end(chore->copy);

	chore->copy = NULL;
	if (problem)
		return fail(said, chore->path, "cannot be written", problem);
	if (fsync(chore->fd) < 0 || link(chore->temporary, chore->path) < 0)
		return fail(said, chore->path, "cannot be made", strerror(errno));
	return finish(said);
}

static bool work_on_copy(struct chore *chore, struct database *database, struct chore_said *said)
{
	if (!chore->copy)
		return begin_copy(chore, database, said);
	switch (database_copy_step(chore->copy, &said->done, &said->total)) {
	case DATABASE_STEP_MORE:
		return true;
	case DATABASE_STEP_LAST:
		return name_copy(chore, said);
	case DATABASE_STEP_FAILED:
		break;
	}
	const char *problem = database_copy_end(chore->copy);
	chore->copy = NULL;
	return fail(said, chore->path, "cannot be written", problem);
}

struct chore *chore_copy(const char *path)
{
	struct chore *chore = new_zeroed(sizeof(*chore));

	chore->work = work_on_copy;
	chore->path = new_text(path);
	chore->fd = -1;
	return chore;
}

/* ---- making it small */

static bool merge_words(struct chore *chore, struct database *database, struct chore_said *said)
{
	bool has_changed = false;
	/* The first piece, by its sign, makes one level of all. */
	const char *problem =
		database_merge_words(database, chore->step == 0 ? -MERGED_PAGES : MERGED_PAGES, &has_changed);

	if (problem)
		return fail(said, "The index of words", "cannot be merged", problem);
	chore->step++;
	said->done = has_changed ? 0 : 1;
	return true;
}

static bool work_on_size(struct chore *chore, struct database *database, struct chore_said *said)
{
	const char *problem;

	said->total = 2;
	if (said->done == 0)
		return merge_words(chore, database, said);
	problem = database_rewrite(database);
	if (problem)
		return fail(said, "The file", "cannot be written anew, and stays as it was", problem);
	said->done = 2;
	return finish(said);
}

struct chore *chore_compact(void)
{
	struct chore *chore = new_zeroed(sizeof(*chore));

	chore->work = work_on_size;
	chore->fd = -1;
	return chore;
}

/* ---- both */

bool chore_work(struct chore *chore, struct database *database, struct chore_said *said)
{
	return chore->work(chore, database, said);
}

void chore_free(struct chore *chore)
{
	if (chore->copy)
		database_copy_end(chore->copy);
	if (chore->temporary)
		unlink(chore->temporary);
	if (chore->fd >= 0)
		close(chore->fd);
	free(chore->temporary);
	free(chore->path);
	free(chore);
}
