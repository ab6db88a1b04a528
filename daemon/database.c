/*
 * database.c - SQLite in WAL mode, schema by user_version, statements prepared once.
 *
 * Nothing is written into a file before its version is known to be ours. One that makes no sense is set aside under
 * another name, and a new one takes its place: see docs/decisions/damaged-databases.md.
 */
#include "database.h"

#include "alloc.h"
#include "embedded.h"
#include "log.h"
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Beyond this many pages the log is folded in even while busy: 16 MiB. */
#define LOG_PAGES_MAX 4096
/* A file up to this size is read and checked when it is opened, at 1 ms for each MiB. */
#define CHECKED_BYTES_MAX (INT64_C(32) << 20)
/* A copy is made in slices of so many pages. */
#define COPIED_PAGES 256
/* How long another program may hold the file. */
#define BUSY_MS 2000
/* Found damaged, found damaged again, and then a new one. */
#define OPENINGS_MAX 3

#define SETTING_ASIDE "if that proves true it is set aside now, and a new one made"

struct database {
	char directory[PATH_MAX];
	char path[PATH_MAX + 16];
	char problem[640];
	char damage[256];   /* what makes no sense in it; empty if that is not known of it */
	bool is_doubted;    /* it made no sense once, and it is to be seen whether it does now */
	bool has_bad_index; /* it was the index of words that made none: that can be made again from the messages */
	bool is_suspect;    /* an error of the disk: it is opened again before anything else */
	char notice[640];   /* that one was set aside; empty if none was */
	sqlite3 *handle;    /* NULL while it cannot be opened */
	sqlite3_stmt *statements[DATABASE_STATEMENTS];
	int log_pages;
	bool is_new; /* it has been made, and nobody has asked about that yet */
};

/* What a person can do about an error of that kind. */
static const struct {
	int code;
	const char *words;
} advice[] = {
	{SQLITE_FULL, "free some space"},
	{SQLITE_READONLY, "make the file, its directory and the file system writable"},
	{SQLITE_CANTOPEN, "make the file and its directory readable and writable"},
	{SQLITE_PERM, "make the file and its directory readable and writable"},
	{SQLITE_IOERR, "see whether the disk can be written, and what the system's log says of it"},
	{SQLITE_BUSY, "another program holds it: let that end"},
	{SQLITE_CORRUPT, SETTING_ASIDE},
	{SQLITE_NOTADB, SETTING_ASIDE},
};

static const char *const statement_texts[DATABASE_STATEMENTS] = {
	[DATABASE_ADD_SESSION] = sql_add_session,
	[DATABASE_RESTORE_SESSION] = sql_restore_session,
	[DATABASE_FIND_SESSION] = sql_find_session,
	[DATABASE_SET_LIMITS] = sql_set_limits,
	[DATABASE_SET_RELOAD] = sql_set_reload,
	[DATABASE_SET_STATE_FILE] = sql_set_state_file,
	[DATABASE_ADD_EVALUATION] = sql_add_evaluation,
	[DATABASE_RECOLLECT] = sql_recollect,
	[DATABASE_SKIP_EVALUATION] = sql_skip_evaluation,
	[DATABASE_ADD_OUTPUT] = sql_add_output,
	[DATABASE_FIND_OUTPUT] = sql_find_output,
	[DATABASE_ADD_ANSWER] = sql_add_answer,
	[DATABASE_FIND_ANSWER] = sql_find_answer,
	[DATABASE_SETTLE] = sql_settle,
	[DATABASE_SAVE_CONVERSATION] = sql_save_conversation,
	[DATABASE_FIND_CONVERSATION] = sql_find_conversation,
	[DATABASE_FORGET_CONVERSATION] = sql_forget_conversation,
	[DATABASE_FORGET_OLD_CONVERSATIONS] = sql_forget_old_conversations,
	[DATABASE_FORGET_LOST_ANSWERS] = sql_forget_lost_answers,
	[DATABASE_MEND_MESSAGE_TIMES] = sql_mend_message_times,
	[DATABASE_MEND_SESSION_TIMES] = sql_mend_session_times,
	[DATABASE_USE_SESSION] = sql_use_session,
	[DATABASE_LAST_USED_SESSION] = sql_last_used_session,
	[DATABASE_USED_BYTES] = sql_used_bytes,
	[DATABASE_MERGE_WORDS] = sql_merge_words,
	[DATABASE_FIND_UNUSED] = sql_find_unused,
	[DATABASE_DELETE_UNUSED] = sql_delete_unused,
	[DATABASE_CREATE_SESSION] = sql_create_session,
	[DATABASE_PLAN_CLONE] = sql_plan_clone,
	[DATABASE_FIND_BIRTHS] = sql_find_births,
	[DATABASE_FORGET_BIRTH] = sql_forget_birth,
	[DATABASE_LIST_SESSIONS] = sql_list_sessions,
	[DATABASE_SHOW_SESSION] = sql_show_session,
	[DATABASE_RENAME_SESSION] = sql_rename_session,
	[DATABASE_DELETE_SESSION] = sql_delete_session,
	[DATABASE_SHOW_HISTORY] = sql_show_history,
	[DATABASE_SEARCH_SESSIONS] = sql_search_sessions,
	[DATABASE_ADD_MESSAGE] = sql_add_message,
	[DATABASE_SET_METADATA] = sql_set_metadata,
	[DATABASE_COMPLETE_SESSION] = sql_complete_session,
	[DATABASE_SUBSCRIBE] = sql_subscribe,
	[DATABASE_UNSUBSCRIBE] = sql_unsubscribe,
	[DATABASE_FIND_RESOURCES] = sql_find_resources,
	[DATABASE_EXPORT_SESSION] = sql_export_session,
	[DATABASE_IMPORT_SESSION] = sql_import_session,
};

