/* SPDX-License-Identifier: MIT
 *
 * The files of a directory that grows (cli/input/arrivals). That a file is not given is shown by another one, which was
 * completed later and is given next.
 */
#include "cli/input/arrivals/arrivals.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/shared.h"
#include "cli/common.h"

static struct cli_arrivals *arrivals;
static struct gd_discover what = GD_DISCOVER_INIT;
static struct cli_arrivals_options options;

/* Files of an hour ago, which are complete. */
static void make_old(const char *path, const char *text)
{
    const struct timespec times[2] = { { .tv_sec = time(NULL) - 3600 }, { .tv_sec = time(NULL) - 3600 } };
    make_file(path, text, strlen(text));
    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_new(const char *path)
{
    make_file(path, "new", 3);
}

static int begin_to_write(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CHECK(fd >= 0 && write(fd, "part", 4) == 4);
    return fd;
}

static void begin_in(const char *dir)
{
    options.what = &what;
    options.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cli_arrivals_open(&arrivals, dir, &options) < 0)
        FAIL("%s", gd__fail_text());
}

static void begin(void)
{
    begin_in("in");
}

static void end(void)
{
    cli_arrivals_close(&arrivals);
    close(options.cancel_fd);
}

/* An empty directory `in`. */
static void enter(void)
{
    enter_directory();
    CHECK_EQ(mkdir("in", 0777), 0);
}

static void check_next(const char *expected)
{
    const char *path = "nothing";
    uint64_t size;
    const int some = cli_arrivals_next(arrivals, &path, &size);
    if (some < 0)
        FAIL("%s", gd__fail_text());
    CHECK_EQ(some, 1);
    CHECK_STR(path, expected);
}

static void check_end(void)
{
    const char *path;
    uint64_t size;
    CHECK_EQ(cli_arrivals_next(arrivals, &path, &size), 0);
}

TEST(files_that_are_there_come_first)
{
    enter();
    make_old("in/a", "1");
    make_old("in/b", "333");
    make_old("in/c", "22");
    begin();
    make_new("in/d");
    check_next("in/b");
    check_next("in/c");
    check_next("in/a");
    check_next("in/d");
    end();
}

TEST(a_new_file_is_given_when_it_is_closed)
{
    enter();
    begin();
    const int fd = begin_to_write("in/a");
    make_new("in/b");
    check_next("in/b");
    CHECK_EQ(close(fd), 0);
    check_next("in/a");
    end();
}

TEST(files_that_appear_at_once)
{
    enter();
    make_old("outside", "x");
    begin();
    CHECK_EQ(rename("outside", "in/moved"), 0);
    check_next("in/moved");
    CHECK_EQ(symlink("moved", "in/symbolic"), 0);
    check_next("in/symbolic");
    CHECK_EQ(link("in/moved", "in/other_name"), 0);
    check_next("in/other_name");
    CHECK_EQ(symlink("nowhere", "in/dangling"), 0);
    CHECK_EQ(mkfifo("in/pipe", 0666), 0);
    make_new("in/last");
    check_next("in/last");
    end();
}

/* When the event is read, nothing shows any more that the file had another name. */
TEST(a_file_whose_other_name_is_removed)
{
    enter();
    make_old("outside", "x");
    begin();
    CHECK_EQ(link("outside", "in/linked"), 0);
    CHECK_EQ(unlink("outside"), 0);
    check_next("in/linked");
    end();
}

/* A journal and the list of known files compare names. */
TEST(a_slash_at_the_end_of_the_directory_changes_no_name)
{
    enter();
    make_old("in/a", "1");
    begin_in("in//");
    make_new("in/b");
    check_next("in/a");
    check_next("in/b");
    end();
}

TEST(a_file_is_given_again_only_if_it_has_changed)
{
    enter();
    make_old("in/a", "1");
    begin();
    check_next("in/a");
    CHECK_EQ(close(open("in/a", O_WRONLY | O_CLOEXEC)), 0); /* nothing was written */
    make_new("in/b");
    check_next("in/b");
    make_file("in/a", "longer", 6);
    check_next("in/a");
    end();
}

TEST(a_file_that_has_just_changed_is_given_when_it_is_closed)
{
    const struct timespec future[2] = { { .tv_sec = time(NULL) + 3600 }, { .tv_sec = time(NULL) + 3600 } };
    enter();
    const int fd = begin_to_write("in/a");
    CHECK_EQ(futimens(fd, future), 0); /* it stays young, however slow this machine is */
    begin();
    CHECK_EQ(write(fd, "more", 4), 4);
    CHECK_EQ(close(fd), 0);
    check_next("in/a");
    make_new("in/b");
    check_next("in/b"); /* in/a is not given again after its two seconds */
    end();
}

/* Nothing tells that this file is complete. */
TEST(a_file_that_has_just_changed_is_given_after_two_seconds)
{
    enter();
    make_new("in/a");
    begin();
    check_next("in/a");
    end();
}

