/*
 * database.h - the SQLite file: opening, migrating, running one prepared statement.
 *
 * Used by the store's thread alone. database.c is the only file that knows SQLite.
 */
#ifndef DATABASE_H
#define DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct database;

/* Rows of the statement table in database.c. */
enum database_statement {
	DATABASE_ADD_SESSION,
	DATABASE_RESTORE_SESSION,
	DATABASE_FIND_SESSION,
	DATABASE_SET_LIMITS,
	DATABASE_SET_RELOAD,
	DATABASE_SET_STATE_FILE,
	DATABASE_ADD_EVALUATION,
	DATABASE_RECOLLECT,
	DATABASE_SKIP_EVALUATION,
	DATABASE_ADD_OUTPUT,
	DATABASE_FIND_OUTPUT,
	DATABASE_ADD_ANSWER,
	DATABASE_FIND_ANSWER,
	DATABASE_SETTLE,
	DATABASE_SAVE_CONVERSATION,
	DATABASE_FIND_CONVERSATION,
	DATABASE_FORGET_CONVERSATION,
	DATABASE_FORGET_OLD_CONVERSATIONS,
	DATABASE_FORGET_LOST_ANSWERS,
	DATABASE_MEND_MESSAGE_TIMES,
	DATABASE_MEND_SESSION_TIMES,
	DATABASE_USE_SESSION,
	DATABASE_LAST_USED_SESSION,
	DATABASE_USED_BYTES,
	DATABASE_MERGE_WORDS,
	DATABASE_FIND_UNUSED,
	DATABASE_DELETE_UNUSED,
	DATABASE_CREATE_SESSION,
	DATABASE_PLAN_CLONE,
	DATABASE_FIND_BIRTHS,
	DATABASE_FORGET_BIRTH,
	DATABASE_LIST_SESSIONS,
	DATABASE_SHOW_SESSION,
	DATABASE_RENAME_SESSION,
	DATABASE_DELETE_SESSION,
	DATABASE_SHOW_HISTORY,
	DATABASE_SEARCH_SESSIONS,
	DATABASE_ADD_MESSAGE,
	DATABASE_SET_METADATA,
	DATABASE_COMPLETE_SESSION,
	DATABASE_SUBSCRIBE,
	DATABASE_UNSUBSCRIBE,
	DATABASE_FIND_RESOURCES,
	DATABASE_EXPORT_SESSION,
	DATABASE_IMPORT_SESSION,
	DATABASE_STATEMENTS
};

enum value_kind { VALUE_NULL, VALUE_NUMBER, VALUE_TEXT, VALUE_BLOB };

struct value {
	enum value_kind kind;
	int64_t number;
	char *data; /* owned, with a NUL behind it */
	size_t length;
};

void value_free(struct value *value);

enum database_result {
	DATABASE_ROW,  /* out holds the first row */
	DATABASE_DONE, /* no row */
	/* The transaction goes on without it; out[0] holds SQLite's words. */
	DATABASE_EXISTS,  /* a uniqueness constraint said no */
	DATABASE_REFUSED, /* another constraint did, or the values make no sense */
	DATABASE_BROKEN,  /* the transaction cannot go on; database_problem says why */
};

/* Opens nothing yet. */
struct database *database_new(const char *directory);
void database_free(struct database *database);

/* Opens it if it is not open; a damaged one is set aside first. No statement may be run unless this says yes. */
bool database_ready(struct database *database) __attribute__((warn_unused_result));

/* What hinders it; NULL if nothing did last time. */
const char *database_problem(const struct database *database);
/* The problem is that the file makes no sense: database_ready looks again, and sets it aside if that is so. */
bool database_is_doubted(const struct database *database);
/* A sentence on the one that was set aside last; NULL if none was. */
const char *database_notice(const struct database *database);
/* It holds nothing, because it has just been made; said once. */
bool database_was_made(struct database *database);

bool database_begin(struct database *database) __attribute__((warn_unused_result));
bool database_commit(struct database *database) __attribute__((warn_unused_result));
void database_rollback(struct database *database);

enum database_result database_run(struct database *database, enum database_statement statement, const struct value *in,
	size_t in_count, struct value *out, size_t out_count) __attribute__((warn_unused_result));

/*
 * Long work; nothing of it while a transaction is open. What failed is told in words, which live until the next call
 * here.
 */

/* A copy in a file that is there and empty, page by page; what changes meanwhile is in it too. NULL with a problem. */
struct database_copy *database_copy_begin(struct database *database, const char *path, const char **problem);
enum database_step { DATABASE_STEP_MORE, DATABASE_STEP_LAST, DATABASE_STEP_FAILED };
/* In bytes. */
enum database_step database_copy_step(struct database_copy *copy, uint64_t *done, uint64_t *total);
/* NULL if it is whole. */
const char *database_copy_end(struct database_copy *copy);

/* Merges so many pages of the index of words. NULL, or the problem. */
const char *database_merge_words(struct database *database, int64_t pages, bool *has_changed);
/* Writes the file anew, without its gaps, in one go. NULL, or the problem. */
const char *database_rewrite(struct database *database);

/* Moves the write-ahead log into the database, if that is due or the caller is idle. */
void database_checkpoint(struct database *database, bool idle);

#endif
