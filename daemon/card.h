/*
 * card.h - what clients see of a session: what is stored of it, and how it is just now.
 */
#ifndef CARD_H
#define CARD_H

#include "text.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/* Adds state, process, memory, clients, and what waits. The card is a row of the view `cards`. */
void card_complete(struct server *server, struct json_object *card);

/* A line of a list. */
void card_put_line(struct text *text, struct json_object *card);
/* All that there is, a line each. */
void card_put_all(struct text *text, struct json_object *card);

/* Where a list that shows the session used last first goes on behind a card. */
#define CARD_CURSOR_SIZE 64
void card_write_cursor(struct json_object *card, char cursor[static CARD_CURSOR_SIZE]);
/* False if it is none; id lies within it. */
bool card_read_cursor(const char *cursor, int64_t *updated_at, const char **id);

/* "2026-01-20 14:30:22", local time. */
void card_put_time(struct text *text, int64_t universal_time);

/* A card's field as text; "" if it has none. */
const char *card_text(struct json_object *card, const char *name);
int64_t card_number(struct json_object *card, const char *name);

#endif
