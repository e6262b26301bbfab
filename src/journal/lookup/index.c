/* Finds the rows of a journal by key: see index.h. It is a hash table with open addressing. It has entries of 32 bytes,
 * a few more than there are rows.
 *
 * Rows are gathered in batches. A full batch is sorted by the positions of its rows in the table, and written to a
 * second file. From there the rows are put into the table, one part of the table after the other. So building the table
 * goes through it once from beginning to end. Pages are read and written through a small cache in this process. The
 * other pages are in the system's cache, which may drop them when memory is short.
 *
 * Rows with equal keys would fill one part of the table. So the k-th of them is stored under another key, made from the
 * key and k. The number of rows with one key is found by doubling and halving. For recent keys a hint stores that
 * number, and how many of the rows are taken. When all are taken, the first row is marked, so that the key is not
 * searched again.
 *
 * The position of a row comes from a hash of its key with a secret of this index. Otherwise a malicious journal could
 * choose keys that all have one position, and finding a free entry would take time proportional to the number of rows.
 */
#include "journal/lookup/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

#ifdef GD_TEST_HOOKS
enum { BATCH = 1 << 14 };
#else
enum { BATCH = 1 << 19 }; /* rows gathered: 16 MiB */
#endif

enum {
    BINS = 1 << 12,
    BIN_SHIFT = 64 - 12,
    PAGE = 4096,
    PAGES = 1024,        /* in the cache */
    STRETCH = PAGES / 2, /* pages filled at a time: they stay in the cache, even if rows overflow to the next pages */
    CHUNK = 1024,        /* rows written to the second file with one call */
    LOOK_EVERY = 4096,   /* rows between two checks for an interruption */
    HINTS = 1024,
    NEARBY = 64, /* how many rows with one key are searched for the right version */
};

struct entry {
    uint64_t key[2];
    uint64_t version;
    uint64_t packed; /* id << 24 | attempts << 4 | all taken << 3 | state; 0: free */
};
_Static_assert(sizeof(struct entry) == 32, "entries divide a page");
enum { STATE_BITS = 4, ATTEMPT_BITS = 20, ALL_TAKEN = 8, PER_PAGE = PAGE / (int)sizeof(struct entry) };

struct page {
    uint64_t number; /* from 1; 0: none */
    bool dirty;
    struct entry entries[PER_PAGE];
};

/* What is known about a key. The rows with that key and a number below `free` are taken. */
struct hint {
    uint64_t key[2];
    uint64_t count; /* number of rows with that key; 0: nothing is known */
    uint64_t free;
};

struct gd__index {
    int fd;
    uint64_t n; /* number of entries in the table */
    const unsigned char *used;
    unsigned char secret[GD__HASH_SIZE];
    struct page pages[PAGES];
    struct hint hints[HINTS];

    /* while it is built */
    char *directory;
    struct entry *batch;
    uint32_t *order;
    uint32_t n_batch;
    int aside_fd;
    uint32_t n_aside;             /* batches in the second file; each has BATCH rows, except the last */
    uint32_t (*ends_aside)[BINS]; /* for each batch in the second file, where the rows of each bin end */
};

/* The file has no name, so the message names its directory. That shows which disk is full or broken. */
static int cannot_write(const struct gd__index *x)
{
    return gd__error_errno("cannot write the temporary index of the journal's tasks in %s", x->directory);
}

static int cannot_read(const struct gd__index *x)
{
    return gd__error_errno("cannot read the temporary index of the journal's tasks in %s", x->directory);
}

/* --- pages --- */

static int write_page(const struct gd__index *x, struct page *p)
{
    if (!p->dirty)
        return 0;
    const off_t at = (off_t)(p->number - 1) * PAGE;
    if (GD__FAULT("pwrite") || pwrite(x->fd, p->entries, PAGE, at) != PAGE)
        return cannot_write(x);
    p->dirty = false;
    return 0;
}

/* A page that was never written is read as zeros, which are free entries. */
static int read_page(const struct gd__index *x, struct page *p, uint64_t number)
{
    memset(p->entries, 0, sizeof p->entries);
    p->number = 0;
    if (GD__FAULT("pread") || pread(x->fd, p->entries, PAGE, (off_t)(number - 1) * PAGE) < 0)
        return cannot_read(x);
    p->number = number;
    return 0;
}

static struct page *page_with(struct gd__index *x, uint64_t place)
{
    const uint64_t number = place / PER_PAGE + 1;
    struct page *p = &x->pages[number % PAGES];
    if (p->number == number)
        return p;
    return write_page(x, p) == 0 && read_page(x, p, number) == 0 ? p : NULL;
}

/* --- entries --- */

