/*
 * main.c - cl-mcpd: options, start, the event loop, end.
 */
#include "config.h"

#include "adoption.h"
#include "alloc.h"
#include "client.h"
#include "descriptors.h"
#include "hibernation.h"
#include "idling.h"
#include "clock.h"
#include "cloning.h"
#include "limit.h"
#include "listener.h"
#include "log.h"
#include "paths.h"
#include "place.h"
#include "quota.h"
#include "recovery.h"
#include "retention.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "tools.h"
#include "watch.h"
#include "zygote.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another daemon is at work; like sendmail's EX_TEMPFAIL. */
#define EXIT_TAKEN 75

static const char help[] =
	"Usage: cl-mcpd [OPTION]...\n"
	"Host Lisp sessions for MCP clients. Started by cl-mcp-shim when needed; stays in the foreground.\n"
	"\n"
	"  --socket PATH   listen there instead of the computed place\n"
	"  --ready-fd N    write \"ready\" to descriptor N once clients can connect, or why they cannot\n"
	"  --limit NAME=N  default of a limit: timeout, load-timeout (seconds), max-heap (MB), max-output, max-value,\n"
	"                  max-nesting\n"
	"  --ceiling NAME=N  how far clients may raise it\n"
	"  --quota NAME=N  what a user may have: sessions (with a process; 100), storage (MB; 1024); 0: any number\n"
	"  --retain-days N delete sessions that nobody has used for so long and that have no process; 0: never (default)\n"
	"  --hibernate-after N  after so many seconds an unused session is put into a file until it is used again; 0 never\n"
	"  --keep-free N   megabytes of memory: while there is less, those not used for longest are; 0 none\n"
	"  --save-after N  after so many seconds without a call a session's state is written, for a power cut; 0 never\n"
	"  --verbose       log more\n"
	"  --version       print the version and exit\n"
	"  --help          print this and exit\n"
	"\n"
	"SIGTERM ends the daemon; sessions live on and the next daemon takes them over. `cl-mcpctl shutdown` ends them too.\n"
	"Exit status: 0 after SIGTERM or shutdown, 1 if it could not start, 2 for wrong usage, 71 if it ran out of memory,\n"
	"75 if another daemon runs.\n";

struct options {
	const char *socket;
	int ready_fd;
	struct idling_limits idling;
};

/* Goes on if there is no problem. */
static void refuse_setting(const char *option, const char *setting, const char *problem)
{
	if (!problem)
		return;
	fprintf(stderr, "cl-mcpd: %s %s: %s\n", option, setting, problem);
	exit(2);
}

/* That of the option at hand; 0 switches off what it is for. */
static double read_number(const char *name, const char *what)
{
	double number;

	if (limit_read_number(optarg, &number))
		return number;
	fprintf(stderr, "cl-mcpd: %s needs a number %s, not %s\n", name, what, optarg);
	exit(2);
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"ready-fd", required_argument, NULL, 'r'},
		{"limit", required_argument, NULL, 'l'},
		{"ceiling", required_argument, NULL, 'c'},
		{"quota", required_argument, NULL, 'q'},
		{"retain-days", required_argument, NULL, 'd'},
		{"hibernate-after", required_argument, NULL, 'a'},
		{"keep-free", required_argument, NULL, 'k'},
		{"save-after", required_argument, NULL, 'S'},
		{"verbose", no_argument, NULL, 'v'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct options options = {.ready_fd = -1, .idling = IDLING_LIMITS_DEFAULT};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		char *end;
		switch (option) {
		case 's':
			options.socket = optarg;
			break;
		case 'r':
			options.ready_fd = (int)strtol(optarg, &end, 10);
			if (*end || options.ready_fd < 3) {
				fprintf(stderr, "cl-mcpd: --ready-fd needs the number of an open descriptor, not %s\n",
					optarg);
				exit(2);
			}
			break;
		case 'l':
		case 'c':
			refuse_setting(option == 'c' ? "--ceiling" : "--limit", optarg,
				limit_configure(optarg, option == 'c'));
			break;
		case 'q':
			refuse_setting("--quota", optarg, quota_configure(optarg));
			break;
		case 'd':
			refuse_setting("--retain-days", optarg, retention_configure(optarg));
			break;
		case 'a':
			options.idling.after = read_number("--hibernate-after", "of seconds");
			break;
		case 'k':
			options.idling.keep_free = (uint64_t)read_number("--keep-free", "of megabytes");
			break;
		case 'S':
			options.idling.save_after = read_number("--save-after", "of seconds");
			break;
		case 'v':
			log_set_level(LOG_LEVEL_DEBUG);
			break;
		case 'V':
			puts("cl-mcpd " PACKAGE_VERSION);
			exit(0);
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			fputs("Try `cl-mcpd --help'.\n", stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "cl-mcpd: unexpected argument %s\nTry `cl-mcpd --help'.\n", argv[optind]);
		exit(2);
	}
	return options;
}

