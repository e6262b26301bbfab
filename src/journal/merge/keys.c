/* All records of all journals by key: see merge.h.
 *
 * Entries are divided into PARTS parts by their keys. Each part has a block of entries in memory. A full block is
 * appended to a temporary file. In the end the parts are read one after the other. A part fits into memory, and its
 * entries are put into a hash table that links those with equal keys.
 *
 * The part and the position of an entry depend on a secret of this process. Otherwise a malicious journal could choose
 * keys that are all in one part or at one position.
 */
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
#include "journal/merge/merge.h"

#ifdef GD_TEST_HOOKS
enum { BLOCK = 4 }; /* so that small tests use the file too */
#else
enum { BLOCK = 256 };
#endif
enum { PARTS = 256, PART_SHIFT = 56 };
#define NONE UINT32_MAX

struct part {
    struct gd__merge_entry *block; /* BLOCK entries; NULL: none was added */
    size_t n_block;
    uint64_t *blocks; /* numbers of its full blocks in the file */
    size_t n_blocks, room;
};

struct gd__merge_keys {
    int fd; /* -1: no block was full yet */
    char *directory;
    uint64_t n_blocks; /* in the file */
    uint64_t secret[2];
    struct part parts[PARTS];
};

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory to merge journals");
}

/* The file has no name, so the message names its directory. That shows which disk is full. */
static int file_failed(const struct gd__merge_keys *k, const char *doing)
{
    return gd__error_errno("cannot %s the temporary list of tasks in %s", doing, k->directory);
}

int gd__merge_keys_open(struct gd__merge_keys **out, const char *directory)
{
    struct gd__merge_keys *k = *out = gd__calloc(1, sizeof *k);
    if (!k)
        return no_memory();
    k->fd = -1;
    k->directory = gd__strdup(directory);
    if (!k->directory)
        return no_memory();
    if (getrandom(k->secret, sizeof k->secret, 0) != sizeof k->secret)
        return gd__error_errno("cannot get random bytes");
    return 0;
}

void gd__merge_keys_close(struct gd__merge_keys **kp)
{
    struct gd__merge_keys *k = *kp;
    *kp = NULL;
    if (!k)
        return;
    for (size_t i = 0; i < PARTS; i++) {
        gd__free(k->parts[i].block);
        gd__free(k->parts[i].blocks);
    }
    gd__fd_close(&k->fd);
    gd__free(k->directory);
    gd__free(k);
}

/* --- adding --- */

/* Keys are hashes already. This makes positions unknown to whoever made the journals. */
static uint64_t position_of(const struct gd__merge_keys *k, const unsigned char key[GD__HASH_SIZE])
{
    uint64_t words[2];
    memcpy(words, key, sizeof words);
    uint64_t x = (words[0] ^ k->secret[0]) * (k->secret[1] | 1) + words[1];
    x = (x ^ x >> 32) * (k->secret[0] | 1);
    return x ^ x >> 29;
}

static int open_file(struct gd__merge_keys *k)
{
    char *name = NULL;
    k->fd = GD__FAULT("open") ? -1 : open(k->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (k->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)) {
        /* the file system has no files without a name */
        if (asprintf(&name, "%s/.gpu-dispatch-XXXXXX", k->directory) < 0)
            return no_memory();
        k->fd = mkostemp(name, O_CLOEXEC);
        if (k->fd >= 0)
            unlink(name);
        free(name);
    }
    k->fd = gd__fd_above_stdio(k->fd);
    return k->fd < 0 ? file_failed(k, "make") : 0;
}

static int write_block(struct gd__merge_keys *k, struct part *p)
{
    if (k->fd < 0 && open_file(k) < 0)
        return GD_E_SYSTEM;
    if (p->n_blocks == p->room) {
        const size_t room = p->room ? 2 * p->room : 16;
        uint64_t *larger = gd__realloc(p->blocks, room * sizeof *larger);
        if (!larger)
            return no_memory();
        p->blocks = larger;
        p->room = room;
    }
    const size_t size = BLOCK * sizeof *p->block;
    const ssize_t n = GD__FAULT("pwrite") ? -1 : pwrite(k->fd, p->block, size, (off_t)(k->n_blocks * size));
    if (n != (ssize_t)size) {
        errno = n < 0 ? errno : ENOSPC;
        return file_failed(k, "write");
    }
    p->blocks[p->n_blocks++] = k->n_blocks++;
    p->n_block = 0;
    return 0;
}