/* An entry, valid until the next seek(), and its page. If the entry is changed, the page must be marked dirty. If page
 * is NULL, an error occurred. */
struct found {
    struct entry *e;
    struct page *page;
};

static bool is_free(struct found f)
{
    return f.e->packed == 0;
}

/* The key under which a row is stored in this index. */
static void hash_key(const struct gd__index *x, const unsigned char bytes[GD__HASH_SIZE], uint64_t key[2])
{
    unsigned char hash[GD__HASH_SIZE];
    gd__siphash128(x->secret, bytes, GD__HASH_SIZE, hash);
    memcpy(key, hash, sizeof hash);
}

/* The key under which the k-th of several equal keys is stored. */
static void key_of(const uint64_t key[2], uint64_t k, uint64_t out[2])
{
    const uint64_t mixed = k * UINT64_C(0x9e3779b97f4a7c15);
    out[0] = key[0] ^ mixed ^ mixed >> 29;
    out[1] = key[1] + k;
}

/* Finds the entry with that key, or the free entry where it can be stored. The table always has a free entry. */
static struct found seek(struct gd__index *x, const uint64_t key[2])
{
    uint64_t at = (uint64_t)((unsigned __int128)key[0] * x->n >> 64);
    for (;; at = at + 1 < x->n ? at + 1 : 0) {
        struct page *p = page_with(x, at);
        struct entry *e = p ? &p->entries[at % PER_PAGE] : NULL;
        if (!e || e->packed == 0 || (e->key[0] == key[0] && e->key[1] == key[1]))
            return (struct found){ e, p };
    }
}

static struct found seek_kth(struct gd__index *x, const uint64_t key[2], uint64_t k)
{
    uint64_t kth[2];
    key_of(key, k, kth);
    return seek(x, kth);
}

/* Returns 1 if at least n rows have that key, 0 if fewer have it, or a negative code. */
static int has_at_least(struct gd__index *x, const uint64_t key[2], uint64_t n)
{
    const struct found f = seek_kth(x, key, n - 1);
    return f.page ? !is_free(f) : GD_E_SYSTEM;
}

/* Returns the number of rows with that key, which is at least 1, or 0 after an error. */
static uint64_t count_equal(struct gd__index *x, const uint64_t key[2])
{
    uint64_t known = 1, beyond = 2;
    int rc;
    while ((rc = has_at_least(x, key, beyond)) == 1) {
        known = beyond;
        beyond *= 2;
    }
    while (rc >= 0 && known + 1 < beyond) {
        const uint64_t middle = known + (beyond - known) / 2;
        rc = has_at_least(x, key, middle);
        if (rc == 1)
            known = middle;
        else
            beyond = middle;
    }
    return rc < 0 ? 0 : known;
}

/* Returns the hint of that key, or NULL after an error. */
static struct hint *hint_of(struct gd__index *x, const uint64_t key[2])
{
    struct hint *h = &x->hints[key[1] % HINTS];
    if (h->count == 0 || h->key[0] != key[0] || h->key[1] != key[1])
        *h = (struct hint){ { key[0], key[1] }, count_equal(x, key), 0 };
    return h->count > 0 ? h : NULL;
}

/* --- building --- */

static int open_unnamed(const char *directory)
{
    int fd = GD__FAULT("open") ? -1 : open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) { /* the file system does not support unnamed files */
        const size_t size = strlen(directory) + sizeof "/.gpu-dispatch-XXXXXX";
        char *name = gd__calloc(1, size);
        if (!name)
            return -1;
        snprintf(name, size, "%s/.gpu-dispatch-XXXXXX", directory);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
        gd__free(name);
    }
    return gd__fd_above_stdio(fd);
}

static int cannot_create(const char *directory)
{
    return gd__error_errno("cannot create a temporary file in %s, which resuming needs because the tasks are in a "
                           "different order than in the journal",
                           directory);
}

int gd__index_open(struct gd__index **out, const char *directory, uint64_t rows, const unsigned char *used)
{
    *out = NULL;
    struct gd__index *x = gd__calloc(1, sizeof *x);
    if (!x)
        return gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    x->n = (rows + rows / 4 + PER_PAGE) / PER_PAGE * PER_PAGE;
    x->used = used;
    x->aside_fd = -1;
    (void)!getrandom(x->secret, sizeof x->secret, GRND_NONBLOCK); /* zeros if called too early after boot */
    x->batch = gd__calloc(BATCH, sizeof *x->batch);
    x->order = gd__calloc(BATCH, sizeof *x->order);
    x->directory = gd__strdup(directory);
    x->fd = x->batch && x->order && x->directory ? open_unnamed(directory) : -1;
    int rc = 0;
    if (!x->batch || !x->order || !x->directory)
        rc = gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    else if (x->fd < 0)
        rc = cannot_create(directory);
    if (rc < 0)
        gd__index_close(&x);
    *out = x;
    return rc;
}

