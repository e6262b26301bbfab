/* SPDX-License-Identifier: MIT
 *
 * Locks on devices, in a directory that every user can write to. It contains traps: links, FIFOs and other files that
 * have the names of lock files.
 */
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <gpu_dispatch/error.h>

#include "gpu/claim/holder.h"
#include "gpu/claim/lock_files.h"
#include "support/directory.h"

#define NAME  "GPU-8d2f"
#define FIRST "gpu-dispatch." NAME ".0"

enum { NOBODY = 65534, SOMEBODY = 65533 };

static struct gd__lock_directory place;

/* A directory like /tmp. */
static void enter(void)
{
    directory_enter();
    CHECK_EQ(chmod(".", 01777), 0);
    setenv(GD__ENV_LOCKS, directory_path, 1);
    CHECK_EQ(gd__lock_directory_open(&place), 0);
}

static int take(struct gd__device_lock *lock, enum gd__lock_kind kind)
{
    struct gd__lock_file_id busy;
    return gd__device_lock_take(lock, &place, NAME, kind, &busy);
}

static int take_exclusive(void)
{
    struct gd__device_lock lock = { 0 };
    const int rc = take(&lock, GD__LOCK_EXCLUSIVE);
    gd__device_lock_release(&lock);
    return rc;
}

/* A process that holds a lock. It writes a byte when it has the lock, and then waits. */
struct holder {
    pid_t pid;
    int go; /* closing it ends the process */
};

static void become(uid_t user)
{
    if (user != 0 && (setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0))
        FAIL("cannot become user %u: %s", (unsigned)user, strerror(errno));
}

static struct holder start_holder(enum gd__lock_kind kind, uid_t user, void (*then)(int ready))
{
    int ready[2], go[2];
    char byte;
    CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(go, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct gd__device_lock lock = { 0 };
        close(go[1]);
        become(user);
        CHECK_EQ(take(&lock, kind), 0);
        if (then)
            then(ready[1]);
        CHECK_EQ(write(ready[1], "x", 1), 1);
        (void)!read(go[0], &byte, 1);
        _exit(0);
    }
    close(ready[1]);
    close(go[0]);
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return (struct holder){ .pid = pid, .go = go[1] };
}

static void kill_holder(struct holder h)
{
    CHECK_EQ(kill(h.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(h.pid, NULL, 0), h.pid);
    close(h.go);
}

static void need_root(void)
{
    if (geteuid() != 0)
        SKIP("only root can change users");
}

/* --- what a lock does --- */

TEST(an_exclusive_lock_excludes_all_other_locks_until_it_is_released)
{
    struct gd__device_lock mine = { 0 }, other = { 0 };
    enter();
    CHECK_EQ(take(&mine, GD__LOCK_EXCLUSIVE), 0);
    CHECK_EQ(take(&other, GD__LOCK_EXCLUSIVE), GD_E_BUSY);
    CHECK_EQ(take(&other, GD__LOCK_SHARED), GD_E_BUSY);
    gd__device_lock_release(&mine);
    CHECK_EQ(take(&other, GD__LOCK_EXCLUSIVE), 0);
    gd__device_lock_release(&other);
}

TEST(shared_locks_exclude_only_exclusive_locks)
{
    struct gd__device_lock a = { 0 }, b = { 0 };
    enter();
    CHECK_EQ(take(&a, GD__LOCK_SHARED), 0);
    CHECK_EQ(take(&b, GD__LOCK_SHARED), 0);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    gd__device_lock_release(&a);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    gd__device_lock_release(&b);
    CHECK_EQ(take_exclusive(), 0);
}

TEST(locks_of_different_devices_are_independent)
{
    struct gd__device_lock a = { 0 }, b = { 0 };
    struct gd__lock_file_id busy;
    enter();
    CHECK_EQ(take(&a, GD__LOCK_EXCLUSIVE), 0);
    CHECK_EQ(gd__device_lock_take(&b, &place, NAME "0", GD__LOCK_EXCLUSIVE, &busy), 0);
    gd__device_lock_release(&a);
    gd__device_lock_release(&b);
}

TEST(a_lock_file_is_empty_and_readable_for_all_users_whatever_the_umask)
{
    struct stat s;
    enter();
    umask(0777);
    CHECK_EQ(take_exclusive(), 0);
    CHECK_EQ(lstat(FIRST, &s), 0);
    CHECK_EQ(s.st_mode, S_IFREG | 0444);
    CHECK_EQ(s.st_size, 0);
}

/* --- the end of a holder --- */

TEST(kill_9_of_the_holder_frees_the_lock_at_once)
{
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, 0, NULL);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    kill_holder(h);
    CHECK_EQ(take_exclusive(), 0);
}

static void start_program(int ready)
{
    char program[] = "sleep", time[] = "1000", *argv[] = { program, time, NULL };
    pid_t pid;
    (void)ready;
    CHECK_EQ(posix_spawnp(&pid, program, NULL, NULL, argv, environ), 0);
}

