/* The names of files that each shard has for itself: see names.h.
 *
 * A name is a stem and a suffix. The shard is inserted between them, as ".K-of-N". Numbers are written without zeros
 * before them, so each shard has exactly one name. Names that only look similar, such as run.03-of-16.db, do not belong
 * to a shard.
 */
#include "shard/names.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"

enum { TAG_ROOM = 32 }; /* ".1000000-of-1000000" */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The suffix of a name, with its dot, or its end. */
static const char *suffix_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name ? dot : name + strlen(name);
}

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory for the names of shards");
}

/* Joins the first `stem` bytes of the path, the tag and the suffix. Returns NULL if there is no memory. */
static char *join(const char *path, size_t stem, const char *tag, const char *suffix)
{
    const size_t room = stem + strlen(tag) + strlen(suffix) + 1;
    char *out = gd__calloc(room, 1);
    if (!out)
        return NULL;
    memcpy(out, path, stem);
    (void)snprintf(out + stem, room - stem, "%s%s", tag, suffix);
    return out;
}

static bool has_name(const char *path)
{
    const char *name = name_of(path);
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int check_name(const char *path)
{
    if (has_name(path))
        return 0;
    return gd__error(GD_E_INVALID, "\"%s\" does not end with the name of a file", path);
}

int gd__shard_path(char **out, const char *path, struct gd_shard shard)
{
    char tag[TAG_ROOM];
    const char *suffix = suffix_of(name_of(path));
    *out = NULL;
    const int rc = check_name(path);
    if (rc < 0)
        return rc;
    (void)snprintf(tag, sizeof tag, ".%" PRIu32 "-of-%" PRIu32, shard.index + 1, shard.count);
    *out = join(path, (size_t)(suffix - path), tag, suffix);
    return *out ? 0 : no_memory();
}

int gd__shard_deal_path(char **out, const char *path, uint32_t count)
{
    char tag[TAG_ROOM];
    *out = NULL;
    const int rc = check_name(path);
    if (rc < 0)
        return rc;
    (void)snprintf(tag, sizeof tag, ".of-%" PRIu32, count);
    *out = join(path, (size_t)(suffix_of(name_of(path)) - path), tag, ".deal");
    return *out ? 0 : no_memory();
}

/* --- the reverse --- */

/* Reads a number as gd__shard_path() writes it. */
static bool read_number(const char **at, uint32_t *out)
{
    uint64_t n = 0;
    if (**at == '0' || !gd__shard_number(at, GD__SHARD_MOST, &n))
        return false;
    *out = (uint32_t)n;
    return true;
}

/* Reads ".K-of-N" at *at, and moves *at past it. */
static bool read_tag(const char **at, struct gd_shard *out)
{
    const char *p = *at;
    uint32_t k = 0, n = 0;
    if (*p++ != '.' || !read_number(&p, &k) || strncmp(p, "-of-", 4) != 0)
        return false;
    p += 4;
    if (!read_number(&p, &n) || k > n)
        return false;
    *out = (struct gd_shard){ k - 1, n };
    *at = p;
    return true;
}

bool gd__shard_is_sibling(const char *path, const char *name, struct gd_shard *shard)
{
    const char *base = name_of(path), *suffix = suffix_of(base);
    const size_t stem = (size_t)(suffix - base);
    if (!has_name(path) || strncmp(name, base, stem) != 0)
        return false;
    const char *at = name + stem;
    return read_tag(&at, shard) && strcmp(at, suffix) == 0;
}

/* Tries the tag at `dot`. Returns 1 if the path without it leads to this path again, and 0 if not. */
static int try_split(const char *path, const char *dot, char **base, struct gd_shard *shard)
{
    const char *rest = dot;
    if (!read_tag(&rest, shard) || (*rest && *rest != '.'))
        return 0;
    *base = join(path, (size_t)(dot - path), "", rest);
    if (!*base)
        return no_memory();
    if (gd__shard_is_sibling(*base, name_of(path), shard))
        return 1;
    gd__free(*base);
    *base = NULL;
    return 0;
}

/* The tag is the last part of the name, or the part before the suffix. */
int gd__shard_path_split(const char *path, char **base, struct gd_shard *shard)
{
    const char *name = name_of(path), *last = suffix_of(name);
    *base = NULL;
    const int rc = try_split(path, last, base, shard);
    if (rc != 0 || last == name)
        return rc;
    const char *before = last - 1;
    while (before > name && *before != '.')
        before--;
    return try_split(path, before, base, shard);
}

/* --- in a directory --- */

static int in_order(const void *a, const void *b)
{
    const struct gd_shard *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int add(struct gd_shard **list, size_t *n, size_t *room, struct gd_shard shard)
{
    if (*n == *room) {
        const size_t more = *room ? *room * 2 : 16;
        struct gd_shard *grown = gd__realloc(*list, more * sizeof *grown);
        if (!grown)
            return no_memory();
        *list = grown;
        *room = more;
    }
    (*list)[(*n)++] = shard;
    return 0;
}

static int read_directory(struct gd_shard **out, size_t *n, const char *path, DIR *d, const char *directory)
{
    size_t room = 0;
    for (;;) {
        struct gd_shard shard;
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e)
            return errno == 0 ? 0 : gd__error_errno("cannot read the directory %s", directory);
        const int rc = gd__shard_is_sibling(path, e->d_name, &shard) ? add(out, n, &room, shard) : 0;
        if (rc < 0)
            return rc;
    }
}

/* "a/b/run.db" is in "a/b/", and "run.db" in ".". */
static char *directory_of(const char *path)
{
    const size_t length = (size_t)(name_of(path) - path);
    char *directory = gd__calloc(length + 2, 1);
    if (directory)
        memcpy(directory, length > 0 ? path : ".", length > 0 ? length : 1);
    return directory;
}

int gd__shard_siblings(struct gd_shard **out, size_t *n, const char *path)
{
    *out = NULL;
    *n = 0;
    int rc = check_name(path);
    if (rc < 0)
        return rc;
    char *directory = directory_of(path);
    if (!directory)
        return no_memory();
    DIR *d = GD__FAULT("opendir") ? NULL : opendir(directory);
    if (d) {
        rc = read_directory(out, n, path, d, directory);
        (void)closedir(d); /* it was only read */
    } else if (errno != ENOENT) {
        rc = gd__error_errno("cannot read the directory %s", directory);
    }
    gd__free(directory);
    if (rc < 0) {
        gd__free(*out);
        *out = NULL;
        *n = 0;
    } else if (*n > 0) {
        qsort(*out, *n, sizeof **out, in_order);
    }
    return rc;
}
