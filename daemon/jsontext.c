/*
 * jsontext.c - a strict reader and a plain writer for json-c's objects.
 *
 * json-c's own reader lets pass what JSON forbids: 'single quotes', NaN, control characters in strings, 01 and 1. for
 * numbers, a comma before a closing bracket. (Its strict mode forbids some of that, and in version 0.18 every letter
 * beyond ASCII, too.) See docs/decisions/json-text.md.
 */
#include "jsontext.h"

#include "alloc.h"
#include "utf8.h"

#include <limits.h>

/* Deeper than any sane message, shallower than any stack. */
#define NESTING_MAX 64

/* ---- reading */

struct reader {
	const char *at;
	const char *end;
	unsigned depth;
	struct text names; /* of the members that are being read, one in the other, each with a NUL behind */
	struct text plain; /* a string without its escapes, or a number that needs a NUL behind */
	const char *problem;
};

static bool read_value(struct reader *reader, struct json_object **value);

static bool fail(struct reader *reader)
{
	if (!reader->problem)
		reader->problem = reader->at == reader->end ? "The message ends before its JSON value does"
							    : "The message is not valid JSON";
	return false;
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->end &&
		(*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r' || *reader->at == '\n'))
		reader->at++;
}

static bool take(struct reader *reader, char wanted)
{
	if (reader->at == reader->end || *reader->at != wanted)
		return false;
	reader->at++;
	return true;
}

static void set_plain(struct reader *reader, const char *text, size_t length)
{
	reader->plain.length = 0;
	text_add(&reader->plain, text, length);
}

/* Four hexadecimal digits. */
static bool read_unit(struct reader *reader, uint32_t *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++, reader->at++) {
		char c = reader->at < reader->end ? *reader->at : '\0';
		if (c >= '0' && c <= '9')
			*unit = *unit << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			*unit = *unit << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return fail(reader);
	}
	return true;
}

/* Behind \u. A surrogate that has lost its other half becomes a replacement character. */
static bool read_code(struct reader *reader)
{
	uint32_t code, low;
	char bytes[4];

	if (!read_unit(reader, &code))
		return false;
	if (code >= 0xD800 && code < 0xDC00 && reader->end - reader->at >= 2 && reader->at[0] == '\\' &&
		reader->at[1] == 'u') {
		const char *next = reader->at;
		reader->at += 2;
		if (!read_unit(reader, &low))
			return false;
		if (low >= 0xDC00 && low < 0xE000)
			code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
		else
			reader->at = next;
	}
	text_add(&reader->plain, bytes, utf8_encode(code, bytes));
	return true;
}

/* Behind a backslash. */
static bool read_escape(struct reader *reader)
{
	static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	const char *name;

	if (take(reader, 'u'))
		return read_code(reader);
	if (reader->at == reader->end || !*reader->at || !(name = strchr(names, *reader->at)))
		return fail(reader);
	text_add(&reader->plain, &meanings[name - names], 1);
	reader->at++;
	return true;
}

/* Up to where something else than plain characters stands. */
static const char *skip_plain(struct reader *reader)
{
	const char *start = reader->at;

	while (reader->at < reader->end && *reader->at != '"' && *reader->at != '\\' &&
		(unsigned char)*reader->at >= 0x20)
		reader->at++;
	return start;
}

/* Where the string can be read, up to the next one: in the text itself if it has no escapes. */
static bool read_string(struct reader *reader, const char **string, size_t *length)
{
	if (!take(reader, '"'))
		return fail(reader);
	*string = skip_plain(reader);
	*length = (size_t)(reader->at - *string);
	if (take(reader, '"'))
		return true;
	set_plain(reader, *string, *length);
	while (take(reader, '\\')) {
		if (!read_escape(reader))
			return false;
		const char *more = skip_plain(reader);
		text_add(&reader->plain, more, (size_t)(reader->at - more));
	}
	*string = reader->plain.data;
	*length = reader->plain.length;
	return take(reader, '"') || fail(reader);
}

static bool skip_digits(struct reader *reader)
{
	const char *start = reader->at;

	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
		reader->at++;
	return reader->at > start || fail(reader);
}

