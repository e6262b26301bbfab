/* SPDX-License-Identifier: MIT
 *
 * Finding files: patterns, kinds of entries, links, and errors during the search. tests/files/test_discover_large.c has
 * large trees.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fault.h"
#include "unit/launch/discover.h"

static const char *matching(const char *pattern)
{
    PATTERNS(pattern);
    return files_in("d");
}

/* --- names ---------------------------------------------------------------- */

TEST(all_files_of_one_directory)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/b.txt", 2);
    make_file("d/sub/c.wav", 4);
    CHECK_STR(files_in("d"), "d/a.wav d/b.txt");
    CHECK_EQ(sum, 3);
}

TEST(subdirectories_if_requested)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/sub/c.wav", 4);
    make_file("d/sub/sub/d.wav", 8);
    make_directories("d/empty");
    what.recursive = true;
    CHECK_STR(files_in("d"), "d/a.wav d/sub/c.wav d/sub/sub/d.wav");
    CHECK_EQ(sum, 13);
}

TEST(an_empty_directory)
{
    directory_enter();
    make_directories("d");
    CHECK_STR(files_in("d"), "");
}

TEST(null_options_mean_the_defaults)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/e/a.wav", 1);
    CHECK_EQ(gd_discover_files("d", NULL, on_file, &what), 0);
    CHECK_EQ(n_found, 1);
}

TEST(paths_are_joined_as_find_does)
{
    directory_enter();
    make_file("d/e/x.wav", 1);
    what.recursive = true;
    CHECK_STR(files_in("."), "./d/e/x.wav");
    CHECK_STR(files_in("d/"), "d/e/x.wav");
    CHECK_STR(files_in("d///"), "d/e/x.wav");
    CHECK_STR(files_in("./d"), "./d/e/x.wav");
    CHECK_STR(files_in("d//e"), "d//e/x.wav");
    char whole[300], expected[320];
    snprintf(whole, sizeof whole, "%s/d", directory_path);
    snprintf(expected, sizeof expected, "%s/e/x.wav", whole);
    CHECK_STR(files_in(whole), expected);
}

TEST(the_root_directory_has_one_slash)
{
    what.no_sizes = true;
    stop_after = 1;
    what.recursive = true;
    what.hidden = true;
    CHECK_EQ(search("/"), 7);
    CHECK(found[0][0] == '/' && found[0][1] != '/');
}

TEST(patterns)
{
    directory_enter();
    const char *const names[] = { "a.wav", "a.wave", "ab.wav",     "wav",   ".wav",
                                  "b.WAV", "a*b",    "take_1.wav", "take_", "é.wav" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[40];
        snprintf(path, sizeof path, "d/%s", names[i]);
        make_file(path, 1);
    }
    CHECK_STR(matching("*.wav"), "d/a.wav d/ab.wav d/take_1.wav d/é.wav");
    CHECK_STR(matching("a.wav"), "d/a.wav");
    CHECK_STR(matching("a.wa"), "");
    CHECK_STR(matching("take_*"), "d/take_ d/take_1.wav");
    CHECK_STR(matching("take_*.wav"), "d/take_1.wav");
    CHECK_STR(matching("a*a.wav"), ""); /* prefix and suffix do not overlap */
    CHECK_STR(matching("*wav"), "d/a.wav d/ab.wav d/take_1.wav d/wav d/é.wav");
    CHECK_STR(matching("?.wav"), "d/a.wav"); /* in the C locale ? matches one byte */
    CHECK_STR(matching("[ab].[wW]*"), "d/a.wav d/a.wave d/b.WAV");
    CHECK_STR(matching("a\\*b"), "d/a*b");
    CHECK_STR(matching("*.w*"), "d/a.wav d/a.wave d/ab.wav d/take_1.wav d/é.wav");
    CHECK_STR(matching("*"), "d/a*b d/a.wav d/a.wave d/ab.wav d/b.WAV d/take_ d/take_1.wav d/wav d/é.wav");
}

