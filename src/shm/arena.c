/* The allocator of a shared region. Other processes only read the region. The tables of the allocator are private.
 *
 * Two layers:
 *   runs    whole pages, first fit by address, joined when freed. The free runs are a treap ordered by offset. Each
 *           node stores the largest room of any run in its subtree, once for pages and once for slabs. So a search
 *           follows one path, and finding, taking and joining take logarithmic time on average.
 *   slabs   128 KiB runs at multiples of 128 KiB, each cut into blocks of one size class, with a bitmap of free blocks.
 *           slab_at[offset / 128 KiB] is the slab at that offset, if any. Freeing a block uses it to find the layer of
 *           the block.
 *
 * If no slab can be made for a small block (the region is nearly full), the block gets its own run.
 *
 * Freeing never needs memory. The number of free runs is at most the number of runs in use plus one, and taking a run
 * makes room in the table for that many.
 */
#include "shm/arena.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "shm/layout.h"

#define SLAB_SHIFT 17u
#define SLAB_SIZE  (UINT64_C(1) << SLAB_SHIFT)

enum {
    STEP = 64,
    SLAB_MAX = 32 * 1024, /* the largest block that comes from a slab */
    CLASSES = 27,
    MAP_WORDS = (1 << 17) / STEP / 64,
    NONE = 0 /* the index that means "no run" or "no slab": entry 0 of each table is unused */
};

/* Classes of a page or more are whole pages, so that their blocks begin at a page boundary. */
static const uint16_t class_size[CLASSES] = { 64,   128,  192,  256,   320,   384,   448,   512,   640,
                                              768,  896,  1024, 1280,  1536,  1792,  2048,  2560,  3072,
                                              3584, 4096, 8192, 12288, 16384, 20480, 24576, 28672, 32768 };

/* A run must begin at a multiple of one of these. */
enum alignment { TO_PAGE, TO_SLAB, ALIGNMENTS };
static const uint64_t alignment_size[ALIGNMENTS] = { [TO_PAGE] = GD__PAGE, [TO_SLAB] = SLAB_SIZE };

struct run { /* a free run */
    uint64_t first, size;
    uint64_t most[ALIGNMENTS]; /* the largest room_at() in the subtree of this run */
    uint32_t priority;
    uint32_t left, right; /* left also links unused entries */
};

struct slab {
    uint64_t first;
    uint32_t next, prev; /* among slabs of its class with a free block; next also links unused entries */
    uint16_t size_class;
    uint16_t n_blocks, n_free;
    uint16_t word; /* words of the bitmap before this one have no free block */
    uint64_t free[MAP_WORDS];
};

struct freed {
    uint64_t offset, size;
};

struct gd__arena {
    uint64_t managed, used;
    struct run *runs;
    uint32_t n_runs, root, unused_run;
    uint64_t runs_out;
    uint64_t visited; /* how many nodes all searches have visited */
    uint32_t random;
    struct slab *slabs;
    uint32_t n_slabs, unused_slab;
    uint32_t *slab_at;
    uint64_t n_slab_at;
    uint32_t partial[CLASSES]; /* slabs with a free block */
    uint32_t inverse[CLASSES]; /* ceil(2^32 / class_size): makes division exact below SLAB_SIZE */
    struct freed *later;       /* the ring of free_later(): it has room for all blocks, so it is never full */
    uint64_t later_mask;
    uint64_t later_head; /* used by the allocating thread only */
    alignas(GD__LINE) _Atomic uint64_t later_tail;
};

/* ---- free runs: a treap ---- */

static struct run *run_of(const struct gd__arena *a, uint32_t i)
{
    return &a->runs[i];
}

static uint32_t next_random(struct gd__arena *a)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 17;
    a->random ^= a->random << 5;
    return a->random;
}

static uint64_t aligned(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) & ~(alignment - 1);
}

/* How many bytes a run has from the first aligned offset in it. */
static uint64_t room_at(const struct run *r, enum alignment alignment)
{
    const uint64_t skip = aligned(r->first, alignment_size[alignment]) - r->first;
    return skip < r->size ? r->size - skip : 0;
}