static int insert(struct gd__index *x, const struct entry *e)
{
    uint64_t key[2] = { e->key[0], e->key[1] };
    struct found to = seek(x, key);
    if (to.page && !is_free(to)) {
        struct hint *h = hint_of(x, e->key);
        if (!h)
            return GD_E_SYSTEM;
        key_of(e->key, h->count++, key);
        to = seek(x, key);
    }
    if (!to.page)
        return GD_E_SYSTEM;
    *to.e = *e;
    to.e->key[0] = key[0];
    to.e->key[1] = key[1];
    to.page->dirty = true;
    return 0;
}

/* Sorts the batch by the bins of its rows. Rows of one bin keep their order. */
static void sort_batch(struct gd__index *x, uint32_t ends[BINS])
{
    uint32_t sum = 0;
    memset(ends, 0, BINS * sizeof *ends);
    for (uint32_t i = 0; i < x->n_batch; i++)
        ends[x->batch[i].key[0] >> BIN_SHIFT]++;
    for (unsigned b = 0; b < BINS; b++) { /* ends[b] becomes the start of bin b; the next loop moves it to the end */
        const uint32_t n = ends[b];
        ends[b] = sum;
        sum += n;
    }
    for (uint32_t i = 0; i < x->n_batch; i++)
        x->order[ends[x->batch[i].key[0] >> BIN_SHIFT]++] = i;
}

static bool is_interrupted(const atomic_bool *interrupted)
{
    return interrupted && atomic_load_explicit(interrupted, memory_order_relaxed);
}

static int insert_batch(struct gd__index *x, const atomic_bool *interrupted)
{
    uint32_t ends[BINS];
    int rc = 0;
    sort_batch(x, ends);
    for (uint32_t i = 0; rc == 0 && i < x->n_batch; i++) {
        rc = insert(x, &x->batch[x->order[i]]);
        if (i % LOOK_EVERY == 0 && is_interrupted(interrupted))
            rc = gd__error(GD_E_SHUTDOWN, "the run is shutting down");
    }
    x->n_batch = 0;
    return rc;
}

static int open_aside(struct gd__index *x)
{
    if (x->aside_fd < 0)
        x->aside_fd = open_unnamed(x->directory);
    if (x->aside_fd < 0)
        return cannot_create(x->directory);
    void *ends = gd__realloc(x->ends_aside, (x->n_aside + 1) * sizeof *x->ends_aside);
    if (!ends)
        return gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    x->ends_aside = ends;
    return 0;
}

static off_t aside_at(uint32_t batch, uint32_t row)
{
    return (off_t)(((uint64_t)batch * BATCH + row) * sizeof(struct entry));
}

static int write_aside(struct gd__index *x)
{
    struct entry chunk[CHUNK];
    int rc = open_aside(x);
    if (rc < 0)
        return rc;
    sort_batch(x, x->ends_aside[x->n_aside]);
    for (uint32_t i = 0, n; i < x->n_batch; i += n) {
        for (n = 0; n < CHUNK && i + n < x->n_batch; n++)
            chunk[n] = x->batch[x->order[i + n]];
        const size_t size = n * sizeof *chunk;
        if (GD__FAULT("pwrite") || pwrite(x->aside_fd, chunk, size, aside_at(x->n_aside, i)) != (ssize_t)size)
            return cannot_write(x);
    }
    x->n_aside++;
    x->n_batch = 0;
    return 0;
}

/* Puts the rows of one batch that belong to bins first .. end - 1 into the table. */
static int insert_range(struct gd__index *x, uint32_t batch, unsigned first, unsigned end)
{
    const uint32_t *ends = x->ends_aside[batch], from = first > 0 ? ends[first - 1] : 0, n = ends[end - 1] - from;
    const size_t size = n * sizeof *x->batch;
    if (GD__FAULT("pread") || pread(x->aside_fd, x->batch, size, aside_at(batch, from)) != (ssize_t)size)
        return cannot_read(x);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = insert(x, &x->batch[i]);
    return rc;
}

/* Fills the table part by part, and takes the batches in order for each part. So rows with equal keys keep their
 * order. */
