/* The lock of a journal: which process holds it, how a fork of the holder affects it, and what happens if something
 * else is in the place of the lock file. */
#include <gpu_dispatch/error.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "journal/lock/lock.h"
#include "support/directory.h"
#include "support/test.h"

static pid_t fork_bare(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* Starts a process that holds the journal, forks, and is killed. Returns the forked process, which is still alive. */
static pid_t leave_a_fork(pid_t (*do_fork)(void))
{
    int ends[2];
    pid_t left = 0;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t holder = fork();
    if (holder == 0) {
        struct gd__journal_lock h;
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
        const pid_t pid = do_fork();
        if (pid == 0)
            for (;;)
                pause();
        CHECK_EQ(write(ends[1], &pid, sizeof pid), (ssize_t)sizeof pid);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQ(read(ends[0], &left, sizeof left), (ssize_t)sizeof left);
    CHECK_EQ(waitpid(holder, NULL, 0), holder);
    close(ends[0]);
    close(ends[1]);
    return left;
}

static void free_after_a_fork(pid_t (*do_fork)(void))
{
    directory_enter();
    struct gd__journal_lock h, other;
    uint64_t pid;
    const pid_t left = leave_a_fork(do_fork);
    CHECK(!gd__journal_lock_test("run.db", &pid));
    if (gd__journal_lock_take(&h, "run.db") < 0)
        FAIL("%s", gd_error_text());
    CHECK(gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(pid, getpid());
    CHECK_EQ(gd__journal_lock_take(&other, "run.db"), GD_E_BUSY);
    CHECK(!gd__journal_lock_is_lost(&h));
    gd__journal_lock_release(&h);
    CHECK(access("run.db-lock", F_OK) < 0);
    kill(left, SIGKILL);
    CHECK_EQ(waitpid(left, NULL, 0), left);
}

TEST(a_fork_of_a_dead_process_holds_nothing)
{
    free_after_a_fork(fork);
}

/* If no handler closed the descriptor, the file is still locked. But it names a holder that is dead, so the lock is
 * invalid. */
TEST(a_fork_that_ran_no_handlers_holds_nothing)
{
    free_after_a_fork(fork_bare);
}

/* While the holder lives, a fork changes nothing. */
TEST(a_fork_of_a_living_process_does_not_free_the_journal)
{
    directory_enter();
    struct gd__journal_lock h, other;
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(gd__journal_lock_take(&other, "run.db"), GD_E_BUSY);
        gd__journal_lock_release(&h); /* in the forked process this must change nothing */
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(access("run.db-lock", F_OK), 0);
    CHECK_EQ(gd__journal_lock_take(&other, "run.db"), GD_E_BUSY);
    gd__journal_lock_release(&h);
}

static void *stay(void *arg)
{
    int *ends = arg;
    struct gd__journal_lock h, *held = &h;
    char byte;
    CHECK_EQ(gd__journal_lock_take(held, "run.db"), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    (void)!read(ends[2], &byte, 1);
    return NULL;
}

/* /proc shows a process as dead when its first thread has ended. */
TEST(a_process_whose_first_thread_has_ended_still_holds_it)
{
    directory_enter();
    int ends[4];
    char byte;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(ends + 2, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, stay, ends), 0);
        pthread_exit(NULL);
    }
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    do { /* the first thread has no other way to show that it has ended */
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    } while (!strstr(text, ") Z "));
    struct gd__journal_lock h;
    uint64_t who;
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), GD_E_BUSY);
    CHECK(gd__journal_lock_test("run.db", &who));
    CHECK_EQ(write(ends[3], "x", 1), 1);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Many processes find the same dead lock at once, again and again. Only one of them gets it. */
TEST(only_one_of_many_gets_a_dead_lock)
{
    enum { ROUNDS = 30, TAKERS = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        directory_enter();
        const pid_t left = leave_a_fork(round % 2 ? fork : fork_bare);
        int go[2], told[2], stop[2], got = 0;
        CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0 && pipe2(stop, O_CLOEXEC) == 0);
        pid_t takers[TAKERS];
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = fork();
            if (takers[i] == 0) {
                struct gd__journal_lock h;
                char byte;
                close(go[1]);
                close(stop[1]);
                (void)!read(go[0], &byte, 1); /* end of file: releases all of them at once */
                const char mine = gd__journal_lock_take(&h, "run.db") == 0;
                CHECK_EQ(write(told[1], &mine, 1), 1);
                (void)!read(stop[0], &byte, 1);
                _exit(0);
            }
        }
        close(go[1]);
        for (int i = 0; i < TAKERS; i++) {
            char mine;
            CHECK_EQ(read(told[0], &mine, 1), 1);
            got += mine;
        }
        CHECK_EQ(got, 1);
        close(stop[1]);
        for (int i = 0; i < TAKERS; i++)
            CHECK_EQ(waitpid(takers[i], NULL, 0), takers[i]);
        kill(left, SIGKILL);
        CHECK_EQ(waitpid(left, NULL, 0), left);
        close(go[0]), close(told[0]), close(told[1]), close(stop[0]);
    }
}

