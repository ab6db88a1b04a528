/*
 * stream.h - how Lisp's streams write into the channels of output.h. Called from the compiled runtime (host.lisp).
 */
#ifndef STREAM_H
#define STREAM_H

#include <ecl/ecl.h>
#include <stdbool.h>

/* True if something was dropped because the channel is full. */
bool stream_put_string(int channel, cl_object string, long start, long end);
bool stream_put_character(int channel, int code);
void stream_end_item(int channel);
long stream_column(int channel);
void stream_clear(int channel);

#endif
