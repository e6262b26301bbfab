/* SPDX-License-Identifier: MIT
 *
 * Fields of comma-separated values, as in RFC 4180. Fields with a quote, comma or line end are quoted. If a spreadsheet
 * would read a text as a formula, a ' is put before the text.
 */
#ifndef GD_CLI_OUTPUT_FILES_CSV_H
#define GD_CLI_OUTPUT_FILES_CSV_H

#include <stddef.h>

#include "base/text/buffer.h"

/* Adds a text. Do not call this for a number: a negative number begins with a minus, but is not a formula. */
void cli_csv_text(struct gd__buffer *b, const char *text, size_t size);

/* Adds a comma and the text. NULL: an empty field. */
void cli_csv_field(struct gd__buffer *b, const char *text);

#endif