TEST(a_program_that_the_holder_started_does_not_keep_the_lock)
{
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, 0, start_program);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    kill_holder(h);
    CHECK_EQ(take_exclusive(), 0);
}

static void fork_and_wait(int ready)
{
    int pair[2];
    char byte;
    CHECK_EQ(pipe2(pair, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ready);
        CHECK_EQ(write(pair[1], "x", 1), 1);
        for (;;)
            pause();
    }
    CHECK_EQ(read(pair[0], &byte, 1), 1);
}

TEST(a_fork_of_the_holder_does_not_keep_the_lock)
{
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, 0, fork_and_wait);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    kill_holder(h);
    CHECK_EQ(take_exclusive(), 0);
}

TEST(left_over_files_are_used_again_and_do_not_pile_up)
{
    struct stat s;
    enter();
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(take_exclusive(), 0);
        CHECK_EQ(lstat("gpu-dispatch." NAME ".1", &s), -1);
    }
}

/* --- the holder of a lock --- */

TEST(the_holder_is_named_with_its_user_and_its_command)
{
    struct gd__lock_file_id file;
    struct gd__holder who;
    char text[GD__HOLDER_TEXT], expected[64];
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, 0, NULL);
    CHECK(gd__holder_of_device(&who, &place, NAME, &file));
    CHECK_EQ(who.pid, h.pid);
    CHECK(who.exclusive);
    CHECK(!who.ancestor);
    gd__holder_describe(text, who.pid);
    snprintf(expected, sizeof expected, "process %d (", (int)h.pid);
    CHECK_CONTAINS(text, expected);
    CHECK_CONTAINS(text, "unit_lock_files");
    kill_holder(h);
    CHECK(!gd__holder_of_device(&who, &place, NAME, &file));
}

TEST(a_holder_that_started_us_is_recognised)
{
    struct gd__device_lock lock = { 0 };
    int status;
    enter();
    CHECK_EQ(take(&lock, GD__LOCK_SHARED), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct gd__lock_file_id file;
        struct gd__holder who;
        CHECK(gd__holder_of_device(&who, &place, NAME, &file));
        CHECK(who.ancestor);
        CHECK(!who.exclusive);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    gd__device_lock_release(&lock);
}

/* --- traps --- */

static void check_next_name_is_used(void)
{
    struct stat s;
    CHECK_EQ(take_exclusive(), 0);
    CHECK_EQ(lstat("gpu-dispatch." NAME ".1", &s), 0);
    CHECK(S_ISREG(s.st_mode));
}

TEST(a_link_is_not_followed_and_its_target_stays_as_it_is)
{
    struct stat before, after;
    enter();
    make_file("victim", 3);
    CHECK_EQ(stat("victim", &before), 0);
    CHECK_EQ(symlink("victim", FIRST), 0);
    check_next_name_is_used();
    CHECK_EQ(stat("victim", &after), 0);
    CHECK_EQ(after.st_size, 3);
    CHECK_EQ(after.st_mode, before.st_mode);
}

TEST(a_link_to_nothing_creates_nothing)
{
    struct stat s;
    enter();
    CHECK_EQ(symlink("nothing", FIRST), 0);
    check_next_name_is_used();
    CHECK_EQ(lstat("nothing", &s), -1);
}

TEST(a_link_to_an_empty_file_that_is_locked_does_not_block)
{
    enter();
    make_file("victim", 0);
    const int fd = open("victim", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX), 0);
    CHECK_EQ(symlink("victim", FIRST), 0);
    check_next_name_is_used();
}

TEST(a_directory_of_that_name_does_not_block)
{
    enter();
    CHECK_EQ(mkdir(FIRST, 0700), 0);
    check_next_name_is_used();
}

TEST(a_fifo_of_that_name_does_not_block)
{
    enter();
    CHECK_EQ(mkfifo(FIRST, 0666), 0);
    check_next_name_is_used();
}

TEST(a_socket_of_that_name_does_not_block)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = FIRST };
    enter();
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    check_next_name_is_used();
}

TEST(a_file_with_content_is_neither_locked_nor_written_to)
{
    struct stat s;
    enter();
    make_file(FIRST, 7);
    const int fd = open(FIRST, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX), 0);
    check_next_name_is_used();
    CHECK_EQ(stat(FIRST, &s), 0);
    CHECK_EQ(s.st_size, 7);
}

TEST(a_file_that_others_cannot_read_does_not_block_and_keeps_its_mode)
{
    static const mode_t modes[] = { 0, 0200, 0400, 0600, 0440 };
    enter();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct stat s;
        make_file(FIRST, 0);
        const int fd = open(FIRST, O_RDONLY | O_CLOEXEC);
        CHECK_EQ(flock(fd, LOCK_EX), 0);
        CHECK_EQ(chmod(FIRST, modes[i]), 0);
        check_next_name_is_used();
        CHECK_EQ(stat(FIRST, &s), 0);
        CHECK_EQ(s.st_mode & 07777, modes[i]);
        close(fd);
        CHECK_EQ(unlink(FIRST), 0);
    }
}