/* As json-c does it: what does not fit becomes the integer that is next to it. */
static struct json_object *integer(const char *digits, const char *end, bool negative)
{
	const uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;
	uint64_t number = 0;

	for (; digits < end; digits++) {
		uint64_t digit = (uint64_t)(*digits - '0');
		if (number > (limit - digit) / 10) {
			number = limit;
			break;
		}
		number = number * 10 + digit;
	}
	if (negative)
		return json_object_new_int64((int64_t)(0 - number));
	return number <= INT64_MAX ? json_object_new_int64((int64_t)number) : json_object_new_uint64(number);
}

static bool read_number(struct reader *reader, struct json_object **value)
{
	const char *start = reader->at;
	bool negative = take(reader, '-'), whole = true;
	const char *digits = reader->at;

	if (!take(reader, '0') && !skip_digits(reader))
		return false;
	if (take(reader, '.')) {
		whole = false;
		if (!skip_digits(reader))
			return false;
	}
	if (take(reader, 'e') || take(reader, 'E')) {
		whole = false;
		if (!take(reader, '+'))
			take(reader, '-');
		if (!skip_digits(reader))
			return false;
	}
	if (whole) {
		*value = must(integer(digits, reader->at, negative));
	} else {
		set_plain(reader, start, (size_t)(reader->at - start));
		*value = must(json_object_new_double_s(strtod(reader->plain.data, NULL), reader->plain.data));
	}
	return true;
}

static bool read_word(struct reader *reader, const char *word)
{
	for (; *word; word++)
		if (!take(reader, *word))
			return fail(reader);
	return true;
}

static bool read_boolean(struct reader *reader, struct json_object **value)
{
	bool is_true = *reader->at == 't';

	if (!read_word(reader, is_true ? "true" : "false"))
		return false;
	*value = must(json_object_new_boolean(is_true));
	return true;
}

static bool read_string_value(struct reader *reader, struct json_object **value)
{
	const char *string = NULL;
	size_t length = 0;

	if (!read_string(reader, &string, &length))
		return false;
	*value = must(json_object_new_string_len(string, (int)length));
	return true;
}

static bool read_member(struct reader *reader, struct json_object *object)
{
	struct json_object *member = NULL;
	const char *name = NULL;
	size_t length = 0, place = reader->names.length;

	skip_blanks(reader);
	if (!read_string(reader, &name, &length))
		return false;
	text_add(&reader->names, name, length);
	text_add(&reader->names, "", 1);
	skip_blanks(reader);
	if (!take(reader, ':'))
		return fail(reader);
	if (!read_value(reader, &member))
		return false;
	if (json_object_object_add(object, reader->names.data + place, member) < 0)
		abort();
	reader->names.length = place;
	return true;
}

static bool read_members(struct reader *reader, struct json_object *object)
{
	skip_blanks(reader);
	if (take(reader, '}'))
		return true;
	do {
		if (!read_member(reader, object))
			return false;
	} while (take(reader, ','));
	return take(reader, '}') || fail(reader);
}

static bool read_elements(struct reader *reader, struct json_object *array)
{
	struct json_object *element = NULL;

	skip_blanks(reader);
	if (take(reader, ']'))
		return true;
	do {
		if (!read_value(reader, &element))
			return false;
		if (json_object_array_add(array, element) < 0)
			abort();
	} while (take(reader, ','));
	return take(reader, ']') || fail(reader);
}

static bool read_collection(struct reader *reader, struct json_object **value)
{
	bool is_object = *reader->at++ == '{';
	struct json_object *collection = must(is_object ? json_object_new_object() : json_object_new_array());

	if (++reader->depth == NESTING_MAX) {
		reader->problem = "The message is nested too deeply";
	} else if (is_object ? read_members(reader, collection) : read_elements(reader, collection)) {
		reader->depth--;
		*value = collection;
		return true;
	}
	json_object_put(collection);
	return false;
}

