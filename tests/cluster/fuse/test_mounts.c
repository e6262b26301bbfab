/* SPDX-License-Identifier: MIT
 *
 * The file system that stands in for a network (network_fs.h): two mounts show the same files, each lock mode does what
 * it says, a cut mount waits and goes on, and nothing is left of a mount.
 */
#include <dirent.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "cluster/fuse/mounts.h"

enum { FUSE_MAGIC = 0x65735546 };

static int open_file(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        FAIL("%s: %s", path, strerror(errno));
    return fd;
}

/* 0 or an errno. */
static int lock_range(int fd, int command, int type, off_t at, off_t size)
{
    struct flock lock = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = size };
    return fcntl(fd, command, &lock) < 0 ? errno : 0;
}

static int lock_file(int fd, int type)
{
    return lock_range(fd, F_OFD_SETLK, type, 0, 1);
}

TEST(two_mounts_show_the_same_files)
{
    struct mount a, b;
    struct statfs s;
    struct stat first, second;
    char text[16] = "";
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    CHECK_EQ(statfs("a", &s), 0);
    CHECK_EQ(s.f_type, FUSE_MAGIC);
    const int fd = open_file("a/x"), other = open_file("b/x");
    CHECK_EQ(write(fd, "hello", 5), 5);
    CHECK_EQ(read(other, text, sizeof text), 5);
    CHECK_STR(text, "hello");
    CHECK_EQ(ftruncate(other, 2), 0);
    CHECK_EQ(fstat(fd, &first), 0);
    CHECK_EQ(fstat(other, &second), 0);
    CHECK_EQ(first.st_size, 2);
    CHECK_EQ(first.st_ino, second.st_ino);
    CHECK_NE(first.st_dev, second.st_dev); /* two file systems, as on two machines */
    CHECK_EQ(rename("a/x", "a/y"), 0);
    CHECK_EQ(access("b/x", F_OK), -1);
    CHECK_EQ(link("b/y", "b/z"), 0);
    CHECK_EQ(unlink("a/y"), 0);
    CHECK_EQ(access("b/z", F_OK), 0);
    CHECK_EQ(unlink("a/z"), 0);
    CHECK_EQ(fstat(other, &second), 0); /* it is still open */
    CHECK_EQ(second.st_nlink, 0);
    close(fd);
    close(other);
    mount_end(&a);
    mount_end(&b);
    CHECK_EQ(statfs("a", &s), 0);
    CHECK_NE(s.f_type, FUSE_MAGIC);
}

TEST(directories)
{
    struct mount a, b;
    char path[64];
    unsigned n = 0;
    enum { FILES = 1000 };
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    CHECK_EQ(mkdir("a/d", 0755), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "a/d/file-with-a-long-name-%d", i);
        close(open_file(path));
    }
    DIR *d = opendir("b/d");
    CHECK(d != NULL);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] == 'f';
    closedir(d);
    CHECK_EQ(n, FILES);
    CHECK_EQ(rmdir("b/d"), -1);
    CHECK_EQ(errno, ENOTEMPTY);
    mount_end(&a);
    mount_end(&b);
}

/* --- locks --- */

TEST(shared_locks)
{
    struct mount a, b;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    int first = open_file("a/x");
    const int same = open_file("a/x"), other = open_file("b/x");
    CHECK_EQ(lock_file(first, F_WRLCK), 0);
    CHECK_EQ(lock_file(same, F_WRLCK), EAGAIN);
    CHECK_EQ(lock_file(other, F_RDLCK), EAGAIN);
    struct flock found = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
    CHECK_EQ(fcntl(other, F_OFD_GETLK, &found), 0);
    CHECK_EQ(found.l_type, F_WRLCK);
    CHECK_EQ(lock_range(other, F_OFD_SETLK, F_WRLCK, 1, 1), 0); /* another byte */
    CHECK_EQ(lock_file(first, F_UNLCK), 0);
    CHECK_EQ(lock_file(other, F_WRLCK), 0);
    CHECK_EQ(lock_file(other, F_UNLCK), 0);
    CHECK_EQ(lock_file(first, F_WRLCK), 0);
    close(first); /* ends its lock, and no other */
    CHECK_EQ(lock_range(other, F_OFD_SETLKW, F_WRLCK, 0, 1), 0);
    CHECK_EQ(lock_range(same, F_OFD_SETLK, F_WRLCK, 1, 1), EAGAIN);
    CHECK_EQ(flock(same, LOCK_EX | LOCK_NB), 0);
    CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), -1);
    CHECK_EQ(errno, EWOULDBLOCK);
    mount_end(&a);
    mount_end(&b);
}