TEST(traps_under_a_hundred_names_do_not_block)
{
    enter();
    for (int i = 0; i < 100; i++) {
        char name[64];
        snprintf(name, sizeof name, "gpu-dispatch." NAME ".%d", i);
        CHECK_EQ(i % 2 ? mkdir(name, 0) : symlink("nothing", name), 0);
    }
    CHECK_EQ(take_exclusive(), 0);
    struct stat s;
    CHECK_EQ(lstat("gpu-dispatch." NAME ".100", &s), 0);
}

TEST(names_that_only_look_like_ours_are_ignored)
{
    static const char *const names[] = { "gpu-dispatch." NAME ".",      "gpu-dispatch." NAME ".01",
                                         "gpu-dispatch." NAME ".0x",    "gpu-dispatch." NAME ".-1",
                                         "gpu-dispatch." NAME ".12345", "gpu-dispatch." NAME "1.0",
                                         "gpu-dispatch.GPU-8d2.0" };
    enter();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_file(names[i], 0);
        CHECK_EQ(flock(open(names[i], O_RDONLY | O_CLOEXEC), LOCK_EX), 0);
    }
    CHECK_EQ(take_exclusive(), 0);
}

/* --- other users --- */

TEST(the_lock_of_another_user_is_respected)
{
    need_root();
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, NOBODY, NULL);
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    kill_holder(h);
    CHECK_EQ(take_exclusive(), 0);
}

TEST(a_file_that_another_user_left_is_locked_too_but_not_changed)
{
    struct stat s;
    need_root();
    enter();
    kill_holder(start_holder(GD__LOCK_EXCLUSIVE, NOBODY, NULL));
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, SOMEBODY, NULL);
    CHECK_EQ(stat(FIRST, &s), 0);
    CHECK_EQ(s.st_uid, NOBODY);
    const int fd = open(FIRST, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX | LOCK_NB), -1);
    kill_holder(h);
}

TEST(a_user_who_removes_a_lock_file_does_not_free_the_locks_of_others)
{
    need_root();
    enter();
    kill_holder(start_holder(GD__LOCK_EXCLUSIVE, NOBODY, NULL));
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, SOMEBODY, NULL);
    CHECK_EQ(unlink(FIRST), 0); /* as its owner could */
    CHECK_EQ(take_exclusive(), GD_E_BUSY);
    kill_holder(h);
}

TEST(a_user_with_many_lock_files_does_not_use_up_the_descriptors_of_others)
{
    const struct rlimit few = { .rlim_cur = 100, .rlim_max = 100 };
    need_root();
    enter();
    for (int i = 0; i < 500; i++) {
        char name[64];
        snprintf(name, sizeof name, "gpu-dispatch." NAME ".%d", i);
        make_file(name, 0);
        CHECK_EQ(chown(name, NOBODY, NOBODY), 0);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(take_exclusive(), 0);
}

/* --- the directory --- */

TEST(a_directory_that_is_missing_is_named)
{
    directory_enter();
    setenv(GD__ENV_LOCKS, "nowhere", 1);
    CHECK_EQ(gd__lock_directory_open(&place), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "nowhere");
    CHECK_CONTAINS(gd_error_text(), GD__ENV_LOCKS);
}

TEST(a_file_is_not_a_directory_for_locks)
{
    directory_enter();
    make_file("file", 0);
    setenv(GD__ENV_LOCKS, "file", 1);
    CHECK_EQ(gd__lock_directory_open(&place), GD_E_SYSTEM);
}

/* Runs check() as another user, in a separate process. */
static void as_nobody(void (*check)(void))
{
    int status;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        become(NOBODY);
        check();
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

static void check_shared_is_busy(void)
{
    struct gd__device_lock mine = { 0 };
    CHECK_EQ(take(&mine, GD__LOCK_SHARED), GD_E_BUSY);
}

static void check_only_shared_works(void)
{
    struct gd__device_lock mine = { 0 };
    CHECK_EQ(take(&mine, GD__LOCK_SHARED), 0);
    gd__device_lock_release(&mine);
    CHECK_EQ(take_exclusive(), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "mode 1777");
}

TEST(without_write_access_an_exclusive_lock_fails_and_a_shared_one_respects_existing_locks)
{
    need_root();
    enter();
    struct holder h = start_holder(GD__LOCK_EXCLUSIVE, 0, NULL);
    CHECK_EQ(chmod(".", 0755), 0);
    as_nobody(check_shared_is_busy);
    kill_holder(h);
    as_nobody(check_only_shared_works);
}

TEST(too_few_descriptors_are_an_error_and_not_a_free_device)
{
    struct gd__device_lock lock = { 0 };
    struct rlimit few;
    need_root();
    enter();
    kill_holder(start_holder(GD__LOCK_EXCLUSIVE, NOBODY, NULL));
    kill_holder(start_holder(GD__LOCK_EXCLUSIVE, 0, NULL)); /* the device has two files now */
    const int next = dup(0);
    close(next);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &few), 0);
    few.rlim_cur = (rlim_t)next + 1;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(take(&lock, GD__LOCK_EXCLUSIVE), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "Too many open files");
}

TEST_MAIN()
