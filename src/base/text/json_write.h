/* Writes JSON numbers and strings, even from bytes that are not UTF-8 (see base/text/json.h). */
#ifndef GD_BASE_TEXT_JSON_WRITE_H
#define GD_BASE_TEXT_JSON_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

/* Writes a number in decimal, without a NUL. Returns how many bytes, at most GD__JSON_UINT_ROOM. */
enum { GD__JSON_UINT_ROOM = 20 };
size_t gd__json_put_uint(char *to, uint64_t n);

/* Writes bytes as a string, with its quotes. It needs gd__json_escaped_size() bytes of room, at most 6 * n + 2. */
size_t gd__json_escape(char *to, const void *bytes, size_t n);
size_t gd__json_escaped_size(const void *bytes, size_t n);

/* Adds the same string to a buffer. */
void gd__json_put_string(struct gd__buffer *b, const void *bytes, size_t n);

/* Adds ,"name":"text"; null if the text is empty. */
void gd__json_put_text(struct gd__buffer *b, const char *name, const char *text);

/* Adds a payload: a string, or an array of strings if there are NULs between its parts. */
void gd__json_put_arguments(struct gd__buffer *b, const char *text, size_t size);

#endif
