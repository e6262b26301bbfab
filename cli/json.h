/* SPDX-License-Identifier: MIT
 *
 * JSON strings, out and in; no more of JSON is needed here.
 */
#ifndef GD_CLI_JSON_H
#define GD_CLI_JSON_H

#include "bytes.h"

/* A JSON string with its quotes. Bytes that are not UTF-8 become \udc80 to \udcff. */
void cli_json_string(struct cli_bytes *b, const void *data, size_t size);

/* If the text is one JSON string (with space around it), adds what it stands for and returns true; \udc80 to \udcff
 * alone become bytes again. Otherwise adds nothing. */
bool cli_json_decode(struct cli_bytes *b, const char *text, size_t size);

/* True if the text is one JSON value, with space around it. Nested at most 512 deep. */
bool cli_json_valid(const char *text, size_t size);

#endif
