/* SPDX-License-Identifier: MIT
 *
 * JSON strings, out and in, and members of objects; no more of JSON is needed here.
 */
#ifndef GD_CLI_JSON_H
#define GD_CLI_JSON_H

#include "cli/bytes.h"

/* The length of the UTF-8 character at p, 0 if there is none: overlong forms, surrogates and what lies beyond U+10FFFF
 * are none. left is at least 1. */
size_t cli_utf8_length(const unsigned char *p, size_t left);

/* A JSON string with its quotes. Bytes that are not UTF-8 become \udc80 to \udcff. */
void cli_json_string(struct cli_bytes *b, const void *data, size_t size);

/* ,"name":"text", or null where the text is empty. */
void cli_json_put_text(struct cli_bytes *b, const char *name, const char *text);

/* If the text is one JSON string (with space around it), adds what it stands for and returns true; \udc80 to \udcff
 * alone become bytes again. Otherwise adds nothing. */
bool cli_json_decode(struct cli_bytes *b, const char *text, size_t size);

/* A payload: a string, or an array of strings where there are NULs between its parts. */
void cli_json_arguments(struct cli_bytes *b, const char *text, size_t size);

/* The other way: adds the strings of an array with a NUL between them and returns true; false, and nothing is added, if
 * the text is anything but an array of one or more strings. */
bool cli_json_list(struct cli_bytes *b, const char *text, size_t size);

/* The text of a member's value, without space around it; of the first, if there are several of that name. False if the
 * text is no object or has no such member. What comes behind the member is not looked at. */
bool cli_json_member(const char *text, size_t size, const char *name, const char **value, size_t *value_size);

/* The first byte that is not part of a UTF-8 character; size: there is none. */
size_t cli_utf8_valid(const char *text, size_t size);

/* True if the text is one JSON value, with space around it, in UTF-8. Nested at most 512 deep. An escape for half a
 * surrogate pair is valid: \udc80 to \udcff stand for bytes, the others for U+FFFD. */
bool cli_json_valid(const char *text, size_t size);

#endif
