/* A cache of unused mappings, for the next view of the same pages of the same file.
 *
 * A queue of N arrays uses N places in turn. A cache with fewer than N entries that evicts the longest unused one would
 * never have the mapping that is needed next. Then each array would need an mmap() and a munmap(). In a process with
 * threads on other processors, these take longer than everything else that is done to pass the array on. So the cache
 * has room for thousands of mappings, in a hash table by their first page.
 *
 * A larger mapping can also serve pages inside it. Only the last few mappings are searched for that.
 */
#include "python/native/values/mapping.h"

#include <sys/mman.h>

enum {
    BUCKETS = 16384, /* a power of two */
    NEAR = 64,       /* how many mappings are searched for a larger one */
    WASTE = 4,       /* a mapping this many times too large is not used */
    NONE = 0         /* entry 0 is the start and the end of the ring of waiting mappings */
};

static struct entry {
    struct mapping mapping;
    uint32_t newer, older; /* a ring through entry 0 */
    uint32_t next;         /* in its bucket, or in the list of free entries */
} entries[VIEW_CACHE_MOST + 1];

static uint32_t buckets[BUCKETS];
static uint32_t unused, n_made; /* the first free entry; entries from n_made on were never used */
static size_t n_waiting, waiting_bytes;

static uint32_t *bucket_of(const struct mapping *m)
{
    const uint64_t mixed = ((m->first >> 12) ^ ((uint64_t)m->inode << 20)) * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[(mixed >> 32) % BUCKETS];
}

/* ---- adding and removing ---- */

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

/* ---- finding ---- */

static bool serves(const struct mapping *have, const struct mapping *want)
{
    const uint64_t skew = want->first - have->first; /* huge if want begins before have */
    return have->inode == want->inode && have->device == want->device && skew <= have->length &&
           want->length <= have->length - skew && have->length / WASTE <= want->length;
}

/* The smaller one of two mappings. The first may be NONE, and the second may be unsuitable. */
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
