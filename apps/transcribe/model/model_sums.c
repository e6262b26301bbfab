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
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"

/* The checksums that whisper.cpp's authors published. The sum of demo is that of models/ggml-demo.bin in this source
 * tree. */
#define MODELS(X)                                                        \
    X("tiny", "bd577a113a864445d4c299885e0cb97d4ba92b5f")                \
    X("tiny-q5_1", "2827a03e495b1ed3048ef28a6a4620537db4ee51")           \
    X("tiny-q8_0", "19e8118f6652a650569f5a949d962154e01571d9")           \
    X("tiny.en", "c78c86eb1a8faa21b369bcd33207cc90d64ae9df")             \
    X("tiny.en-q5_1", "3fb92ec865cbbc769f08137f22470d6b66e071b6")        \
    X("tiny.en-q8_0", "802d6668e7d411123e672abe4cb6c18f12306abb")        \
    X("base", "465707469ff3a37a2b9b8d8f89f2f99de7299dac")                \
    X("base-q5_1", "a3733eda680ef76256db5fc5dd9de8629e62c5e7")           \
    X("base-q8_0", "7bb89bb49ed6955013b166f1b6a6c04584a20fbe")           \
    X("base.en", "137c40403d78fd54d454da0f9bd998f78703390c")             \
    X("base.en-q5_1", "d26d7ce5a1b6e57bea5d0431b9c20ae49423c94a")        \
    X("base.en-q8_0", "bb1574182e9b924452bf0cd1510ac034d323e948")        \
    X("small", "55356645c2b361a969dfd0ef2c5a50d530afd8d5")               \
    X("small-q5_1", "6fe57ddcfdd1c6b07cdcc73aaf620810ce5fc771")          \
    X("small-q8_0", "bcad8a2083f4e53d648d586b7dbc0cd673d8afad")          \
    X("small.en", "db8a495a91d927739e50b3fc1cc4c6b8f6c2d022")            \
    X("small.en-q5_1", "20f54878d608f94e4a8ee3ae56016571d47cba34")       \
    X("small.en-q8_0", "9d75ff4ccfa0a8217870d7405cf8cef0a5579852")       \
    X("medium", "fd9727b6e1217c2f614f9b698455c4ffd82463b4")              \
    X("medium-q5_0", "7718d4c1ec62ca96998f058114db98236937490e")         \
    X("medium-q8_0", "e66645948aff4bebbec71b3485c576f3d63af5d6")         \
    X("medium.en", "8c30f0e44ce9560643ebd10bbe50cd20eafd3723")           \
    X("medium.en-q5_0", "bb3b5281bddd61605d6fc76bc5b92d8f20284c3b")      \
    X("medium.en-q8_0", "b1cf48c12c807e14881f634fb7b6c6ca867f6b38")      \
    X("large-v1", "b1caaf735c4cc1429223d5a74f0f4d0b9b59a299")            \
    X("large-v2", "0f4c8e34f21cf1a914c59d8b3ce882345ad349d6")            \
    X("large-v2-q5_0", "00e39f2196344e901b3a2bd5814807a769bd1630")       \
    X("large-v2-q8_0", "da97d6ca8f8ffbeeb5fd147f79010eeea194ba38")       \
    X("large-v3", "ad82bf6a9043ceed055076d0fd39f5f186ff8062")            \
    X("large-v3-q5_0", "e6e2ed78495d403bef4b7cff42ef4aaadcfea8de")       \
    X("large-v3-turbo", "4af2b29d7ec73d781377bfd1758ca957a807e941")      \
    X("large-v3-turbo-q5_0", "e050f7970618a659205450ad97eb95a18d69c9ee") \
    X("large-v3-turbo-q8_0", "01bf15bedffe9f39d65c1b6ff9b687ea91f59e0e") \
    X("demo", "954490f54334d843c9ec49e7c34635f4c9465284")

#define NAME_OF(name, sum) name,
#define SUM_OF(name, sum)  sum,
static const char *const names[] = { MODELS(NAME_OF) }, *const sums[] = { MODELS(SUM_OF) };

const char *const *tr_model_names(size_t *n)
{
    *n = sizeof names / sizeof *names;
    return names;
}

const char *tr_model_sum(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0)
            return sums[i];
    }
    return NULL;
}

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

static int sum_file(const char *path, char found[41])
{
    enum { PIECE = 1 << 18 };
    char room[TR_SHOWN], *piece = malloc(PIECE);
    const int fd = piece ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct tr_sha1 s;
    ssize_t n = -1;
    tr_sha1_begin(&s);
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        while ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)) {
            if (n > 0)
                tr_sha1_add(&s, piece, (size_t)n);
        }
    }
    if (n == 0)
        tr_sha1_end(&s, found);
    else
        gd__fail("%s: cannot be read: %s", tr_shown(room, path), piece ? strerror(errno) : "no memory");
    if (fd >= 0)
        close(fd);
    free(piece);
    return n == 0 ? 0 : -1;
}

int tr_model_verify(const char *path, const char *sum, char found[41])
{
    struct gd__buffer all = { 0 }, line = { 0 };
    struct stat st;
    char *real = realpath(path, NULL);
    /* The file's time is read before its contents. If the file changes meanwhile, the line no longer matches it. */
    const bool cacheable = real && stat(real, &st) == 0 && make_line(&line, real, sum, &st);
    int result = 1;
    if (cacheable)
        read_cache(&all);
    if (!cacheable || all.size == 0 || !contains(&all, &line)) {
        result = sum_file(path, found);
        if (result == 0)
            result = strcmp(found, sum) == 0;
        if (result == 1 && cacheable)
            remember(&all, &line);
    }
    gd__buffer_free(&all);
    gd__buffer_free(&line);
    free(real);
    return result;
}