TEST(several_patterns_find_a_file_once)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/b.flac", 1);
    make_file("d/c.txt", 1);
    PATTERNS("*.wav", "a*", "*.flac");
    CHECK_STR(files_in("d"), "d/a.wav d/b.flac");
    what.patterns = (const char *const[]){ NULL };
    CHECK_STR(files_in("d"), "d/a.wav d/b.flac d/c.txt");
}

TEST(bad_patterns_are_refused)
{
    directory_enter();
    make_file("d/a.wav", 1);
    PATTERNS("*.wav", "");
    CHECK_EQ(search("d"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "a pattern is empty");
    PATTERNS("sub/*.wav");
    CHECK_EQ(search("d"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "\"sub/*.wav\" contains '/'");
    CHECK_EQ(n_found, 0);
}

TEST(hidden_names)
{
    directory_enter();
    make_file("d/.a.wav", 1);
    make_file("d/b.wav", 1);
    make_file("d/.git/c.wav", 1);
    what.recursive = true;
    CHECK_STR(files_in("d"), "d/b.wav");
    CHECK_STR(files_in("d/.git"), "d/.git/c.wav");
    CHECK_STR(matching("*.wav"), "d/b.wav");
    CHECK_STR(matching("?a.wav"), "");
    CHECK_STR(matching(".*"), "d/.a.wav");
    CHECK_STR(matching(".a*v"), "d/.a.wav");
    CHECK_STR(matching(".[a-c].wav"), "d/.a.wav");
    what.hidden = true;
    CHECK_STR(matching("*.wav"), "d/.a.wav d/.git/c.wav d/b.wav");
    CHECK_STR(matching("?a.wav"), "d/.a.wav");
    what.patterns = NULL;
    CHECK_STR(files_in("d"), "d/.a.wav d/.git/c.wav d/b.wav");
}

TEST(names_with_any_bytes)
{
    directory_enter();
    make_file("d/\xff\xfe.wav", 1);
    make_file("d/two\nlines.wav", 2);
    make_file("d/\xc3(\x80/ \t'\".wav", 4);
    make_file("d/\x01\x7f.wav", 8);
    what.recursive = true;
    CHECK_STR(matching("*.wav"), "d/\x01\x7f.wav d/two\nlines.wav d/\xc3(\x80/ \t'\".wav d/\xff\xfe.wav");
    CHECK_STR(matching("*.[w]av"), "d/\x01\x7f.wav d/two\nlines.wav d/\xc3(\x80/ \t'\".wav d/\xff\xfe.wav");
    CHECK_EQ(sum, 15);
}

TEST(the_longest_possible_name)
{
    directory_enter();
    char path[NAME_MAX + 3] = "d/";
    memset(path + 2, 'x', NAME_MAX);
    make_file(path, 1);
    CHECK_STR(files_in("d"), path);
}

/* --- kinds of entries ----------------------------------------------------- */

static void make_every_kind(void)
{
    make_file("d/file.wav", 5);
    make_file("d/sub/file.wav", 50);
    make_file("other/there.wav", 500);
    CHECK_EQ(mkfifo("d/fifo.wav", 0644), 0);
    CHECK_EQ(symlink("../other/there.wav", "d/link.wav"), 0);
    CHECK_EQ(symlink("../other", "d/linked"), 0);
    CHECK_EQ(symlink("fifo.wav", "d/to_fifo.wav"), 0);
    CHECK_EQ(symlink("/dev/null", "d/to_null.wav"), 0);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    const struct sockaddr_un a = { AF_UNIX, "d/socket.wav" };
    CHECK_EQ(bind(s, (const struct sockaddr *)&a, sizeof a), 0);
    close(s);
}

/* on_other gets entries that are not files, if their name matches. A link counts as the entry that it points to. */
TEST(other_entries_are_reported)
{
    directory_enter();
    make_file("d/a.wav", 1);
    CHECK_EQ(mkfifo("d/pipe.wav", 0644), 0);
    CHECK_EQ(mkfifo("d/pipe.txt", 0644), 0);
    CHECK_EQ(symlink("/dev/null", "d/null.wav"), 0);
    make_directories("d/folder.wav");
    PATTERNS("*.wav");
    what.on_other = on_problem;
    CHECK_EQ(search("d"), 0);
    CHECK_STR(joined(found, n_found), "d/a.wav");
    CHECK_STR(joined(problems, n_problems), "d/null.wav: a device d/pipe.wav: a pipe");
    what.size = offsetof(struct gd_discover, on_other); /* as in a program built before this field existed */
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_problems, 0);
}

TEST(only_files_and_links_to_files)
{
    directory_enter();
    make_every_kind();
    what.recursive = true;
    CHECK_STR(files_in("d"), "d/file.wav d/link.wav d/sub/file.wav");
    CHECK_EQ(sum, 555);
    what.follow = true;
    CHECK_STR(files_in("d"), "d/file.wav d/link.wav d/linked/there.wav d/sub/file.wav");
    CHECK_EQ(sum, 1055);
}

TEST(the_same_without_types_of_entries)
{
    directory_enter();
    make_every_kind();
    what.recursive = hide_types = true;
    CHECK_STR(files_in("d"), "d/file.wav d/link.wav d/sub/file.wav");
    CHECK_EQ(sum, 555);
    what.follow = true;
    CHECK_STR(files_in("d"), "d/file.wav d/link.wav d/linked/there.wav d/sub/file.wav");
    what.no_sizes = true;
    CHECK_STR(files_in("d"), "d/file.wav d/link.wav d/linked/there.wav d/sub/file.wav");
    CHECK_EQ(sum, 0);
}

TEST(no_needless_calls_of_stat)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/b.wav", 1);
    make_file("d/c.txt", 1);
    make_file("d/sub/d.txt", 1);
    CHECK_EQ(symlink("a.wav", "d/link.txt"), 0);
    PATTERNS("*.wav");
    what.recursive = true;
    CHECK_STR(files_in("d"), "d/a.wav d/b.wav");
    CHECK_EQ(n_stats, 2);
    n_stats = 0;
    what.no_sizes = true;
    CHECK_STR(files_in("d"), "d/a.wav d/b.wav");
    CHECK_EQ(n_stats, 0);
    hide_types = true;
    CHECK_STR(files_in("d"), "d/a.wav d/b.wav");
    CHECK_EQ(n_stats, 6); /* the types are hidden, so every entry may be a directory */
    n_stats = 0;
    what.recursive = false;
    CHECK_STR(files_in("d"), "d/a.wav d/b.wav");
    CHECK_EQ(n_stats, 2);
}

