/*
 * database.c - SQLite in WAL mode, schema by user_version, statements prepared once.
 */
#include "database.h"

#include "alloc.h"
#include "embedded.h"
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

/* Beyond this many pages the log is folded in even while busy: 16 MiB. */
#define LOG_PAGES_MAX 4096

struct database {
	char directory[PATH_MAX];
	char path[PATH_MAX + 16];
	char problem[512];
	sqlite3 *handle; /* NULL while it cannot be opened */
	sqlite3_stmt *statements[DATABASE_STATEMENTS];
	int log_pages;
};

static const char *const statement_texts[DATABASE_STATEMENTS] = {
	[DATABASE_ADD_SESSION] = sql_add_session,
	[DATABASE_FIND_SESSION] = sql_find_session,
	[DATABASE_SET_LIMITS] = sql_set_limits,
	[DATABASE_SET_RELOAD] = sql_set_reload,
	[DATABASE_ADD_EVALUATION] = sql_add_evaluation,
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
	[DATABASE_USE_SESSION] = sql_use_session,
	[DATABASE_LAST_USED_SESSION] = sql_last_used_session,
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
	[DATABASE_EXPORT_SESSION] = sql_export_session,
	[DATABASE_IMPORT_SESSION] = sql_import_session,
};

/* migrations[n] leads from version n to n + 1. */
static const char *const migrations[] = {
	embedded_schema_1, embedded_schema_2, embedded_schema_3, embedded_schema_4, embedded_schema_5};

#define NEWEST_VERSION ((int)(sizeof(migrations) / sizeof(*migrations)))

static const char pragmas[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
			      "PRAGMA wal_autocheckpoint = 0;";

void value_free(struct value *value)
{
	free(value->data);
	*value = (struct value){0};
}

static void note_problem(struct database *database, const char *doing)
{
	snprintf(database->problem, sizeof(database->problem), "%s %.300s: %s", doing, database->path,
		database->handle ? sqlite3_errmsg(database->handle) : "out of memory");
}

static void close_handle(struct database *database)
{
	for (size_t i = 0; i < DATABASE_STATEMENTS; i++) {
		sqlite3_finalize(database->statements[i]);
		database->statements[i] = NULL;
	}
	sqlite3_close(database->handle);
	database->handle = NULL;
}

static int read_version(sqlite3 *handle)
{
	sqlite3_stmt *statement = NULL;
	int version = -1;

	if (sqlite3_prepare_v2(handle, "PRAGMA user_version", -1, &statement, NULL) == SQLITE_OK &&
		sqlite3_step(statement) == SQLITE_ROW)
		version = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return version;
}

static bool execute(struct database *database, const char *sql)
{
	return sqlite3_exec(database->handle, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool migrate(struct database *database)
{
	char set_version[64];
	int version = read_version(database->handle);

	if (version > NEWEST_VERSION) {
		snprintf(database->problem, sizeof(database->problem),
			"%.300s was written by a newer version (%d, this one knows %d): upgrade cl-mcp-server, or move the file away",
			database->path, version, NEWEST_VERSION);
		return false;
	}
	if (version < 0) {
		note_problem(database, "cannot read");
		return false;
	}
	for (; version < NEWEST_VERSION; version++) {
		snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d; COMMIT", version + 1);
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

static bool open_handle(struct database *database)
{
	if (!use_directory(database))
		return false;
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	mode_t old_mask = umask(077);
	int status = sqlite3_open_v2(database->path, &database->handle, flags, NULL);

	umask(old_mask);
	if (status != SQLITE_OK) {
		note_problem(database, "cannot open");
		close_handle(database);
		return false;
	}
	sqlite3_busy_timeout(database->handle, 2000);
	sqlite3_wal_hook(database->handle, on_log_growth, database);
	if (!execute(database, pragmas)) {
		note_problem(database, "cannot open");
		close_handle(database);
		return false;
	}
	if (!migrate(database)) {
		close_handle(database);
		return false;
	}
	for (size_t i = 0; i < DATABASE_STATEMENTS; i++)
		if (sqlite3_prepare_v3(database->handle, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
			    &database->statements[i], NULL) != SQLITE_OK) {
			note_problem(database, "cannot use");
			close_handle(database);
			return false;
		}
	database->problem[0] = '\0';
	return true;
}

struct database *database_open(const char *directory)
{
	struct database *database = new_zeroed(sizeof(*database));

	snprintf(database->directory, sizeof(database->directory), "%s", directory);
	snprintf(database->path, sizeof(database->path), "%s/sessions.db", database->directory);
	open_handle(database);
	return database;
}

void database_close(struct database *database)
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

bool database_begin(struct database *database)
{
	if (!database->handle && !open_handle(database))
		return false;
	if (execute(database, "BEGIN IMMEDIATE"))
		return true;
	note_problem(database, "cannot write");
	return false;
}

bool database_commit(struct database *database)
{
	if (execute(database, "COMMIT")) {
		database->problem[0] = '\0';
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
