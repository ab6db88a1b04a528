/*
 * ctl.c - cl-mcpctl: the person's tool. Its commands are the rows of one table.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mcpclient.h"
#include "repl.h"

enum { EXIT_GOOD = 0, EXIT_BAD = 1, EXIT_USAGE = 2, EXIT_NOBODY = 3 };

/* How long an answer of the daemon itself, and its end, may take. */
#define ANSWER_WAIT 10000
#define END_WAIT 30000

struct options {
	struct wish wish;
	bool json;
	const char *argument;
};

struct command {
	const char *name;
	const char *usage;
	const char *task;
	int (*run)(const struct options *options);
	const char *takes; /* that it needs an argument; NULL: it has none */
};

/* ---- what status and shutdown share */

/* Connects to a running daemon, never starting one. EXIT_GOOD, or the status to end with; then all is said. */
static int reach(struct mcp_client *client)
{
	switch (mcp_open(client, NULL, false)) {
	case DIAL_WELCOMED:
		return EXIT_GOOD;
	case DIAL_NOBODY:
		fprintf(stderr, "No daemon (cl-mcpd) is running.\n");
		return EXIT_NOBODY;
	default:
		fprintf(stderr, "cl-mcpctl: the daemon (cl-mcpd) cannot be reached: %s\n", mcp_reason(client));
		return EXIT_BAD;
	}
}

/* The result of a method of the daemon's own; NULL if there is none, and then that was said. Takes over params. */
static json_object *call(struct mcp_client *client, const char *method, json_object *params, int64_t limit)
{
	json_object *answer = NULL, *result = NULL, *error = NULL, *words = NULL;
	enum mcp_status status = mcp_wait(client, mcp_request(client, method, params), limit, &answer);

	if (status == MCP_ANSWERED && json_object_object_get_ex(answer, "result", &result)) {
		json_object_get(result);
	} else if (status == MCP_ANSWERED) {
		if (json_object_object_get_ex(answer, "error", &error) &&
			!json_object_object_get_ex(error, "data", &words))
			json_object_object_get_ex(error, "message", &words);
		fprintf(stderr, "cl-mcpctl: the daemon refused: %s\n",
			words ? json_object_get_string(words) : json_object_to_json_string(answer));
	} else {
		fprintf(stderr, "cl-mcpctl: the daemon did not answer%s%s\n", status == MCP_LOST ? ": " : "",
			status == MCP_LOST ? mcp_reason(client) : "");
	}
	json_object_put(answer);
	return result;
}

/* ---- status */

static const char *text_of(json_object *object, const char *name)
{
	json_object *member = NULL;

	json_object_object_get_ex(object, name, &member);
	return member ? json_object_get_string(member) : "-";
}

static int64_t number_of(json_object *object, const char *name)
{
	json_object *member = NULL;

	json_object_object_get_ex(object, name, &member);
	return json_object_get_int64(member);
}

static void print_duration(int64_t milliseconds)
{
	int64_t seconds = milliseconds / 1000;

	if (seconds >= 86400)
		printf("%lld d ", (long long)(seconds / 86400));
	if (seconds >= 3600)
		printf("%lld h ", (long long)(seconds / 3600 % 24));
	if (seconds >= 60)
		printf("%lld min ", (long long)(seconds / 60 % 60));
	printf("%lld s", (long long)(seconds % 60));
}

static void print_zygote(json_object *zygote)
{
	json_object *fallbacks = NULL;

	printf("Lisp      %s", text_of(zygote, "state"));
	if (number_of(zygote, "pid") > 0)
		printf(", pid %lld", (long long)number_of(zygote, "pid"));
	if (strcmp(text_of(zygote, "lisp"), "-") != 0)
		printf(", %s, booted in %lld ms", text_of(zygote, "lisp"), (long long)number_of(zygote, "bootMs"));
	putchar('\n');
	json_object_object_get_ex(zygote, "fallbacks", &fallbacks);
	for (size_t i = 0; fallbacks && i < json_object_array_length(fallbacks); i++)
		printf("          falls back: %s\n", json_object_get_string(json_object_array_get_idx(fallbacks, i)));
}

/* Only what is wrong with it. */
static void print_store(json_object *store)
{
	json_object *words;

	if (json_object_object_get_ex(store, "problem", &words))
		printf("store     transcripts cannot be kept now: %s\n", json_object_get_string(words));
	if (json_object_object_get_ex(store, "notice", &words))
		printf("store     %s\n", json_object_get_string(words));
}

static void print_sessions(json_object *sessions)
{
	size_t count = sessions ? json_object_array_length(sessions) : 0;

	printf("sessions  %zu\n", count);
	if (count)
		printf("  %-28s  %-12s %8s  %-12s  %s\n", "id", "state", "pid", "name", "directory");
	for (size_t i = 0; i < count; i++) {
		json_object *session = json_object_array_get_idx(sessions, i);

		printf("  %-28s  %-12s %8s  %-12s  %s\n", text_of(session, "id"), text_of(session, "state"),
			text_of(session, "pid"), text_of(session, "name"), text_of(session, "directory"));
		if (json_object_object_get_ex(session, "unprotectedBecause", NULL))
			printf("    its last %lld evaluations would be undone if its process died: %s\n",
				(long long)(number_of(session, "evaluations") - number_of(session, "protected")),
				text_of(session, "unprotectedBecause"));
	}
}

