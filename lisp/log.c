/*
 * log.c - lines on stderr, which the daemon has pointed at its log.
 */
#include "config.h"

#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
	char line[1024] = "cl-mcp-worker: ";
	size_t start = strlen(line);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line + start, sizeof(line) - start - 1, format, arguments);
	va_end(arguments);
	strcat(line, "\n");
	/* Nobody is left to tell if even the log cannot be written. */
	if (write(STDERR_FILENO, line, strlen(line)) < 0)
		return;
}
