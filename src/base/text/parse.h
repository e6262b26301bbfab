/* Parses values of a command line (durations, sizes, numbers), and finds the word that a misspelt word stands for. */
#ifndef GD_BASE_TEXT_PARSE_H
#define GD_BASE_TEXT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "30", "30s", "5m", "1.5h", "2d", "1m30s", "1.5" to milliseconds. Rounds up, so that a duration above 0 does not
 * become 0. Returns -1 with gd__fail_text() for any other text, or if the value does not fit into an unsigned int. */
int gd__parse_duration(const char *text, unsigned *ms);

/* "512", "8k", "512M", "8G", "1.5T", also "8GiB" and "8GB". Units are powers of 1024, or of 1000 if a B follows without
 * an i. */
int gd__parse_size(const char *text, uint64_t *bytes);

/* Parses a whole number from min to max, without other text. name is for the error message: "--retries". */
int gd__parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Parses "20%" and stores 20 in *percent. Accepts whole numbers from 1 to 100. */
int gd__parse_percent(const char *text, unsigned *percent);

/* Returns the most similar of n words, or NULL if none is similar enough. */
const char *gd__nearest_word(const char *word, const char *const *words, size_t n);

/* Returns how many letters must be inserted, removed, changed or swapped with their neighbour to turn a into b. */
size_t gd__edit_distance(const char *a, const char *b);

#endif