/* migrations[n] leads from version n to n + 1. */
static const char *const migrations[] = {embedded_schema_1, embedded_schema_2, embedded_schema_3, embedded_schema_4,
	embedded_schema_5, embedded_schema_6, embedded_schema_7, embedded_schema_8, embedded_schema_9};

#define NEWEST_VERSION ((int)(sizeof(migrations) / sizeof(*migrations)))

static const char pragmas[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
			      "PRAGMA wal_autocheckpoint = 0;";

void value_free(struct value *value)
{
	free(value->data);
	*value = (struct value){0};
}

/* SQLite also says so when it could not read a page. Only what makes no sense twice is damaged. */
static void doubt(struct database *database, const char *words)
{
	if (database->is_doubted)
		snprintf(database->damage, sizeof(database->damage), "%s", words);
	database->is_doubted = true;
}

static void note_problem(struct database *database, const char *doing)
{
	int status = sqlite3_errcode(database->handle) & 0xFF; /* of no handle: out of memory */
	const char *words = NULL;

	for (size_t i = 0; i < sizeof(advice) / sizeof(*advice); i++)
		if (advice[i].code == status)
			words = advice[i].words;
	database->is_suspect = status != SQLITE_FULL && status != SQLITE_BUSY;
	database->has_bad_index |= sqlite3_extended_errcode(database->handle) == SQLITE_CORRUPT_VTAB;
	if (status == SQLITE_CORRUPT || status == SQLITE_NOTADB)
		doubt(database, sqlite3_errmsg(database->handle));
	snprintf(database->problem, sizeof(database->problem), "%s %.300s: %.160s%s%s", doing, database->path,
		sqlite3_errmsg(database->handle), words ? "; " : "", words ? words : "");
}

static void note_damage(struct database *database, const char *words)
{
	doubt(database, words);
	snprintf(database->problem, sizeof(database->problem), "cannot use %.300s: %.160s; " SETTING_ASIDE,
		database->path, words);
}

/* While this is so, closing moves nothing from the log into the file. */
static void leave_alone(struct database *database, bool is_so)
{
	sqlite3_db_config(database->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)is_so, NULL);
}

static void close_handle(struct database *database)
{
	if (database->handle && database->is_doubted)
		leave_alone(database, true);
	for (size_t i = 0; i < DATABASE_STATEMENTS; i++) {
		sqlite3_finalize(database->statements[i]);
		database->statements[i] = NULL;
	}
	sqlite3_close(database->handle);
	database->handle = NULL;
}

/* Takes a handle as it comes, before anything has been changed. */
static bool read_number(sqlite3 *handle, const char *sql, int64_t *number)
{
	sqlite3_stmt *statement = NULL;
	bool is_there = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) == SQLITE_OK &&
		sqlite3_step(statement) == SQLITE_ROW;

	if (is_there)
		*number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return is_there;
}