static int insert_all(struct gd__index *x, const atomic_bool *interrupted)
{
    const uint64_t at_once = (uint64_t)BINS * STRETCH / (x->n / PER_PAGE);
    const unsigned step = at_once < 1 ? 1 : at_once < BINS ? (unsigned)at_once : BINS;
    int rc = 0;
    for (unsigned first = 0; rc == 0 && first < BINS; first += step) {
        const unsigned end = first + step < BINS ? first + step : BINS;
        for (uint32_t k = 0; rc == 0 && k < x->n_aside; k++)
            rc = insert_range(x, k, first, end);
        if (is_interrupted(interrupted))
            rc = gd__error(GD_E_SHUTDOWN, "the run is shutting down");
    }
    return rc;
}

int gd__index_add(struct gd__index *x, const struct gd__row *row)
{
    struct entry *e = &x->batch[x->n_batch++];
    const uint64_t attempts = row->attempts < GD__ATTEMPTS_MOST ? row->attempts : GD__ATTEMPTS_MOST;
    hash_key(x, row->key, e->key);
    e->version = row->version;
    e->packed = row->id << (ATTEMPT_BITS + STATE_BITS) | attempts << STATE_BITS | row->state;
    return x->n_batch == BATCH ? write_aside(x) : 0;
}

static void end_building(struct gd__index *x)
{
    gd__free(x->batch);
    gd__free(x->order);
    gd__free(x->ends_aside);
    x->batch = NULL;
    x->order = NULL;
    x->ends_aside = NULL;
    if (x->aside_fd >= 0)
        close(x->aside_fd);
    x->aside_fd = -1;
}

int gd__index_seal(struct gd__index *x, const atomic_bool *interrupted)
{
    int rc = 0;
    if (x->n_aside == 0)
        rc = insert_batch(x, interrupted);
    else if (x->n_batch > 0)
        rc = write_aside(x);
    if (rc == 0 && x->n_aside > 0)
        rc = insert_all(x, interrupted);
    end_building(x);
    return rc;
}

void gd__index_close(struct gd__index **xp)
{
    struct gd__index *x = *xp;
    *xp = NULL;
    if (!x)
        return;
    if (x->fd >= 0)
        close(x->fd);
    end_building(x);
    gd__free(x->directory);
    gd__free(x);
}

/* --- taking --- */

static bool is_used(const struct gd__index *x, const struct entry *e)
{
    const uint64_t id = e->packed >> (ATTEMPT_BITS + STATE_BITS);
    return x->used[id / 8] >> (id % 8) & 1;
}

/* Reads the k-th row with that key into *e. Returns 1 if it is not taken, 0 if it is taken, or a negative code. */
static int read_kth(struct gd__index *x, const uint64_t key[2], uint64_t k, struct entry *e)
{
    const struct found f = seek_kth(x, key, k);
    if (!f.page)
        return GD_E_SYSTEM;
    *e = *f.e;
    return !is_used(x, e);
}

static int mark_all_taken(struct gd__index *x, const uint64_t key[2])
{
    const struct found f = seek(x, key);
    if (!f.page)
        return GD_E_SYSTEM;
    f.e->packed |= ALL_TAKEN;
    f.page->dirty = true;
    return 0;
}

/* Chooses a row with that key that is not taken: one of the first few that has the right version, or else the first.
 * Returns 1 with the row in *e, 0 if all are taken, or a negative code. */
static int choose(struct gd__index *x, struct hint *h, uint64_t version, struct entry *e)
{
    struct entry other;
    int rc = 0;
    while (h->free < h->count && (rc = read_kth(x, h->key, h->free, e)) == 0)
        h->free++;
    if (rc <= 0)
        return rc < 0 ? rc : mark_all_taken(x, h->key);
    for (uint64_t k = h->free + 1; rc >= 0 && e->version != version && k < h->count && k < h->free + NEARBY; k++)
        if ((rc = read_kth(x, h->key, k, &other)) == 1 && other.version == version)
            *e = other;
    return rc < 0 ? rc : 1;
}

int gd__index_take(struct gd__index *x, const unsigned char bytes[GD__HASH_SIZE], uint64_t version, struct gd__row *out)
{
    uint64_t key[2];
    struct entry e;
    hash_key(x, bytes, key);
    const struct found f = seek(x, key);
    if (!f.page)
        return GD_E_SYSTEM;
    if (is_free(f) || f.e->packed & ALL_TAKEN)
        return 0;
    struct hint *h = hint_of(x, key);
    const int rc = h ? choose(x, h, version, &e) : GD_E_SYSTEM;
    if (rc <= 0)
        return rc;
    memcpy(out->key, bytes, GD__HASH_SIZE);
    out->version = e.version;
    out->id = e.packed >> (ATTEMPT_BITS + STATE_BITS);
    out->attempts = (uint32_t)(e.packed >> STATE_BITS) & GD__ATTEMPTS_MOST;
    out->state = (uint8_t)(e.packed & (ALL_TAKEN - 1));
    return 1;
}