static void update(struct gd__arena *a, uint32_t i)
{
    struct run *r = run_of(a, i);
    for (unsigned k = 0; k < ALIGNMENTS; k++) {
        const uint64_t left = run_of(a, r->left)->most[k], right = run_of(a, r->right)->most[k]; /* 0 in entry 0 */
        const uint64_t below = left > right ? left : right, own = room_at(r, k);
        r->most[k] = own > below ? own : below;
    }
}

/* Splits tree i into the runs that begin before offset and the rest. */
static void split(struct gd__arena *a, uint32_t i, uint64_t offset, uint32_t *before, uint32_t *rest)
{
    if (i == NONE) {
        *before = *rest = NONE;
        return;
    }
    struct run *r = run_of(a, i);
    if (r->first < offset) {
        split(a, r->right, offset, &r->right, rest);
        *before = i;
    } else {
        split(a, r->left, offset, before, &r->left);
        *rest = i;
    }
    update(a, i);
}

/* Joins two trees. All runs of x must lie before all runs of y. */
static uint32_t join(struct gd__arena *a, uint32_t x, uint32_t y)
{
    if (x == NONE || y == NONE)
        return x == NONE ? y : x;
    struct run *rx = run_of(a, x), *ry = run_of(a, y);
    if (rx->priority > ry->priority) {
        rx->right = join(a, rx->right, y);
        update(a, x);
        return x;
    }
    ry->left = join(a, x, ry->left);
    update(a, y);
    return y;
}

static uint32_t last_of(const struct gd__arena *a, uint32_t i)
{
    while (i != NONE && run_of(a, i)->right != NONE)
        i = run_of(a, i)->right;
    return i;
}

static uint32_t first_of(const struct gd__arena *a, uint32_t i)
{
    while (i != NONE && run_of(a, i)->left != NONE)
        i = run_of(a, i)->left;
    return i;
}

static void unuse_run(struct gd__arena *a, uint32_t i)
{
    *run_of(a, i) = (struct run){ .left = a->unused_run };
    a->unused_run = i;
}

/* Adds [first, first + size) to the free runs, joined with its neighbours. No free run may overlap it. */
static void set_free(struct gd__arena *a, uint64_t first, uint64_t size)
{
    uint32_t x, y, gone;
    split(a, a->root, first, &x, &y);
    uint32_t before = last_of(a, x), after = first_of(a, y);
    if (after != NONE && run_of(a, after)->first == first + size) {
        size += run_of(a, after)->size;
        split(a, y, first + size, &gone, &y);
        unuse_run(a, gone);
    }
    if (before != NONE && run_of(a, before)->first + run_of(a, before)->size == first) {
        first = run_of(a, before)->first;
        size += run_of(a, before)->size;
        split(a, x, first, &x, &gone);
        unuse_run(a, gone);
    }
    uint32_t i = a->unused_run;
    a->unused_run = run_of(a, i)->left;
    *run_of(a, i) = (struct run){ .first = first, .size = size, .priority = next_random(a) };
    update(a, i);
    a->root = join(a, join(a, x, i), y);
}

/* The lowest free run with room for size bytes at that alignment. */
static uint32_t first_fit(struct gd__arena *a, uint64_t size, enum alignment alignment)
{
    uint32_t i = a->root;
    while (i != NONE && run_of(a, i)->most[alignment] >= size) {
        const struct run *r = run_of(a, i);
        a->visited++;
        if (run_of(a, r->left)->most[alignment] >= size)
            i = r->left;
        else if (room_at(r, alignment) >= size)
            return i;
        else
            i = r->right;
    }
    return NONE;
}

