/*
 * form.c - finding the end of the first form.
 *
 * Every step moves over one thing: blanks and comments, a bracket, a string, a token, or a prefix that belongs to the
 * thing behind it. The form is over when no bracket is open and nothing is owed.
 */
#include "form.h"

#include <stdbool.h>
#include <string.h>

struct scanner {
	const char *text;
	size_t length;
	size_t at;
	size_t depth; /* open brackets */
	size_t owed;  /* forms still to come outside of brackets: one, and one more for each #+ or #- */
};

static bool more(const struct scanner *scanner)
{
	return scanner->at < scanner->length;
}

static char peek(const struct scanner *scanner, size_t ahead)
{
	return scanner->at + ahead < scanner->length ? scanner->text[scanner->at + ahead] : '\0';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* What ends a symbol or a number. */
static bool ends_token(char c)
{
	return is_blank(c) || (c && strchr("()\"';`,", c));
}

/* Behind the opening delimiter; false if the closing one is missing. A backslash takes the next character with it. */
static bool skip_delimited(struct scanner *scanner, char closing)
{
	while (more(scanner)) {
		char c = scanner->text[scanner->at++];
		if (c == closing)
			return true;
		if (c == '\\')
			scanner->at++;
	}
	return false;
}

/* At "#|"; such comments nest. */
static bool skip_block_comment(struct scanner *scanner)
{
	size_t nesting = 0;

	while (more(scanner)) {
		if (peek(scanner, 0) == '#' && peek(scanner, 1) == '|') {
			nesting++;
			scanner->at += 2;
		} else if (peek(scanner, 0) == '|' && peek(scanner, 1) == '#') {
			scanner->at += 2;
			if (--nesting == 0)
				return true;
		} else {
			scanner->at++;
		}
	}
	return false;
}

/* False if a comment is open at the end. */
static bool skip_blanks(struct scanner *scanner)
{
	while (more(scanner)) {
		if (is_blank(peek(scanner, 0))) {
			scanner->at++;
		} else if (peek(scanner, 0) == ';') {
			while (more(scanner) && peek(scanner, 0) != '\n')
				scanner->at++;
		} else if (peek(scanner, 0) == '#' && peek(scanner, 1) == '|') {
			if (!skip_block_comment(scanner))
				return false;
		} else {
			return true;
		}
	}
	return true;
}

/* A symbol or number, with its escapes. */
static bool skip_token(struct scanner *scanner)
{
	while (more(scanner) && !ends_token(peek(scanner, 0))) {
		char c = scanner->text[scanner->at++];
		if (c == '|' && !skip_delimited(scanner, '|'))
			return false;
		if (c == '\\' && scanner->at++ >= scanner->length)
			return false;
	}
	return true;
}

enum step {
	STEP_FORM,   /* one form is behind us */
	STEP_INSIDE, /* the form goes on: a bracket was opened, or a prefix */
	STEP_OPEN,   /* the text ended in the middle */
};

/* At a "#" that begins no comment. */
static enum step skip_dispatch(struct scanner *scanner)
{
	scanner->at++;
	while (peek(scanner, 0) >= '0' && peek(scanner, 0) <= '9')
		scanner->at++;
	if (!more(scanner))
		return STEP_OPEN;
	switch (peek(scanner, 0)) {
	case '(':
		return STEP_INSIDE; /* a vector: the bracket comes next */
	case '\'':
	case '.':
	case ',':
	case '=':
		scanner->at++;
		return STEP_INSIDE;
	case '+':
	case '-':
		scanner->at++;
		scanner->owed += scanner->depth == 0;
		return STEP_INSIDE;
	case '#':
		scanner->at++;
		return STEP_FORM;
	case '\\':
		/* The character itself may be anything, a bracket too; then perhaps the rest of its name. */
		scanner->at += 2;
		return scanner->at > scanner->length || !skip_token(scanner) ? STEP_OPEN : STEP_FORM;
	default:
		if (!skip_token(scanner))
			return STEP_OPEN;
		/* #P"...", #S(...), #2A(...): what follows at once is part of it. */
		return peek(scanner, 0) == '(' || peek(scanner, 0) == '"' ? STEP_INSIDE : STEP_FORM;
	}
}

/* At the first character of something. */
static enum step skip_one(struct scanner *scanner)
{
	switch (peek(scanner, 0)) {
	case '(':
		scanner->at++;
		scanner->depth++;
		return STEP_INSIDE;
	case ')':
		scanner->at++;
		if (scanner->depth > 0)
			scanner->depth--;
		else
			scanner->at = scanner->length; /* one too many: Lisp shall say so, about all that stands here */
		return STEP_FORM;
	case '"':
		scanner->at++;
		return skip_delimited(scanner, '"') ? STEP_FORM : STEP_OPEN;
	case '\'':
	case '`':
	case ',':
		scanner->at++;
		if (peek(scanner, 0) == '@')
			scanner->at++;
		return STEP_INSIDE;
	case '#':
		return skip_dispatch(scanner);
	default:
		return skip_token(scanner) ? STEP_FORM : STEP_OPEN;
	}
}

enum form_status form_scan(const char *text, size_t length, size_t *end)
{
	struct scanner scanner = {.text = text, .length = length, .owed = 1};
	bool begun = false;

	for (;;) {
		if (!skip_blanks(&scanner))
			return FORM_INCOMPLETE;
		if (!more(&scanner))
			return begun ? FORM_INCOMPLETE : FORM_NONE;
		begun = true;
		switch (skip_one(&scanner)) {
		case STEP_OPEN:
			return FORM_INCOMPLETE;
		case STEP_INSIDE:
			break;
		case STEP_FORM:
			if (scanner.depth > 0 || --scanner.owed > 0)
				break;
			*end = scanner.at < length ? scanner.at : length;
			return FORM_COMPLETE;
		}
	}
}