TEST(dangling_links_are_problems_if_they_match)
{
    directory_enter();
    make_file("d/a.wav", 1);
    CHECK_EQ(symlink("nowhere", "d/dangling.wav"), 0);
    CHECK_EQ(symlink("nowhere", "d/dangling.txt"), 0);
    CHECK_EQ(symlink("self.wav", "d/self.wav"), 0);
    what.recursive = what.follow = true;
    PATTERNS("*.wav");
    CHECK_EQ(search("d"), 0);
    CHECK_STR(joined(found, n_found), "d/a.wav");
    CHECK_STR(joined(problems, n_problems),
              "d/dangling.wav: the link cannot be followed: No such file or directory "
              "d/self.wav: the link cannot be followed: Too many levels of symbolic links");
    what.on_problem = NULL;
    CHECK_EQ(gd_discover_files("d", &what, on_file, &what), 0);
}

/* --- links to directories ----------------------------------------------------- */

TEST(a_link_as_the_directory_to_search)
{
    directory_enter();
    make_file("d/a.wav", 1);
    CHECK_EQ(symlink("d", "l"), 0);
    CHECK_STR(files_in("l"), "l/a.wav");
}

TEST(loops_of_links_end)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/e/b.wav", 1);
    CHECK_EQ(symlink(".", "d/here"), 0);
    CHECK_EQ(symlink("..", "d/e/up"), 0);
    CHECK_EQ(symlink("../../d", "d/e/around"), 0);
    what.recursive = true;
    CHECK_STR(files_in("d"), "d/a.wav d/e/b.wav");
    what.follow = true;
    CHECK_STR(files_in("d"), "d/a.wav d/e/b.wav");
}

