/* Identifies the process that owns a file. A process id alone does not identify a process. The process may be gone and
 * its id reused, or the id may be one of another PID namespace (a container that shares our /dev/shm). Id, start time
 * and namespace together identify it. */
#include "base/process/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

enum { START_FIELD = 22, STAT_MAX = 1024 };

/* Counts fields after the name, which is in parentheses and may itself contain parentheses and blanks. */
bool gd__owner_parse(const char *stat, uint64_t *start)
{
    const char *name_end = strrchr(stat, ')'), *at = name_end;
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    *start = at ? strtoull(at + 1, NULL, 10) : 0;
    return at && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* Reads a small file. The text is "" if it can't be read. */
static void read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
}

/* For a process whose first thread has ended, returns whether another thread still runs. Without pidfds returns
 * false. */
static bool has_threads_left(uint64_t pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    const bool left = fd >= 0 && poll(&p, 1, 0) == 0;
    if (fd >= 0)
        close(fd);
    return left;
}

/* Returns false if the process does not exist. */
static bool look_up(uint64_t pid, uint64_t *start)
{
    char path[64], text[STAT_MAX + 1];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    read_text(path, text, sizeof text);
    return gd__owner_parse(text, start) || (*start > 0 && has_threads_left(pid));
}

static uint64_t our_space(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) == 0 ? s.st_ino : 0;
}

void gd__owner_self(struct gd__owner *out)
{
    out->pid = (uint64_t)getpid();
    (void)look_up(out->pid, &out->start);
    out->space = our_space();
}

void gd__owner_boot_id(char out[GD__BOOT_ID_MAX])
{
    read_text("/proc/sys/kernel/random/boot_id", out, GD__BOOT_ID_MAX);
    out[strcspn(out, " \n")] = '\0';
}

bool gd__owner_is_ours(const struct gd__owner *o)
{
    const uint64_t ours = our_space();
    return ours == 0 || o->space == 0 || ours == o->space;
}

bool gd__owner_alive(const struct gd__owner *o)
{
    uint64_t start;
    if (o->pid == 0 || o->pid > INT_MAX || (kill((pid_t)o->pid, 0) < 0 && errno == ESRCH))
        return false;
    if (o->start == 0) /* recorded without /proc: only the id is known */
        return true;
    return look_up(o->pid, &start) && start == o->start;
}

int gd__owner_pidfd(const struct gd__owner *o)
{
    if (o->pid == 0 || o->pid > INT_MAX || GD__FAULT("pidfd"))
        return -1;
    const int fd = gd__fd_above_stdio((int)syscall(SYS_pidfd_open, (pid_t)o->pid, 0u));
    if (fd >= 0 && !gd__owner_alive(o)) { /* checked after opening, so the pidfd belongs to this process */
        close(fd);
        return -1;
    }
    return fd;
}