static void print_status(json_object *status)
{
	json_object *part = NULL;

	printf("cl-mcpd   version %s, pid %lld, up ", text_of(status, "version"), (long long)number_of(status, "pid"));
	print_duration(number_of(status, "uptimeMs"));
	putchar('\n');
	if (json_object_object_get_ex(status, "zygote", &part))
		print_zygote(part);
	if (json_object_object_get_ex(status, "store", &part))
		print_store(part);
	printf("clients   %s\n", text_of(status, "clients"));
	json_object_object_get_ex(status, "sessions", &part);
	print_sessions(part);
}

static int run_status(const struct options *options)
{
	struct mcp_client client = {0};
	int status = reach(&client);

	if (status == EXIT_GOOD) {
		json_object *result = call(&client, "cl-mcpd/status", NULL, ANSWER_WAIT);

		if (!result)
			status = EXIT_BAD;
		else if (options->json)
			puts(json_object_to_json_string_ext(
				result, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
		else
			print_status(result);
		json_object_put(result);
	}
	mcp_close(&client);
	return status;
}

/* ---- hibernate */

static int run_hibernate(const struct options *options)
{
	struct mcp_client client = {0};
	int status = reach(&client);

	if (status == EXIT_GOOD) {
		json_object *params = json_object_new_object();
		json_object_object_add(params, "session", json_object_new_string(options->argument));
		json_object *result = call(&client, "cl-mcpd/hibernate", params, END_WAIT);
		if (!result)
			status = EXIT_BAD;
		json_object_put(result);
	}
	mcp_close(&client);
	return status;
}

/* ---- backup, compact */

#define CHORE_LOOK_US 100000

/* The daemon knows no directory of ours. Ends with the file's name as it was given. */
static json_object *file_params(const char *file)
{
	json_object *params = json_object_new_object();
	char *here = *file == '/' ? NULL : getcwd(NULL, 0), *path;

	if (asprintf(&path, "%s%s%s", here ? here : "", here ? "/" : "", file) < 0)
		abort();
	json_object_object_add(params, "file", json_object_new_string(path));
	free(path);
	free(here);
	return params;
}

/* On a terminal one line that changes. */
static void show_progress(json_object *chore)
{
	int64_t total = number_of(chore, "total");

	if (isatty(STDERR_FILENO) && total > 0)
		fprintf(stderr, "\r%3lld %%", (long long)(number_of(chore, "done") * 100 / total));
}

static int end_of_chore(json_object *chore, const char *outcome)
{
	if (isatty(STDERR_FILENO))
		fputs("\r     \r", stderr);
	if (chore && strcmp(text_of(chore, "state"), "done") == 0) {
		puts(outcome);
		return EXIT_GOOD;
	}
	if (chore && strcmp(text_of(chore, "state"), "failed") == 0)
		fprintf(stderr, "cl-mcpctl: %s\n", text_of(chore, "words"));
	else if (chore)
		fprintf(stderr, "cl-mcpctl: the daemon that was at it has died; try again\n");
	return EXIT_BAD;
}

/* Begins it and waits for its end, however long that takes. */
static int run_chore(const char *method, json_object *params, const char *outcome)
{
	struct mcp_client client = {0};
	json_object *chore = NULL;
	int status = reach(&client);

	if (status != EXIT_GOOD) {
		json_object_put(params);
		mcp_close(&client);
		return status;
	}
	json_object *begun = call(&client, method, params, ANSWER_WAIT);
	while (begun) {
		json_object_put(chore);
		chore = call(&client, "cl-mcpd/chore", NULL, ANSWER_WAIT);
		if (!chore || strcmp(text_of(chore, "state"), "running") != 0)
			break;
		show_progress(chore);
		usleep(CHORE_LOOK_US);
	}
	status = begun ? end_of_chore(chore, outcome) : EXIT_BAD;
	json_object_put(begun);
	json_object_put(chore);
	mcp_close(&client);
	return status;
}

static int run_backup(const struct options *options)
{
	return run_chore("cl-mcpd/backup", file_params(options->argument), "The database is copied.");
}

static int run_compact(const struct options *options)
{
	(void)options;
	return run_chore("cl-mcpd/compact", NULL, "The database is compact.");
}

/* ---- shutdown */

/* A process descriptor becomes readable when the process has ended, whatever its number is used for then. */
static int open_process(uint64_t pid)
{
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

static bool wait_for_end(int process)
{
	struct pollfd end = {.fd = process, .events = POLLIN};

	return process < 0 || poll(&end, 1, END_WAIT) > 0;
}

static int run_shutdown(const struct options *options)
{
	struct mcp_client client = {0};
	int status = reach(&client);

	(void)options;
	if (status == EXIT_GOOD) {
		int process = open_process(client.dial.daemon_pid);
		json_object *answer = NULL;
		enum mcp_status outcome =
			mcp_wait(&client, mcp_request(&client, "cl-mcpd/shutdown", NULL), ANSWER_WAIT, &answer);

		/* A daemon that ended before its answer arrived has done what was asked. */
		if ((outcome != MCP_ANSWERED || !json_object_object_get_ex(answer, "result", NULL)) &&
			outcome != MCP_LOST && outcome != MCP_UNANSWERED) {
			fprintf(stderr, "cl-mcpctl: the daemon did not agree to end: %s\n",
				answer ? json_object_to_json_string(answer) : "it does not answer");
			status = EXIT_BAD;
		} else if (!wait_for_end(process)) {
			fprintf(stderr, "cl-mcpctl: the daemon (pid %llu) is still running after %d s\n",
				(unsigned long long)client.dial.daemon_pid, END_WAIT / 1000);
			status = EXIT_BAD;
		}
		json_object_put(answer);
		if (process >= 0)
			close(process);
	}
	mcp_close(&client);
	return status;
}

/* ---- repl, help and the table */

static int run_repl(const struct options *options)
{
	return repl_run(&options->wish);
}

static int run_help(const struct options *options);

static const struct command commands[] = {
	{"repl", "repl [--session ID|NAME | --resume]", "a Lisp prompt, on a new session or on that one", run_repl,
		NULL},
	{"status", "status [--json]", "show the daemon, its clients and its sessions", run_status, NULL},
	{"hibernate", "hibernate ID|NAME", "put a session into a file until it is used again", run_hibernate,
		"this command needs a session"},
	{"backup", "backup FILE", "copy the database into a new file, while it is used", run_backup,
		"this command needs a file"},
	{"compact", "compact", "write the database anew, without its gaps", run_compact, NULL},
	{"shutdown", "shutdown", "end the daemon and all processes of sessions", run_shutdown, NULL},
	{"help", "help", "show this", run_help, NULL},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(*commands))

static int run_help(const struct options *options)
{
	(void)options;
	puts("Usage: cl-mcpctl COMMAND [OPTION]...\n\nLooks after the Lisp sessions of cl-mcp-server.\n\nCommands:");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		printf("  %-36s %s\n", commands[i].usage, commands[i].task);
	puts("\nOptions:\n"
	     "  --session ID|NAME                    go on with that session\n"
	     "  --resume                             go on with the one that cl-mcpctl used last from this directory\n"
	     "  --json                               as JSON\n"
	     "  --help, --version\n"
	     "\n"
	     "repl starts the daemon (cl-mcpd) if none runs; the other commands never do. When its input is no\n"
	     "terminal, repl evaluates the forms that it reads there.\n"
	     "\n"
	     "Environment:\n"
	     "  CL_MCP_SESSION  as --session, unless an option says otherwise\n"
	     "  CL_MCP_RESUME   1: as --resume, unless an option or CL_MCP_SESSION says otherwise\n"
	     "  CL_MCPD_SOCKET  the daemon's socket, if not the usual one\n"
	     "\n"
	     "Exit status:\n"
	     "  0  all is well\n"
	     "  1  it failed; repl: the last form ended in an error\n"
	     "  2  wrong usage\n"
	     "  3  no daemon is running (all but repl)");
	return EXIT_GOOD;
}

static int wrong_usage(const char *what, const char *which)
{
	fprintf(stderr, "cl-mcpctl: %s: %s (see cl-mcpctl --help)\n", what, which);
	return EXIT_USAGE;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"session", required_argument, NULL, 's'},
		{"resume", no_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	struct options options = {0};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options.wish.session = optarg;
			break;
		case 'r':
			options.wish.resume = true;
			break;
		case 'j':
			options.json = true;
			break;
		case 'h':
			return run_help(&options);
		case 'V':
			puts("cl-mcpctl " PACKAGE_VERSION);
			return EXIT_GOOD;
		case ':':
			return wrong_usage("this option needs a value", argv[optind - 1]);
		default:
			return wrong_usage("unknown option", argv[optind - 1]);
		}
	}
	if (optind == argc)
		return wrong_usage("which command?", "repl, status, hibernate, backup, compact, shutdown or help");
	const struct command *command = find_command(argv[optind]);
	if (!command)
		return wrong_usage("unknown command", argv[optind]);
	if (command->takes && optind + 1 == argc)
		return wrong_usage(command->takes, command->name);
	if (command->takes)
		options.argument = argv[++optind];
	if (optind + 1 < argc)
		return wrong_usage("unexpected argument", argv[optind + 1]);
	if (!wish_settle(&options.wish))
		return wrong_usage(WISH_CONTRADICTION);
	signal(SIGPIPE, SIG_IGN);
	return command->run(&options);
}
