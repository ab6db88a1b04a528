/*
 * job.c - making jobs, and letting go of them.
 */
#include "job.h"

#include "alloc.h"

#include <stdarg.h>
#include <stdio.h>

struct job *job_new(enum database_statement statement, bool patient)
{
	struct job *job = new_zeroed(sizeof(*job));

	job->statement = statement;
	job->patient = patient;
	return job;
}

void job_free(struct job *job)
{
	for (size_t i = 0; i < job->in_count; i++)
		value_free(&job->in[i]);
	for (size_t i = 0; i < JOB_OUT_MAX; i++)
		value_free(&job->out[i]);
	if (job->sequel)
		job_free(job->sequel);
	if (job->owns_context)
		free(job->context);
	free(job);
}

void job_put_bytes(struct job *job, enum value_kind kind, const void *data, size_t length)
{
	struct value *value = &job->in[job->in_count++];

	if (data)
		*value = (struct value){.kind = kind, .data = new_copy(data, length), .length = length};
}

void job_put_text(struct job *job, const char *text)
{
	job_put_bytes(job, VALUE_TEXT, text, text ? strlen(text) : 0);
}

void job_put_number(struct job *job, uint64_t number)
{
	job->in[job->in_count++] = (struct value){.kind = VALUE_NUMBER, .number = (int64_t)number};
}

void job_put_nothing(struct job *job)
{
	job->in_count++;
}

void job_replace(struct value *value, const char *text, size_t length)
{
	value_free(value);
	*value = (struct value){.kind = VALUE_TEXT, .data = new_copy(text, length), .length = length};
}

void job_refuse(struct job *job, const char *format, ...)
{
	char words[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	job->result = DATABASE_REFUSED;
	job_replace(&job->out[0], words, strlen(words));
}

void job_put_nonce(struct job *job, const uint8_t *nonce)
{
	job_put_bytes(job, VALUE_BLOB, nonce, LINK_NONCE_SIZE);
}
