/*
 * client.c - starting a shim and talking to it.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000

static const char handshake[] =
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
	"\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n"
	"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
	"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"evaluate-lisp\","
	"\"arguments\":{\"code\":\"(+ 1 2)\"}}}\n";

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

bool client_start(struct client *client, const struct place *place)
{
	char program[PATH_MAX + 16];
	char *const argv[] = {program, NULL};

	snprintf(program, sizeof(program), "%s/cl-mcp-shim", place->build);
	client->length = client->scanned = 0;
	client->process = place_spawn(place, argv, &client->to, &client->from);
	if (client->process < 0)
		perror("bench: fork");
	return client->process > 0;
}

static bool send_line(struct client *client, const char *line, size_t length)
{
	if (write(client->to, line, length) == (ssize_t)length)
		return true;
	perror("bench: write to cl-mcp-shim");
	return false;
}

/* Takes one line off the buffer if a whole one is there. */
static bool take_line(struct client *client, const char *expected, bool *matches)
{
	char *end = memchr(client->buffer + client->scanned, '\n', client->length - client->scanned);

	client->scanned = end ? 0 : client->length;
	if (!end)
		return false;
	size_t size = (size_t)(end - client->buffer) + 1;
	*matches = memmem(client->buffer, size, expected, strlen(expected)) != NULL;
	client->answer_size = size;
	client->length -= size;
	memmove(client->buffer, end + 1, client->length);
	return true;
}

static bool await_line(struct client *client, const char *expected)
{
	bool matches = false;

	for (;;) {
		while (take_line(client, expected, &matches))
			if (matches)
				return true;
		struct pollfd watched = {.fd = client->from, .events = POLLIN};
		if (poll(&watched, 1, PATIENCE_MS) <= 0) {
			fprintf(stderr, "bench: no answer within %d s: %s\n", PATIENCE_MS / 1000, expected);
			return false;
		}
		ssize_t got =
			read(client->from, client->buffer + client->length, sizeof(client->buffer) - client->length);
		if (got <= 0) {
			fprintf(stderr, "bench: cl-mcp-shim ended without the answer %s\n", expected);
			return false;
		}
		client->length += (size_t)got;
	}
}

bool client_call(struct client *client, const char *line, size_t length, const char *expected)
{
	return send_line(client, line, length) && await_line(client, expected);
}

bool client_open(struct client *client)
{
	return client_call(client, handshake, sizeof(handshake) - 1, "\"=> 3\"");
}

void client_stop(struct client *client)
{
	if (client->process <= 0)
		return;
	close(client->to);
	close(client->from);
	waitpid(client->process, NULL, 0);
	client->process = 0;
}
