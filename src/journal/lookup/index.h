/* Finds by key the rows of a journal that were not taken yet. Used when the tasks come in another order than before.
 *
 * It is a hash table in an unnamed file in a given directory. Only some megabytes of it are kept in memory, however
 * many rows there are. It is built once: add all rows, seal it, then take rows.
 */
#ifndef GD_JOURNAL_LOOKUP_INDEX_H
#define GD_JOURNAL_LOOKUP_INDEX_H

#include <stdatomic.h>

#include "journal/lookup/rows.h"

struct gd__index;

/* rows: the largest number of rows. used: a bit per id, 1: that row is taken. It is borrowed, and read whenever a row
 * is taken. */
int gd__index_open(struct gd__index **out, const char *directory, uint64_t rows, const unsigned char *used);
int gd__index_add(struct gd__index *x, const struct gd__row *row);
/* Returns GD_E_SHUTDOWN if *interrupted becomes true meanwhile. interrupted may be NULL. */
int gd__index_seal(struct gd__index *x, const atomic_bool *interrupted);
void gd__index_close(struct gd__index **x);

/* 1: *out is a row with that key, preferably of that version, and the caller sets its bit; 0: no such row; or
 * negative. */
int gd__index_take(struct gd__index *x, const unsigned char key[GD__HASH_SIZE], uint64_t version, struct gd__row *out);

#endif
