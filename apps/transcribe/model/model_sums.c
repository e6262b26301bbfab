/* SPDX-License-Identifier: MIT
 *
 * Checksums of models, and a cache of the files whose checksum was right.
 *
 * The cache is a text file with lines of SUM, SIZE, SECONDS.NANOSECONDS, PATH, separated by tabs. A file is known to be
 * good if the cache contains exactly the line that would be written for this file now. The cache is replaced by a
 * rename. If two processes replace the cache at the same time, a line can be lost. Then the model of that line is read
 * once more. */
#include "apps/transcribe/model/model_sums.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/model/sha1.h"
#include "apps/transcribe/model/sha256.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"

/* --- the cache ------------------------------------------------------------------------ */

enum { CACHE_MOST = 1 << 20 };

/* The path of a file in the cache directory, or of the directory itself if name is empty. NULL: no cache directory, or
 * no memory. */
static char *cache_path(const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (cache && *cache == '/') /* relative paths are ignored, as the XDG specification demands */
        n = asprintf(&path, "%s/gpu_dispatch%s", cache, name);
    else if (home && *home)
        n = asprintf(&path, "%s/.cache/gpu_dispatch%s", home, name);
    return n < 0 ? NULL : path;
}

/* Makes the line of a good file, with its newline. False if the path can't be written in a line, or if there is no
 * memory. */
static bool make_line(struct gd__buffer *line, const char *real, const char *sum, const struct stat *st)
{
    if (strchr(real, '\n'))
        return false;
    gd__buffer_format(line, "%s\t%" PRIu64 "\t%lld.%09ld\t", sum, (uint64_t)st->st_size, (long long)st->st_mtim.tv_sec,
                      (long)st->st_mtim.tv_nsec);
    gd__buffer_text(line, real);
    gd__buffer_text(line, "\n");
    return !line->failed;
}

/* Reads the whole cache. A cache that can't be read counts as empty. */
static void read_cache(struct gd__buffer *all)
{
    char *path = cache_path("/models.tsv"), part[4096];
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    if (fd < 0)
        return;
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0 && all->size < CACHE_MOST)
        gd__buffer_add(all, part, (size_t)n);
    close(fd);
    if (n != 0 || all->failed)
        all->size = 0;
}

/* The path in a line: the text after its third tab. */
static const char *path_in(const char *line, const char *end)
{
    for (int tabs = 0; line && tabs < 3; tabs++) {
        line = memchr(line, '\t', (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    return line;
}

/* Where the next line begins: after the newline, or at the end. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline + 1 : end;
}

static bool contains(const struct gd__buffer *all, const struct gd__buffer *line)
{
    const char *end = all->data + all->size;
    for (const char *at = all->data, *next; at < end; at = next) {
        next = line_end(at, end);
        if ((size_t)(next - at) == line->size && memcmp(at, line->data, line->size) == 0)
            return true;
    }
    return false;
}

static void write_cache(const struct gd__buffer *all)
{
    char *above = cache_path(""), *path = cache_path("/models.tsv"), *new = cache_path("/models.tsv.XXXXXX");
    int fd = -1;
    if (above && path && new) {
        char *slash = strrchr(above, '/');
        *slash = '\0';
        (void)mkdir(above, 0700);
        *slash = '/';
        (void)mkdir(above, 0777);
        fd = mkostemp(new, O_CLOEXEC);
    }
    if (fd >= 0) {
        const bool written = gd__write_all(fd, all->data, all->size) == 0;
        if (close(fd) < 0 || !written || rename(new, path) < 0)
            unlink(new);
    }
    free(above);
    free(path);
    free(new);
}

/* Adds the line, in place of an older line for the same path. */
static void remember(const struct gd__buffer *all, const struct gd__buffer *line)
{
    struct gd__buffer new = { 0 };
    const char *begin = all->data ? all->data : "", *end = begin + all->size;
    const char *mine = path_in(line->data, line->data + line->size);
    const size_t size = (size_t)(line->data + line->size - mine);
    for (const char *at = begin, *next; at < end; at = next) {
        next = line_end(at, end);
        const char *path = path_in(at, next);
        if (path && next[-1] == '\n' && ((size_t)(next - path) != size || memcmp(path, mine, size) != 0))
            gd__buffer_add(&new, at, (size_t)(next - at));
    }
    gd__buffer_add(&new, line->data, line->size);
    if (!new.failed)
        write_cache(&new);
    gd__buffer_free(&new);
}

/* --- checking ------------------------------------------------------------------------- */

/* Adds the rest of an open file. Returns 0, or -1 with errno. */
static int add_file(int fd, struct tr_sha1 *one, struct tr_sha256 *two)
{
    enum { PIECE = 1 << 18 };
    char *piece = malloc(PIECE);
    ssize_t n = -1;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    while (piece && ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR))) {
        if (n > 0 && one)
            tr_sha1_add(one, piece, (size_t)n);
        if (n > 0 && two)
            tr_sha256_add(two, piece, (size_t)n);
    }
    free(piece);
    return n == 0 ? 0 : -1;
}

int tr_model_sum_file(const char *path, const char *like, char found[TR_SUM_TEXT])
{
    const bool long_sum = strlen(like) == TR_SHA256_TEXT - 1;
    char room[TR_SHOWN];
    struct tr_sha1 one;
    struct tr_sha256 two;
    tr_sha1_begin(&one);
    tr_sha256_begin(&two);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int result = fd < 0 ? -1 : add_file(fd, long_sum ? NULL : &one, long_sum ? &two : NULL);
    if (result < 0)
        result = gd__fail("%s: cannot be read: %s", tr_shown(room, path), strerror(errno));
    else if (long_sum)
        tr_sha256_end(&two, found);
    else
        tr_sha1_end(&one, found);
    if (fd >= 0)
        close(fd);
    return result;
}

/* Makes the line that the cache would have for this file, and reads the cache. The file's time is read before its
 * contents. If the file changes meanwhile, the line no longer matches it. */
static bool look_up(const char *path, const char *sum, struct gd__buffer *all, struct gd__buffer *line)
{
    struct stat st;
    char *real = realpath(path, NULL);
    const bool cacheable = real && stat(real, &st) == 0 && make_line(line, real, sum, &st);
    free(real);
    if (cacheable)
        read_cache(all);
    return cacheable;
}

bool tr_model_is_verified(const char *path, const char *sum)
{
    struct gd__buffer all = { 0 }, line = { 0 };
    const bool good = look_up(path, sum, &all, &line) && all.size > 0 && contains(&all, &line);
    gd__buffer_free(&all);
    gd__buffer_free(&line);
    return good;
}

void tr_model_remember(const char *path, const char *sum)
{
    struct gd__buffer all = { 0 }, line = { 0 };
    if (look_up(path, sum, &all, &line))
        remember(&all, &line);
    gd__buffer_free(&all);
    gd__buffer_free(&line);
}

int tr_model_verify(const char *path, const char *sum, char found[TR_SUM_TEXT])
{
    struct gd__buffer all = { 0 }, line = { 0 };
    const bool cacheable = look_up(path, sum, &all, &line);
    int result = 1;
    if (!cacheable || all.size == 0 || !contains(&all, &line)) {
        result = tr_model_sum_file(path, sum, found);
        if (result == 0)
            result = strcmp(found, sum) == 0;
        if (result == 1 && cacheable)
            remember(&all, &line);
    }
    gd__buffer_free(&all);
    gd__buffer_free(&line);
    return result;
}
