/* Descendants that have left their process group.
 *
 * A worker and the processes it starts are one process group, which can be signalled as a whole. But timeout(1),
 * setsid(1) and shells with job control put their commands into new groups, which would outlive the worker. So such
 * processes are searched for, from the root down, in /proc/<pid>/task/<tid>/children. If the kernel does not have that
 * file, none are found, and only the group is signalled.
 *
 * Process ids are reused. So a pidfd is opened first, then the parent is checked, and then the process is signalled.
 *
 * The descendants of a worker can no longer be found from the worker after it is killed, because orphans become
 * children of the nearest subreaper above them. A variable in their environment distinguishes them from other children
 * of that process.
 *
 * Nothing here allocates from the heap. The guardian of a worker runs this code, and another thread of that process may
 * hold the lock of the heap for ever.
 */
#include "proc/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum {
    MOST = 4096,         /* processes handled in one round; the next round finds more */
    MOST_STOPPED = 1024, /* more processes than this are killed without being stopped first */
    ROUNDS = 100,        /* after this many rounds, give up on processes that still multiply */
};

struct found {
    pid_t pid, parent;
};

struct list {
    struct found of[MOST];
    size_t n;
};

/* Reads a small file of /proc. Returns "" if it does not exist. */
static const char *read_small(const char *path, char *room, size_t size)
{
    size_t n = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    while (fd >= 0 && n < size - 1 && (got = read(fd, room + n, size - 1 - n)) > 0)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    room[n] = '\0';
    return room;
}

static void add_children_of_thread(struct list *list, pid_t parent, const char *thread)
{
    char path[320], text[8 * MOST]; /* a process id has at most seven digits */
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, thread);
    const char *at = read_small(path, text, sizeof text);
    for (char *end; list->n < MOST; at = end) {
        const long pid = strtol(at, &end, 10);
        if (end == at || *end != ' ') /* the last number may be cut off */
            return;
        list->of[list->n++] = (struct found){ .pid = (pid_t)pid, .parent = parent };
    }
}

static void add_children(struct list *list, pid_t parent)
{
    char path[64];
    _Alignas(struct dirent64) char room[4096];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (ssize_t n; (n = getdents64(fd, room, sizeof room)) > 0;) {
        const struct dirent64 *e;
        for (ssize_t at = 0; at < n; at += e->d_reclen) {
            e = (const struct dirent64 *)(const void *)(room + at);
            if (e->d_name[0] != '.')
                add_children_of_thread(list, parent, e->d_name);
        }
    }
    close(fd);
}

struct process_stat {
    char state;
    int parent, group, session;
    unsigned long long start; /* start time: with the pid it identifies a process */
};

static bool read_stat(pid_t pid, struct process_stat *out)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *rest = strrchr(read_small(path, text, sizeof text), ')'); /* a name may contain ')' */
    return rest && sscanf(rest, ") %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                          &out->state, &out->parent, &out->group, &out->session, &out->start) == 5;
}

/* Drops processes in another session from the list. They were detached on purpose and are meant to stay. */
static void drop_daemons(struct list *list, pid_t session)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct process_stat f;
        if (read_stat(list->of[i].pid, &f) && f.session == session)
            list->of[kept++] = list->of[i];
    }
    list->n = kept;
}

static bool signal_one(const struct found *found, int signal, pid_t group)
{
    struct process_stat f;
    const int fd = (int)syscall(SYS_pidfd_open, found->pid, 0);
    if (fd < 0)
        return false;
    const bool selected =
        read_stat(found->pid, &f) && f.state != 'Z' && f.state != 'X' && f.parent == found->parent && f.group != group;
    const bool done = selected && syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
    close(fd);
    return done;
}

