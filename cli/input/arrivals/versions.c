/* SPDX-License-Identifier: MIT
 *
 * A table with open addressing. Paths are not stored, only their hashes of 128 bits, which differ in practice.
 */
#include "cli/input/arrivals/versions.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/hash/siphash.h"

enum { FIRST_ROOM = 1024 }; /* a power of two */

struct cli_version_entry {
    unsigned char path[GD__HASH_SIZE]; /* all zero: free */
    struct cli_version version;
};

struct cli_version cli_version_of(const struct stat *st)
{
    return (struct cli_version){ st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec };
}

bool cli_version_equal(const struct cli_version *a, const struct cli_version *b)
{
    return a->size == b->size && a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static bool is_free(const struct cli_version_entry *e)
{
    static const unsigned char zero[GD__HASH_SIZE];
    return memcmp(e->path, zero, sizeof zero) == 0;
}

/* The entry of a path, or the free one where it belongs. The table always has free entries. */
static struct cli_version_entry *find(struct cli_version_entry *entries, size_t room, const unsigned char *path)
{
    uint64_t start;
    memcpy(&start, path, sizeof start);
    for (size_t i = start & (room - 1);; i = (i + 1) & (room - 1)) {
        if (is_free(&entries[i]) || memcmp(entries[i].path, path, GD__HASH_SIZE) == 0)
            return &entries[i];
    }
}

static int grow(struct cli_versions *v)
{
    const size_t room = v->room ? v->room * 2 : FIRST_ROOM;
    struct cli_version_entry *more = calloc(room, sizeof *more);
    if (!more)
        return gd__fail("out of memory");
    for (size_t i = 0; i < v->room; i++) {
        if (!is_free(&v->entries[i]))
            *find(more, room, v->entries[i].path) = v->entries[i];
    }
    free(v->entries);
    v->entries = more;
    v->room = room;
    return 0;
}

static void hash_path(const char *path, unsigned char out[GD__HASH_SIZE])
{
    static const unsigned char key[16];
    gd__siphash128(key, path, strlen(path), out);
    out[0] |= 1; /* never all zero */
}

const struct cli_version *cli_versions_find(const struct cli_versions *v, const char *path)
{
    unsigned char hash[GD__HASH_SIZE];
    if (v->n == 0)
        return NULL;
    hash_path(path, hash);
    const struct cli_version_entry *e = find(v->entries, v->room, hash);
    return is_free(e) ? NULL : &e->version;
}

int cli_versions_put(struct cli_versions *v, const char *path, const struct cli_version *version)
{
    unsigned char hash[GD__HASH_SIZE];
    if (v->n * 2 >= v->room && grow(v) < 0)
        return -1;
    hash_path(path, hash);
    struct cli_version_entry *e = find(v->entries, v->room, hash);
    const bool is_new = is_free(e);
    if (!is_new && cli_version_equal(&e->version, version))
        return 0;
    v->n += is_new;
    memcpy(e->path, hash, sizeof hash);
    e->version = *version;
    return 1;
}

void cli_versions_free(struct cli_versions *v)
{
    free(v->entries);
    *v = (struct cli_versions){ 0 };
}