/* SQLite uses locks of the process: closing any descriptor of the file ends them. */
TEST(shared_locks_of_processes)
{
    struct mount a, b;
    int ends[2], status;
    char byte;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    const int other = open_file("b/x");
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open_file("a/x"), second = open_file("a/x");
        CHECK_EQ(lock_range(fd, F_SETLK, F_WRLCK, 0, 1), 0);
        CHECK_EQ(lock_range(second, F_SETLK, F_WRLCK, 0, 1), 0);
        CHECK_EQ(lock_file(other, F_WRLCK), EAGAIN);
        close(second);
        CHECK_EQ(lock_file(other, F_WRLCK), 0);
        CHECK_EQ(lock_file(other, F_UNLCK), 0);
        CHECK_EQ(lock_range(fd, F_SETLK, F_WRLCK, 0, 1), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        raise(SIGKILL);
    }
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(lock_range(other, F_OFD_SETLKW, F_WRLCK, 0, 1), 0);
    mount_end(&a);
    mount_end(&b);
}

TEST(local_locks)
{
    struct mount a, b;
    mounts_enter();
    mount_begin(&a, "a", "--locks", "local", NULL);
    mount_begin(&b, "b", "--locks", "local", NULL);
    const int first = open_file("a/x"), same = open_file("a/x"), other = open_file("b/x");
    CHECK_EQ(lock_file(first, F_WRLCK), 0);
    CHECK_EQ(lock_file(same, F_WRLCK), EAGAIN);
    CHECK_EQ(lock_file(other, F_WRLCK), 0);
    CHECK_EQ(flock(first, LOCK_EX | LOCK_NB), 0);
    CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
    mount_end(&a);
    mount_end(&b);
}

TEST(no_locks)
{
    struct mount a;
    mounts_enter();
    mount_begin(&a, "a", "--locks", "none", NULL);
    const int fd = open_file("a/x");
    CHECK_EQ(lock_file(fd, F_WRLCK), ENOSYS);
    CHECK_EQ(lock_range(fd, F_SETLK, F_RDLCK, 0, 1), ENOSYS);
    CHECK_EQ(flock(fd, LOCK_EX), -1);
    CHECK_EQ(errno, ENOSYS);
    mount_end(&a);
}

/* --- other differences of network file systems --- */

TEST(links_and_renames)
{
    struct mount a;
    struct stat s;
    mounts_enter();
    mount_begin(&a, "a", "--no-rename-flags", "--repeat-links", NULL);
    close(open_file("a/x"));
    CHECK_EQ(renameat2(AT_FDCWD, "a/x", AT_FDCWD, "a/y", RENAME_NOREPLACE), -1);
    CHECK_EQ(errno, EINVAL);
    CHECK_EQ(rename("a/x", "a/y"), 0);
    CHECK_EQ(link("a/y", "a/z"), -1);
    CHECK_EQ(errno, EEXIST);
    CHECK_EQ(stat("a/z", &s), 0);
    CHECK_EQ(s.st_nlink, 2);
    mount_end(&a);
    mount_begin(&a, "a", "--no-links", NULL);
    CHECK_EQ(link("a/y", "a/w"), -1);
    CHECK_EQ(errno, EPERM);
    CHECK_EQ(renameat2(AT_FDCWD, "a/y", AT_FDCWD, "a/z", RENAME_NOREPLACE), -1);
    CHECK_EQ(errno, EEXIST);
    mount_end(&a);
}

TEST(removed_files_are_stale)
{
    struct mount a, b;
    struct stat s;
    mounts_enter();
    mount_begin(&a, "a", "--stale", NULL);
    mount_begin(&b, "b", "--stale", NULL);
    const int fd = open_file("a/x"), other = open_file("b/x");
    CHECK_EQ(unlink("a/x"), 0);
    CHECK_EQ(write(fd, "x", 1), 1); /* this mount has removed it */
    CHECK_EQ(fstat(other, &s), -1);
    CHECK_EQ(errno, ESTALE);
    CHECK_EQ(write(other, "x", 1), -1);
    CHECK_EQ(errno, ESTALE);
    mount_end(&a);
    mount_end(&b);
}