/* Makes room in the table for the two free runs that can remain when one more run is taken: before it and after it. */
static bool reserve_runs(struct gd__arena *a)
{
    uint64_t wanted = a->runs_out + 4; /* entry 0, one free run more than runs in use, and the run about to be taken */
    if (wanted <= a->n_runs)
        return true;
    if (wanted > UINT32_MAX / 2)
        return false;
    uint32_t n = (uint32_t)wanted * 2;
    struct run *runs = gd__realloc(a->runs, n * sizeof *runs);
    if (!runs)
        return false;
    a->runs = runs;
    memset(&runs[a->n_runs], 0, (n - a->n_runs) * sizeof *runs);
    for (uint32_t i = n; i-- > a->n_runs;) {
        if (i != NONE)
            unuse_run(a, i);
    }
    a->n_runs = n;
    return true;
}

/* Takes size bytes (whole pages) at that alignment. 0: no room. */
static uint64_t take(struct gd__arena *a, uint64_t size, enum alignment alignment)
{
    uint32_t i = first_fit(a, size, alignment);
    if (i == NONE || !reserve_runs(a))
        return 0;
    uint64_t first = run_of(a, i)->first, end = first + run_of(a, i)->size;
    uint64_t offset = aligned(first, alignment_size[alignment]);
    uint32_t x, y, gone;
    split(a, a->root, first, &x, &y);
    split(a, y, first + 1, &gone, &y);
    a->root = join(a, x, y);
    unuse_run(a, gone);
    if (offset > first)
        set_free(a, first, offset - first);
    if (end > offset + size)
        set_free(a, offset + size, end - offset - size);
    a->runs_out++;
    return offset;
}

static void put_back(struct gd__arena *a, uint64_t offset, uint64_t size)
{
    set_free(a, offset, size);
    a->runs_out--;
}

/* ---- slabs ---- */

static unsigned class_of(uint64_t size)
{
    if (size > 4096)
        return 18 + (unsigned)((size + 4095) / 4096);
    if (size <= 512)
        return (unsigned)((size + STEP - 1) / STEP) - 1;
    unsigned size_class = 8;
    while (class_size[size_class] < size)
        size_class++;
    return size_class;
}

static void link_slab(struct gd__arena *a, uint32_t i)
{
    struct slab *s = &a->slabs[i];
    uint32_t head = a->partial[s->size_class];
    if (head != NONE && a->slabs[head].first < s->first) { /* insert after a head at a lower offset */
        s->prev = head;
        s->next = a->slabs[head].next;
        a->slabs[head].next = i;
    } else {
        s->prev = NONE;
        s->next = head;
        a->partial[s->size_class] = i;
    }
    if (s->next != NONE)
        a->slabs[s->next].prev = i;
}

static void unlink_slab(struct gd__arena *a, uint32_t i)
{
    struct slab *s = &a->slabs[i];
    if (s->prev != NONE)
        a->slabs[s->prev].next = s->next;
    else
        a->partial[s->size_class] = s->next;
    if (s->next != NONE)
        a->slabs[s->next].prev = s->prev;
}

static bool reserve_slab(struct gd__arena *a)
{
    if (a->unused_slab != NONE)
        return true;
    if (a->n_slabs > UINT32_MAX / 4)
        return false;
    uint32_t n = a->n_slabs ? a->n_slabs * 2 : 16;
    struct slab *slabs = gd__realloc(a->slabs, n * sizeof *slabs);
    if (!slabs)
        return false;
    a->slabs = slabs;
    for (uint32_t i = n; i-- > a->n_slabs;) {
        slabs[i] = (struct slab){ .next = a->unused_slab };
        if (i != NONE)
            a->unused_slab = i;
    }
    a->n_slabs = n;
    return true;
}

static bool reserve_slab_at(struct gd__arena *a, uint64_t index)
{
    if (index < a->n_slab_at)
        return true;
    uint64_t n = (index + 1) * 2;
    uint32_t *slab_at = gd__realloc(a->slab_at, n * sizeof *slab_at);
    if (!slab_at)
        return false;
    memset(&slab_at[a->n_slab_at], 0, (n - a->n_slab_at) * sizeof *slab_at);
    a->slab_at = slab_at;
    a->n_slab_at = n;
    return true;
}