size_t gd__descendants_signal(pid_t root, int signal, bool spare_daemons)
{
    struct list list = { .n = 0 };
    size_t n = 0;
    const pid_t group = getpgid(root), session = getsid(root);
    if (group < 0 || session < 0)
        return 0;
    add_children(&list, root);
    if (spare_daemons)
        drop_daemons(&list, session);
    for (size_t i = 0; i < list.n; i++)
        add_children(&list, list.of[i].pid);
    /* From the last to the first, because the children of a process that ends get another parent. */
    for (size_t i = list.n; i-- > 0;)
        n += signal_one(&list.of[i], signal, group);
    return n;
}

void gd__descendants_kill(pid_t root, bool spare_daemons)
{
    for (int i = 0; i < ROUNDS && gd__descendants_signal(root, SIGKILL, spare_daemons) > 0; i++)
        ;
}

/* --- all descendants, in the group or not --- */

/* The processes that were stopped. They are killed later, even if their parent has changed. */
struct stopped {
    struct one {
        pid_t pid;
        unsigned long long start;
    } of[MOST_STOPPED];
    size_t n;
};

static bool is_in_stopped(const struct stopped *s, pid_t pid, unsigned long long start)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->of[i].pid == pid && s->of[i].start == start)
            return true;
    return false;
}

/* Returns true if one more process was stopped. */
static bool stop_one(struct stopped *s, const struct found *found, pid_t group)
{
    struct process_stat f;
    const int fd = s->n < MOST_STOPPED ? (int)syscall(SYS_pidfd_open, found->pid, 0) : -1;
    if (fd < 0)
        return false;
    const bool selected = read_stat(found->pid, &f) && f.state != 'Z' && f.state != 'X' && f.parent == found->parent &&
                          f.group == group && !is_in_stopped(s, found->pid, f.start);
    const bool done = selected && syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0) == 0;
    if (done)
        s->of[s->n++] = (struct one){ .pid = found->pid, .start = f.start };
    close(fd);
    return done;
}

static bool stop_those_in_group(struct stopped *s, pid_t root, pid_t group)
{
    struct list list = { .n = 0 };
    bool any = false;
    add_children(&list, root);
    for (size_t i = 0; i < list.n; i++)
        add_children(&list, list.of[i].pid);
    for (size_t i = 0; i < list.n; i++)
        any |= stop_one(s, &list.of[i], group);
    return any;
}

static void kill_stopped(const struct stopped *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct process_stat f;
        const int fd = (int)syscall(SYS_pidfd_open, s->of[i].pid, 0);
        if (fd < 0)
            continue;
        if (read_stat(s->of[i].pid, &f) && f.start == s->of[i].start)
            (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        close(fd);
    }
}

/* Stops processes one by one, not with one signal to the group. Such a signal would also stop a process that is about
 * to leave the group. If root then ended, that process could not be found any more and would stay stopped for ever. */
void gd__descendants_end(pid_t root, bool spare_daemons)
{
    struct stopped stopped = { .n = 0 };
    const pid_t group = getpgid(root);
    if (group < 0)
        return;
    for (int i = 0; i < ROUNDS && stop_those_in_group(&stopped, root, group); i++)
        ;
    gd__descendants_kill(root, spare_daemons);
    kill_stopped(&stopped);
}

/* --- adopted children --- */

void gd__children_each(gd__child_fn *fn, void *user)
{
    struct list list = { .n = 0 };
    add_children(&list, getpid());
    for (size_t i = 0; i < list.n; i++)
        fn(user, list.of[i].pid);
}

/* Scans the entries of an environment byte by byte. */
struct scan {
    const char *name;
    size_t at; /* in the entry */
    bool is_it;
    char *value;
    size_t size, n;
};

/* Returns true if the whole value has been read. */
static bool scan_byte(struct scan *s, char c)
{
    if (c == '\0') {
        const bool found = s->is_it && s->name[s->at] == '\0';
        s->value[s->n] = '\0';
        if (!found)
            *s = (struct scan){ .name = s->name, .is_it = true, .value = s->value, .size = s->size };
        return found;
    }
    if (s->name[s->at] != '\0')
        s->is_it = s->is_it && c == s->name[s->at++];
    else if (s->is_it && s->n < s->size - 1)
        s->value[s->n++] = c;
    return false;
}

