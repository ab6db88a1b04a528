/*
 * test_peer.c - turns: who has sent much waits for those who have sent little, and loses nothing.
 */
#include "unit.h"
#include "clock.h"
#include "peer.h"

#include <sys/socket.h>
#include <unistd.h>

#define FRAMES 500
/* So long takes what is done for each frame; ten of them are more than a turn. */
#define WORK_US 50

struct sender {
	struct peer *peer;
	int theirs;
	uint64_t received;
	bool pauses; /* after each frame, and goes on at the next one that comes to somebody else */
	bool is_gone;
};

struct scene {
	struct event_base *base;
	struct sender many, one;
	uint64_t order; /* of all frames */
	uint64_t ones_place;
};

static struct scene scene;

static void on_frame(void *context, struct frame *frame)
{
	struct sender *sender = context;
	uint64_t began = clock_microseconds();
	struct field field;
	uint64_t number = 0;

	assert_int_equal(frame_next(frame, &field), FRAME_READY);
	assert_true(field_number(&field, &number));
	assert_int_equal(number, ++sender->received);
	scene.order++;
	if (sender == &scene.one)
		scene.ones_place = scene.order;
	if (sender->pauses)
		peer_pause(sender->peer);
	while (clock_microseconds() - began < WORK_US)
		;
}

static void on_gone(void *context, const char *reason)
{
	struct sender *sender = context;

	(void)reason;
	sender->is_gone = true;
}

static const struct peer_handler handler = {.frame = on_frame, .gone = on_gone};

static void open_sender(struct sender *sender)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	sender->theirs = ends[1];
	sender->peer = peer_new(scene.base, ends[0], &handler, sender);
}

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.base = event_base_new()};
	open_sender(&scene.many);
	open_sender(&scene.one);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	peer_close(scene.many.peer);
	peer_close(scene.one.peer);
	close(scene.many.theirs);
	close(scene.one.theirs);
	event_base_free(scene.base);
	return 0;
}

/* In one write, numbered from 1. */
static void send_frames(const struct sender *sender, uint64_t count)
{
	struct frame_builder all = {0};

	for (uint64_t number = 1; number <= count; number++) {
		struct frame_builder frame = {0};
		frame_begin(&frame, 'x');
		frame_put_number(&frame, 'n', number);
		frame_end(&frame);
		all.data = realloc(all.data, all.length + frame.length);
		assert_non_null(all.data);
		memcpy(all.data + all.length, frame.data, frame.length);
		all.length += frame.length;
		frame_builder_free(&frame);
	}
	assert_int_equal(send(sender->theirs, all.data, all.length, MSG_NOSIGNAL), all.length);
	free(all.data);
}

static void run_until_received(const struct sender *sender, uint64_t count)
{
	while (sender->received < count && !sender->is_gone)
		event_base_loop(scene.base, EVLOOP_ONCE);
	assert_true(sender->received >= count);
}

static void test_one_frame_waits_for_a_turn_of_another_peer_and_not_for_all_that_it_has_sent(void **state)
{
	(void)state;
	send_frames(&scene.many, FRAMES);
	run_until_received(&scene.many, 1);
	send_frames(&scene.one, 1);
	run_until_received(&scene.one, 1);
	assert_in_range(scene.ones_place, 2, FRAMES / 10);
	run_until_received(&scene.many, FRAMES);
	assert_int_equal(scene.order, FRAMES + 1);
}

static void test_what_waits_for_its_turn_is_read_before_what_comes_later_and_before_the_end(void **state)
{
	(void)state;
	send_frames(&scene.many, FRAMES);
	close(scene.many.theirs);
	scene.many.theirs = -1;
	while (!scene.many.is_gone)
		event_base_loop(scene.base, EVLOOP_ONCE);
	assert_int_equal(scene.many.received, FRAMES);
}

static void test_a_peer_that_is_paused_gets_no_turn_until_it_is_resumed(void **state)
{
	(void)state;
	send_frames(&scene.many, FRAMES);
	run_until_received(&scene.many, 1);
	peer_pause(scene.many.peer);
	uint64_t before = scene.many.received;
	send_frames(&scene.one, 1);
	run_until_received(&scene.one, 1);
	event_base_loop(scene.base, EVLOOP_NONBLOCK);
	assert_int_equal(scene.many.received, before);
	scene.many.pauses = true;
	while (scene.many.received < FRAMES) {
		before = scene.many.received;
		peer_resume(scene.many.peer);
		run_until_received(&scene.many, before + 1);
		assert_int_equal(scene.many.received, before + 1);
	}
}

static void test_a_peer_to_which_nothing_can_be_sent_is_said_to_be_gone(void **state)
{
	struct frame_builder frame = {0};

	(void)state;
	frame_begin(&frame, 'x');
	frame_end(&frame);
	shutdown(scene.many.theirs, SHUT_RD); /* it could still speak */
	peer_send(scene.many.peer, &frame);
	while (!scene.many.is_gone)
		event_base_loop(scene.base, EVLOOP_ONCE);
	assert_int_equal(scene.many.received, 0);
	frame_builder_free(&frame);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_one_frame_waits_for_a_turn_of_another_peer_and_not_for_all_that_it_has_sent),
		TEST(test_what_waits_for_its_turn_is_read_before_what_comes_later_and_before_the_end),
		TEST(test_a_peer_that_is_paused_gets_no_turn_until_it_is_resumed),
		TEST(test_a_peer_to_which_nothing_can_be_sent_is_said_to_be_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
