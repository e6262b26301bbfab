/* SPDX-License-Identifier: MIT
 *
 * For tests that find files: a search whose results can be compared as text. The functions here replace getdents64()
 * and fstatat(). They call the real ones and count. They can also hide the types of entries, or put the entry "a" last,
 * as some file systems do.
 */
#ifndef GD_TESTS_UNIT_DISCOVER_H
#define GD_TESTS_UNIT_DISCOVER_H

#include <dirent.h>
#include <gpu_dispatch/launch.h>

#include "support/directory.h"

/* --- the replaced calls ------------------------------------------------------------ */

static bool hide_types, a_last;
static int n_stats, reads_until_error;

static void hide_all_types(char *records, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct dirent64 *d = (void *)(records + at);
        d->d_type = DT_UNKNOWN;
        at += d->d_reclen;
    }
}

static void put_a_last(char *records, size_t size)
{
    char kept[sizeof(struct dirent64)];
    for (size_t at = 0; at < size;) {
        const struct dirent64 *d = (void *)(records + at);
        const size_t length = d->d_reclen;
        if (strcmp(d->d_name, "a") == 0) {
            memcpy(kept, d, length);
            memmove(records + at, records + at + length, size - at - length);
            memcpy(records + size - length, kept, length);
            return;
        }
        at += length;
    }
}

ssize_t getdents64(int fd, void *buffer, size_t size)
{
    if (reads_until_error > 0 && --reads_until_error == 0) {
        errno = EIO;
        return -1;
    }
    const ssize_t n = syscall(SYS_getdents64, fd, buffer, size);
    if (n > 0 && hide_types)
        hide_all_types(buffer, (size_t)n);
    if (n > 0 && a_last)
        put_a_last(buffer, (size_t)n);
    return n;
}

int fstatat(int fd, const char *restrict path, struct stat *restrict s, int flags)
{
    n_stats++;
    return (int)syscall(SYS_newfstatat, fd, path, s, flags);
}

/* --- searching ------------------------------------------------------------ */

enum { MOST = 64 };

static char *found[MOST], *problems[MOST];
static size_t n_found, n_problems, longest_path;
static uint64_t sum;
static int stop_after, highest_fd;
static void (*at_file)(const char *path);
static struct gd_discover what = GD_DISCOVER_INIT;

static int on_file(void *user, const char *path, uint64_t size)
{
    CHECK(user == &what);
    if (n_found < MOST)
        found[n_found] = strdup(path);
    n_found++;
    sum += size;
    longest_path = strlen(path) > longest_path ? strlen(path) : longest_path;
    const int fd = dup(0);
    highest_fd = fd > highest_fd ? fd : highest_fd;
    close(fd);
    if (at_file)
        at_file(path);
    return stop_after > 0 && n_found == (size_t)stop_after ? 7 : 0;
}

static void on_problem(void *user, const char *path, const char *why)
{
    CHECK(user == &found);
    if (n_problems < MOST && asprintf(&problems[n_problems], "%s: %s", path, why) < 0)
        FAIL("no memory");
    n_problems++;
}

static void forget(char **list, size_t *n)
{
    for (size_t i = 0; i < *n && i < MOST; i++)
        free(list[i]);
    *n = 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the entries of a list as text, sorted, with blanks between them. */
static const char *joined(char **list, size_t n)
{
    static char text[MOST * 300];
    CHECK_LE(n, MOST);
    qsort(list, n, sizeof *list, by_text);
    char *end = text;
    *end = '\0';
    for (size_t i = 0; i < n; i++)
        end += snprintf(end, sizeof text - (size_t)(end - text), "%s%s", i ? " " : "", list[i]);
    return text;
}

TEST_UNUSED static int search(const char *dir)
{
    forget(found, &n_found);
    forget(problems, &n_problems);
    sum = 0;
    what.on_problem = on_problem;
    what.user = &found;
    return gd_discover_files(dir, &what, on_file, &what);
}

/* Searches a directory and returns the files found. The search must have no errors. */
TEST_UNUSED static const char *files_in(const char *dir)
{
    if (search(dir) != 0)
        FAIL("%s", gd_error_text());
    if (n_problems > 0)
        FAIL("%s", problems[0]);
    return joined(found, n_found);
}

#define PATTERNS(...) (what.patterns = (const char *const[]){ __VA_ARGS__, NULL })

/* Makes d/a/a/a/..., and in each directory a file and a directory s with a file. Does not change the working
 * directory. */
TEST_UNUSED static void make_deep(int levels, const char *file)
{
    const int here = open(".", O_RDONLY | O_DIRECTORY);
    char below[40];
    snprintf(below, sizeof below, "s/%s", file);
    make_directories("d");
    CHECK_EQ(chdir("d"), 0);
    for (int i = 0; i < levels; i++) {
        make_file(file, 1);
        make_file(below, 1);
        make_directories("a");
        CHECK_EQ(chdir("a"), 0);
    }
    CHECK_EQ(fchdir(here), 0);
    close(here);
}

#endif
