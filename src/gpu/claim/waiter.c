/* One poll() for everything that can make a device free: see waiter.h. */
#include "gpu/claim/waiter.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "gpu/claim/holder.h"

enum { OWN_DESCRIPTORS = GD__WAITER_STOPS + 1, MS_PER_S = 1000, NS_PER_MS = 1000000 };

void gd__waiter_open(struct gd__waiter *w)
{
    *w = (struct gd__waiter){ .inotify_fd = -1 };
    w->inotify_fd = GD__FAULT("inotify") ? -1 : gd__fd_above_stdio(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

void gd__waiter_close(struct gd__waiter *w)
{
    for (size_t i = 0; i < w->n; i++)
        close(w->processes[i].fd);
    gd__free(w->processes);
    gd__fd_close(&w->inotify_fd);
    w->processes = NULL;
    w->n = w->capacity = 0;
}

void gd__waiter_begin(struct gd__waiter *w)
{
    w->timer = false;
    for (size_t i = 0; i < w->n; i++)
        w->processes[i].wanted = false;
}

void gd__waiter_for_time(struct gd__waiter *w)
{
    w->timer = true;
}

/* A new watch gets a higher number than all earlier ones. A file that is watched already keeps its number. */
bool gd__waiter_for_file(struct gd__waiter *w, const struct gd__lock_directory *d, const struct gd__lock_file_id *file)
{
    char path[PATH_MAX + sizeof file->name + 1];
    snprintf(path, sizeof path, "%s/%s", d->path, file->name);
    const int watch =
        w->inotify_fd < 0 ? -1 : inotify_add_watch(w->inotify_fd, path, IN_CLOSE | IN_DELETE_SELF | IN_DONT_FOLLOW);
    if (watch < 0)
        w->timer = true;
    const bool is_new = watch > w->last_watch;
    if (is_new)
        w->last_watch = watch;
    return is_new;
}

static bool has_ended(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) != 0;
}

static void remove_process(struct gd__waiter *w, size_t i)
{
    close(w->processes[i].fd);
    w->processes[i] = w->processes[--w->n];
}

static bool has_room(struct gd__waiter *w)
{
    const size_t more = w->capacity ? 2 * w->capacity : 8;
    if (w->n < w->capacity)
        return true;
    struct gd__waiter_process *list = gd__realloc(w->processes, more * sizeof *list);
    if (!list)
        return false;
    w->processes = list;
    w->capacity = more;
    return true;
}

bool gd__waiter_for_process(struct gd__waiter *w, int pid)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->processes[i].pid != pid)
            continue;
        if (!has_ended(w->processes[i].fd)) {
            w->processes[i].wanted = true;
            return false;
        }
        remove_process(w, i);
        break;
    }
    const int fd = has_room(w) ? gd__holder_watch(pid) : -1;
    if (fd < 0) {
        w->timer = true;
        return false;
    }
    w->processes[w->n++] = (struct gd__waiter_process){ .pid = pid, .fd = fd, .wanted = true };
    return true;
}

static void forget_unwanted(struct gd__waiter *w)
{
    for (size_t i = w->n; i-- > 0;)
        if (!w->processes[i].wanted)
            remove_process(w, i);
}

static void drain(int fd)
{
    char events[4096];
    while (fd >= 0 && read(fd, events, sizeof events) > 0)
        ;
}

int gd__waiter_sleep(struct gd__waiter *w, const int stop_fds[GD__WAITER_STOPS], const sigset_t *mask)
{
    const struct timespec time = { .tv_sec = GD__WAITER_TIMER_MS / MS_PER_S,
                                   .tv_nsec = (long)(GD__WAITER_TIMER_MS % MS_PER_S) * NS_PER_MS };
    forget_unwanted(w);
    struct pollfd *fds = gd__calloc(w->n + OWN_DESCRIPTORS, sizeof *fds);
    if (!fds)
        return gd__error(GD_E_NO_MEMORY, "no memory to wait for GPUs");
    for (int i = 0; i < GD__WAITER_STOPS; i++) /* poll() skips -1 */
        fds[i] = (struct pollfd){ .fd = stop_fds[i] > 0 ? stop_fds[i] : -1, .events = POLLIN };
    fds[GD__WAITER_STOPS] = (struct pollfd){ .fd = w->inotify_fd, .events = POLLIN };
    for (size_t i = 0; i < w->n; i++)
        fds[OWN_DESCRIPTORS + i] = (struct pollfd){ .fd = w->processes[i].fd, .events = POLLIN };
    int rc = ppoll(fds, w->n + OWN_DESCRIPTORS, w->timer ? &time : NULL, mask);
    if (rc < 0 && errno != EINTR)
        rc = gd__error_errno("cannot wait for GPUs");
    else
        rc = rc > 0 && (fds[0].revents || fds[1].revents) ? 0 : 1;
    drain(w->inotify_fd);
    gd__free(fds);
    return rc;
}