TEST(patterns_and_hidden_names)
{
    enter();
    what.patterns = (const char *const[]){ "*.wav", "*.mp3", NULL };
    make_old("in/a.txt", "x");
    begin();
    make_new("in/b.txt");
    make_new("in/.c.wav");
    make_new("in/d.mp3");
    make_new("in/e.wav");
    check_next("in/d.mp3");
    check_next("in/e.wav");
    end();
}

TEST(new_directories)
{
    enter();
    what.recursive = true;
    CHECK_EQ(mkdir("in/old", 0777), 0);
    CHECK_EQ(mkdir("in/.hidden", 0777), 0);
    begin();
    make_new("in/.hidden/no");
    make_new("in/old/a");
    check_next("in/old/a");
    CHECK_EQ(mkdir("in/new", 0777), 0);
    CHECK_EQ(mkdir("in/new/deep", 0777), 0);
    make_new("in/new/deep/b");
    check_next("in/new/deep/b");
    CHECK_EQ(rename("in/new", "in/renamed"), 0);
    make_new("in/renamed/deep/c");
    /* b has a new path, so it is a new file; both may come in any order */
    unsigned b = 0, c = 0;
    for (unsigned i = 0; i < 2; i++) {
        const char *path = "";
        uint64_t size;
        CHECK_EQ(cli_arrivals_next(arrivals, &path, &size), 1);
        b += strcmp(path, "in/renamed/deep/b") == 0;
        c += strcmp(path, "in/renamed/deep/c") == 0;
    }
    CHECK_EQ(b, 1);
    CHECK_EQ(c, 1);
    end();
}

TEST(directories_are_not_searched_without_recursive)
{
    enter();
    begin();
    CHECK_EQ(mkdir("in/new", 0777), 0);
    make_new("in/new/a");
    make_new("in/b");
    check_next("in/b");
    end();
}

/* The kernel keeps a limited number of changes. */
TEST(changes_that_are_lost)
{
    enum { N = 20000 };
    static bool seen[N];
    enter();
    begin();
    for (unsigned i = 0; i < N; i++) {
        char path[32];
        snprintf(path, sizeof path, "in/%u", i);
        CHECK_EQ(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        const char *path;
        uint64_t size;
        if (cli_arrivals_next(arrivals, &path, &size) != 1)
            FAIL("%s", gd__fail_text());
        const unsigned long at = strtoul(path + strlen("in/"), NULL, 10);
        CHECK(at < N && !seen[at]);
        seen[at] = true;
    }
    make_new("in/last");
    check_next("in/last");
    end();
}

TEST(a_directory_that_is_removed)
{
    const char *path;
    uint64_t size;
    enter();
    begin();
    CHECK_EQ(rmdir("in"), 0);
    CHECK_EQ(cli_arrivals_next(arrivals, &path, &size), -1);
    CHECK_CONTAINS(gd__fail_text(), "in was moved, removed or unmounted");
    end();
}

TEST(a_directory_that_does_not_exist)
{
    enter_directory();
    options = (struct cli_arrivals_options){ .what = &what, .cancel_fd = -1 };
    CHECK_EQ(cli_arrivals_open(&arrivals, "in", &options), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot watch in: No such file or directory");
}

TEST(it_ends_after_a_time_without_files)
{
    enter();
    make_old("in/a", "1");
    options.idle_ms = 20;
    begin();
    check_next("in/a");
    check_end();
    end();
}

static void *cancel(void *unused)
{
    const uint64_t one = 1;
    (void)unused;
    CHECK_EQ(write(options.cancel_fd, &one, sizeof one), (ssize_t)sizeof one);
    return NULL;
}

TEST(it_can_be_cancelled)
{
    pthread_t thread;
    enter();
    begin();
    CHECK_EQ(pthread_create(&thread, NULL, cancel, NULL), 0);
    check_end();
    CHECK_EQ(pthread_join(thread, NULL), 0);
    end();
}

static bool accept_all_but_a(void *user, const char *path, uint64_t *size)
{
    (void)user;
    *size = 7;
    return strcmp(path, "in/a") != 0;
}

TEST(files_can_be_left_out)
{
    const char *path;
    uint64_t size;
    enter();
    make_old("in/a", "1");
    options.accept = accept_all_but_a;
    begin();
    make_new("in/b");
    CHECK_EQ(cli_arrivals_next(arrivals, &path, &size), 1);
    CHECK_STR(path, "in/b");
    CHECK_EQ(size, 7);
    end();
}

/* There are no events on file systems that other machines use. */
TEST(a_file_system_of_several_machines_is_searched)
{
    enter();
    CHECK_EQ(setenv(GD__ENV_SHARED_FILES, "1", 1), 0);
    make_old("in/a", "1");
    begin();
    make_new("in/b");
    check_next("in/a");
    check_next("in/b");
    end();
}

TEST_MAIN()
