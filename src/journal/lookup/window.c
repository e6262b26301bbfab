/* The next rows of a journal: see window.h. The window is a ring of rows, and a hash table of the rows that have not
 * been taken. The rows of a bucket are linked in the order of their ids, and the bucket stores its first and last row.
 * So finding the first row and adding a row are fast even if many keys are equal. */
#include "journal/lookup/window.h"

#include <string.h>

#include "base/alloc.h"

enum { BUCKETS = 2 * GD__WINDOW_ROWS, BEHIND_MOST = GD__WINDOW_ROWS / 2, NONE = UINT16_MAX };

struct slot {
    struct gd__row row;
    uint16_t next; /* in its bucket */
    bool taken;
};

struct gd__window {
    struct slot slots[GD__WINDOW_ROWS];
    struct {
        uint16_t first, last;
    } buckets[BUCKETS];
    uint64_t head, tail; /* positions: rows head .. tail - 1 are here */
    uint64_t from;
    uint64_t passed;
};

struct gd__window *gd__window_new(void)
{
    struct gd__window *w = gd__calloc(1, sizeof *w);
    for (unsigned i = 0; w && i < BUCKETS; i++)
        w->buckets[i].first = w->buckets[i].last = NONE;
    return w;
}

static unsigned bucket_of(const unsigned char key[GD__HASH_SIZE])
{
    return (key[0] | (unsigned)key[1] << 8) % BUCKETS;
}

uint64_t gd__window_room(const struct gd__window *w)
{
    return GD__WINDOW_ROWS - (w->tail - w->head);
}

void gd__window_add(struct gd__window *w, const struct gd__row *row)
{
    const uint16_t at = (uint16_t)(w->tail++ % GD__WINDOW_ROWS);
    const unsigned b = bucket_of(row->key);
    w->slots[at] = (struct slot){ .row = *row, .next = NONE };
    if (w->buckets[b].first == NONE)
        w->buckets[b].first = at;
    else
        w->slots[w->buckets[b].last].next = at;
    w->buckets[b].last = at;
}

/* Removes a slot from its bucket. before: the previous slot in that bucket, or NONE. */
static void unlink_slot(struct gd__window *w, unsigned b, uint16_t before, uint16_t at)
{
    const uint16_t next = w->slots[at].next;
    if (before == NONE)
        w->buckets[b].first = next;
    else
        w->slots[before].next = next;
    if (w->buckets[b].last == at)
        w->buckets[b].last = before;
}

static void drop_first(struct gd__window *w)
{
    const uint16_t at = (uint16_t)(w->head++ % GD__WINDOW_ROWS);
    const struct slot *s = &w->slots[at];
    w->from = s->row.id + 1;
    if (s->taken)
        return;
    w->passed++;
    unlink_slot(w, bucket_of(s->row.key), NONE, at); /* the oldest row is the first of its bucket */
}

/* Drops rows at the head that are taken, or that are too far behind the last taken row, which is at this position. */
static void drop_old(struct gd__window *w, uint64_t position)
{
    while (w->head < w->tail && (w->slots[w->head % GD__WINDOW_ROWS].taken || position > w->head + BEHIND_MOST))
        drop_first(w);
}

static uint64_t position_of(const struct gd__window *w, uint16_t at)
{
    return w->head + (at + GD__WINDOW_ROWS - w->head % GD__WINDOW_ROWS) % GD__WINDOW_ROWS;
}

bool gd__window_take(struct gd__window *w, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                     struct gd__row *out)
{
    const unsigned b = bucket_of(key);
    uint16_t found = NONE, before_found = NONE, before = NONE;
    for (uint16_t at = w->buckets[b].first; at != NONE; before = at, at = w->slots[at].next) {
        const struct gd__row *row = &w->slots[at].row;
        if (memcmp(row->key, key, GD__HASH_SIZE) != 0 || (found != NONE && row->version != version))
            continue;
        found = at;
        before_found = before;
        if (row->version == version)
            break;
    }
    if (found == NONE)
        return false;
    unlink_slot(w, b, before_found, found);
    w->slots[found].taken = true;
    *out = w->slots[found].row;
    drop_old(w, position_of(w, found));
    return true;
}

bool gd__window_holds(const struct gd__window *w, const unsigned char key[GD__HASH_SIZE])
{
    for (uint16_t at = w->buckets[bucket_of(key)].first; at != NONE; at = w->slots[at].next)
        if (memcmp(w->slots[at].row.key, key, GD__HASH_SIZE) == 0)
            return true;
    return false;
}

bool gd__window_has(const struct gd__window *w, uint64_t id)
{
    uint64_t low = w->head, high = w->tail;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2, here = w->slots[middle % GD__WINDOW_ROWS].row.id;
        if (here == id)
            return true;
        if (here < id)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint64_t gd__window_from(const struct gd__window *w)
{
    return w->from;
}

uint64_t gd__window_passed(const struct gd__window *w)
{
    return w->passed;
}
