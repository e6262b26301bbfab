/* SPDX-License-Identifier: MIT
 *
 * A directory for one case, and functions that make files in it:
 *
 *     directory_enter();                  // makes it and changes to it
 *     make_directories("d/e/f");          // with their parents
 *     make_file("d/e/f/x.wav", 100);      // 100 bytes, with the directories above it
 *
 * The directory is removed when the case passes.
 */
#ifndef GD_TESTS_SUPPORT_DIRECTORY_H
#define GD_TESTS_SUPPORT_DIRECTORY_H

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "support/test.h"

static char directory_path[256];
static pid_t directory_owner;

/* Uses rm, which can remove trees deeper than PATH_MAX. */
TEST_UNUSED static void directory_remove(const char *path)
{
    char program[] = "rm", force[] = "-rf", end[] = "--", *copy = strdup(path);
    char *argv[] = { program, force, end, copy, NULL };
    struct rlimit limit;
    pid_t pid;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* a case may have lowered the limit */
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
    free(copy);
}

TEST_UNUSED static void directory_clean(void)
{
    if (getpid() == directory_owner)
        directory_remove(directory_path);
}

/* Some cases make files of a hundred megabytes. A container may have less room than that. */
TEST_UNUSED static bool directory_has_room(const char *place)
{
    struct statvfs s;
    return statvfs(place, &s) == 0 && (uint64_t)s.f_bavail * s.f_frsize >= (uint64_t)512 << 20;
}

/* The directory is in $TMPDIR if that is set. Otherwise it is in memory if possible, because some cases make many
 * files. */
TEST_UNUSED static void directory_enter(void)
{
    const char *const places[] = { getenv("TMPDIR"), directory_has_room("/dev/shm") ? "/dev/shm" : NULL, "/tmp" };
    bool made = false;
    for (size_t i = 0; i < sizeof places / sizeof *places && !made; i++) {
        const int n = snprintf(directory_path, sizeof directory_path, "%s/gd-test-XXXXXX", places[i] ? places[i] : "");
        made = places[i] && n < (int)sizeof directory_path && mkdtemp(directory_path);
    }
    if (!made)
        FAIL("no place for a temporary directory: %s", strerror(errno));
    directory_owner = getpid();
    atexit(directory_clean);
    CHECK_EQ(chmod(directory_path, 0755), 0); /* for cases that change their user */
    CHECK_EQ(chdir(directory_path), 0);
    /* If $TMPDIR is a link or ends with a slash, getcwd() returns a different name. Use that name. */
    char real[sizeof directory_path];
    if (getcwd(real, sizeof real))
        strcpy(directory_path, real);
}

TEST_UNUSED static void make_directories(const char *path)
{
    char *part = strdup(path);
    CHECK(part != NULL);
    for (char *slash = part; slash; *slash = '/') {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            FAIL("mkdir %s: %s", part, strerror(errno));
        if (!slash)
            break;
    }
    free(part);
}

TEST_UNUSED static void make_file(const char *path, size_t size)
{
    char *above = strdup(path), *slash = above ? strrchr(above, '/') : NULL;
    CHECK(above != NULL);
    if (slash) {
        *slash = '\0';
        make_directories(above);
    }
    free(above);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        FAIL("%s: %s", path, strerror(errno));
    close(fd);
}

#endif
