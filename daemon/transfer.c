/*
 * transfer.c - checking documents, and their files. Used on the event loop and on the store's thread.
 */
#include "transfer.h"

#include "alloc.h"
#include "jsontext.h"
#include "sessionid.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((off_t)256 << 20)
#define NEWEST_VERSION 1
/* Deeper metadata would be read in a document, but not where they stand deeper, as in a list of sessions. */
#define METADATA_DEPTH 48

/* False, for the convenience of those who give up. */
static bool __attribute__((format(printf, 3, 4)))
refuse(struct transfer_problem *problem, const char *type, const char *format, ...)
{
	va_list arguments;

	problem->type = type;
	va_start(arguments, format);
	vsnprintf(problem->words, sizeof(problem->words), format, arguments);
	va_end(arguments);
	return false;
}

/* ---- documents */

/* NULL if it is missing or something else. */
static struct json_object *member(struct json_object *object, const char *name, enum json_type type)
{
	struct json_object *value = json_object_object_get(object, name);

	return json_object_is_type(value, type) ? value : NULL;
}

/* NULL also if it holds a NUL, which nothing of ours does. */
static const char *text_of(struct json_object *object, const char *name)
{
	struct json_object *value = member(object, name, json_type_string);

	if (!value || strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value))
		return NULL;
	return json_object_get_string(value);
}

static void put_text(struct json_object *object, const char *name, const char *text)
{
	json_object_object_add(object, name, text ? json_object_new_string(text) : NULL);
}

static void put_number(struct json_object *object, const char *name, int64_t number)
{
	json_object_object_add(object, name, json_object_new_int64(number));
}

/* If it is of that type; otherwise NULL. */
static void copy_if(struct json_object *to, struct json_object *from, const char *name, enum json_type type)
{
	json_object_object_add(to, name, json_object_get(member(from, name, type)));
}

static bool copy_time(struct json_object *to, struct json_object *from, const char *name)
{
	struct json_object *time = member(from, name, json_type_int);
	bool is_likely = time && store_time_is_likely(json_object_get_uint64(time));

	put_number(to, name, is_likely ? json_object_get_int64(time) : (int64_t)store_universal_time());
	return is_likely;
}

static void remark(struct json_object *checked, const char *words)
{
	json_object_array_add(json_object_object_get(checked, "remarks"), json_object_new_string(words));
}

static bool check_identity(struct json_object *document, struct json_object *checked,
	const struct transfer_wishes *wishes, struct transfer_problem *problem)
{
	const char *id = wishes->id ? wishes->id : text_of(document, "id");
	const char *name = wishes->name ? wishes->name : text_of(document, "name");

	if (!id || !session_id_valid(id))
		return refuse(problem, "INVALID-SESSION-ID",
			"The document's id is \"%.64s\"; one looks like session-20260120-143022-A4F2. With new-id it gets another.",
			id ? id : "");
	if (name && *name && !session_name_valid(name))
		return refuse(problem, "INVALID-ARGUMENTS",
			"The name in the document is none: " SESSION_NAME_RULE ". Give another with `name`.");
	put_text(checked, "id", id);
	put_text(checked, "name", name && *name ? name : NULL);
	return true;
}

static void check_times(struct json_object *document, struct json_object *checked)
{
	bool are_likely = copy_time(checked, document, "created_at");

	are_likely &= copy_time(checked, document, "updated_at");
	if (json_object_get_int64(json_object_object_get(checked, "updated_at")) <
		json_object_get_int64(json_object_object_get(checked, "created_at"))) {
		are_likely = false;
		json_object_object_add(
			checked, "updated_at", json_object_get(json_object_object_get(checked, "created_at")));
	}
	if (!are_likely)
		remark(checked,
			"INVALID-TIMESTAMP: created_at or updated_at was missing, before 2020, more than a day ahead, or in the "
			"wrong order; it has been replaced.");
}

/* Has it values within values, more than so many levels of them? */
static bool is_deeper(struct json_object *value, unsigned levels)
{
	bool found = false;

	if (json_object_is_type(value, json_type_object)) {
		json_object_object_foreach(value, name, member_value)
		{
			(void)name;
			found = found || levels == 0 || is_deeper(member_value, levels - 1);
		}
	} else if (json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value); i++)
			found = found || levels == 0 || is_deeper(json_object_array_get_idx(value, i), levels - 1);
	}
	return found;
}