enum answer { NO_SUCH_VARIABLE, FOUND, NO_ENVIRONMENT };

/* A process that is about to end has no environment. The environment of another user's process cannot be read. */
static enum answer read_variable(pid_t pid, const char *name, char *value, size_t size)
{
    char path[64], text[4096];
    struct scan s = { .name = name, .is_it = true, .value = value, .size = size };
    bool found = false, any = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && !found && (n = read(fd, text, sizeof text)) > 0; any = true)
        for (ssize_t i = 0; i < n && !found; i++)
            found = scan_byte(&s, text[i]);
    if (fd < 0)
        return errno == ESRCH ? NO_ENVIRONMENT : NO_SUCH_VARIABLE; /* newer kernels fail when the file is opened */
    close(fd);
    return found ? FOUND : any ? NO_SUCH_VARIABLE : NO_ENVIRONMENT;
}

/* Kills a process and returns a pidfd of it. Returns -1 if it is gone, has another parent now, or can't be killed. A
 * process that has just ended gets a pidfd too, so that the caller searches again. */
static int kill_and_watch(const struct found *found)
{
    struct process_stat f;
    const int fd = (int)syscall(SYS_pidfd_open, found->pid, 0);
    if (fd < 0)
        return -1;
    if (read_stat(found->pid, &f) && f.state != 'X' && f.parent == found->parent &&
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0)
        return fd;
    close(fd);
    return -1;
}

enum verdict { NOT_SELECTED, SELECTED, LOOK_AGAIN };

/* Decides whether a child is selected. Its state is read between opening a pidfd and using the pidfd, so it is the
 * state of this child and not of a later process with the same id. A zombie of the group is waited for here. Its
 * children have become children of this process, perhaps after the children were listed, so they must be listed
 * again. */
static enum verdict judge(const struct gd__adopted *which, const struct found *found)
{
    char value[256];
    struct process_stat f;
    enum verdict verdict = NOT_SELECTED;
    const int fd = (int)syscall(SYS_pidfd_open, found->pid, 0);
    if (fd < 0)
        return NOT_SELECTED;
    const enum answer answer = read_variable(found->pid, which->name, value, sizeof value);
    const bool known = read_stat(found->pid, &f) && f.parent == found->parent;
    const bool ending = known && (answer == NO_ENVIRONMENT || f.state == 'Z') && f.group == which->group;
    if (ending && f.state == 'Z')
        verdict = waitpid(found->pid, NULL, WNOHANG) == found->pid ? LOOK_AGAIN : NOT_SELECTED;
    else if (ending || (known && answer == FOUND && which->is_meant(which->user, value)))
        verdict = syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 ? SELECTED : NOT_SELECTED;
    close(fd);
    return verdict;
}

static void list_selected(struct list *out, const struct gd__adopted *which)
{
    for (bool again = true; again;) { /* each round leaves one zombie less */
        struct list children = { .n = 0 };
        add_children(&children, getpid());
        out->n = 0;
        again = false;
        for (size_t i = 0; i < children.n; i++) {
            const enum verdict verdict = judge(which, &children.of[i]);
            if (verdict == SELECTED)
                out->of[out->n++] = children.of[i];
            again |= verdict == LOOK_AGAIN;
        }
    }
}

size_t gd__adopted_kill(const struct gd__adopted *which, int *pidfds, size_t most)
{
    struct list list = { .n = 0 };
    size_t n = 0;
    list_selected(&list, which);
    for (size_t i = 0; i < list.n; i++)
        add_children(&list, list.of[i].pid);
    for (size_t i = list.n; i-- > 0 && n < most;) {
        const int fd = kill_and_watch(&list.of[i]);
        if (fd >= 0)
            pidfds[n++] = fd;
    }
    return n;
}