TEST(a_directory_reached_twice_is_entered_once)
{
    directory_enter();
    make_file("there/x.wav", 1);
    make_directories("d");
    CHECK_EQ(symlink("../there", "d/one"), 0);
    CHECK_EQ(symlink("../there", "d/two"), 0);
    what.recursive = what.follow = true;
    files_in("d");
    CHECK_EQ(n_found, 1);
}

/* Each link leads to the next directory. The system refuses a path with more than 40 links, so the search cannot use
 * the whole path. */
TEST(a_long_chain_of_links)
{
    enum { N = 120 };
    directory_enter();
    for (int i = 0; i < N; i++) {
        char file[40], link[40], target[40];
        snprintf(file, sizeof file, "f%d/s/x.wav", i);
        snprintf(link, sizeof link, "f%d/a", i);
        snprintf(target, sizeof target, "../f%d", i + 1);
        make_file(file, 1);
        if (i + 1 < N)
            CHECK_EQ(symlink(target, link), 0);
    }
    what.recursive = what.follow = a_last = true;
    CHECK_EQ(search("f0"), 0);
    CHECK_EQ(n_problems, 0);
    CHECK_EQ(n_found, N);
}

/* --- errors --------------------------------------------------------------- */

TEST(directories_that_cannot_be_searched)
{
    directory_enter();
    make_file("d/a.wav", 1);
    CHECK_EQ(search("nowhere"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the directory nowhere does not exist");
    CHECK_EQ(search("d/a.wav"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "d/a.wav is not a directory");
    CHECK_EQ(mkfifo("fifo", 0644), 0);
    CHECK_EQ(search("fifo"), GD_E_INVALID); /* the call does not wait for a writer */
    CHECK_EQ(search(""), GD_E_INVALID);
    CHECK_EQ(search(NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "no directory to search");
    CHECK_EQ(symlink("loop", "loop"), 0);
    CHECK_EQ(search("loop"), GD_E_INVALID);
    CHECK_EQ(gd_discover_files("d", &what, NULL, NULL), GD_E_INVALID);
}

TEST(options_of_another_version)
{
    struct {
        struct gd_discover known;
        char more;
    } newer = { GD_DISCOVER_INIT, 0 };
    directory_enter();
    make_file("d/a.wav", 1);
    newer.known.size = sizeof newer;
    CHECK_EQ(gd_discover_files("d", &newer.known, on_file, &what), 0);
    CHECK_EQ(n_found, 1);
    newer.more = 1;
    CHECK_EQ(gd_discover_files("d", &newer.known, on_file, &what), GD_E_VERSION);
    what.size = 0;
    CHECK_EQ(search("d"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "set it to sizeof(struct gd_discover)");
}

TEST(the_return_value_of_the_callback_ends_the_search)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/b.wav", 1);
    make_file("d/e/c.wav", 1);
    what.recursive = true;
    const int before = dup(0);
    close(before);
    for (stop_after = 1; stop_after <= 3; stop_after++) {
        CHECK_EQ(search("d"), 7);
        CHECK_EQ(n_found, stop_after);
    }
    CHECK_EQ(search("d"), 0);
    const int after = dup(0);
    CHECK_EQ(after, before);
}

/* Root may read everything. So if this runs as root, it becomes the user "nobody". */
static void become_nobody(void)
{
    if (geteuid() == 0 && (setegid(65534) < 0 || seteuid(65534) < 0))
        SKIP("cannot become an ordinary user");
}

static void become_root_again(void)
{
    if (getuid() == 0)
        CHECK_EQ(seteuid(0), 0);
}

TEST(unreadable_directories_are_reported_and_skipped)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/closed/b.wav", 1);
    make_file("d/open/c.wav", 1);
    make_file("d/unsearchable/e.wav", 1);
    CHECK_EQ(chmod("d/closed", 0), 0);
    CHECK_EQ(chmod("d/unsearchable", 0444), 0); /* only the names can be read */
    what.recursive = true;
    become_nobody();
    CHECK_EQ(search("d"), 0);
    const int closed = search("d/closed");
    become_root_again();
    CHECK_EQ(chmod("d/closed", 0700), 0);
    CHECK_EQ(closed, GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "d/closed cannot be read: Permission denied");
    become_nobody();
    CHECK_EQ(search("d"), 0);
    CHECK_STR(joined(found, n_found), "d/a.wav d/open/c.wav");
    CHECK_EQ(n_problems, 2);
    CHECK_STR(joined(problems, n_problems), "d/closed: cannot be opened: Permission denied "
                                            "d/unsearchable/e.wav: its size cannot be read: Permission denied");
    become_root_again();
}

static void remove_the_other(const char *path)
{
    directory_remove(strncmp(path, "d/one", 5) == 0 ? "d/two" : "d/one");
}

TEST(a_directory_removed_in_the_middle)
{
    directory_enter();
    make_file("d/one/x.wav", 1);
    make_file("d/two/x.wav", 1);
    what.recursive = true;
    at_file = remove_the_other;
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_found, 1);
    CHECK_EQ(n_problems, 1);
    CHECK_STR(problems[0], strncmp(found[0], "d/one", 5) == 0 ? "d/two: cannot be opened: No such file or directory"
                                                              : "d/one: cannot be opened: No such file or directory");
}

static void replace_the_other_by_a_link(const char *path)
{
    const char *other = strncmp(path, "d/one", 5) == 0 ? "d/two" : "d/one";
    directory_remove(other);
    CHECK_EQ(symlink("../secret", other), 0);
}

TEST(a_directory_replaced_by_a_link_is_not_followed)
{
    directory_enter();
    make_file("d/one/x.wav", 1);
    make_file("d/two/x.wav", 1);
    make_file("secret/y.wav", 1);
    what.recursive = true;
    at_file = replace_the_other_by_a_link;
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_found, 1);
    CHECK_EQ(n_problems, 1);
}

static void remove_all(const char *path)
{
    (void)path;
    directory_remove("d");
}

TEST(everything_removed_in_the_middle)
{
    directory_enter();
    make_deep(100, "x.wav");
    what.recursive = a_last = true;
    at_file = remove_all;
    CHECK_EQ(search("d"), 0);
    CHECK_GT(n_problems, 0);
}

/* Called for each file. At the bottom of the tree, replaces the upper directories by another tree. The search has
 * closed these directories by then. */
static void swap_trees(const char *path)
{
    if (strlen(path) < 2 * 99)
        return;
    at_file = NULL;
    CHECK_EQ(rename("d/a/a", "moved"), 0);
    CHECK_EQ(rename("other/d", "d/a/a"), 0);
}

TEST(a_tree_that_replaced_another_is_not_searched)
{
    directory_enter();
    make_directories("other");
    CHECK_EQ(chdir("other"), 0);
    make_deep(100, "wrong.wav");
    CHECK_EQ(chdir(".."), 0);
    make_deep(100, "x.wav");
    what.recursive = a_last = true;
    at_file = swap_trees;
    CHECK_EQ(search("d"), 0);
    CHECK_GT(n_found, 100);
    CHECK_LT(n_found, 200);
    CHECK_GT(n_problems, 0);
    for (size_t i = 0; i < MOST; i++)
        CHECK(!strstr(found[i], "wrong"));
    CHECK_CONTAINS(problems[0], "cannot be opened: No such file or directory");
}

static int search_wrong(void *user, const char *path, uint64_t size)
{
    (void)size;
    if (at_file)
        at_file(path);
    *(size_t *)user += strstr(path, "wrong") != NULL;
    return 0;
}

TEST(a_tree_that_replaced_another_gives_no_file)
{
    size_t wrong = 0;
    directory_enter();
    make_directories("other");
    CHECK_EQ(chdir("other"), 0);
    make_deep(100, "wrong.wav");
    CHECK_EQ(chdir(".."), 0);
    make_deep(100, "x.wav");
    what.recursive = a_last = true;
    at_file = swap_trees;
    CHECK_EQ(gd_discover_files("d", &what, search_wrong, &wrong), 0);
    CHECK_EQ(wrong, 0);
}

TEST(a_directory_that_fails_while_it_is_read)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/e/b.wav", 1);
    what.recursive = true;
    reads_until_error = 2; /* fails at the end of d: files found before the error count */
    CHECK_EQ(search("d"), 0);
    CHECK_STR(joined(found, n_found), "d/a.wav d/e/b.wav");
    CHECK_EQ(n_problems, 1);
    CHECK_STR(problems[0], "d: cannot be read to its end: Input/output error");
    reads_until_error = 3; /* fails at the beginning of d/e */
    CHECK_EQ(search("d"), 0);
    CHECK_STR(joined(found, n_found), "d/a.wav");
    CHECK_STR(problems[0], "d/e: cannot be read to its end: Input/output error");
}