static bool execute(struct database *database, const char *sql)
{
	return sqlite3_exec(database->handle, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool check_version(struct database *database, int64_t *version)
{
	if (!read_number(database->handle, "PRAGMA user_version", version)) {
		note_problem(database, "cannot read");
		return false;
	}
	if (*version < 0)
		note_damage(database, "it has a version that nobody has given it");
	if (*version > NEWEST_VERSION)
		snprintf(database->problem, sizeof(database->problem),
			"%.300s was written by a newer version (%d, this one knows %d): upgrade cl-mcp-server, or move the file away",
			database->path, (int)*version, NEWEST_VERSION);
	return *version >= 0 && *version <= NEWEST_VERSION;
}

/* What SQLite does not find by itself when it opens a file: pages that make no sense. */
static bool check_pages(struct database *database)
{
	sqlite3_stmt *statement = NULL;
	struct stat file;

	if (!database->is_doubted && (stat(database->path, &file) < 0 || file.st_size > CHECKED_BYTES_MAX))
		return true;
	int status = sqlite3_prepare_v2(database->handle, "PRAGMA quick_check(1)", -1, &statement, NULL);
	if (status == SQLITE_OK)
		status = sqlite3_step(statement);
	const char *words = status == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
	bool is_good = words && strcmp(words, "ok") == 0;
	if (!words)
		note_problem(database, "cannot read");
	else if (!is_good)
		note_damage(database, words);
	sqlite3_finalize(statement);
	return is_good;
}

/* False if that fails too. */
static bool mend_index(struct database *database)
{
	if (!database->has_bad_index)
		return true;
	if (!execute(database, "BEGIN IMMEDIATE") || !execute(database, sql_rebuild_words) ||
		!execute(database, "COMMIT")) {
		note_problem(database, "cannot make the index of words again in");
		database_rollback(database);
		return false;
	}
	database->has_bad_index = false;
	log_warning("the index of words was damaged, and has been made again from the messages");
	return true;
}

static bool migrate(struct database *database, int64_t version)
{
	char set_version[64];

	for (; version < NEWEST_VERSION; version++) {
		snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d; COMMIT", (int)version + 1);
		if (!execute(database, "BEGIN IMMEDIATE") || !execute(database, migrations[version]) ||
			!execute(database, set_version)) {
			note_problem(database, "cannot migrate");
			execute(database, "ROLLBACK");
			return false;
		}
	}
	return true;
}

static int on_log_growth(void *context, sqlite3 *handle, const char *name, int pages)
{
	struct database *database = context;

	(void)handle;
	(void)name;
	database->log_pages = pages;
	return SQLITE_OK;
}

static bool use_directory(struct database *database)
{
	int status = paths_make_private(database->directory);

	if (status < 0)
		snprintf(database->problem, sizeof(database->problem), "cannot use the directory %.300s: %s",
			database->directory,
			status == -EPERM ? "it must be yours alone (mode 0700)" : strerror(-status));
	return status == 0;
}

static bool prepare_statements(struct database *database)
{
	for (size_t i = 0; i < DATABASE_STATEMENTS; i++)
		if (sqlite3_prepare_v3(database->handle, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
			    &database->statements[i], NULL) != SQLITE_OK) {
			note_problem(database, "cannot use");
			return false;
		}
	return true;
}

static bool set_up(struct database *database)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	int64_t version;

	if (sqlite3_open_v2(database->path, &database->handle, flags, NULL) != SQLITE_OK) {
		note_problem(database, "cannot open");
		return false;
	}
	leave_alone(database, true);
	sqlite3_busy_timeout(database->handle, BUSY_MS);
	if (!check_version(database, &version))
		return false;
	if (!execute(database, pragmas)) {
		note_problem(database, "cannot open");
		return false;
	}
	sqlite3_wal_hook(database->handle, on_log_growth, database); /* the pragma wal_autocheckpoint removes it */
	if (!check_pages(database) || !migrate(database, version) || !mend_index(database) ||
		!prepare_statements(database))
		return false;
	leave_alone(database, false);
	database->is_new |= version == 0;
	return true;
}

static bool move(struct database *database, const char *to, const char *suffix)
{
	char old_path[sizeof(database->path) + 8], new_path[sizeof(database->path) + 72];

	snprintf(old_path, sizeof(old_path), "%s%s", database->path, suffix);
	snprintf(new_path, sizeof(new_path), "%s%s", to, suffix);
	return rename(old_path, new_path) == 0 || errno == ENOENT;
}

/*
 * With its log, for whoever wants to look what can be saved. The log goes first: SQLite would throw one away that it
 * found beside a new file.
 */
static bool set_aside(struct database *database)
{
	char to[sizeof(database->path) + 64], date[32];
	time_t now = time(NULL);
	struct tm local;
	int turn = 0;

	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", localtime_r(&now, &local));
	do
		snprintf(to, sizeof(to), "%s.damaged-%s-%d", database->path, date, ++turn);
	while (access(to, F_OK) == 0);
	if (!move(database, to, "-wal") || !move(database, to, "-shm") || !move(database, to, "")) {
		snprintf(database->problem, sizeof(database->problem),
			"%.300s is damaged (%.160s) and cannot be moved away (%s): do that by hand", database->path,
			database->damage, strerror(errno));
		return false;
	}
	snprintf(database->notice, sizeof(database->notice),
		"the database was damaged (%.160s) and is set aside as %.300s, a new one is in use; see cl-mcpd(8)",
		database->damage, to);
	database->damage[0] = '\0';
	database->is_doubted = false;
	database->has_bad_index = false;
	return true;
}

bool database_ready(struct database *database)
{
	if (database->damage[0] || database->is_suspect)
		close_handle(database);
	database->is_suspect = false;
	if (database->handle)
		return true;
	if (!use_directory(database))
		return false;
	for (int turn = 0; turn < OPENINGS_MAX && (!database->damage[0] || set_aside(database)); turn++) {
		if (set_up(database)) {
			database->problem[0] = '\0';
			return true;
		}
		close_handle(database);
		if (!database->is_doubted)
			return false;
	}
	database->damage[0] = '\0'; /* next time it may be another file */
	database->is_doubted = false;
	return false;
}

struct database *database_new(const char *directory)
{
	struct database *database = new_zeroed(sizeof(*database));

	snprintf(database->directory, sizeof(database->directory), "%s", directory);
	snprintf(database->path, sizeof(database->path), "%s/sessions.db", database->directory);
	return database;
}

void database_free(struct database *database)
{
	if (database->handle)
		database_checkpoint(database, true);
	close_handle(database);
	free(database);
}

const char *database_problem(const struct database *database)
{
	return database->problem[0] ? database->problem : NULL;
}

const char *database_notice(const struct database *database)
{
	return database->notice[0] ? database->notice : NULL;
}

bool database_is_doubted(const struct database *database)
{
	return database->is_doubted;
}

bool database_was_made(struct database *database)
{
	bool is_new = database->is_new;

	database->is_new = false;
	return is_new;
}

bool database_begin(struct database *database)
{
	if (execute(database, "BEGIN IMMEDIATE"))
		return true;
	note_problem(database, "cannot write");
	return false;
}

bool database_commit(struct database *database)
{
	if (execute(database, "COMMIT")) {
		database->problem[0] = '\0';
		database->is_doubted = false;
		return true;
	}
	note_problem(database, "cannot write");
	return false;
}

void database_rollback(struct database *database)
{
	if (database->handle && !sqlite3_get_autocommit(database->handle))
		execute(database, "ROLLBACK");
}

static int bind(sqlite3_stmt *statement, int position, const struct value *value)
{
	switch (value->kind) {
	case VALUE_NULL:
		return sqlite3_bind_null(statement, position);
	case VALUE_NUMBER:
		return sqlite3_bind_int64(statement, position, value->number);
	case VALUE_TEXT:
		return sqlite3_bind_text64(statement, position, value->data, value->length, SQLITE_STATIC, SQLITE_UTF8);
	case VALUE_BLOB:
		return sqlite3_bind_blob64(statement, position, value->data, value->length, SQLITE_STATIC);
	}
	return SQLITE_MISUSE;
}

static void fetch(sqlite3_stmt *statement, int column, struct value *value)
{
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		*value = (struct value){.kind = VALUE_NUMBER, .number = sqlite3_column_int64(statement, column)};
		return;
	case SQLITE_TEXT:
	case SQLITE_BLOB:
		value->kind = VALUE_TEXT;
		value->length = (size_t)sqlite3_column_bytes(statement, column);
		value->data = new_copy(sqlite3_column_blob(statement, column), value->length);
		return;
	default:
		*value = (struct value){0};
	}
}

