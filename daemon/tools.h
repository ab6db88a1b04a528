/*
 * tools.h - the tools that clients may call. A tool is one row: its definition (a JSON file in tools/) and its handler.
 */
#ifndef TOOLS_H
#define TOOLS_H

#include "limit.h"
#include "report.h"
#include "request.h"
#include "worker.h"

struct server;

struct tool {
	const char *definition; /* JSON: name, title, description, inputSchema, outputSchema, annotations */
	/* Arguments fit the schema. The handler sees to it that the request ends. */
	void (*call)(struct server *server, struct request *request, struct json_object *arguments);
	/* Of tools that the store answers, see inquiry.h: ends the request with what it said. NULL for others. */
	void (*finish)(struct request *request, struct json_object *data);
};

/* Reads the definitions; before anything else of this module. */
void tools_start(void);
void tools_stop(void);

/* The definitions as the revision knows them. */
struct json_object *tools_list(const struct revision *revision);

/* Serves tools/call. */
void tools_call(struct server *server, struct request *request);

/* For a tool with `finish`. */
void tools_finish(struct request *request, const char *tool, struct json_object *data);

/* Ends the request with a tool's result in the revision's form. The report stays the caller's. */
void tools_report(struct request *request, const struct report *report);
/* Ends the request because an argument is wrong, in the revision's form; the problem ends without a full stop. */
void tools_refuse_arguments(struct request *request, const char *problem);
/* A report becomes a tool's result; what goes wrong becomes one with isError: "[ERROR] TYPE", then the message. */
extern const struct request_form tools_form;

/* Ends the request well: text for people and the data, which passes into the request's ownership and may be NULL. */
void tools_answer(struct request *request, const struct text *text, struct json_object *data);

/* Handlers; those of a group are in one file. */
void tool_evaluate(struct server *server, struct request *request, struct json_object *arguments);
void tool_read_output(struct server *server, struct request *request, struct json_object *arguments);
void tool_list_definitions(struct server *server, struct request *request, struct json_object *arguments);
void tool_reset(struct server *server, struct request *request, struct json_object *arguments);
void tool_load_system(struct server *server, struct request *request, struct json_object *arguments);
void tool_configure_limits(struct server *server, struct request *request, struct json_object *arguments);
void tool_create_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_fork_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_checkpoint_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_rollback_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_list_checkpoints(struct server *server, struct request *request, struct json_object *arguments);
void tool_list_sessions(struct server *server, struct request *request, struct json_object *arguments);
void tool_session_info(struct server *server, struct request *request, struct json_object *arguments);
void tool_resume_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_rename_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_delete_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_session_history(struct server *server, struct request *request, struct json_object *arguments);
void tool_search_sessions(struct server *server, struct request *request, struct json_object *arguments);
void tool_add_message(struct server *server, struct request *request, struct json_object *arguments);
void tool_set_session_metadata(struct server *server, struct request *request, struct json_object *arguments);
void tool_export_session(struct server *server, struct request *request, struct json_object *arguments);
void tool_import_session(struct server *server, struct request *request, struct json_object *arguments);

void finish_create_session(struct request *request, struct json_object *data);
void finish_list_sessions(struct request *request, struct json_object *data);
void finish_session_info(struct request *request, struct json_object *data);
void finish_resume_session(struct request *request, struct json_object *data);
void finish_rename_session(struct request *request, struct json_object *data);
void finish_delete_session(struct request *request, struct json_object *data);
void finish_session_history(struct request *request, struct json_object *data);
void finish_search_sessions(struct request *request, struct json_object *data);
void finish_add_message(struct request *request, struct json_object *data);
void finish_set_session_metadata(struct request *request, struct json_object *data);
void finish_export_session(struct request *request, struct json_object *data);
void finish_import_session(struct request *request, struct json_object *data);

/* What is asked of a session to list its definitions of a kind, or "all". */
struct work tools_listing(const char *kind);

/* What several of them share: false if nothing more may be stored; the request has been answered then. */
bool tool_may_store(struct request *request);
/* The argument timeout. False if it is not allowed; the request has been answered then. */
bool tool_time_limit(struct request *request, struct json_object *arguments, enum limit limit, struct work *work);

#endif
