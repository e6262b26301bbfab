/* SPDX-License-Identifier: MIT
 *
 * Writes, finds and removes the files with the addresses of web pages. A run holds a lock on its file. A run that was
 * killed leaves its file behind, but not the lock. The next run that creates a file here removes the files that no
 * process has locked. A file gets its final name after it is locked and complete. */
#include "cli/run/http/address_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpu_dispatch/error.h>

#include "base/failure.h"
#include "base/file/run_directory.h"
#include "base/file/write.h"

#define PREFIX "web-"

/* --- files of runs that were killed ------------------------------------------------- */

static void remove_if_left(int directory, const char *name)
{
    const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(directory, name, 0); /* if this fails, the next run does it */
    close(fd);
}

static void remove_left(int directory)
{
    /* A copy, because closedir() closes its descriptor. */
    const int copy = fcntl(directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) == 0)
            remove_if_left(directory, e->d_name);
    }
    if (dir)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
}

/* --- our file --------------------------------------------------------------------------- */

/* The name includes the PID namespace, because containers that share the directory may have processes with equal
 * numbers. */
static void name_file(long pid, char *out, size_t size)
{
    struct stat s = { 0 };
    (void)stat("/proc/self/ns/pid", &s);
    snprintf(out, size, PREFIX "%ld-%llu", pid, (unsigned long long)s.st_ino);
}

/* Returns a descriptor, or -1 with errno. */
static int write_file(int directory, const char *name, const char *address)
{
    char temporary[80], line[1024];
    const int length = snprintf(line, sizeof line, "%s\n", address);
    snprintf(temporary, sizeof temporary, ".%s", name);
    if (unlinkat(directory, temporary, 0) < 0 && errno != ENOENT)
        return -1;
    const int fd = openat(directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && gd__write_all(fd, line, (size_t)length) == 0 &&
        renameat(directory, temporary, directory, name) == 0)
        return fd;
    const int why = errno;
    (void)unlinkat(directory, temporary, 0);
    close(fd);
    errno = why;
    return -1;
}

static int make_file(struct cli_address_file *f, int directory, const char *path, const char *address)
{
    remove_left(directory);
    const int fd = write_file(directory, f->name, address);
    if (fd < 0)
        return gd__fail("cannot write %s/%s: %s", path, f->name, strerror(errno));
    snprintf(f->path, sizeof f->path, "%s/%s", path, f->name);
    f->directory = directory;
    f->fd = fd;
    return 0;
}

int cli_address_file_open(struct cli_address_file *f, const char *address)
{
    char path[PATH_MAX];
    int rc = gd__fail("no private directory was found: set GPU_DISPATCH_JOBS to one");
    name_file((long)getpid(), f->name, sizeof f->name);
    for (unsigned i = 0; i < GD__RUN_DIRECTORIES && rc < 0; i++) {
        const int directory = gd__run_directory_open(i, true, path);
        if (directory == GD_E_NO_JOB)
            continue;
        rc = directory < 0 ? gd__fail("%s", gd_error_text()) : make_file(f, directory, path, address);
        if (directory >= 0 && rc < 0)
            close(directory);
    }
    return rc;
}

void cli_address_file_close(struct cli_address_file *f)
{
    if (f->fd > 0) {
        (void)unlinkat(f->directory, f->name, 0);
        close(f->fd);
        close(f->directory);
    }
    *f = (struct cli_address_file){ 0 };
}

/* --- files of other runs -------------------------------------------------------------------- */

static bool read_line(int directory, const char *name, char *out, size_t size)
{
    const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return *out != '\0';
}

bool cli_address_file_find(long pid, char *out, size_t size)
{
    char name[64];
    bool found = false;
    name_file(pid, name, sizeof name);
    for (unsigned i = 0; i < GD__RUN_DIRECTORIES && !found; i++) {
        const int directory = gd__run_directory_open(i, false, NULL);
        if (directory < 0)
            continue;
        found = read_line(directory, name, out, size);
        close(directory);
    }
    return found;
}
