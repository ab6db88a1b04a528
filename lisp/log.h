/*
 * log.h - lines for the log, written with one write(2) so that a fork can neither double nor lose them.
 */
#ifndef LOG_H
#define LOG_H

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
