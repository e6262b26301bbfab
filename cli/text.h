/* SPDX-License-Identifier: MIT
 *
 * Words and figures: what people write on a command line, what is written for them.
 */
#ifndef GD_CLI_TEXT_H
#define GD_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/bytes.h"
#include "cli/json.h"

/* --- what people write ---------------------------------------------------- */

/* "30", "30s", "5m", "1.5h", "2d", "1m30s", "1.5": in milliseconds, rounded up, so that what is not 0 stays so.
 * -1 with cli_error_text() for anything else, and for more than fits an unsigned int. */
int cli_parse_duration(const char *text, unsigned *ms);

/* "512", "8k", "512M", "8G", "1.5T", also "8GiB" and "8GB": powers of 1024, of 1000 where a B follows without an i. */
int cli_parse_size(const char *text, uint64_t *bytes);

/* A whole number and nothing else, min to max. name is for the error: "--retries". */
int cli_parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* "20%": 20 into *percent. Whole numbers, 1 to 100. */
int cli_parse_percent(const char *text, unsigned *percent);

/* The one of n words that is nearest to word, if one is near enough to have been meant; else NULL. */
const char *cli_nearest(const char *word, const char *const *words, size_t n);

/* How many letters must be put in, taken out, changed or swapped with their neighbour. */
size_t cli_edit_distance(const char *a, const char *b);

/* --- what is written for people -------------------------------------------- */

/* Makes a text from elsewhere fit for a terminal, in place. Each byte that belongs to no UTF-8 character becomes '?',
 * and so does each byte of a character that controls something: U+0000 to U+001F, U+007F to U+009F, line and paragraph
 * separators, and what is invisible or changes the direction of a text. With `lines` line ends and tabs stay. */
void cli_show_plain(char *text, size_t size, bool lines);

/* "0.5s", "12s", "3m05s", "2h07m", "4d03h" in out. Returns out. */
char *cli_show_duration(char *out, size_t size, double seconds);

/* "512 B", "1.5 KiB", "40 MiB". Returns out. */
char *cli_show_size(char *out, size_t size, uint64_t bytes);

#endif
