/* The index of a spool: see index.h. The table has open addressing. An entry that was removed stays in the table until
 * the table is built anew, which happens when the array of entries is full. */
#include "queue/spool/index.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_ROOM = 64 };

/* The hash of a key is random already. Tasks that were added again have the same hash, and differ in the numbers. */
static size_t place_of(const struct gd__spool_index *x, const struct gd__queue_key *key)
{
    uint64_t h;
    memcpy(&h, key->hash, sizeof h);
    h += key->repeat * UINT64_C(0x9e3779b97f4a7c15) + key->again * UINT64_C(0xc2b2ae3d27d4eb4f) + key->tasks;
    return (size_t)h & (x->table_size - 1);
}

static void put_in_table(struct gd__spool_index *x, size_t i)
{
    size_t at = place_of(x, &x->entries[i].key);
    while (x->table[at] != 0)
        at = (at + 1) & (x->table_size - 1);
    x->table[at] = (uint32_t)i + 1;
}

/* Makes room for one more entry: drops the removed ones, and doubles the room if that is not enough. */
static int make_room(struct gd__spool_index *x)
{
    size_t room = x->room > 0 ? x->room : FIRST_ROOM;
    while (x->count >= room / 2)
        room *= 2;
    struct gd__spool_entry *entries = gd__calloc(room, sizeof *entries);
    uint32_t *table = gd__calloc(2 * room, sizeof *table);
    if (!entries || !table || room > UINT32_MAX / 2) {
        gd__free(entries);
        gd__free(table);
        return gd__error(GD_E_NO_MEMORY, "no memory for the index of the spool");
    }
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->entries[i].size > 0)
            entries[n++] = x->entries[i];
    gd__free(x->entries);
    gd__free(x->table);
    x->entries = entries;
    x->table = table;
    x->table_size = 2 * room;
    x->room = room;
    x->n = n;
    for (size_t i = 0; i < n; i++)
        put_in_table(x, i);
    return 0;
}

int gd__spool_index_add(struct gd__spool_index *x, const struct gd__queue_key *key, uint64_t at, uint64_t size)
{
    if (x->n == x->room) {
        const int rc = make_room(x);
        if (rc < 0)
            return rc;
    }
    x->entries[x->n] = (struct gd__spool_entry){ .key = *key, .at = at, .size = size };
    put_in_table(x, x->n++);
    x->count++;
    return 0;
}

uint64_t gd__spool_index_remove(struct gd__spool_index *x, const struct gd__queue_key *key)
{
    if (x->table_size == 0)
        return 0;
    for (size_t at = place_of(x, key); x->table[at] != 0; at = (at + 1) & (x->table_size - 1)) {
        struct gd__spool_entry *e = &x->entries[x->table[at] - 1];
        if (e->size == 0 || !gd__queue_key_same(&e->key, key))
            continue;
        const uint64_t size = e->size;
        e->size = 0;
        x->count--;
        return size;
    }
    return 0;
}

void gd__spool_index_clear(struct gd__spool_index *x)
{
    if (x->n > 0)
        memset(x->table, 0, x->table_size * sizeof *x->table);
    x->n = x->count = 0;
}

void gd__spool_index_free(struct gd__spool_index *x)
{
    gd__free(x->entries);
    gd__free(x->table);
    *x = (struct gd__spool_index){ .n = 0 };
}
