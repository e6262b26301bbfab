/* Writes JSON strings, also of bytes that are not UTF-8 (base/text/json.h says how). */
#ifndef GD_BASE_TEXT_JSON_WRITE_H
#define GD_BASE_TEXT_JSON_WRITE_H

#include <stddef.h>

#include "base/text/buffer.h"

/* Writes bytes as a string, quotes included. Takes what gd__json_escaped_size() says, at most 6 * n + 2. */
size_t gd__json_escape(char *to, const void *bytes, size_t n);
size_t gd__json_escaped_size(const void *bytes, size_t n);

/* The same, into a buffer. */
void gd__json_put_string(struct gd__buffer *b, const void *bytes, size_t n);

/* Adds ,"name":"text"; null if the text is empty. */
void gd__json_put_text(struct gd__buffer *b, const char *name, const char *text);

/* Adds a payload: a string, or an array of strings if there are NULs between its parts. */
void gd__json_put_arguments(struct gd__buffer *b, const char *text, size_t size);

#endif
