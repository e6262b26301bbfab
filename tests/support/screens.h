/* SPDX-License-Identifier: MIT
 *
 * Expected screens, stored as files that people can read.
 */
#ifndef GD_TESTS_SUPPORT_SCREENS_H
#define GD_TESTS_SUPPORT_SCREENS_H

#include "support/test.h"

TEST_UNUSED static const char *screen_path(const char *directory, const char *name)
{
    static char path[1024];
    const char *root = getenv("GD_SOURCE_ROOT");
    if (!root)
        FAIL("GD_SOURCE_ROOT is not set: run this through meson test");
    snprintf(path, sizeof path, "%s/tests/%s/screens/%s", root, directory, name);
    return path;
}

/* Checks that a text equals the whole content of the file DIRECTORY/NAME below tests/. If GD_WRITE_SCREENS is set,
 * writes the file instead. Read the new file before you commit it. */
TEST_UNUSED static bool is_screen(const char *directory, const char *name, const char *text)
{
    char kept[65536] = "";
    const char *path = screen_path(directory, name);
    const bool write = getenv("GD_WRITE_SCREENS") != NULL;
    FILE *f = fopen(path, write ? "we" : "re");
    if (!f)
        FAIL("cannot open %s", path);
    if (write)
        CHECK_GE(fputs(text, f), 0);
    else
        kept[fread(kept, 1, sizeof kept - 1, f)] = 0;
    fclose(f);
    return write || strcmp(kept, text) == 0;
}

TEST_UNUSED static void check_screen(const char *directory, const char *name, const char *text)
{
    if (!is_screen(directory, name, text))
        FAIL("screen %s is\n%s", name, text);
}

#endif