/* What is wrong with the statement's values is no reason to give the transaction up. */
static enum database_result classify(struct database *database, int status)
{
	switch (sqlite3_extended_errcode(database->handle)) {
	case SQLITE_CONSTRAINT_UNIQUE:
	case SQLITE_CONSTRAINT_PRIMARYKEY:
		return DATABASE_EXISTS;
	}
	switch (status & 0xFF) {
	case SQLITE_CONSTRAINT:
	case SQLITE_ERROR:
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
		return DATABASE_REFUSED;
	}
	note_problem(database, "cannot write");
	return DATABASE_BROKEN;
}

static void put_words(struct database *database, struct value *value)
{
	const char *words = sqlite3_errmsg(database->handle);

	value->kind = VALUE_TEXT;
	value->length = strlen(words);
	value->data = new_copy(words, value->length);
}

enum database_result database_run(struct database *database, enum database_statement which, const struct value *in,
	size_t in_count, struct value *out, size_t out_count)
{
	sqlite3_stmt *statement = database->statements[which];
	enum database_result result = DATABASE_DONE;
	int status = SQLITE_OK;

	for (size_t i = 0; i < in_count && status == SQLITE_OK; i++)
		status = bind(statement, (int)i + 1, &in[i]);
	if (status == SQLITE_OK)
		status = sqlite3_step(statement);
	if (status == SQLITE_ROW) {
		for (size_t i = 0; i < out_count && (int)i < sqlite3_column_count(statement); i++)
			fetch(statement, (int)i, &out[i]);
		result = DATABASE_ROW;
	} else if (status != SQLITE_DONE) {
		result = classify(database, status);
		if (result != DATABASE_BROKEN && out_count > 0)
			put_words(database, &out[0]);
	}
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return result;
}

