/*
 * stream.c - Lisp strings into channels.
 *
 * A cancel, or another thread's interrupt, jumps out of Lisp code at any point where interrupts are enabled; it must
 * not do so while the channels are locked. So they are disabled meanwhile, the way ECL does it for its own structures.
 */
#include "config.h"

#include "stream.h"

#include <string.h>

#include "output.h"
#include "text.h"
#include "utf8.h"

static bool enter(cl_env_ptr env)
{
	bool were_enabled = !env->disable_interrupts;

	if (were_enabled)
		ecl_disable_interrupts_env(env);
	output_lock();
	return were_enabled;
}

static void leave(cl_env_ptr env, bool were_enabled)
{
	output_unlock();
	if (were_enabled)
		ecl_enable_interrupts_env(env);
}

static void append(void *context, const char *bytes, size_t length)
{
	output_append(*(enum output_channel *)context, bytes, length);
}

static long column_behind(cl_object string, long start, long end, long column)
{
	if (ecl_t_of(string) == t_base_string) {
		const ecl_base_char *base = string->base_string.self;
		const ecl_base_char *newline = memrchr(base + start, '\n', (size_t)(end - start));
		return newline ? base + end - newline - 1 : column + (end - start);
	}
	for (long at = end - 1; at >= start; at--)
		if (string->string.self[at] == '\n')
			return end - 1 - at;
	return column + (end - start);
}

bool stream_put_string(int number, cl_object string, long start, long end)
{
	cl_env_ptr env = ecl_process_env();
	enum output_channel channel = (enum output_channel)number;

	bool were_enabled = enter(env);
	output_catch_up(channel);
	text_from_lisp(string, (size_t)start, (size_t)end, append, &channel);
	output_set_column(channel, column_behind(string, start, end, output_column(channel)));
	bool full = output_is_full(channel);
	leave(env, were_enabled);
	return full;
}

bool stream_put_character(int number, int code)
{
	cl_env_ptr env = ecl_process_env();
	enum output_channel channel = (enum output_channel)number;
	char encoded[4];
	size_t length = utf8_encode((uint32_t)code, encoded);

	bool were_enabled = enter(env);
	output_catch_up(channel);
	output_append(channel, encoded, length);
	output_set_column(channel, code == '\n' ? 0 : output_column(channel) + 1);
	bool full = output_is_full(channel);
	leave(env, were_enabled);
	return full;
}

void stream_end_item(int number)
{
	cl_env_ptr env = ecl_process_env();

	bool were_enabled = enter(env);
	output_end_item((enum output_channel)number);
	leave(env, were_enabled);
}

long stream_column(int number)
{
	return output_column((enum output_channel)number);
}

void stream_clear(int number)
{
	cl_env_ptr env = ecl_process_env();

	bool were_enabled = enter(env);
	output_clear((enum output_channel)number);
	leave(env, were_enabled);
}
