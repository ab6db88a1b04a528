/*
 * test_paths.c - the places are computed from little, fit where they must fit, and are private.
 */
#include "unit.h"
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[] = "/tmp/cl-mcp-test-paths.XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(directory);
}

static void in_directory(const char *name, char out[static PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/%s", directory, name);
}

static void the_size_is_that_of_a_socket_address(void **state)
{
	(void)state;
	assert_int_equal(PATHS_SOCKET_SIZE, sizeof(((struct sockaddr_un *)NULL)->sun_path));
}

static void the_environment_names_the_socket(void **state)
{
	char path[PATHS_SOCKET_SIZE];

	(void)state;
	assert_int_equal(setenv("CL_MCPD_SOCKET", "/somewhere/socket", 1), 0);
	assert_int_equal(paths_socket(path), 0);
	assert_string_equal(path, "/somewhere/socket");
}

static void without_it_the_socket_is_the_users_own_and_needs_no_environment(void **state)
{
	char path[PATHS_SOCKET_SIZE], again[PATHS_SOCKET_SIZE], session[64], temporary[64];

	(void)state;
	snprintf(session, sizeof(session), "/run/user/%u/cl-mcpd/socket", (unsigned)geteuid());
	snprintf(temporary, sizeof(temporary), "/tmp/cl-mcpd-%u/socket", (unsigned)geteuid());
	assert_int_equal(unsetenv("CL_MCPD_SOCKET"), 0);
	assert_int_equal(paths_socket(path), 0);
	assert_true(strcmp(path, session) == 0 || strcmp(path, temporary) == 0);
	assert_int_equal(setenv("CL_MCPD_SOCKET", "", 1), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/elsewhere", 1), 0);
	assert_int_equal(paths_socket(again), 0);
	assert_string_equal(again, path);
}

static void a_path_that_does_not_fit_is_an_error_and_never_cut(void **state)
{
	char path[PATHS_SOCKET_SIZE], given[PATHS_SOCKET_SIZE + 1];

	(void)state;
	memset(given, 'a', sizeof(given));
	given[0] = '/';
	given[PATHS_SOCKET_SIZE] = '\0';
	assert_int_equal(setenv("CL_MCPD_SOCKET", given, 1), 0);
	assert_int_equal(paths_socket(path), -ENAMETOOLONG);
	given[PATHS_SOCKET_SIZE - 1] = '\0';
	assert_int_equal(setenv("CL_MCPD_SOCKET", given, 1), 0);
	assert_int_equal(paths_socket(path), 0);
	assert_string_equal(path, given);
	assert_int_equal(paths_beside(given, "x", path), -ENAMETOOLONG);
}

static void the_runtime_directory_is_the_sockets(void **state)
{
	static const struct {
		const char *socket, *directory;
	} cases[] = {
		{"/run/user/7/cl-mcpd/socket", "/run/user/7/cl-mcpd"},
		{"/socket", "/"},
		{"socket", "."},
		{"a/socket", "a"},
	};
	char out[PATH_MAX], small[4];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(paths_runtime_directory(cases[i].socket, out, sizeof(out)), 0);
		assert_string_equal(out, cases[i].directory);
	}
	assert_int_equal(paths_runtime_directory("/run/socket", small, sizeof(small)), -ENAMETOOLONG);
	assert_int_equal(paths_runtime_directory("/ru/socket", small, sizeof(small)), 0);
}

static void the_state_directory_follows_the_environment_and_then_passwd(void **state)
{
	char out[PATH_MAX];

	(void)state;
	assert_int_equal(setenv("HOME", "/home/somebody", 1), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
	assert_int_equal(paths_state_directory(out, sizeof(out)), 0);
	assert_string_equal(out, "/state/cl-mcpd");
	assert_int_equal(setenv("XDG_STATE_HOME", "not/absolute", 1), 0);
	assert_int_equal(paths_state_directory(out, sizeof(out)), 0);
	assert_string_equal(out, "/home/somebody/.local/state/cl-mcpd");
	assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
	assert_int_equal(unsetenv("HOME"), 0);
	assert_int_equal(paths_state_directory(out, sizeof(out)), 0);
	assert_int_equal(out[0], '/');
	assert_non_null(strstr(out, "/.local/state/cl-mcpd"));
}

static void a_private_directory_is_made_with_its_parents(void **state)
{
	char path[PATH_MAX], parent[PATH_MAX];
	struct stat status;

	(void)state;
	in_directory("a/b/c", path);
	assert_int_equal(paths_make_private(path), 0);
	assert_int_equal(paths_make_private(path), 0); /* again: it is there and good */
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	rmdir(path);
	in_directory("a/b", parent);
	rmdir(parent);
	in_directory("a", parent);
	assert_int_equal(rmdir(parent), 0);
}

static void a_directory_that_others_can_enter_is_refused(void **state)
{
	char path[PATH_MAX];

	(void)state;
	in_directory("open", path);
	assert_int_equal(mkdir(path, 0700), 0);
	for (unsigned bit = 1; bit <= 040; bit <<= 1) {
		assert_int_equal(chmod(path, 0700 | bit), 0);
		assert_int_equal(paths_make_private(path), -EPERM);
	}
	assert_int_equal(rmdir(path), 0);
}

static void a_link_and_a_file_are_refused(void **state)
{
	char path[PATH_MAX], file[PATH_MAX];

	(void)state;
	in_directory("link", path);
	assert_int_equal(symlink(directory, path), 0);
	assert_int_equal(paths_make_private(path), -EPERM);
	assert_int_equal(unlink(path), 0);
	in_directory("file", file);
	FILE *stream = fopen(file, "w");
	assert_non_null(stream);
	fclose(stream);
	assert_int_equal(paths_make_private(file), -EPERM);
	in_directory("file/below", path);
	assert_int_equal(paths_make_private(path), -ENOTDIR);
	assert_int_equal(unlink(file), 0);
}

static void a_directory_of_somebody_else_is_refused(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can make a directory that belongs to somebody else\n");
		skip();
	}
	in_directory("foreign", path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(paths_make_private(path), -EPERM);
	assert_int_equal(rmdir(path), 0);
}

static void siblings_are_found_beside_the_running_program(void **state)
{
	char out[PATH_MAX], small[8];

	(void)state;
	assert_int_equal(paths_sibling("test_paths", out, sizeof(out)), 0);
	assert_int_equal(out[0], '/');
	assert_int_equal(access(out, X_OK), 0);
	assert_int_equal(paths_sibling("no-such-program-anywhere", out, sizeof(out)), -ENOENT);
	assert_int_equal(paths_sibling("test_paths", small, sizeof(small)), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_is_that_of_a_socket_address),
		cmocka_unit_test(the_environment_names_the_socket),
		cmocka_unit_test(without_it_the_socket_is_the_users_own_and_needs_no_environment),
		cmocka_unit_test(a_path_that_does_not_fit_is_an_error_and_never_cut),
		cmocka_unit_test(the_runtime_directory_is_the_sockets),
		cmocka_unit_test(the_state_directory_follows_the_environment_and_then_passwd),
		cmocka_unit_test(a_private_directory_is_made_with_its_parents),
		cmocka_unit_test(a_directory_that_others_can_enter_is_refused),
		cmocka_unit_test(a_link_and_a_file_are_refused),
		cmocka_unit_test(a_directory_of_somebody_else_is_refused),
		cmocka_unit_test(siblings_are_found_beside_the_running_program),
	};

	return cmocka_run_group_tests_name("paths", tests, make_directory, remove_directory);
}
