/* Which shard owns a task: see deal.h.
 *
 * A deal is an array of hashes of keys, in the order of the hashes. It needs 20 bytes for each task, whatever the length
 * of the keys. Two keys with the same 128 bits do not occur: journals rely on this too.
 */
#include "shard/deal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash/key.h"

struct entry {
    unsigned char hash[GD__HASH_SIZE];
    uint32_t shard;
};

struct gd__deal {
    uint32_t count;
    size_t n, room;
    struct entry entries[];
};

/* --- by hash --- */

uint32_t gd__shard_of_hash(const unsigned char hash[GD__HASH_SIZE], uint32_t count)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)hash[i] << (8 * i);
    return (uint32_t)(word % count);
}

uint32_t gd__shard_of_key(const void *key, size_t size, uint32_t count)
{
    unsigned char hash[GD__HASH_SIZE];
    gd__key_hash(key, size, hash);
    return gd__shard_of_hash(hash, count);
}

/* --- files --- */

const char *gd__deal_key_within(const char *path, const char *dir)
{
    size_t n = dir ? strlen(dir) : 0;
    while (n > 0 && dir[n - 1] == '/')
        n--;
    if (!dir || strncmp(path, dir, n) != 0 || path[n] != '/')
        return path;
    const char *rest = path + n + strspn(path + n, "/");
    return *rest ? rest : path;
}

/* --- by size --- */

/* A shard while items are dealt. The one at the top of the heap gets the next item. */
struct hand {
    uint64_t load;
    uint32_t shard;
};

static uint64_t weight_of(const struct gd__deal_item *item)
{
    return item->size > 0 ? item->size : 1;
}

int gd__deal_compare_keys(const struct gd__deal_item *a, const struct gd__deal_item *b)
{
    const size_t both = a->key_size < b->key_size ? a->key_size : b->key_size;
    const int order = both > 0 ? memcmp(a->key, b->key, both) : 0;
    if (order != 0)
        return order;
    return a->key_size < b->key_size ? -1 : a->key_size > b->key_size;
}

static int largest_first(const struct gd__deal_item *a, const struct gd__deal_item *b)
{
    if (weight_of(a) != weight_of(b))
        return weight_of(a) > weight_of(b) ? -1 : 1;
    return gd__deal_compare_keys(a, b);
}

/* For qsort(): items by key, and the largest first among items with the same key. */
static int by_key(const void *a, const void *b)
{
    const int order = gd__deal_compare_keys(a, b);
    return order != 0 ? order : largest_first(a, b);
}

/* For qsort(): pointers to items by size. */
static int by_size(const void *a, const void *b)
{
    const struct gd__deal_item *const *x = a, *const *y = b;
    return largest_first(*x, *y);
}

/* Keeps the first of items with the same key. */
static size_t drop_repeated(struct gd__deal_item *items, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || gd__deal_compare_keys(&items[kept - 1], &items[i]) != 0)
            items[kept++] = items[i];
    }
    return kept;
}

static bool comes_before(const struct hand *a, const struct hand *b)
{
    return a->load != b->load ? a->load < b->load : a->shard < b->shard;
}

/* Moves the hand at the top of the heap down to its place. */
static void sink(struct hand *heap, size_t n)
{
    for (size_t at = 0;;) {
        size_t first = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            first = comes_before(&heap[child], &heap[first]) ? child : first;
        if (first == at)
            return;
        const struct hand moved = heap[at];
        heap[at] = heap[first];
        heap[first] = moved;
        at = first;
    }
}

static void deal_out(struct gd__deal_item **order, size_t n, struct hand *heap, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) /* equal loads in order of the shards: this is a heap */
        heap[i] = (struct hand){ .shard = i };
    for (size_t i = 0; i < n; i++) {
        const uint64_t weight = weight_of(order[i]), room = UINT64_MAX - heap[0].load;
        order[i]->shard = heap[0].shard;
        heap[0].load += weight < room ? weight : room;
        sink(heap, count);
    }
}

int gd__deal_items(struct gd__deal_item *items, size_t *n, uint32_t count)
{
    struct gd__deal_item **order = gd__calloc(*n, sizeof *order);
    struct hand *heap = gd__calloc(count, sizeof *heap);
    int rc = 0;
    if (order && heap) {
        if (*n > 0)
            qsort(items, *n, sizeof *items, by_key);
        *n = drop_repeated(items, *n);
        for (size_t i = 0; i < *n; i++)
            order[i] = &items[i];
        if (*n > 0)
            qsort(order, *n, sizeof *order, by_size);
        deal_out(order, *n, heap, count);
    } else {
        rc = gd__error(GD_E_NO_MEMORY, "no memory to deal %zu tasks to %u shards", *n, count);
    }
    gd__free(heap);
    gd__free(order);
    return rc;
}

/* --- a deal that can be asked --- */

struct gd__deal *gd__deal_new(uint32_t count, size_t n)
{
    if (n > (SIZE_MAX - sizeof(struct gd__deal)) / sizeof(struct entry))
        return NULL;
    struct gd__deal *d = gd__calloc(1, sizeof *d + n * sizeof(struct entry));
    if (d) {
        d->count = count;
        d->room = n;
    }
    return d;
}

void gd__deal_add(struct gd__deal *d, const void *key, size_t size, uint32_t shard)
{
    if (d->n == d->room)
        return; /* the caller has counted them */
    struct entry *e = &d->entries[d->n++];
    gd__key_hash(key, size, e->hash);
    e->shard = shard;
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(a, b, GD__HASH_SIZE); /* the hash is the first member */
}

int gd__deal_ready(struct gd__deal *d)
{
    qsort(d->entries, d->n, sizeof *d->entries, by_hash);
    for (size_t i = 1; i < d->n; i++) {
        if (by_hash(&d->entries[i - 1], &d->entries[i]) == 0)
            return GD_E_CORRUPT;
    }
    return 0;
}

uint32_t gd__deal_owner_of_hash(const struct gd__deal *d, const unsigned char hash[GD__HASH_SIZE])
{
    const struct entry *e = bsearch(hash, d->entries, d->n, sizeof *d->entries, by_hash);
    return e ? e->shard : gd__shard_of_hash(hash, d->count);
}

uint32_t gd__deal_owner(const struct gd__deal *d, const void *key, size_t size)
{
    unsigned char hash[GD__HASH_SIZE];
    gd__key_hash(key, size, hash);
    return gd__deal_owner_of_hash(d, hash);
}

uint32_t gd__deal_shards(const struct gd__deal *d)
{
    return d->count;
}

size_t gd__deal_entries(const struct gd__deal *d)
{
    return d->n;
}

void gd__deal_close(struct gd__deal **d)
{
    gd__free(*d);
    *d = NULL;
}