/* The cache hides what others have written, until the file is opened again or locked. */
TEST(a_cache)
{
    struct mount a, b;
    char text[8] = "";
    mounts_enter();
    mount_begin(&a, "a", "--cache", "3600", "--cache-missing", NULL);
    mount_begin(&b, "b", NULL);
    const int writer = open_file("b/x");
    CHECK_EQ(write(writer, "one", 3), 3);
    const int fd = open_file("a/x");
    CHECK_EQ(pread(fd, text, 3, 0), 3);
    CHECK_EQ(pwrite(writer, "two", 3, 0), 3);
    CHECK_EQ(pread(fd, text, 3, 0), 3);
    CHECK_STR(text, "one");
    CHECK_EQ(lock_file(fd, F_RDLCK), 0);
    CHECK_EQ(pread(fd, text, 3, 0), 3);
    CHECK_STR(text, "two");
    CHECK_EQ(pwrite(writer, "six", 3, 0), 3);
    const int again = open_file("a/x");
    CHECK_EQ(pread(again, text, 3, 0), 3);
    CHECK_STR(text, "six");
    CHECK_EQ(unlink("b/x"), 0);
    CHECK_EQ(access("a/x", F_OK), 0); /* the name is cached too */
    CHECK_EQ(access("a/new", F_OK), -1);
    close(open_file("b/new"));
    CHECK_EQ(access("a/new", F_OK), -1); /* and that there was no such name */
    mount_end(&a);
    mount_end(&b);
}

/* --- a cut --- */

static void write_and_report(const char *path, int report)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    const int result = fd < 0 || write(fd, "late", 4) != 4 ? errno : 0;
    CHECK_EQ(write(report, &result, sizeof result), (ssize_t)sizeof result);
    _exit(0);
}

TEST(a_cut_mount_waits_and_goes_on)
{
    struct mount a, b;
    int ends[2], result = -1;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    const int fd = open_file("a/locked");
    CHECK_EQ(lock_file(fd, F_WRLCK), 0);
    mount_tell(&a, "cut");
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0)
        write_and_report("a/x", ends[1]);
    close(open_file("b/y")); /* the other mount works */
    CHECK_EQ(access("b/x", F_OK), -1);
    const int other = open_file("b/locked");
    CHECK_EQ(lock_file(other, F_WRLCK), EAGAIN); /* the server still has its lock */
    struct pollfd p = { .fd = ends[0], .events = POLLIN };
    CHECK_EQ(poll(&p, 1, 0), 0);
    mount_tell(&a, "mend");
    CHECK_EQ(read(ends[0], &result, sizeof result), (ssize_t)sizeof result);
    CHECK_EQ(result, 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(access("b/x", F_OK), 0);
    mount_tell(&a, "fail");
    CHECK_EQ(access("a/x", F_OK), -1);
    CHECK_EQ(errno, EIO);
    mount_tell(&a, "mend");
    CHECK_EQ(access("a/x", F_OK), 0);
    close(fd);
    mount_end(&a);
    mount_end(&b);
}

/* A mount that ends while processes wait for it does not hold them for ever. */
TEST(the_end_of_a_cut_mount)
{
    struct mount a;
    int ends[2], result = 0;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_tell(&a, "cut");
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0)
        write_and_report("a/x", ends[1]);
    mount_end(&a);
    CHECK_EQ(read(ends[0], &result, sizeof result), (ssize_t)sizeof result);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* The mount is cut before each change in turn. Later operations do not happen. */
TEST(a_cut_at_a_change)
{
    struct mount a;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    for (unsigned change = 1; change <= 5; change++) {
        char command[32];
        snprintf(command, sizeof command, "cut-at %u", change);
        mount_tell(&a, command);
        const pid_t pid = fork();
        if (pid == 0) {
            const int fd = open_file("a/x");                                              /* 1 */
            _exit(write(fd, "x", 1) == 1 && fsync(fd) == 0 && rename("a/x", "a/y") == 0); /* 2, 3, 4 */
        }
        CHECK_EQ(mount_await_cut(&a, pid), change <= 4);
        if (change <= 4)
            mount_kill(&a, pid);
        else
            CHECK_EQ(waitpid(pid, NULL, 0), pid);
        CHECK_EQ(access("a/x", F_OK) == 0, change > 1 && change <= 4);
        CHECK_EQ(access("a/y", F_OK) == 0, change == 5);
        unlink("a/x");
    }
    mount_end(&a);
}

/* --- nothing is left --- */

static bool is_mounted(const char *path)
{
    struct stat here, above;
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s/..", path);
    return stat(path, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

/* The test is killed: its mounts were in its own namespace. */
TEST(a_killed_test_leaves_no_mount)
{
    int ends[2];
    char path[PATH_MAX] = "";
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct mount a;
        mounts_enter();
        mount_begin(&a, "a", NULL);
        close(open_file("a/x"));
        CHECK(is_mounted("a"));
        CHECK_GT(write(ends[1], directory_path, strlen(directory_path)), 0);
        raise(SIGKILL);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], path, sizeof path - 8);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (n <= 0)
        SKIP(test_verdict->text);
    strcat(path, "/a");
    CHECK(!is_mounted(path));
    CHECK_EQ(rmdir(path), 0); /* fails if it is a mount point anywhere in our namespace */
    path[n] = '\0';
    directory_remove(path);
}

TEST_MAIN()
