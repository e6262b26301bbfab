/* The items of a source that are not run: those that are final already, as the journal knows, and those of other
 * shards. Both are found by the keys of the items.
 *
 *   the feeder thread   gd__completed_key, _is_foreign, _count, _ask, _wait, _has_room
 *   the monitor         gd__completed_interrupt, _leave (takes the journal from a source that stays blocked)
 */
#ifndef GD_DISPATCH_SOURCE_COMPLETED_H
#define GD_DISPATCH_SOURCE_COMPLETED_H

#include <pthread.h>
#include <stdbool.h>

#include "journal/journal.h"

struct gd__completed {
    bool keeps;                 /* the run began with a journal or a queue; otherwise _ask, _wait and _has_room are not
                                   called */
    pthread_mutex_t lock;       /* protects journal, which the monitor sets to NULL */
    struct gd_journal *journal; /* NULL: the run has no journal, or the monitor has set this to NULL */
    struct gd_shard shard;      /* whose items are run; count 0: all items */
    uint64_t given;             /* items so far, including those that are not run */
    bool has_key;               /* the source has set a key for the current item */
    bool is_ours;               /* the current item is known to be one of this shard */
    struct gd__journal_key key;
    char *version;
};

/* journal may be NULL. */
void gd__completed_open(struct gd__completed *k, struct gd_journal *journal, struct gd_shard shard);
void gd__completed_close(struct gd__completed *k);

/* Sets the key of the current item, which is used instead of its payload. Returns 0 or GD_E_NO_MEMORY. */
int gd__completed_key(struct gd__completed *k, const void *key, size_t size, const char *version);
void gd__completed_next(struct gd__completed *k); /* begins the next item, without a key */

/* Whether anything depends on the keys of items. */
static inline bool gd__completed_needs_keys(const struct gd__completed *k)
{
    return k->keeps || k->shard.count > 0;
}

/* Whether the current item belongs to another shard. */
bool gd__completed_is_foreign(struct gd__completed *k, const void *data, size_t size);
void gd__completed_ours(struct gd__completed *k);  /* the source knows that the current item belongs to this shard */
void gd__completed_count(struct gd__completed *k); /* the current item has got its number; begins the next one */

/* Returns 1 if the current item must be run, and sets *out to its context for the journal. Returns 0 if the item is
 * final already. In both cases the item is counted. On failure returns a negative code. Then the item keeps its key, and the caller may ask again. */
int gd__completed_ask(struct gd__completed *k, const void *data, size_t size, struct gd__journal_task **out);
/* Whether gd__completed_ask() would read the journal, which may take long. */
bool gd__completed_ask_reads(struct gd__completed *k, const void *data, size_t size);

void gd__completed_wait(struct gd__completed *k); /* waits while too many records are not on disk yet */
bool gd__completed_has_room(struct gd__completed *k);

void gd__completed_interrupt(struct gd__completed *k); /* nothing waits after this call */
void gd__completed_leave(struct gd__completed *k);     /* the journal is not used after this call */

#endif
