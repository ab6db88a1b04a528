/*
 * client.c - starting a shim and talking to it.
 */
#include "client.h"

#include <poll.h>
#include <stdio.h>
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

bool client_tool(struct client *client, const char *tool, const char *arguments)
{
	static unsigned number = 500000;
	static char line[8192];
	char expected[32];
	int length = snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":{%s}}}\n",
		++number, tool, arguments);

	snprintf(expected, sizeof(expected), "\"id\":%u", number);
	return client_call(client, line, (size_t)length, expected);
}

bool client_time_tool(struct client *client, const char *tool, const char *arguments, struct sample *sample)
{
	uint64_t start = sample_now();

	if (!client_tool(client, tool, arguments))
		return false;
	sample_add(sample, sample_now() - start);
	return true;
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
