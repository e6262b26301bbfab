/* Writes figures in readable form: durations, rates, sizes. Each function writes to the caller's buffer. */
#ifndef GD_BASE_TEXT_FIGURES_H
#define GD_BASE_TEXT_FIGURES_H

#include <stddef.h>
#include <stdint.h>

enum { GD__TEXT_FIGURE = 32 }; /* enough room for each figure below */

/* How long one thing took: "850us", "1.2ms", "4.5s", "3m05s", "2h03m", "4d07h" */
void gd__text_seconds(char out[GD__TEXT_FIGURE], double seconds);

/* How long a run takes, with a fraction only below 10 seconds: "0.5s", "12s", "3m05s", "2h07m". Returns out. */
char *gd__text_duration(char *out, size_t size, double seconds);

/* "5.4 files/s", "32 files/min", "1.5 files/h" */
void gd__text_rate(char *out, size_t room, double per_second, const char *what);

/* "512 B", "1.5 KiB", "40 MiB". Returns out. */
char *gd__text_size(char *out, size_t size, uint64_t bytes);

/* The GPUs of a worker, at least one: "0", or "0+1" for a group. A list that does not fit becomes "0+..+15". Returns
 * out. */
char *gd__text_gpus(char *out, size_t size, const int64_t *gpus, size_t n);

/* what is a plural noun such as "files". Returns its length for this count: for a count of one, without the last s. */
int gd__text_noun(uint64_t count, const char *what);

#endif
