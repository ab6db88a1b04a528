/*
 * shim.c - cl-mcp-shim: what an MCP client launches. Options, signals, and then the loop of relay.c.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "relay.h"

static const char help[] =
	"Usage: cl-mcp-shim [--session ID|NAME | --resume] [--wait]\n"
	"\n"
	"Connects an MCP client to Lisp sessions: JSON-RPC lines on stdin and stdout. MCP clients launch it;\n"
	"it finds the daemon cl-mcpd, or starts it, and finds it again when it was restarted.\n"
	"\n"
	"  --session ID|NAME  go on with that session\n"
	"  --resume           go on with the one that this client used last from this directory, if there is one\n"
	"  --wait             at end of input wait for running evaluations as long as they take,\n"
	"                     not for 5 seconds at most\n"
	"  --help             show this and exit\n"
	"  --version          show the version and exit\n"
	"\n"
	"Environment:\n"
	"  CL_MCP_SESSION         as --session, unless an option says otherwise\n"
	"  CL_MCP_RESUME          1: as --resume, unless an option or CL_MCP_SESSION says otherwise\n"
	"  CL_MCPD_SOCKET         the daemon's socket, if not the usual one\n"
	"  CL_MCP_DAEMON_TIMEOUT  seconds (10) after which requests are answered with an error when no daemon\n"
	"                         can be had or it has fallen silent\n"
	"\n"
	"Exit status: 0 when the client has left, 2 for a wrong option.\n";

/* The signals that end us come as a descriptor to poll, so that none is lost and none interrupts a write. */
static int stop_descriptor(void)
{
	sigset_t ending;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGHUP);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	return signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* If a standard descriptor came closed, the daemon's socket would get its number. */
static void fill_standard_descriptors(void)
{
	for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++)
		if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
			exit(1);
}

static void wrong_usage(const char *what, const char *which) __attribute__((noreturn));

static void wrong_usage(const char *what, const char *which)
{
	fprintf(stderr, "cl-mcp-shim: %s: %s (see cl-mcp-shim --help)\n", what, which);
	exit(2);
}

static void parse_options(int argc, char **argv, struct relay_options *options)
{
	static const struct option known[] = {
		{"session", required_argument, NULL, 's'},
		{"resume", no_argument, NULL, 'r'},
		{"wait", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options->wish.session = optarg;
			break;
		case 'r':
			options->wish.resume = true;
			break;
		case 'w':
			options->wait = true;
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		case 'V':
			puts("cl-mcp-shim " PACKAGE_VERSION);
			exit(0);
		case ':':
			wrong_usage("this option needs a value", argv[optind - 1]);
		default:
			wrong_usage("unknown option", argv[optind - 1]);
		}
	}
	if (optind < argc)
		wrong_usage("unexpected argument", argv[optind]);
	if (!wish_settle(&options->wish))
		wrong_usage(WISH_CONTRADICTION);
}

int main(int argc, char **argv)
{
	struct relay_options options = {0};

	fill_standard_descriptors();
	parse_options(argc, argv, &options);
	options.stop = stop_descriptor();
	relay_run(&options);
	return 0;
}
