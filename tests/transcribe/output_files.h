/* SPDX-License-Identifier: MIT
 *
 * Shared by tests of outputs: outputs of one line, and the content of directories.
 */
#ifndef GD_TESTS_TRANSCRIBE_OUTPUT_FILES_H
#define GD_TESTS_TRANSCRIBE_OUTPUT_FILES_H

#include <dirent.h>

#include "apps/transcribe/output/outputs.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "support/directory.h"

static struct tr_places places = { .input_dir = "in", .output_dir = "out", .formats = 1u << TR_TXT };

TEST_UNUSED static const char *path_of(const char *input)
{
    static struct gd__buffer path;
    if (tr_output_path(&path, &places, input, TR_TXT) < 0)
        FAIL("%s: %s", input, gd__fail_text());
    CHECK_EQ(strlen(path.data), path.size);
    return path.data;
}

/* An output of one line. */
TEST_UNUSED static struct tr_transcript one_line(const char *text)
{
    struct tr_transcript t = { .duration = 1 };
    const struct tr_segment_facts s = tr_segment_facts(0, 1);
    CHECK_EQ(tr_transcript_add(&t, &s, text, strlen(text)), 0);
    return t;
}

TEST_UNUSED static int write_line(const char *input, const char *text)
{
    struct tr_transcript t = one_line(text);
    const int result = tr_outputs_write(&places, input, &t);
    tr_transcript_free(&t);
    return result;
}

TEST_UNUSED static void must_write(const char *input, const char *text)
{
    if (write_line(input, text) < 0)
        FAIL("%s: %s", input, gd__fail_text());
}

TEST_UNUSED static void must_not_write(const char *input, const char *message)
{
    if (write_line(input, "text") == 0)
        FAIL("%s was written", input);
    CHECK_CONTAINS(gd__fail_text(), message);
}

TEST_UNUSED static const char *contents(const char *path)
{
    static char text[10000];
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL("%s: %s", path, strerror(errno));
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* The number of entries of a directory, including hidden ones. */
TEST_UNUSED static int entries_of(const char *directory)
{
    struct dirent **list = NULL;
    const int n = scandir(directory, &list, NULL, NULL);
    if (n < 0)
        FAIL("%s: %s", directory, strerror(errno));
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return n - 2;
}

TEST_UNUSED static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Root may write anywhere, so a case that runs as root changes to another user. */
TEST_UNUSED static void become_nobody(void)
{
    if (geteuid() == 0 && seteuid(65534) < 0)
        SKIP("root can't change to another user here");
}

TEST_UNUSED static void become_root(void)
{
    if (getuid() == 0)
        CHECK_EQ(seteuid(0), 0);
}

#endif
