/* Finds the rows of a journal by key. Each row can be taken once. Used if the tasks come in another order than before.
 *
 * It is a hash table in an unnamed file in a given directory. Only some megabytes of it are in memory, for any number
 * of rows. It is built once: add all rows, seal it, then take rows.
 */
#ifndef GD_JOURNAL_LOOKUP_INDEX_H
#define GD_JOURNAL_LOOKUP_INDEX_H

#include <stdatomic.h>

#include "journal/lookup/rows.h"

struct gd__index;

/* rows: the largest number of rows. used: one bit per id, set if that row is taken. It is borrowed, and read by
 * gd__index_take(). */
int gd__index_open(struct gd__index **out, const char *directory, uint64_t rows, const unsigned char *used);
int gd__index_add(struct gd__index *x, const struct gd__row *row);
/* Returns GD_E_SHUTDOWN if *interrupted becomes true during the call. interrupted may be NULL. */
int gd__index_seal(struct gd__index *x, const atomic_bool *interrupted);
void gd__index_close(struct gd__index **x);

/* Returns 1 if *out is a row with that key, preferably of that version, 0 if there is no such row, or a negative code.
 * The caller sets the row's bit in `used`. */
int gd__index_take(struct gd__index *x, const unsigned char key[GD__HASH_SIZE], uint64_t version, struct gd__row *out);

#endif
