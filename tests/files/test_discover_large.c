/* SPDX-License-Identifier: MIT
 *
 * Finding files in large trees: deep ones, wide ones, and those with many directories. Making such trees takes long, so
 * these tests are not among the unit tests.
 */
#include <malloc.h>

#include "unit/launch/discover.h"

/* A tree deeper than PATH_MAX. Every level has another directory that waits to be searched. */
static void search_deep(bool a_first)
{
    enum { LEVELS = 3000, BOUND = 48 };
    directory_enter();
    make_deep(LEVELS, "x.wav");
    const int lowest = dup(0);
    close(lowest);
    what.recursive = true;
    a_last = a_first; /* the last name is entered first */
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_problems, 0);
    CHECK_EQ(n_found, 2 * LEVELS);
    CHECK_EQ(sum, 2 * LEVELS);
    CHECK_EQ(longest_path, strlen("d/") + 2 * (LEVELS - 1) + strlen("s/x.wav"));
    CHECK_GT(longest_path, PATH_MAX);
    CHECK_LT(highest_fd, lowest + BOUND);
    const int after = dup(0);
    CHECK_EQ(after, lowest); /* every descriptor is closed */
}

TEST_WITHIN(300, a_tree_of_3000_levels)
{
    search_deep(true);
}

TEST_WITHIN(300, a_tree_of_3000_levels_in_discovery_order)
{
    search_deep(false);
}

static size_t most_kept;

/* The exact number of bytes allocated now. The kernel's figures come in steps, which grow with the number of
 * processors. */
static void note_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    const size_t kept = m.uordblks + m.hblkhd;
    most_kept = kept > most_kept ? kept : most_kept;
}

static int count_only(void *user, const char *path, uint64_t size)
{
    (void)path, (void)size;
    if (++*(size_t *)user % 1000 == 0)
        note_memory();
    return 0;
}

static void make_wide(const char *path, int n)
{
    make_directories(path);
    const int dir = open(path, O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    for (int i = 0; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "take_%d.wav", i);
        CHECK_EQ(mknodat(dir, name, S_IFREG | 0644, 0), 0);
    }
    close(dir);
}

TEST_WITHIN(300, memory_does_not_grow_with_files)
{
    size_t few = 0, many = 0;
    directory_enter();
    make_wide("few", 10000);
    make_wide("many", 100000);
    PATTERNS("*.wav");
    CHECK_EQ(gd_discover_files("few", &what, count_only, &few), 0);
    const size_t before = most_kept;
    CHECK_EQ(gd_discover_files("many", &what, count_only, &many), 0);
    CHECK_EQ(few, 10000);
    CHECK_EQ(many, 100000);
    CHECK_LE(most_kept - before, 512 * 1024); /* the names alone need three times as much */
}

TEST(many_directories)
{
    directory_enter();
    for (int i = 0; i < 3000; i++) {
        char path[40];
        snprintf(path, sizeof path, "d/folder number %d/x.wav", i);
        make_file(path, 1);
    }
    what.recursive = true;
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_found, 3000);
}

/* More directories than the initial size of the set of visited ones. Each is reached twice. */
TEST(many_directories_are_remembered)
{
    directory_enter();
    for (int i = 0; i < 1000; i++) {
        char path[40], link[40], target[40];
        snprintf(path, sizeof path, "d/%d/x.wav", i);
        snprintf(link, sizeof link, "d/again_%d", i);
        snprintf(target, sizeof target, "%d", i);
        make_file(path, 1);
        CHECK_EQ(symlink(target, link), 0);
    }
    what.recursive = what.follow = true;
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_found, 1000);
}

TEST_MAIN()
