/* Every row of a journal that was not taken yet, to be found by key: for lists that are in another order than before.
 *
 * A hash table in a file without a name, in a given folder, of which some megabytes are kept in memory: however many
 * rows there are. Built once: add all, seal, then take.
 */
#ifndef GD_JOURNAL_INDEX_H
#define GD_JOURNAL_INDEX_H

#include <stdatomic.h>

#include "journal/rows.h"

struct gd__index;

/* For at most so many rows. used: a bit per id, 1: that row is taken; borrowed, and looked at whenever one is taken. */
int gd__index_open(struct gd__index **out, const char *folder, uint64_t rows, const unsigned char *used);
int gd__index_add(struct gd__index *x, const struct gd__row *row);
/* interrupted (or NULL) is looked at meanwhile: GD_E_SHUTDOWN. */
int gd__index_seal(struct gd__index *x, const atomic_bool *interrupted);
void gd__index_close(struct gd__index **x);

/* 1: a row with that key, of that version if one is near, whose bit the caller sets; 0: there is none; or negative. */
int gd__index_take(struct gd__index *x, const unsigned char key[GD__HASH_SIZE], uint64_t version, struct gd__row *out);

#endif