void database_checkpoint(struct database *database, bool idle)
{
	if (!database->handle || database->log_pages == 0 || (!idle && database->log_pages < LOG_PAGES_MAX))
		return;
	if (sqlite3_wal_checkpoint_v2(database->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) == SQLITE_OK)
		database->log_pages = 0;
}

/* ---- long work */

struct database_copy {
	sqlite3 *to;
	sqlite3_backup *backup;
	int status; /* the first that was not good */
	bool is_whole;
};

struct database_copy *database_copy_begin(struct database *database, const char *path, const char **problem)
{
	struct database_copy *copy = new_zeroed(sizeof(*copy));
	int status = sqlite3_open_v2(path, &copy->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	/* Nobody knows the file before it is whole, and then the caller brings it to the disk. */
	if (status == SQLITE_OK)
		status =
			sqlite3_exec(copy->to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL, NULL);
	if (status == SQLITE_OK)
		copy->backup = sqlite3_backup_init(copy->to, "main", database->handle, "main");
	if (copy->backup)
		return copy;
	*problem = sqlite3_errstr(status == SQLITE_OK ? sqlite3_errcode(copy->to) : status);
	sqlite3_close(copy->to);
	free(copy);
	return NULL;
}

enum database_step database_copy_step(struct database_copy *copy, uint64_t *done, uint64_t *total)
{
	uint64_t page = 4096;
	int status = sqlite3_backup_step(copy->backup, COPIED_PAGES);

	*total = page * (uint64_t)sqlite3_backup_pagecount(copy->backup);
	*done = *total - page * (uint64_t)sqlite3_backup_remaining(copy->backup);
	if (status == SQLITE_OK || status == SQLITE_BUSY || status == SQLITE_LOCKED)
		return DATABASE_STEP_MORE;
	copy->is_whole = status == SQLITE_DONE;
	copy->status = status;
	return copy->is_whole ? DATABASE_STEP_LAST : DATABASE_STEP_FAILED;
}

const char *database_copy_end(struct database_copy *copy)
{
	int finished = sqlite3_backup_finish(copy->backup), closed = sqlite3_close(copy->to);
	const char *problem = NULL;

	if (!copy->is_whole)
		problem = sqlite3_errstr(copy->status ? copy->status : finished);
	else if (finished != SQLITE_OK || closed != SQLITE_OK)
		problem = sqlite3_errstr(finished ? finished : closed);
	free(copy);
	return problem;
}

const char *database_merge_words(struct database *database, int64_t pages, bool *has_changed)
{
	struct value size = {.kind = VALUE_NUMBER, .number = pages};
	int before = sqlite3_total_changes(database->handle);

	if (database_run(database, DATABASE_MERGE_WORDS, &size, 1, NULL, 0) != DATABASE_DONE)
		return sqlite3_errmsg(database->handle);
	*has_changed = sqlite3_total_changes(database->handle) - before >= 2; /* as FTS5 defines it */
	return NULL;
}

const char *database_rewrite(struct database *database)
{
	if (!execute(database, "VACUUM"))
		return sqlite3_errmsg(database->handle);
	if (sqlite3_wal_checkpoint_v2(database->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
		database->log_pages = 0;
	return NULL;
}
