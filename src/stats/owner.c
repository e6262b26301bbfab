/* A process number says little: the process may be gone and the number another's, or be one of another namespace (a
 * container that shares our /dev/shm). With its start and its namespace it is somebody.
 */
#include "stats/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* Fields after the name, which is in parentheses and may hold anything, parentheses and blanks too. */
bool gd__owner_parse(const char *stat, uint64_t *start)
{
    const char *name_end = strrchr(stat, ')'), *at = name_end;
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    *start = at ? strtoull(at + 1, NULL, 10) : 0;
    return at && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* False: it is not there. */
static bool look_up(uint64_t pid, uint64_t *start)
{
    char path[64], text[STAT_MAX + 1];
    *start = 0;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, STAT_MAX);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return gd__owner_parse(text, start);
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
    if (o->start == 0) /* made where there was no /proc: there is only the number */
        return true;
    return look_up(o->pid, &start) && start == o->start;
}

int gd__owner_pidfd(const struct gd__owner *o)
{
    if (o->pid == 0 || o->pid > INT_MAX || GD__FAULT("pidfd"))
        return -1;
    const int fd = gd__fd_above_stdio((int)syscall(SYS_pidfd_open, (pid_t)o->pid, 0u));
    if (fd >= 0 && !gd__owner_alive(o)) { /* after it was opened: from here on it is the one that was looked at */
        close(fd);
        return -1;
    }
    return fd;
}
