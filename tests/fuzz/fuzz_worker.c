/*
 * fuzz_worker.c - any bytes from a worker, as the daemon decodes them: user code may have taken that process over.
 *
 * What is accepted becomes a report that must be valid UTF-8 and stay under the limit of an answer.
 */
#include "frame.h"
#include "jsontext.h"
#include "origin.h"
#include "report.h"
#include "result.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void report_on(const struct result *result)
{
	struct report report;
	struct json_object *data;

	report_make(&report, result,
		&(struct report_form){
			.session = "session-20260120-143022-A4F2",
			.is_operation = result->seq % 2,
			.with_data = result->seq % 3,
			.output_max = result->seq % 1000,
			.value_max = 100000,
		});
	require(report.text.data && utf8_valid(report.text.data, report.text.length));
	if (report.data.length > 0) {
		require(!jsontext_read(report.data.data, report.data.length, &data));
		require(json_object_is_type(data, json_type_object));
		json_object_put(data);
	}
	require(report.data.length < FRAME_ANSWER_MAX / 2);
	require(report.text.length > 0 || result->seq % 2);
	require(report.is_error == (result->outcome != OUTCOME_DONE));
	report_free(&report);
}

static void decode_origin(const struct result *result)
{
	struct origin origin;

	if (origin_decode(result->origin, result->origin_length, &origin))
		origin_free(&origin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);
	struct frame frame;
	struct result result;
	size_t at = 0, frame_size;

	memcpy(bytes, data, size);
	while (frame_open(bytes + at, size - at, &frame, &frame_size) == FRAME_READY) {
		require(frame_size <= size - at);
		if (result_decode(&frame, &result)) {
			require(result.seq > 0);
			decode_origin(&result);
			report_on(&result);
			result_free(&result);
		}
		at += frame_size;
	}
	free(bytes);
	return 0;
}