/* A value, and the blanks around it. */
static bool read_value(struct reader *reader, struct json_object **value)
{
	bool good;

	skip_blanks(reader);
	switch (reader->at < reader->end ? *reader->at : '\0') {
	case '{':
	case '[':
		good = read_collection(reader, value);
		break;
	case '"':
		good = read_string_value(reader, value);
		break;
	case 't':
	case 'f':
		good = read_boolean(reader, value);
		break;
	case 'n':
		good = read_word(reader, "null");
		*value = NULL;
		break;
	default:
		good = read_number(reader, value);
	}
	skip_blanks(reader);
	return good;
}

const char *jsontext_read(const char *text, size_t length, struct json_object **value)
{
	struct reader reader = {.at = text, .end = text + length};

	*value = NULL;
	if (!utf8_valid(text, length))
		return "The message is not valid UTF-8";
	if (read_value(&reader, value) && reader.at < reader.end) {
		json_object_put(*value);
		*value = NULL;
		reader.problem = "Something follows the JSON value";
	}
	text_free(&reader.names);
	text_free(&reader.plain);
	return reader.problem;
}

/* ---- writing */

static void put_escape(struct text *text, unsigned char c)
{
	static const char digits[] = "0123456789abcdef", meanings[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
	const char *meaning = c ? strchr(meanings, c) : NULL;
	const char escape[] = {
		'\\', meaning ? names[meaning - meanings] : 'u', '0', '0', digits[c >> 4], digits[c & 15]};

	text_add(text, escape, meaning ? 2 : sizeof(escape));
}

void jsontext_put_string(struct text *text, const char *string, size_t length)
{
	const char *end = string + length;

	text_add(text, "\"", 1);
	while (string < end) {
		const char *plain = string;
		while (string < end && *string != '"' && *string != '\\' && (unsigned char)*string >= 0x20)
			string++;
		text_add(text, plain, (size_t)(string - plain));
		if (string < end)
			put_escape(text, (unsigned char)*string++);
	}
	text_add(text, "\"", 1);
}

size_t jsontext_fit(const char *string, size_t length, size_t room)
{
	size_t end = 0, size;

	while (end < length && (size = jsontext_byte_size((unsigned char)string[end])) <= room) {
		room -= size;
		end++;
	}
	return utf8_whole_characters(string, end);
}

void jsontext_put_number(struct text *text, uint64_t number)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	text_add(text, at, (size_t)(digits + sizeof(digits) - at));
}

static void put_integer(struct text *text, struct json_object *value)
{
	int64_t number = json_object_get_int64(value);

	if (number < 0)
		text_add(text, "-", 1);
	jsontext_put_number(text, number < 0 ? 0 - (uint64_t)number : json_object_get_uint64(value));
}

/* A comma, unless a bracket was opened last: no value ends with one. */
static void separate(struct text *text)
{
	char last = text->data[text->length - 1];

	if (last != '{' && last != '[')
		text_add(text, ",", 1);
}

void jsontext_put_name(struct text *text, const char *name)
{
	separate(text);
	jsontext_put_string(text, name, strlen(name));
	text_add(text, ":", 1);
}

void jsontext_put_element(struct text *text, const char *string, size_t length)
{
	separate(text);
	jsontext_put_string(text, string, length);
}

void jsontext_put_members(struct text *text, struct json_object *object)
{
	json_object_object_foreach(object, name, member)
	{
		jsontext_put_name(text, name);
		jsontext_put(text, member);
	}
}

static void put_array(struct text *text, struct json_object *array)
{
	text_add(text, "[", 1);
	for (size_t i = 0; i < json_object_array_length(array); i++) {
		separate(text);
		jsontext_put(text, json_object_array_get_idx(array, i));
	}
	text_add(text, "]", 1);
}

void jsontext_put(struct text *text, struct json_object *value)
{
	switch (json_object_get_type(value)) {
	case json_type_object:
		text_add(text, "{", 1);
		jsontext_put_members(text, value);
		text_add(text, "}", 1);
		break;
	case json_type_array:
		put_array(text, value);
		break;
	case json_type_string:
		jsontext_put_string(text, json_object_get_string(value), (size_t)json_object_get_string_len(value));
		break;
	case json_type_int:
		put_integer(text, value);
		break;
	case json_type_boolean:
		text_puts(text, json_object_get_boolean(value) ? "true" : "false");
		break;
	default: /* a double may bring its own digits along */
		text_puts(text, must((void *)json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN)));
	}
}
