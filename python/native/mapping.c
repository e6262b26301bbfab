/* Mappings that nobody uses, kept for whoever wants the same pages of the same file again.
 *
 * A queue of N arrays lies in N places that are used in turn. A cache that holds fewer than the turn has, and gives up
 * the longest unused, never has the one that is wanted: then each array costs an mmap() and a munmap(), which in a
 * process with threads on other processors is more than everything else that is done to hand it over. So there is room
 * for thousands, and one of them is found by its first page in a hash table.
 *
 * A larger mapping serves what lies within it, too. That is looked for among the last few only.
 */
#include "python/native/mapping.h"

#include <sys/mman.h>

enum {
    BUCKETS = 16384, /* a power of two */
    NEAR = 64,       /* how many are looked at for one that is larger */
    WASTE = 4,       /* a mapping this many times too large is left for something larger */
    NONE = 0         /* entry 0 is where the ring of those that wait begins and ends */
};

static struct entry {
    struct mapping mapping;
    uint32_t newer, older; /* a ring through entry 0 */
    uint32_t next;         /* in its bucket, or among the unused */
} entries[VIEW_CACHE_MOST + 1];

static uint32_t buckets[BUCKETS];
static uint32_t unused, n_made; /* the first that was given back; those beyond n_made were never used */
static size_t n_waiting, waiting_bytes;

static uint32_t *bucket_of(const struct mapping *m)
{
    const uint64_t mixed = ((m->first >> 12) ^ ((uint64_t)m->inode << 20)) * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[(mixed >> 32) % BUCKETS];
}

/* ---- in and out ---- */

static void take_out(uint32_t i)
{
    struct entry *e = &entries[i];
    uint32_t *link = bucket_of(&e->mapping);
    while (*link != i)
        link = &entries[*link].next;
    *link = e->next;
    entries[e->newer].older = e->older;
    entries[e->older].newer = e->newer;
    e->next = unused;
    unused = i;
    n_waiting--;
    waiting_bytes -= e->mapping.length;
}

static void drop_oldest(void)
{
    const uint32_t oldest = entries[NONE].newer;
    take_out(oldest);
    munmap(entries[oldest].mapping.base, entries[oldest].mapping.length);
}

static uint32_t unused_entry(void)
{
    const uint32_t i = unused;
    if (i == NONE)
        return ++n_made;
    unused = entries[i].next;
    return i;
}

void mapping_put(struct mapping mapping)
{
    if (mapping.length > VIEW_CACHE_BYTES) {
        munmap(mapping.base, mapping.length);
        return;
    }
    while (n_waiting == VIEW_CACHE_MOST || waiting_bytes + mapping.length > VIEW_CACHE_BYTES)
        drop_oldest();
    const uint32_t i = unused_entry(), newest = entries[NONE].older;
    uint32_t *bucket = bucket_of(&mapping);
    entries[i] = (struct entry){ .mapping = mapping, .newer = NONE, .older = newest, .next = *bucket };
    *bucket = i;
    entries[newest].newer = i;
    entries[NONE].older = i;
    n_waiting++;
    waiting_bytes += mapping.length;
}

/* ---- looking ---- */

static bool serves(const struct mapping *have, const struct mapping *want)
{
    const uint64_t skew = want->first - have->first; /* huge if it begins before */
    return have->inode == want->inode && have->device == want->device && skew <= have->length &&
           want->length <= have->length - skew && have->length / WASTE <= want->length;
}

/* The smaller of two of which the first may be NONE and the second may not serve. */
static uint32_t better(uint32_t best, uint32_t i, const struct mapping *want)
{
    const bool is_better =
        serves(&entries[i].mapping, want) && (best == NONE || entries[i].mapping.length < entries[best].mapping.length);
    return is_better ? i : best;
}

static uint32_t find_same_start(const struct mapping *want)
{
    uint32_t best = NONE;
    for (uint32_t i = *bucket_of(want); i != NONE; i = entries[i].next)
        best = better(best, i, want);
    return best;
}

static uint32_t find_around(const struct mapping *want)
{
    uint32_t best = NONE, i = entries[NONE].older;
    for (int k = 0; k < NEAR && i != NONE; k++, i = entries[i].older)
        best = better(best, i, want);
    return best;
}

bool mapping_take(struct mapping *want)
{
    uint32_t i = find_same_start(want);
    if (i == NONE)
        i = find_around(want);
    if (i == NONE)
        return false;
    *want = entries[i].mapping;
    take_out(i);
    return true;
}

/* ---- all of them ---- */

void mappings_drop(void)
{
    while (n_waiting > 0)
        drop_oldest();
}

size_t mappings_waiting(void)
{
    return n_waiting;
}

size_t mappings_waiting_bytes(void)
{
    return waiting_bytes;
}