static void check_surroundings(
	struct json_object *document, struct json_object *checked, const struct transfer_wishes *wishes)
{
	const char *directory = text_of(document, "directory"), *package = text_of(document, "package");
	const char *limits = text_of(document, "limits");
	struct json_object *metadata = member(document, "metadata", json_type_object);
	struct json_object *history = member(document, "history", json_type_boolean);
	struct stat status;

	if (!directory || *directory != '/' || stat(directory, &status) < 0 || !S_ISDIR(status.st_mode))
		directory = wishes->directory;
	put_text(checked, "directory", directory);
	put_text(checked, "model", text_of(document, "model"));
	put_text(checked, "package", package ? package : "CL-USER");
	put_text(checked, "limits", limits ? limits : "");
	json_object_object_add(checked, "metadata", metadata ? json_object_get(metadata) : json_object_new_object());
	json_object_object_add(
		checked, "history", json_object_new_boolean(!history || json_object_get_boolean(history)));
}

/* The last evaluations that were seen, of code and of results. */
struct seen {
	int64_t user, tool;
	bool has_odd_times;
};

/* Evaluations are numbered upwards; a number that is not so is left out. */
static void check_evaluation(struct json_object *message, struct json_object *checked, struct seen *seen)
{
	struct json_object *number = member(message, "evaluation", json_type_int);
	const char *role = json_object_get_string(json_object_object_get(checked, "role"));
	int64_t *last = strcmp(role, "user") == 0 ? &seen->user : strcmp(role, "tool") == 0 ? &seen->tool : NULL;

	if (!number || !last || json_object_get_int64(number) <= *last || json_object_get_int64(number) > INT32_MAX)
		return;
	*last = json_object_get_int64(number);
	put_number(checked, "evaluation", *last);
}

static bool check_message(struct json_object *message, struct json_object *checked, struct seen *seen)
{
	const char *role = text_of(message, "role");
	struct json_object *content = json_object_object_get(message, "content");
	struct json_object *is_error = member(message, "is_error", json_type_boolean);

	if (!role ||
		(strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0 &&
			strcmp(role, "tool") != 0))
		return false;
	if (content && !text_of(message, "content"))
		return false;
	put_text(checked, "role", role);
	json_object_object_add(checked, "content", json_object_get(content));
	if (!copy_time(checked, message, "created_at"))
		seen->has_odd_times = true;
	check_evaluation(message, checked, seen);
	put_text(checked, "operation", text_of(message, "operation"));
	put_text(checked, "package", text_of(message, "package"));
	copy_if(checked, message, "outcome", json_type_int);
	copy_if(checked, message, "elapsed_us", json_type_int);
	copy_if(checked, message, "restored", json_type_int);
	put_number(checked, "is_error", is_error && json_object_get_boolean(is_error));
	return true;
}

static bool check_messages(
	struct json_object *messages, struct json_object *checked, struct seen *seen, struct transfer_problem *problem)
{
	for (size_t i = 0; i < json_object_array_length(messages); i++) {
		struct json_object *message = json_object_array_get_idx(messages, i), *good = json_object_new_object();
		json_object_array_add(checked, good);
		if (!json_object_is_type(message, json_type_object) || !check_message(message, good, seen))
			return refuse(problem, "INVALID-ARGUMENTS",
				"Message %zu of the document is none: it must have a role (user, assistant, system or tool) and a "
				"text as content.",
				i + 1);
	}
	return true;
}

static bool check_conversation(
	struct json_object *document, struct json_object *checked, struct transfer_problem *problem)
{
	struct json_object *messages =
		member(member(document, "conversation", json_type_object), "messages", json_type_array);
	struct json_object *conversation = json_object_new_object(), *good = json_object_new_array();
	struct json_object *evaluations = member(document, "evaluations", json_type_int);
	struct seen seen = {0};

	json_object_object_add(conversation, "messages", good);
	json_object_object_add(checked, "conversation", conversation);
	if (!messages)
		remark(checked,
			"MISSING-CONVERSATION: the document has no conversation with messages; it begins with none.");
	else if (!check_messages(messages, good, &seen, problem))
		return false;
	if (seen.has_odd_times)
		remark(checked,
			"INVALID-TIMESTAMP: messages without a time, from before 2020 or from more than a day ahead have the "
			"current time now.");
	int64_t last = seen.user > seen.tool ? seen.user : seen.tool, told = json_object_get_int64(evaluations);
	put_number(checked, "evaluations", told > last && told <= INT32_MAX ? told : last);
	return true;
}