int gd__merge_keys_add(struct gd__merge_keys *k, const struct gd__merge_entry *e)
{
    struct part *p = &k->parts[position_of(k, e->key) >> PART_SHIFT];
    if (!p->block && !(p->block = gd__calloc(BLOCK, sizeof *p->block)))
        return no_memory();
    if (p->n_block == BLOCK) {
        const int rc = write_block(k, p);
        if (rc < 0)
            return rc;
    }
    p->block[p->n_block++] = *e;
    return 0;
}

/* --- going through a part --- */

struct table {
    struct gd__merge_entry *entries, **same; /* same: the entries of one key */
    uint32_t *first, *next;                  /* first: by position; next: another entry with the same key */
    size_t n, n_first;
};

static int read_part(const struct gd__merge_keys *k, const struct part *p, struct table *t)
{
    const size_t size = BLOCK * sizeof *t->entries;
    t->n = p->n_blocks * BLOCK + p->n_block;
    if (t->n >= NONE / 2)
        return gd__error(GD_E_INVALID, "the journals have too many records to merge: merge fewer at a time");
    t->entries = gd__calloc(t->n + 1, sizeof *t->entries);
    t->same = gd__calloc(t->n + 1, sizeof *t->same);
    for (t->n_first = 16; t->n_first < 2 * t->n;)
        t->n_first *= 2;
    t->first = gd__calloc(t->n_first, sizeof *t->first);
    t->next = gd__calloc(t->n + 1, sizeof *t->next);
    if (!t->entries || !t->same || !t->first || !t->next)
        return no_memory();
    for (size_t i = 0; i < p->n_blocks; i++)
        if (GD__FAULT("pread") ||
            pread(k->fd, t->entries + i * BLOCK, size, (off_t)(p->blocks[i] * size)) != (ssize_t)size)
            return file_failed(k, "read");
    if (p->n_block > 0)
        memcpy(t->entries + p->n_blocks * BLOCK, p->block, p->n_block * sizeof *p->block);
    return 0;
}

static void free_table(struct table *t)
{
    gd__free(t->entries);
    gd__free(t->same);
    gd__free(t->first);
    gd__free(t->next);
}

/* Puts the entries into the table. Positions are stored as index + 1; 0 is free. */
static void link_entries(const struct gd__merge_keys *k, struct table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t at = position_of(k, t->entries[i].key) & (t->n_first - 1);
        while (t->first[at] && memcmp(t->entries[t->first[at] - 1].key, t->entries[i].key, GD__HASH_SIZE) != 0)
            at = (at + 1) & (t->n_first - 1);
        t->next[i] = t->first[at];
        t->first[at] = (uint32_t)i + 1;
    }
}

static int each_of_part(const struct gd__merge_keys *k, const struct part *p,
                        int (*fn)(void *user, struct gd__merge_entry **entries, size_t n), void *user)
{
    struct table t = { .n = 0 };
    int rc = read_part(k, p, &t);
    if (rc == 0)
        link_entries(k, &t);
    for (size_t at = 0; rc == 0 && at < t.n_first; at++) {
        size_t n = 0;
        for (uint32_t i = t.first[at]; i; i = t.next[i - 1])
            t.same[n++] = &t.entries[i - 1];
        if (n > 0)
            rc = fn(user, t.same, n);
    }
    free_table(&t);
    return rc;
}

int gd__merge_keys_each(struct gd__merge_keys *k, int (*fn)(void *user, struct gd__merge_entry **entries, size_t n),
                        void *user)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < PARTS; i++)
        if (k->parts[i].block) {
            rc = each_of_part(k, &k->parts[i], fn, user);
            gd__free(k->parts[i].block);
            k->parts[i].block = NULL;
        }
    return rc;
}
