/* Which messages a spool file holds, and where. */
#ifndef GD_QUEUE_SPOOL_INDEX_H
#define GD_QUEUE_SPOOL_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "queue/names/subject.h"

struct gd__spool_entry {
    struct gd__queue_key key;
    uint64_t at, size; /* of its frame; size 0: it was removed */
};

struct gd__spool_index {
    struct gd__spool_entry *entries; /* in the order in which they were added */
    size_t n, room;
    uint32_t *table; /* 1 + the index of an entry; 0: empty */
    size_t table_size;
    uint64_t count; /* entries that were not removed */
};

/* The key must not be in the index. Returns 0 or GD_E_NO_MEMORY. */
int gd__spool_index_add(struct gd__spool_index *x, const struct gd__queue_key *key, uint64_t at, uint64_t size);
/* Returns the size of the frame, or 0 if the key is not in the index. */
uint64_t gd__spool_index_remove(struct gd__spool_index *x, const struct gd__queue_key *key);
void gd__spool_index_clear(struct gd__spool_index *x);
void gd__spool_index_free(struct gd__spool_index *x);

#endif