static void remove_the_rest(const char *path)
{
    remove(strcmp(path, "d/a.wav") == 0 ? "d/b.wav" : "d/a.wav");
    at_file = NULL;
}

TEST(a_file_removed_before_its_size_is_read)
{
    directory_enter();
    make_file("d/a.wav", 1);
    make_file("d/b.wav", 1);
    at_file = remove_the_rest;
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_found, 1);
    CHECK_EQ(n_problems, 1);
    CHECK_CONTAINS(problems[0], "its size cannot be read: No such file or directory");
}

/* Sets the limit of descriptors to this many more than are in use. */
static void allow_descriptors(int more)
{
    const int lowest = dup(0);
    close(lowest);
    const struct rlimit limit = { (rlim_t)(lowest + more), 4096 };
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(three_descriptors_are_enough)
{
    directory_enter();
    make_deep(100, "x.wav");
    what.recursive = a_last = true;
    allow_descriptors(3);
    CHECK_EQ(search("d"), 0);
    CHECK_EQ(n_problems, 0);
    CHECK_EQ(n_found, 200);
}

TEST(too_few_descriptors_are_reported)
{
    directory_enter();
    make_deep(3, "x.wav");
    what.recursive = true;
    allow_descriptors(2);
    CHECK_EQ(search("d"), 0);
    CHECK_GT(n_found, 0);
    CHECK_GT(n_problems, 0);
    CHECK_CONTAINS(problems[0], "Too many open files (raise the limit: ulimit -n)");
    allow_descriptors(0);
    CHECK_EQ(search("d"), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "Too many open files");
}

/* Every call that can fail is made to fail once. If a file is not found, there is an error message. */
TEST(every_failure_is_reported)
{
    directory_enter();
    make_deep(40, "x.wav");
    what.recursive = what.follow = a_last = true;
    PATTERNS("*.wav", "y*");
    int failed = 0, n_reported = 0;
    const int lowest = dup(0);
    close(lowest);
    for (unsigned long nth = 1;; nth++) {
        gd__fault_begin(nth);
        const int r = search("d");
        const bool reached = gd__fault_count() >= nth;
        gd__fault_begin(0);
        if (!reached)
            break;
        CHECK(r == 0 || r == GD_E_NO_MEMORY);
        CHECK(r < 0 || n_problems > 0 || n_found == 80);
        failed += r < 0;
        n_reported += r == 0 && n_problems > 0;
        const int after = dup(0);
        CHECK_EQ(after, lowest); /* every descriptor is closed */
        close(after);
    }
    CHECK_GT(failed, 5);
    CHECK_GT(n_reported, 40);
    CHECK_EQ(n_found, 80);
}

static int with_input_closed(void *user, const char *path, uint64_t size)
{
    (void)path, (void)size;
    CHECK_EQ(fcntl(0, F_GETFD), -1);
    ++*(size_t *)user;
    return 0;
}

TEST(closed_standard_streams_stay_closed)
{
    directory_enter();
    make_file("d/e/a.wav", 1);
    make_file("d/a.wav", 1);
    what.recursive = true;
    close(0);
    CHECK_EQ(gd_discover_files("d", &what, with_input_closed, &n_found), 0);
    CHECK_EQ(n_found, 2);
}

TEST_MAIN()