/* --- other things in place of the lock file --- */

static void write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

TEST(a_link_is_not_followed)
{
    directory_enter();
    struct gd__journal_lock h;
    uint64_t pid;
    char text[64] = "";
    write_file("victim", "precious");
    CHECK_EQ(symlink("victim", "run.db-lock"), 0);
    CHECK_LT(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK_CONTAINS(gd_error_text(), "run.db-lock is not the lock file of a run: remove it");
    CHECK(!gd__journal_lock_test("run.db", &pid));
    const int fd = open("victim", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, text, sizeof text - 1), 8);
    CHECK_STR(text, "precious");
    close(fd);
    CHECK_EQ(unlink("run.db-lock"), 0);
    CHECK_EQ(symlink("nowhere", "run.db-lock"), 0); /* no file is created through this link either */
    CHECK_LT(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK(access("nowhere", F_OK) < 0);
}

TEST(other_kinds_of_files_are_refused)
{
    directory_enter();
    struct gd__journal_lock h;
    uint64_t pid;
    CHECK_EQ(mkfifo("run.db-lock", 0600), 0);
    CHECK_LT(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK_CONTAINS(gd_error_text(), "is not the lock file of a run");
    CHECK(!gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(unlink("run.db-lock"), 0);
    CHECK_EQ(mkdir("run.db-lock", 0700), 0);
    CHECK_LT(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK_CONTAINS(gd_error_text(), "is not the lock file of a run");
    CHECK_EQ(rmdir("run.db-lock"), 0);
}

TEST(a_file_of_another_user_is_refused)
{
    directory_enter();
    struct gd__journal_lock h;
    write_file("run.db-lock", "");
    if (chown("run.db-lock", 12345, (gid_t)-1) < 0)
        SKIP("this user can't change the owner of a file");
    CHECK_LT(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK_CONTAINS(gd_error_text(), "belongs to user 12345");
}

/* Other users cannot open the file, so they cannot lock it. */
TEST(the_lock_is_for_its_owner_only)
{
    directory_enter();
    struct gd__journal_lock h;
    struct stat s;
    umask(0);
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK_EQ(stat("run.db-lock", &s), 0);
    CHECK_EQ(s.st_mode & 0777, 0600);
    gd__journal_lock_release(&h);
}

/* A file that was left by an earlier version, or by a run on another machine, is free if it is not locked. */
TEST(a_file_that_names_no_holder_is_replaced)
{
    directory_enter();
    struct gd__journal_lock h;
    write_file("run.db-lock", "4194304\n");
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    gd__journal_lock_release(&h);
    CHECK(access("run.db-lock", F_OK) < 0);
}

TEST_MAIN()