/* Whoever started us waits for this line. */
static void tell_starter(int fd, const char *line)
{
	if (fd < 0)
		return;
	if (dprintf(fd, "%s\n", line) < 0)
		log_warning("whoever started the daemon does not listen");
	close(fd);
}

static void on_signal(evutil_socket_t signal_number, short what, void *context)
{
	struct server *server = context;

	(void)what;
	log_info("%s: leaving, sessions live on", strsignal(signal_number));
	event_base_loopexit(server->base, NULL);
}

static void on_adopted(struct server *server)
{
	listener_serve(server->listener);
}

static void serve(struct server *server, const struct idling_limits *limits)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	struct event *events[sizeof(signals) / sizeof(*signals)];
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		events[i] = must(evsignal_new(server->base, signals[i], on_signal, server));
		watch(events[i]);
	}
	tools_start();
	subscription_start(server);
	server->store = store_open(server->base, server->state_directory, recovery_fill_store, server);
	server->zygote = zygote_new(server);
	server->idling = idling_start(server, limits);
	struct place *place = place_watch(server);
	adoption_start(server, on_adopted);
	cloning_undo_all(server);
	retention_start(server);
	event_base_dispatch(server->base);

	client_close_all(server);
	store_close(server->store);
	server->store = NULL;
	retention_stop();
	adoption_abandon(server);
	zygote_free(server->zygote);
	conversation_free_all(server);
	session_free_all(server);
	subscription_stop(server);
	idling_stop(server->idling);
	place_forget(place);
	hibernation_end(server);
	tools_stop();
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		event_free(events[i]);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct server server = {.started_ms = clock_ms()};
	char socket_path[PATHS_SOCKET_SIZE], directory[PATHS_SOCKET_SIZE], problem[PATH_MAX + 512];
	char state_directory[PATH_MAX] = "";

	umask(077);
	signal(SIGPIPE, SIG_IGN);
	if (options.socket)
		setenv("CL_MCPD_SOCKET", options.socket, 1);
	if (paths_socket(socket_path) < 0 || paths_runtime_directory(socket_path, directory, sizeof(directory)) < 0) {
		snprintf(problem, sizeof(problem), "the socket's path is longer than %d bytes", PATHS_SOCKET_SIZE - 1);
		log_error("%s", problem);
		tell_starter(options.ready_fd, problem);
		return 1;
	}
	descriptors_claim();
	server.base = event_base_new();
	if (!server.base) {
		snprintf(problem, sizeof(problem), "there is no waiting for events: %s", strerror(errno));
		log_error("%s", problem);
		tell_starter(options.ready_fd, problem);
		return 1;
	}
	server.runtime_directory = directory;
	server.state_directory = state_directory;
	if (paths_state_directory(state_directory, sizeof(state_directory)) < 0)
		log_error("no home directory: transcripts have no place");
	enum listener_status status = listener_open(&server, socket_path, problem, sizeof(problem));
	if (status != LISTENER_READY) {
		log_error("%s", problem);
		tell_starter(options.ready_fd, problem);
		event_base_free(server.base);
		return status == LISTENER_TAKEN ? EXIT_TAKEN : 1;
	}
	log_info("cl-mcpd " PACKAGE_VERSION " listens on %s", socket_path);
	tell_starter(options.ready_fd, "ready");
	serve(&server, &options.idling);
	listener_close(server.listener);
	event_base_free(server.base);
	return 0;
}
