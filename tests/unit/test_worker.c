/*
 * test_worker.c - asking a worker for clones: each is answered once, whatever comes.
 *
 * The worker is played by the test, at the other end of a socket.
 */
#include "unit.h"
#include "unixsocket.h"
#include "worker.h"
#include "worklink.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define SESSION "session-20260120-143022-A4F2"
#define ONE "session-20260120-150110-0C3E"
#define OTHER "session-20260120-150111-0C3F"

struct answer {
	int count;
	uint64_t pid;
	char why_not[200];
};

struct scene {
	struct event_base *base;
	struct worker *worker;
	int theirs;
	bool is_gone;
};

static void on_hello(void *context, const struct worker_hello *hello)
{
	(void)context;
	(void)hello;
}

static void on_gone(void *context, const char *reason)
{
	struct scene *scene = context;

	(void)reason;
	scene->is_gone = true;
	worker_close(scene->worker);
	scene->worker = NULL;
}

static const struct worker_handler handler = {.hello = on_hello, .gone = on_gone};

static void on_cloned(void *context, uint64_t pid, const char *why_not)
{
	struct answer *answer = context;

	answer->count++;
	answer->pid = pid;
	snprintf(answer->why_not, sizeof(answer->why_not), "%s", why_not ? why_not : "");
}

static void say(const struct scene *scene, struct frame_builder *frame)
{
	frame_end(frame);
	assert_int_equal(send(scene->theirs, frame->data, frame->length, MSG_NOSIGNAL), frame->length);
	frame_builder_free(frame);
	event_base_loop(scene->base, EVLOOP_ONCE);
}

static void say_hello(const struct scene *scene)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_HELLO);
	frame_put_number(&frame, WORK_VERSION, WORKLINK_VERSION);
	frame_put_text(&frame, WORK_SESSION, SESSION);
	say(scene, &frame);
}

/* Only what is given. */
static void say_cloned(const struct scene *scene, const char *session, uint64_t pid, const char *why_not)
{
	struct frame_builder frame = {0};

	frame_begin(&frame, WORKER_CLONED);
	if (session)
		frame_put_text(&frame, WORK_SESSION, session);
	if (pid)
		frame_put_number(&frame, WORK_PID, pid);
	if (why_not)
		frame_put_text(&frame, WORK_TEXT, why_not);
	say(scene, &frame);
}

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	char directory[] = "/tmp/clmcp-unit-XXXXXX", path[sizeof(directory) + 8];

	assert_non_null(scene);
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/socket", directory);
	int listener = unixsocket_listen(path);
	assert_true(listener >= 0);
	scene->base = event_base_new();
	scene->worker = worker_dial(scene->base, path, SESSION, &handler, scene);
	assert_non_null(scene->worker);
	scene->theirs = accept(listener, NULL, NULL);
	assert_true(scene->theirs >= 0);
	close(listener);
	unlink(path);
	rmdir(directory);
	say_hello(scene);
	assert_false(scene->is_gone);
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *scene = *state;

	if (scene->worker)
		worker_close(scene->worker);
	close(scene->theirs);
	event_base_free(scene->base);
	free(scene);
	return 0;
}

static void a_clone_is_asked_for_by_its_session(void **state)
{
	struct scene *scene = *state;
	struct answer answer = {0};
	struct frame frame;
	struct field field;
	uint8_t bytes[200];
	size_t size;

	worker_clone(scene->worker, ONE, on_cloned, &answer);
	ssize_t length = recv(scene->theirs, bytes, sizeof(bytes), 0);
	assert_true(length > 0);
	assert_int_equal(frame_open(bytes, (size_t)length, &frame, &size), FRAME_READY);
	assert_int_equal(frame.type, WORKER_CLONE);
	assert_int_equal(frame_next(&frame, &field), FRAME_READY);
	assert_int_equal(field.tag, WORK_SESSION);
	assert_int_equal(field.length, WORKLINK_SESSION_ID_LENGTH);
	assert_memory_equal(field.data, ONE, field.length);
	assert_int_equal(answer.count, 0);
	worker_close(scene->worker);
	scene->worker = NULL;
	assert_int_equal(answer.count, 1);
}

static void answers_go_to_whom_they_are_for(void **state)
{
	struct scene *scene = *state;
	struct answer one = {0}, other = {0};

	worker_clone(scene->worker, ONE, on_cloned, &one);
	worker_clone(scene->worker, OTHER, on_cloned, &other);
	say_cloned(scene, ONE, 0, "threads are running in it");
	assert_int_equal(one.count, 1);
	assert_int_equal(one.pid, 0);
	assert_string_equal(one.why_not, "threads are running in it");
	assert_int_equal(other.count, 0);
	say_cloned(scene, OTHER, 42, NULL);
	assert_int_equal(one.count, 1);
	assert_int_equal(other.count, 1);
	assert_int_equal(other.pid, 42);
	assert_string_equal(other.why_not, "");
}

static void a_lost_connection_answers_all(void **state)
{
	struct scene *scene = *state;
	struct answer one = {0}, other = {0};

	worker_clone(scene->worker, ONE, on_cloned, &one);
	worker_clone(scene->worker, OTHER, on_cloned, &other);
	shutdown(scene->theirs, SHUT_RDWR);
	event_base_loop(scene->base, EVLOOP_ONCE);
	assert_true(scene->is_gone);
	assert_int_equal(one.count, 1);
	assert_int_equal(other.count, 1);
	assert_int_equal(other.pid, 0);
	assert_true(*other.why_not);
}

/* One for each, because the connection is closed. */
static void assert_senseless(struct scene *scene, const char *session, uint64_t pid, const char *why_not)
{
	struct answer answer = {0};

	worker_clone(scene->worker, ONE, on_cloned, &answer);
	say_cloned(scene, session, pid, why_not);
	assert_true(scene->is_gone);
	assert_int_equal(answer.count, 1);
	assert_int_equal(answer.pid, 0);
}

static void an_answer_for_another_session_ends_the_connection(void **state)
{
	assert_senseless(*state, OTHER, 42, NULL);
}

static void an_answer_for_no_session_ends_the_connection(void **state)
{
	assert_senseless(*state, NULL, 42, NULL);
}

static void an_answer_that_says_nothing_ends_the_connection(void **state)
{
	assert_senseless(*state, ONE, 0, NULL);
}

static void an_answer_that_says_both_ends_the_connection(void **state)
{
	assert_senseless(*state, ONE, 42, "why");
}

static void an_answer_that_nobody_waits_for_ends_the_connection(void **state)
{
	struct scene *scene = *state;

	say_cloned(scene, ONE, 42, NULL);
	assert_true(scene->is_gone);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_clone_is_asked_for_by_its_session),
		TEST(answers_go_to_whom_they_are_for),
		TEST(a_lost_connection_answers_all),
		TEST(an_answer_for_another_session_ends_the_connection),
		TEST(an_answer_for_no_session_ends_the_connection),
		TEST(an_answer_that_says_nothing_ends_the_connection),
		TEST(an_answer_that_says_both_ends_the_connection),
		TEST(an_answer_that_nobody_waits_for_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
