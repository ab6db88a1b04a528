/*
 * log.c - one write(2) a line, so that lines of several processes in one file do not mix.
 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static enum log_level threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	threshold = level;
}

static int put_prefix(char *out, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm local;

	if (getenv("JOURNAL_STREAM"))
		return snprintf(out, size, "<%d>", level);
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	size_t used = strftime(out, size, "%F %T", &local);
	return (int)used + snprintf(out + used, size - used, ".%03ld cl-mcpd[%d]: ", now.tv_nsec / 1000000, getpid());
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list arguments;

	if (level > threshold)
		return;
	int used = put_prefix(line, sizeof(line), level);
	va_start(arguments, format);
	int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, arguments);
	va_end(arguments);
	used += more < (int)sizeof(line) - used - 1 ? more : (int)sizeof(line) - used - 2;
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)used) < 0)
		return; /* there is nobody left to tell */
}
