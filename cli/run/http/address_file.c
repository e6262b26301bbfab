/* SPDX-License-Identifier: MIT
 *
 * The directory must be a directory (no link to one), the user's, and closed to others, as for the library's own files.
 * The run holds a lock on its file. A run that was killed leaves its file, but not the lock: the next run that makes a
 * file here removes those that nobody has locked. A file gets its name when it is locked and whole.
 */
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

#include "base/failure.h"
#include "base/file/write.h"

#define PREFIX "web-"

enum { N_FOLDERS = 2 };

/* False: there is no such directory. */
static bool folder_path(unsigned i, char path[PATH_MAX])
{
    struct stat s;
    const char *own = getenv("GPU_DISPATCH_JOBS"), *runtime = getenv("XDG_RUNTIME_DIR");
    int n = -1;
    if (own && *own)
        n = i == 0 ? snprintf(path, PATH_MAX, "%s", own) : -1;
    else if (i == 1)
        n = snprintf(path, PATH_MAX, "/dev/shm/gpu-dispatch-%u", (unsigned)geteuid());
    else if (runtime && runtime[0] == '/' && stat(runtime, &s) == 0 && s.st_uid == geteuid()) /* not under sudo -E */
        n = snprintf(path, PATH_MAX, "%s/gpu-dispatch", runtime);
    return n > 0 && n < PATH_MAX;
}

static int open_folder(const char *path, bool make)
{
    struct stat s;
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return gd__fail("cannot make the directory %s: %s", path, strerror(errno));
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return gd__fail("cannot open the directory %s: %s", path, strerror(errno));
    if (fstat(fd, &s) == 0 && s.st_uid == geteuid() && (s.st_mode & 077) == 0)
        return fd;
    close(fd);
    return gd__fail("the directory %s is not yours alone: chmod 700 it, or set GPU_DISPATCH_JOBS to one that is", path);
}

/* --- files of runs that were killed ------------------------------------------------- */

static void remove_if_left(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0); /* else the next run does it */
    close(fd);
}

static void remove_left(int folder)
{
    const int copy = fcntl(folder, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* readdir takes its own over */
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) == 0)
            remove_if_left(folder, e->d_name);
    }
    if (dir)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
}

/* --- our own ---------------------------------------------------------------------------- */

/* Containers may share the directory and each have a process of our number. */
static void name_file(long pid, char *out, size_t size)
{
    struct stat s = { 0 };
    (void)stat("/proc/self/ns/pid", &s);
    snprintf(out, size, PREFIX "%ld-%llu", pid, (unsigned long long)s.st_ino);
}

/* A descriptor, or -1 with errno. */
static int write_file(int folder, const char *name, const char *address)
{
    char temporary[80], line[1024];
    const int length = snprintf(line, sizeof line, "%s\n", address);
    snprintf(temporary, sizeof temporary, ".%s", name);
    if (unlinkat(folder, temporary, 0) < 0 && errno != ENOENT)
        return -1;
    const int fd = openat(folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && gd__write_all(fd, line, (size_t)length) == 0 &&
        renameat(folder, temporary, folder, name) == 0)
        return fd;
    const int why = errno;
    (void)unlinkat(folder, temporary, 0);
    close(fd);
    errno = why;
    return -1;
}

static int open_in(struct cli_address_file *f, const char *path, const char *address)
{
    const int folder = open_folder(path, true);
    if (folder < 0)
        return -1;
    remove_left(folder);
    const int fd = write_file(folder, f->name, address);
    if (fd < 0) {
        (void)gd__fail("cannot write %s/%s: %s", path, f->name, strerror(errno));
        close(folder);
        return -1;
    }
    snprintf(f->path, sizeof f->path, "%s/%s", path, f->name);
    f->folder = folder;
    f->fd = fd;
    return 0;
}

int cli_address_file_open(struct cli_address_file *f, const char *address)
{
    char path[PATH_MAX];
    int rc = gd__fail("there is no private directory: set GPU_DISPATCH_JOBS to one");
    name_file((long)getpid(), f->name, sizeof f->name);
    for (unsigned i = 0; i < N_FOLDERS && rc < 0; i++) {
        if (folder_path(i, path))
            rc = open_in(f, path, address);
    }
    return rc;
}

void cli_address_file_close(struct cli_address_file *f)
{
    if (f->fd > 0) {
        (void)unlinkat(f->folder, f->name, 0);
        close(f->fd);
        close(f->folder);
    }
    *f = (struct cli_address_file){ 0 };
}

/* --- of others --------------------------------------------------------------------------- */

static bool read_line(int folder, const char *name, char *out, size_t size)
{
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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
    char name[64], path[PATH_MAX];
    bool found = false;
    name_file(pid, name, sizeof name);
    for (unsigned i = 0; i < N_FOLDERS && !found; i++) {
        const int folder = folder_path(i, path) ? open_folder(path, false) : -1;
        if (folder < 0)
            continue;
        found = read_line(folder, name, out, size);
        close(folder);
    }
    return found;
}
