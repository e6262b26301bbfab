/* Reads JSON (RFC 8259), strictly. A text is checked without building a tree, and members of an object are returned as
 * parts of the text.
 *
 * Strings may hold bytes that are not UTF-8: byte 0x80 + n is written as \udc80 + n and is read back as that byte. Such
 * a code is half of a surrogate pair, which does not occur alone in valid text. Python's "surrogateescape" does the
 * same.
 */
#ifndef GD_BASE_TEXT_JSON_H
#define GD_BASE_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

enum { GD__JSON_DEPTH = 512 /* levels of nested arrays and objects; a text with more is refused */ };

enum gd__json_kind {
    GD__JSON_NONE, /* no such member */
    GD__JSON_NULL,
    GD__JSON_FALSE,
    GD__JSON_TRUE,
    GD__JSON_NUMBER,
    GD__JSON_STRING,
    GD__JSON_ARRAY,
    GD__JSON_OBJECT,
};

/* A value: a part of the scanned text, without the space around it. */
struct gd__json {
    const char *at;
    size_t size;
    enum gd__json_kind kind;
};

/* Checks a whole text. Returns 0, or GD_E_INVALID with an error message that ends in "at byte N" (from 1). */
int gd__json_scan(const char *text, size_t size, struct gd__json *top);

/* Checks a text that must be an object (otherwise GD_E_INVALID), and stores its members with these names in members[0
 * .. n). It is also an error if one of these names occurs twice. The object may have other members. */
int gd__json_scan_object(const char *text, size_t size, const char *const *names, struct gd__json *members, size_t n);

/* Writes the bytes of a scanned string to `to`, which has room for string->size bytes. Returns how many there are. Half
 * of a surrogate pair becomes U+FFFD, unless it stands for a byte. */
size_t gd__json_decode(const struct gd__json *string, char *to);

/* Reads a scanned number. Returns true if it is written as an integer from 0 to UINT64_MAX. */
bool gd__json_uint(const struct gd__json *number, uint64_t *out);

/* Goes through the members of a scanned object, in their order. *at is 0 before the first call. Returns false if there are
 * no more. */
bool gd__json_next_member(const struct gd__json *object, size_t *at, struct gd__json *name, struct gd__json *value);

/* The number of members of a scanned object. */
size_t gd__json_count(const struct gd__json *object);

/* Whether the text is one JSON value in UTF-8. There may be space around it. */
bool gd__json_valid(const char *text, size_t size);

/* Finds the value of the member with that name. Returns false if the text is not a valid object, has no such member, or
 * has it twice. */
bool gd__json_member(const char *text, size_t size, const char *name, struct gd__json *value);

/* If the text is one JSON string (with space around it), adds the bytes it stands for and returns true. Otherwise adds
 * nothing. */
bool gd__json_read_string(struct gd__buffer *b, const char *text, size_t size);

/* If the text is an array of one or more strings, adds them with a NUL between them and returns true. Otherwise adds
 * nothing. */
bool gd__json_read_list(struct gd__buffer *b, const char *text, size_t size);

#endif
