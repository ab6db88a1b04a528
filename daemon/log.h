/*
 * log.h - what the daemon tells its administrator, on stderr.
 *
 * Each line begins with a syslog priority in angle brackets when the journal reads it, else with a time. No code, value
 * or transcript text is ever logged.
 */
#ifndef LOG_H
#define LOG_H

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Messages less important than this one are dropped; LOG_LEVEL_INFO at start. */
void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
