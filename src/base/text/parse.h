/* What people write on a command line: durations, sizes, numbers, misspelt words. */
#ifndef GD_CLI_TEXT_H
#define GD_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "30", "30s", "5m", "1.5h", "2d", "1m30s", "1.5": in milliseconds, rounded up, so that what is not 0 stays so.
 * -1 with gd__fail_text() for anything else, and for more than fits an unsigned int. */
int gd__parse_duration(const char *text, unsigned *ms);

/* "512", "8k", "512M", "8G", "1.5T", also "8GiB" and "8GB": powers of 1024, of 1000 where a B follows without an i. */
int gd__parse_size(const char *text, uint64_t *bytes);

/* A whole number and nothing else, min to max. name is for the error: "--retries". */
int gd__parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* "20%": 20 into *percent. Whole numbers, 1 to 100. */
int gd__parse_percent(const char *text, unsigned *percent);

/* The one of n words that is nearest to word, if one is near enough to have been meant; else NULL. */
const char *gd__nearest_word(const char *word, const char *const *words, size_t n);

/* How many letters must be put in, taken out, changed or swapped with their neighbour. */
size_t gd__edit_distance(const char *a, const char *b);

#endif
