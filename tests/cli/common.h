/* SPDX-License-Identifier: MIT
 *
 * Shared by tests of the command's parts: a directory for each case, files, the output of a shell command, and GNU
 * parallel to compare with.
 */
#ifndef GD_TESTS_CLI_COMMON_H
#define GD_TESTS_CLI_COMMON_H

#include <ftw.h>
#include <sys/stat.h>

#include "base/text/buffer.h"
#include "support/test.h"

static char cli_directory[64];

static int cli_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

TEST_UNUSED static void leave_directory(void)
{
    if (chdir("/") == 0)
        nftw(cli_directory, cli_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes a directory and changes to it. It is removed at the end of the case. A second call does nothing. */
TEST_UNUSED static void enter_directory(void)
{
    if (*cli_directory)
        return;
    snprintf(cli_directory, sizeof cli_directory, "/tmp/gd-cli-XXXXXX");
    CHECK(mkdtemp(cli_directory) != NULL);
    CHECK_EQ(chdir(cli_directory), 0);
    atexit(leave_directory);
}

TEST_UNUSED static void make_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(data, 1, size, f), size);
    CHECK_EQ(fclose(f), 0);
}

TEST_UNUSED static void make_text(const char *path, const char *text)
{
    make_file(path, text, strlen(text));
}

static void read_all(struct gd__buffer *b, FILE *f)
{
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        gd__buffer_add(b, part, n);
    gd__buffer_add(b, "", 1); /* so that it can be read as text; not counted */
    CHECK(!b->failed);
    b->size--;
}

/* The bytes of a file, followed by a NUL. */
TEST_UNUSED static struct gd__buffer bytes_of(const char *path)
{
    struct gd__buffer b = { 0 };
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL("cannot open %s", path);
    read_all(&b, f);
    fclose(f);
    return b;
}

/* The output and the exit status of a shell command. */
TEST_UNUSED static struct gd__buffer shell(const char *command, int *status)
{
    struct gd__buffer b = { 0 };
    FILE *f = popen(command, "re"); /* NOLINT(cert-env33-c): tests only */
    CHECK(f != NULL);
    read_all(&b, f);
    int code = pclose(f);
    if (status)
        *status = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
    return b;
}

/* Comparisons need GNU parallel, and use its default settings. */
TEST_UNUSED static void need_parallel(void)
{
    int status;
    enter_directory();
    unsetenv("PARALLEL");
    unsetenv("PARALLEL_HOME");
    setenv("HOME", cli_directory, 1);
    struct gd__buffer b = shell("parallel --version 2>/dev/null | grep -c '^GNU parallel'", &status);
    bool there = b.size > 0 && b.data[0] != '0';
    gd__buffer_free(&b);
    if (!there)
        SKIP("no GNU parallel");
}

/* Compares two texts of any bytes, and shows them if they differ. */
TEST_UNUSED static void check_same(const char *what, const struct gd__buffer *ours, const struct gd__buffer *theirs)
{
    if (ours->size != theirs->size || (ours->size && memcmp(ours->data, theirs->data, ours->size) != 0))
        FAIL("%s: ours is \"%.300s\", theirs \"%.300s\"", what, ours->data ? ours->data : "",
             theirs->data ? theirs->data : "");
}

#endif
