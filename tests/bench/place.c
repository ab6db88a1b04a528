/*
 * place.c - making places, starting programs in them, and leaving nothing behind.
 */
#include "place.h"

#include "sample.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVING_MS 20000

static void run(const struct place *place, char *const argv[], int in, int out)
{
	char home[128], socket_path[128], state[128];
	char *const environment[] = {home, socket_path, state, (char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};

	snprintf(home, sizeof(home), "HOME=%s", place->runtime);
	snprintf(socket_path, sizeof(socket_path), "CL_MCPD_SOCKET=%s/socket", place->runtime);
	snprintf(state, sizeof(state), "XDG_STATE_HOME=%s/state", place->runtime);
	if (sched_setaffinity(0, sizeof(*place->processors), place->processors) < 0 || dup2(in, 0) < 0 ||
		dup2(out, 1) < 0)
		_exit(126);
	execvpe(argv[0], argv, environment);
	_exit(127);
}

pid_t place_spawn(const struct place *place, char *const argv[], int *to, int *from)
{
	int input[2] = {-1, -1}, output[2] = {-1, -1};
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0 || (to && pipe2(input, O_CLOEXEC) < 0) || (from && pipe2(output, O_CLOEXEC) < 0))
		abort();
	pid_t process = fork();
	if (process == 0)
		run(place, argv, to ? input[0] : nothing, from ? output[1] : nothing);
	close(nothing);
	if (to) {
		close(input[0]);
		*to = input[1];
	}
	if (from) {
		close(output[1]);
		*from = output[0];
	}
	return process;
}

bool place_shut_down(const struct place *place)
{
	char program[PATH_MAX + 16];
	char *const argv[] = {program, (char *)"shutdown", NULL};
	int status;

	snprintf(program, sizeof(program), "%s/cl-mcpctl", place->build);
	pid_t process = place_spawn(place, argv, NULL, NULL);
	if (process > 0 && waitpid(process, &status, 0) == process && status == 0)
		return true;
	fprintf(stderr, "bench: cl-mcpctl shutdown failed\n");
	return false;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

bool place_make(struct place *place, const cpu_set_t *processors)
{
	snprintf(place->runtime, sizeof(place->runtime), "/tmp/cl-mcp-bench.XXXXXX");
	place->processors = processors;
	if (mkdtemp(place->runtime))
		return true;
	perror("bench: mkdtemp");
	return false;
}

static void kill_children(void)
{
	FILE *list = fopen("/proc/thread-self/children", "r");
	char line[4096] = "";

	if (!list)
		return;
	if (fgets(line, sizeof(line), list)) {
		char *end = line;
		for (long process = strtol(line, &end, 10); process > 0; process = strtol(end, &end, 10))
			kill((pid_t)process, SIGKILL);
	}
	fclose(list);
}

/* All processes of the place are our children, since we are their subreaper. What does not leave by itself is killed.
 */
void place_remove(struct place *place)
{
	uint64_t deadline = sample_now() + LEAVING_MS * UINT64_C(1000000);
	siginfo_t info = {0};

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) {
		if (info.si_pid == 0 && sample_now() > deadline) {
			fprintf(stderr, "bench: something of %s did not leave within %d s\n", place->runtime,
				LEAVING_MS / 1000);
			kill_children();
		}
		if (info.si_pid == 0)
			usleep(1000);
		info.si_pid = 0;
	}
	nftw(place->runtime, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
