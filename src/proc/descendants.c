/* Descendants that have left their process group.
 *
 * A worker and what it starts are one process group, which can be signalled as a whole. But timeout(1), a shell with
 * job control and setsid(1) put what they run into a group of its own, which would outlive the worker. So these are
 * looked for, from the root down, in /proc/<pid>/task/<tid>/children (where a kernel lacks it none are found, and the
 * group has to do).
 *
 * Numbers of processes are reused: a process is held by a pidfd, then its parent is looked at, then it is signalled.
 *
 * Nothing here takes memory from the heap: the guardian of a worker comes this way, and whoever has the heap's lock
 * there may never give it back.
 */
#include "proc/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum {
    MOST = 1024,  /* looked at in one round; more are left to the next */
    ROUNDS = 100, /* what multiplies faster than that is not to be had this way */
};

struct found {
    pid_t pid, parent;
};

struct list {
    struct found of[MOST];
    size_t n;
};

/* Reads a small file of /proc whole; "" if there is none. */
static const char *read_small(const char *path, char *room, size_t size)
{
    size_t n = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; fd >= 0 && got > 0 && n<size - 1; n += got> 0 ? (size_t)got : 0)
        got = read(fd, room + n, size - 1 - n);
    if (fd >= 0)
        close(fd);
    room[n] = '\0';
    return room;
}

static void add_children_of_thread(struct list *list, pid_t parent, const char *thread)
{
    char path[320], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, thread);
    const char *at = read_small(path, text, sizeof text);
    for (char *end; list->n < MOST; at = end) {
        const long pid = strtol(at, &end, 10);
        if (end == at || *end != ' ') /* a number that was cut off is no number */
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

struct fact {
    char state;
    int parent, group, session;
};

static bool learn(pid_t pid, struct fact *out)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *rest = strrchr(read_small(path, text, sizeof text), ')'); /* the name before it may be anything */
    return rest && sscanf(rest, ") %c %d %d %d", &out->state, &out->parent, &out->group, &out->session) == 4;
}

/* Leaves what its starter has taken leave of, and in a session of its own: that is meant to stay. */
static void drop_daemons(struct list *list, pid_t session)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct fact f;
        if (learn(list->of[i].pid, &f) && f.session == session)
            list->of[kept++] = list->of[i];
    }
    list->n = kept;
}

static bool signal_one(const struct found *found, int signal, pid_t group)
{
    struct fact f;
    const int fd = (int)syscall(SYS_pidfd_open, found->pid, 0);
    if (fd < 0)
        return false;
    const bool meant =
        learn(found->pid, &f) && f.state != 'Z' && f.state != 'X' && f.parent == found->parent && f.group != group;
    const bool done = meant && syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
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
    /* From the lowest up: a parent that ends first would leave its children to somebody else. */
    for (size_t i = list.n; i-- > 0;)
        n += signal_one(&list.of[i], signal, group);
    return n;
}

void gd__descendants_kill(pid_t root, bool spare_daemons)
{
    for (int i = 0; i < ROUNDS && gd__descendants_signal(root, SIGKILL, spare_daemons) > 0; i++)
        ;
}
