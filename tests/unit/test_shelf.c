/*
 * test_shelf.c - which of the sleeping copies takes over, and to which of them one can go back.
 */
#include "unit.h"
#include "process.h"
#include "shelf.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Some of the copies that a test makes: processes that sleep. */
#define COPIES_MAX (SHELF_PLACES + 2)

static struct shelf shelf;
static pid_t sleepers[COPIES_MAX];
static size_t count;

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	sleepers[count++] = pid;
	return pid;
}

static int end_sleepers(void **state)
{
	(void)state;
	for (size_t i = 0; i < count; i++) {
		kill(sleepers[i], SIGKILL);
		waitpid(sleepers[i], NULL, 0);
	}
	count = 0;
	shelf = (struct shelf){0};
	return 0;
}

/* A copy that was made after so many evaluations; "" for one without a name. */
static int add(const char *name, uint64_t depth)
{
	struct shelf_state known = {.seq = depth, .depth = depth};

	snprintf(known.name, sizeof(known.name), "%s", name);
	return shelf_add(&shelf, process_identify(start_sleeper()), &known);
}

static void end(int place)
{
	pid_t pid = shelf_pid(&shelf, place);

	kill(pid, SIGKILL);
	siginfo_t unused;
	assert_int_equal(waitid(P_PID, (id_t)pid, &unused, WEXITED | WNOWAIT), 0);
}

static void the_newest_that_lives_takes_over(void **state)
{
	(void)state;
	assert_int_equal(shelf_heir(&shelf), SHELF_NONE);
	int first = add("", 1), second = add("named", 2), third = add("", 3);

	assert_int_equal(shelf_heir(&shelf), third);
	end(third);
	assert_int_equal(shelf_heir(&shelf), second);
	end(second);
	assert_int_equal(shelf_heir(&shelf), first);
	end(first);
	assert_int_equal(shelf_heir(&shelf), SHELF_NONE);
}

static void the_chosen_one_takes_over_if_it_lives(void **state)
{
	(void)state;
	int old = add("old", 1), newest = add("", 2);

	shelf_choose(&shelf, old);
	assert_true(shelf_is_chosen(&shelf, old));
	assert_false(shelf_is_chosen(&shelf, newest));
	assert_int_equal(shelf_heir(&shelf), old);
	end(old);
	assert_int_equal(shelf_heir(&shelf), newest);
}

static void what_a_rollback_leaves_behind_takes_over_from_nobody(void **state)
{
	(void)state;
	int old = add("old", 1), later = add("later", 2), nameless = add("", 3);
	pid_t undone = shelf_pid(&shelf, nameless);

	shelf_choose(&shelf, old);
	shelf_renew(&shelf, old, process_identify(start_sleeper()));
	shelf_leave_branch(&shelf, old);
	shelf_forget_choice(&shelf);
	waitpid(undone, NULL, 0); /* it was killed */
	assert_int_equal(shelf_heir(&shelf), old);
	assert_int_equal(shelf_find_depth(&shelf, 2), SHELF_NONE);
	assert_int_equal(shelf_find_named(&shelf, "later"), later);
	end(old);
	assert_int_equal(shelf_heir(&shelf), later); /* better than nothing */
}

static void an_earlier_state_is_still_on_the_way_to_one_that_was_rolled_back_to(void **state)
{
	(void)state;
	int first = add("", 1), second = add("second", 2);

	add("third", 3);
	shelf_choose(&shelf, second);
	shelf_renew(&shelf, second, process_identify(start_sleeper()));
	shelf_leave_branch(&shelf, second);
	shelf_forget_choice(&shelf);
	assert_int_equal(shelf_find_depth(&shelf, 1), first);
	assert_int_equal(shelf_find_depth(&shelf, 3), SHELF_NONE);
	assert_int_equal(shelf_count_named(&shelf), 2);
	end(second);
	assert_int_equal(shelf_heir(&shelf), first); /* and not the later one, which lies aside */
}

static void going_forward_leaves_all_other_branches(void **state)
{
	(void)state;
	int first = add("first", 1), second = add("second", 2);

	shelf_choose(&shelf, first);
	shelf_leave_branch(&shelf, first);
	assert_true(shelf.copies[second].is_aside);
	shelf_choose(&shelf, second);
	shelf_renew(&shelf, second, process_identify(start_sleeper()));
	shelf_leave_branch(&shelf, second);
	assert_false(shelf.copies[second].is_aside);
	assert_true(shelf.copies[first].is_aside);
}

static void of_two_of_a_name_the_later_one_is_meant(void **state)
{
	(void)state;
	add("a", 1);
	int later = add("a", 2);

	assert_int_equal(shelf_find_named(&shelf, "a"), later);
	assert_int_equal(shelf_find_named(&shelf, "b"), SHELF_NONE);
}

static void a_full_shelf_takes_a_copy_in_place_of_a_dead_one_only(void **state)
{
	(void)state;
	for (int i = 0; i < SHELF_PLACES; i++)
		assert_int_not_equal(add("", 1), SHELF_NONE);
	assert_int_equal(add("", 2), SHELF_NONE);
	end(7);
	assert_int_equal(add("", 2), 7);
}

static void a_process_with_the_pid_of_a_dead_one_is_another(void **state)
{
	(void)state;
	uint64_t process = process_identify(start_sleeper());
	uint64_t other = process + (UINT64_C(1) << 24); /* began a moment later */

	assert_true(process_is_alive(process));
	assert_false(process_is_alive(other));
	process_kill(other);
	process_await_end(other, -1);
	assert_true(process_is_alive(process));
	process_kill(process);
	process_await_end(process, -1);
	assert_false(process_is_alive(process));
	assert_false(process_is_alive(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_newest_that_lives_takes_over, end_sleepers),
		cmocka_unit_test_teardown(the_chosen_one_takes_over_if_it_lives, end_sleepers),
		cmocka_unit_test_teardown(what_a_rollback_leaves_behind_takes_over_from_nobody, end_sleepers),
		cmocka_unit_test_teardown(
			an_earlier_state_is_still_on_the_way_to_one_that_was_rolled_back_to, end_sleepers),
		cmocka_unit_test_teardown(going_forward_leaves_all_other_branches, end_sleepers),
		cmocka_unit_test_teardown(of_two_of_a_name_the_later_one_is_meant, end_sleepers),
		cmocka_unit_test_teardown(a_full_shelf_takes_a_copy_in_place_of_a_dead_one_only, end_sleepers),
		cmocka_unit_test_teardown(a_process_with_the_pid_of_a_dead_one_is_another, end_sleepers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
