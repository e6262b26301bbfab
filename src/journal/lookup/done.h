/* The tasks that are done in other journals (gd_journal_options.skip_done).
 *
 * A hash table in memory, built when the journal is opened. It takes 27 to 53 bytes for each record that is done. Each
 * record counts once, so two equal tasks need two records. Used by one thread only.
 */
#ifndef GD_JOURNAL_LOOKUP_DONE_H
#define GD_JOURNAL_LOOKUP_DONE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash/siphash.h"

struct gd__done;

int gd__done_open(struct gd__done **out);
void gd__done_close(struct gd__done **d);

/* Adds all done tasks of the journal at that path. It may be in use. Returns 0 or a negative code. */
int gd__done_add(struct gd__done *d, const char *path);

/* Takes one record of that task. Returns false if there is none, or none of that version. */
bool gd__done_take(struct gd__done *d, const unsigned char key[GD__HASH_SIZE], uint64_t version);

#endif
