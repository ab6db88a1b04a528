/*
 * main.c - the command line of cl-mcp-worker.
 */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot.h"
#include "recipes.h"
#include "zygote.h"

#define LINGER_SECONDS 60
#define EXIT_USAGE 64

enum letter {
	OPTION_SELF_TEST = 't',
	OPTION_LINGER = 'l',
	OPTION_LOCK = 'k',
	OPTION_WITHOUT = 'w',
	OPTION_VERSION = 'V',
	OPTION_HELP = 'h'
};

static const struct option options[] = {
	{"self-test", no_argument, NULL, OPTION_SELF_TEST},
	{"linger", required_argument, NULL, OPTION_LINGER},
	{"lock", required_argument, NULL, OPTION_LOCK},
	{"without", required_argument, NULL, OPTION_WITHOUT},
	{"version", no_argument, NULL, OPTION_VERSION},
	{"help", no_argument, NULL, OPTION_HELP},
	{0},
};

static void print_help(FILE *to)
{
	fputs("usage: cl-mcp-worker [--linger SECONDS] [--lock FD] [--without RECIPE] RUNTIME_DIRECTORY\n"
	      "       cl-mcp-worker [--without RECIPE] --self-test\n"
	      "       cl-mcp-worker --version | --help\n"
	      "\n"
	      "Boots Lisp once and forks a process for each session that cl-mcpd asks for.\n"
	      "cl-mcpd starts it; there is no need to do so by hand.\n"
	      "\n"
	      "  --self-test       boot, try what depends on this version of ECL, say what works\n"
	      "  --without RECIPE  do without one of those things, as if it did not work\n"
	      "  --linger SECONDS  leave after so long without a daemon and without sessions (60)\n"
	      "  --lock FD         the directory, open and locked already\n"
	      "  --version         print the version\n"
	      "  --help            print this\n",
		to);
}

static int self_test(char *program)
{
	boot_lisp(program);
	recipes_test(true);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct zygote_options zygote = {.program = argv[0], .linger_seconds = LINGER_SECONDS, .lock = -1};
	int option;
	bool test = false;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case OPTION_SELF_TEST:
			test = true;
			break;
		case OPTION_LINGER:
			zygote.linger_seconds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case OPTION_LOCK:
			zygote.lock = (int)strtol(optarg, NULL, 10);
			break;
		case OPTION_WITHOUT:
			if (recipes_do_without(optarg))
				break;
			fprintf(stderr, "cl-mcp-worker: there is no recipe %s\n", optarg);
			return EXIT_USAGE;
		case OPTION_VERSION:
			puts("cl-mcp-worker " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		case OPTION_HELP:
			print_help(stdout);
			return EXIT_SUCCESS;
		default:
			print_help(stderr);
			return EXIT_USAGE;
		}
	if (test ? optind != argc : optind != argc - 1) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	boot_raise_stack(argv);
	if (test)
		return self_test(argv[0]);
	zygote.runtime_directory = argv[optind];
	return zygote_run(&zygote);
}