/* Documents of others name no format. */
static bool is_of_another_format(struct json_object *document)
{
	const char *format = text_of(document, "format");

	return json_object_object_get_ex(document, "format", NULL) &&
		(!format || strcmp(format, "cl-mcp-session") != 0);
}

struct json_object *transfer_check(
	struct json_object *document, const struct transfer_wishes *wishes, struct transfer_problem *problem)
{
	struct json_object *checked = json_object_new_object();
	bool good;

	json_object_object_add(checked, "remarks", json_object_new_array());
	if (!json_object_is_type(document, json_type_object) || is_of_another_format(document))
		good = refuse(
			problem, "INVALID-ARGUMENTS", "The document is no session that export-session has given.");
	else if (json_object_get_int64(json_object_object_get(document, "version")) > NEWEST_VERSION)
		good = refuse(problem, "INVALID-ARGUMENTS",
			"The document was written by a newer version of cl-mcp-server; upgrade this one first.");
	else if (is_deeper(json_object_object_get(document, "metadata"), METADATA_DEPTH))
		good = refuse(problem, "INVALID-ARGUMENTS", "The metadata in the document is nested too deeply.");
	else
		good = check_identity(document, checked, wishes, problem);
	if (good) {
		check_times(document, checked);
		check_surroundings(document, checked, wishes);
		good = check_conversation(document, checked, problem);
	}
	if (good)
		return checked;
	json_object_put(checked);
	return NULL;
}

/* ---- files */

char *transfer_path(const char *directory, const char *file)
{
	char *path = NULL;

	if (asprintf(&path, "%s%s%s", *file == '/' ? "" : directory, *file == '/' ? "" : "/", file) < 0)
		abort();
	return path;
}

struct json_object *transfer_read_file(const char *path, struct transfer_problem *problem)
{
	struct json_object *document = NULL;
	struct stat status;
	size_t length = 0;
	ssize_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, &status) < 0) {
		refuse(problem, "FILE-ERROR", "%.160s cannot be read: %s.", path, strerror(errno));
	} else if (!S_ISREG(status.st_mode) || status.st_size > FILE_MAX) {
		refuse(problem, "FILE-ERROR", "%.160s is no file of at most 256 MB.", path);
	} else {
		char *data = must(malloc((size_t)status.st_size + 1));
		while (length < (size_t)status.st_size &&
			(got = read(fd, data + length, (size_t)status.st_size - length)) > 0)
			length += (size_t)got;
		data[length] = '\0';
		const char *wrong = got < 0 ? strerror(errno) : jsontext_read(data, length, &document);
		free(data);
		if (wrong)
			refuse(problem, "FILE-ERROR", "%.160s holds no JSON document: %.80s", path, wrong);
	}
	if (fd >= 0)
		close(fd);
	return document;
}

static bool write_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t done = write(fd, data, length);
		if (done < 0)
			return false;
		data += done;
		length -= (size_t)done;
	}
	return fsync(fd) == 0;
}

/* A request that comes again, after its daemon was killed, has been served already. */
static bool is_written(const char *path, const char *data, size_t length)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool is_same = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && length <= (size_t)FILE_MAX &&
		(size_t)status.st_size == length;
	char *found = is_same ? must(malloc(length + 1)) : NULL;

	is_same = is_same && read(fd, found, length) == (ssize_t)length && memcmp(found, data, length) == 0;
	free(found);
	if (fd >= 0)
		close(fd);
	return is_same;
}

/* A file that has no name yet, so that nobody ever finds half of it. Not every file system has such. */
static int open_nameless(const char *path)
{
	char *directory = new_text(path);
	char *slash = strrchr(directory, '/');

	slash[slash == directory] = '\0';
	int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	free(directory);
	return fd;
}

static bool give_name(int fd, const char *path)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* 0 or an errno. */
static int make_file(const char *path, const char *data, size_t length)
{
	int fd = open_nameless(path);
	bool is_nameless = fd >= 0, good;

	if (!is_nameless)
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	good = write_all(fd, data, length) && (!is_nameless || give_name(fd, path));
	int error = good ? 0 : errno;
	if (!good && !is_nameless)
		unlink(path);
	close(fd);
	return error;
}

bool transfer_write_file(const char *path, const char *data, size_t length, struct transfer_problem *problem)
{
	int error = make_file(path, data, length);

	if (error == 0 || (error == EEXIST && is_written(path, data, length)))
		return true;
	return refuse(problem, "FILE-ERROR", "%.160s cannot be written: %s%s.", path, strerror(error),
		error == EEXIST ? "; choose another name, or remove it first" : "");
}
