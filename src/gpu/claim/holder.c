/* Processes that use a device.
 *
 * The kernel lists every flock() in /proc/locks, with the process that took it. So the lock files need no content that
 * could be outdated or wrong. Locks of processes in other PID namespaces are not listed.
 *
 *   1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF        held; READ: shared
 *   1: -> FLOCK  ADVISORY  WRITE 1240 00:1a:5678 0 EOF     waits
 */
#include "gpu/claim/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/text/printable.h"

enum { GENERATIONS = 64, STATUS_MAX = 2048, COMMAND_MAX = 256, COMMAND_SHOWN = 64, USER_MAX = 40, USER_ROOM = 1024 };

static void read_proc(int pid, const char *name, char *out, size_t size, size_t *length)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    *length = n > 0 ? (size_t)n : 0;
    out[*length] = '\0';
}

/* 0: not known. */
static int parent_of(int pid)
{
    char status[STATUS_MAX];
    size_t length;
    read_proc(pid, "status", status, sizeof status, &length);
    const char *line = strstr(status, "\nPPid:");
    return line ? (int)strtol(line + strlen("\nPPid:"), NULL, 10) : 0;
}

static bool is_ancestor(int pid)
{
    int p = (int)getppid();
    for (int i = 0; i < GENERATIONS && p > 1; i++, p = parent_of(p))
        if (p == pid)
            return true;
    return false;
}

/* Parses a line of /proc/locks. False: it is not a flock that is held. */
static bool parse_line(const char *line, const struct gd__lock_file_id *file, struct gd__holder *out)
{
    char kind[16], mode[16];
    unsigned major_number, minor_number;
    unsigned long long inode;
    int pid;
    if (sscanf(line, "%*d: FLOCK %15s %15s %d %x:%x:%llu", kind, mode, &pid, &major_number, &minor_number, &inode) != 6)
        return false;
    if (inode != file->inode || major_number != major(file->device) || minor_number != minor(file->device))
        return false;
    *out = (struct gd__holder){ .pid = pid > 0 ? pid : 0, .exclusive = strcmp(mode, "WRITE") == 0 };
    out->ancestor = out->pid > 0 && is_ancestor(out->pid);
    return true;
}

bool gd__holder_find(struct gd__holder *out, const struct gd__lock_file_id *file)
{
    FILE *locks = GD__FAULT("open") ? NULL : fopen("/proc/locks", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    *out = (struct gd__holder){ 0 };
    while (locks && !out->ancestor && getline(&line, &size, locks) > 0) {
        struct gd__holder one;
        if (parse_line(line, file, &one) && (!found || one.ancestor)) {
            *out = one;
            found = true;
        }
    }
    free(line);
    if (locks)
        fclose(locks);
    return found;
}

struct search {
    struct gd__holder *out;
    struct gd__lock_file_id *file;
    bool found;
};

static bool look_at(void *user, const struct gd__lock_file_id *file)
{
    struct search *s = user;
    struct gd__holder one;
    if (!gd__holder_find(&one, file) || (s->found && !one.ancestor))
        return true;
    *s->out = one;
    *s->file = *file;
    s->found = true;
    return !one.ancestor;
}

bool gd__holder_of_device(struct gd__holder *out, const struct gd__lock_directory *d, const char *name,
                          struct gd__lock_file_id *file)
{
    struct search s = { .out = out, .file = file };
    *out = (struct gd__holder){ 0 };
    return gd__lock_files_each(d, name, look_at, &s) == 0 && s.found;
}

/* --- for messages --- */

static void find_user(char out[USER_MAX], int pid)
{
    char path[64], room[USER_ROOM];
    struct stat s;
    struct passwd entry, *found = NULL;
    snprintf(path, sizeof path, "/proc/%d", pid);
    out[0] = '\0';
    if (stat(path, &s) < 0)
        return;
    if (getpwuid_r(s.st_uid, &entry, room, sizeof room, &found) == 0 && found)
        gd__text_line(out, USER_MAX, found->pw_name, strlen(found->pw_name));
    else
        snprintf(out, USER_MAX, "user %u", (unsigned)s.st_uid);
}

static void find_command(char out[COMMAND_SHOWN], int pid)
{
    char command[COMMAND_MAX];
    size_t length;
    read_proc(pid, "cmdline", command, sizeof command, &length);
    while (length > 0 && command[length - 1] == '\0')
        length--;
    for (size_t i = 0; i < length; i++)
        if (command[i] == '\0')
            command[i] = ' ';
    gd__text_line(out, COMMAND_SHOWN, command, length);
}

char *gd__holder_describe(char out[GD__HOLDER_TEXT], int pid)
{
    char user[USER_MAX] = "", command[COMMAND_SHOWN] = "";
    if (pid <= 0) {
        snprintf(out, GD__HOLDER_TEXT, "another process");
        return out;
    }
    find_user(user, pid);
    find_command(command, pid);
    if (*user)
        snprintf(out, GD__HOLDER_TEXT, "process %d (%s%s%s)", pid, user, *command ? ": " : "", command);
    else
        snprintf(out, GD__HOLDER_TEXT, "process %d", pid);
    return out;
}

int gd__holder_watch(int pid)
{
    if (pid <= 0)
        return -1;
    const int fd = GD__FAULT("pidfd") ? -1 : gd__fd_above_stdio((int)syscall(SYS_pidfd_open, (pid_t)pid, 0u));
    struct pollfd p = { .fd = fd, .events = POLLIN };
    if (fd >= 0 && poll(&p, 1, 0) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}