static void mark_all_free(struct slab *s)
{
    memset(s->free, 0, sizeof s->free);
    for (unsigned i = 0; i < s->n_blocks; i++)
        s->free[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Makes a slab of that class and links it. */
static uint32_t make_slab(struct gd__arena *a, unsigned size_class)
{
    if (!reserve_slab(a))
        return NONE;
    uint64_t first = take(a, SLAB_SIZE, TO_SLAB);
    if (!first)
        return NONE;
    if (!reserve_slab_at(a, first >> SLAB_SHIFT)) {
        put_back(a, first, SLAB_SIZE);
        return NONE;
    }
    uint32_t i = a->unused_slab;
    struct slab *s = &a->slabs[i];
    a->unused_slab = s->next;
    s->first = first;
    s->size_class = (uint16_t)size_class;
    s->n_blocks = s->n_free = (uint16_t)(SLAB_SIZE / class_size[size_class]);
    s->word = 0;
    mark_all_free(s);
    a->slab_at[first >> SLAB_SHIFT] = i;
    link_slab(a, i);
    return i;
}

static void drop_slab(struct gd__arena *a, uint32_t i)
{
    struct slab *s = &a->slabs[i];
    unlink_slab(a, i);
    a->slab_at[s->first >> SLAB_SHIFT] = NONE;
    put_back(a, s->first, SLAB_SIZE);
    s->next = a->unused_slab;
    a->unused_slab = i;
}

/* Frees all empty slabs. Returns true if there were any. It visits every slab that has a free block, so it is called
 * only if there is no other room. */
static bool drop_empty_slabs(struct gd__arena *a)
{
    bool any = false;
    for (unsigned size_class = 0; size_class < CLASSES; size_class++) {
        for (uint32_t i = a->partial[size_class], next; i != NONE; i = next) {
            next = a->slabs[i].next;
            if (a->slabs[i].n_free == a->slabs[i].n_blocks) {
                drop_slab(a, i);
                any = true;
            }
        }
    }
    return any;
}

static uint64_t block_alloc(struct gd__arena *a, unsigned size_class)
{
    uint32_t i = a->partial[size_class];
    if (i == NONE && (i = make_slab(a, size_class)) == NONE)
        return 0;
    struct slab *s = &a->slabs[i];
    while (s->free[s->word] == 0)
        s->word++;
    unsigned bit = (unsigned)__builtin_ctzll(s->free[s->word]);
    s->free[s->word] &= s->free[s->word] - 1;
    if (--s->n_free == 0)
        unlink_slab(a, i);
    a->used += class_size[size_class];
    return s->first + (uint64_t)(s->word * 64u + bit) * class_size[size_class];
}

static void block_free(struct gd__arena *a, uint32_t i, uint64_t offset)
{
    struct slab *s = &a->slabs[i];
    unsigned block = (unsigned)(((offset - s->first) * a->inverse[s->size_class]) >> 32);
    unsigned word = block / 64;
    s->free[word] |= UINT64_C(1) << (block % 64);
    if (word < s->word)
        s->word = (uint16_t)word;
    a->used -= class_size[s->size_class];
    if (s->n_free++ == 0)
        link_slab(a, i);
    /* Keep one empty slab per class. Otherwise a program that allocates and frees one block repeatedly would take and
     * return the pages each time. */
    if (s->n_free == s->n_blocks && (s->next != NONE || s->prev != NONE))
        drop_slab(a, i);
}

/* ---- the interface ---- */

static int open_later(struct gd__arena *a, size_t max_blocks)
{
    if (max_blocks == 0)
        return 0;
    if (max_blocks > SIZE_MAX / 4 / sizeof *a->later)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu blocks", max_blocks);
    size_t n = 1;
    while (n < max_blocks)
        n *= 2;
    a->later = gd__calloc(n, sizeof *a->later);
    if (!a->later)
        return gd__error_errno("no memory for %zu blocks", max_blocks);
    a->later_mask = n - 1;
    return 0;
}

static int open_tables(struct gd__arena *a, uint64_t first, uint64_t end)
{
    a->random = 2463534242u;
    for (unsigned size_class = 0; size_class < CLASSES; size_class++)
        a->inverse[size_class] =
            (uint32_t)(((UINT64_C(1) << 32) + class_size[size_class] - 1) / class_size[size_class]);
    if (!reserve_runs(a))
        return gd__error_errno("no memory to manage the arena");
    set_free(a, first, end - first);
    a->managed = end - first;
    return 0;
}

int gd__arena_open(struct gd__arena **out, uint64_t first, uint64_t size, size_t max_blocks)
{
    *out = NULL;
    first = aligned(first ? first : 1, GD__PAGE); /* 0 is no offset: it means failure */
    uint64_t end = size & ~(uint64_t)(GD__PAGE - 1);
    if (end <= first)
        return gd__error(GD_E_INVALID, "an arena needs at least one page: %" PRIu64 " to %" PRIu64, first, size);
    struct gd__arena *a = gd__calloc(1, sizeof *a);
    if (!a)
        return gd__error_errno("arena");
    int code;
    if ((code = open_later(a, max_blocks)) < 0 || (code = open_tables(a, first, end)) < 0) {
        gd__arena_close(&a);
        return code;
    }
    *out = a;
    return 0;
}

void gd__arena_close(struct gd__arena **a)
{
    if (!*a)
        return;
    gd__free((*a)->later);
    gd__free((*a)->slab_at);
    gd__free((*a)->slabs);
    gd__free((*a)->runs);
    gd__free(*a);
    *a = NULL;
}

static void empty_later(struct gd__arena *a)
{
    uint64_t tail = atomic_load_explicit(&a->later_tail, memory_order_acquire); /* pairs with free_later */
    for (; a->later_head != tail; a->later_head++) {
        struct freed *f = &a->later[a->later_head & a->later_mask];
        gd__arena_free(a, f->offset, f->size);
    }
}

static uint64_t run_alloc(struct gd__arena *a, uint64_t size)
{
    size = aligned(size, GD__PAGE);
    uint64_t offset = take(a, size, TO_PAGE);
    if (!offset && drop_empty_slabs(a))
        offset = take(a, size, TO_PAGE);
    if (offset)
        a->used += size;
    return offset;
}

uint64_t gd__arena_alloc(struct gd__arena *a, uint64_t size)
{
    if (a->later)
        empty_later(a);
    if (size == 0 || size > a->managed) {
        gd__error(size ? GD_E_TOO_LARGE : GD_E_INVALID, "cannot allocate %" PRIu64 " bytes in an arena of %" PRIu64,
                  size, a->managed);
        return 0;
    }
    uint64_t offset = size <= SLAB_MAX ? block_alloc(a, class_of(size)) : 0;
    if (!offset)
        offset = run_alloc(a, size);
    if (!offset)
        gd__error(GD_E_NO_MEMORY, "no room for %" PRIu64 " bytes in an arena of %" PRIu64 ", %" PRIu64 " in use", size,
                  a->managed, a->used);
    return offset;
}

void gd__arena_free(struct gd__arena *a, uint64_t offset, uint64_t size)
{
    uint64_t index = offset >> SLAB_SHIFT;
    uint32_t slab = index < a->n_slab_at ? a->slab_at[index] : NONE;
    if (slab != NONE) {
        block_free(a, slab, offset);
        return;
    }
    size = aligned(size, GD__PAGE);
    a->used -= size;
    put_back(a, offset, size);
}

void gd__arena_free_later(struct gd__arena *a, uint64_t offset, uint64_t size)
{
    uint64_t tail = atomic_load_explicit(&a->later_tail, memory_order_relaxed);
    a->later[tail & a->later_mask] = (struct freed){ .offset = offset, .size = size };
    atomic_store_explicit(&a->later_tail, tail + 1, memory_order_release); /* pairs with empty_later */
}

uint64_t gd__arena_used(const struct gd__arena *a)
{
    return a->used;
}

uint64_t gd__arena_visited(const struct gd__arena *a)
{
    return a->visited;
}
