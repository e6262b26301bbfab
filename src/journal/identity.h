/* The shard that a journal belongs to: recorded in the file, and compared when a run opens it. */
#ifndef GD_JOURNAL_IDENTITY_H
#define GD_JOURNAL_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include <gpu_dispatch/shard.h>

enum { GD__SHARD_TEXT = 24 }; /* room for "1000000/1000000" */

/* Writes "3/16", as the column run.shard has it. Returns out, or NULL if the list is not divided. */
const char *gd__identity_text(struct gd_shard shard, char out[GD__SHARD_TEXT]);

/* The reverse. text NULL: the whole list. Returns false, and leaves *out, if the text is not a shard. */
bool gd__identity_parse(const char *text, struct gd_shard *out);

/* Compares the shard in the journal at this path with that of the run. Returns 0 or GD_E_MISMATCH. */
int gd__identity_check(const char *path, struct gd_shard recorded, struct gd_shard shard);

/* Looks for other journals of the same list: those with another number of shards, and the one of the whole list if it has
 * records. A run of the whole list (count 0) looks for those of shards, if its own journal is new. base: the path before
 * the shard's name was added. They are allowed if they are among the n files of skip_done. Returns 0, GD_E_MISMATCH or
 * another code. Creates nothing. */
int gd__identity_siblings(const char *base, struct gd_shard shard, const char *const *skip_done, size_t n);

#endif
