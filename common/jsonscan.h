/*
 * jsonscan.h - the raw text of one member of a JSON object, without parsing the rest.
 *
 * An id must go back exactly as it came, whatever a JSON library would make of 2^70 or 1e3; and the shim, which links
 * no library, needs it when it has to answer by itself.
 */
#ifndef JSONSCAN_H
#define JSONSCAN_H

#include <stdbool.h>
#include <stddef.h>

struct json_span {
	const char *text;
	size_t length;
};

/*
 * Finds the member called name in the object that text holds; of several the last one, as JSON libraries do. False if
 * text holds no object, the member is missing or the object is broken before its end. A name written with escapes is
 * not recognised.
 */
bool json_scan_member(const char *text, size_t length, const char *name, struct json_span *value);

/* Steps through the elements of an array: start with *position 0; false at the end or where the array is broken. */
bool json_scan_element(const char *text, size_t length, size_t *position, struct json_span *element);

#endif
