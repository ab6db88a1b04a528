/*
 * utf8.h - is it UTF-8, and if not, make it so.
 */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at the start of text (1 to 4), 0 if there is none: overlong, surrogate, cut off, beyond
 * U+10FFFF. */
size_t utf8_sequence(const uint8_t *text, size_t length, uint32_t *code);

bool utf8_valid(const void *text, size_t length);

/* As much of a text that was cut at length as ends with a whole character. */
size_t utf8_whole_characters(const void *text, size_t length);

/* Writes code in up to four bytes; a lone surrogate or a number that is no character becomes U+FFFD. */
size_t utf8_encode(uint32_t code, char out[static 4]);

/* A copy in which every byte that is part of no sequence is U+FFFD. *out_length never exceeds three times length. */
char *utf8_repair(const void *text, size_t length, size_t *out_length) __attribute__((warn_unused_result));

#endif
