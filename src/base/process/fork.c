/* Descriptors that a fork of this process must not keep.
 *
 * A program that uses the library may fork (Python's multiprocessing does). The child has a copy of every descriptor,
 * close-on-exec or not, until it executes another program. As long as some of our descriptors are open, other processes
 * believe that this process is alive: a worker's lifeline, the lock of a journal. A handler of pthread_atfork() closes
 * the child's copies of these.
 *
 * The handler runs in the child of a process with many threads, so it calls only async-signal-safe functions. The list
 * is consistent there, because the lock is held across the fork. The program may have closed one of our descriptors by
 * mistake, and then opened another file with the same number. So a descriptor is closed, in the child and in this
 * process, only if it still refers to the same file.
 *
 * _Fork(), vfork() and a direct clone() run no handlers. Code that must work even then does not rely on this alone: see
 * the guardian in worker/main.c, and journal/lock/lock.c.
 */
#include "base/process/fork.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static struct gd__fork_guard *first; /* under the lock */

static bool is_same_file(const struct gd__fork_guard *g)
{
    struct stat s;
    return fstat(g->fd, &s) == 0 && s.st_dev == g->device && s.st_ino == g->inode;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_in_child(void)
{
    for (struct gd__fork_guard *g = first; g; g = g->next) {
        if (is_same_file(g))
            close(g->fd);
        g->fd = -1;
    }
    first = NULL;
    pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    pthread_atfork(before_fork, after_in_parent, after_in_child); /* if this fails, forks keep the descriptors */
}

void gd__fork_hold(void)
{
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&lock);
}

void gd__fork_let(void)
{
    pthread_mutex_unlock(&lock);
}

void gd__fork_guard(struct gd__fork_guard *g, int fd)
{
    struct stat s;
    *g = (struct gd__fork_guard)GD__FORK_GUARD_NONE;
    if (fd < 0 || fstat(fd, &s) < 0)
        return;
    *g = (struct gd__fork_guard){ .fd = fd, .device = s.st_dev, .inode = s.st_ino, .next = first };
    if (first)
        first->previous = g;
    first = g;
}

/* Does nothing in the child of a fork: there the list is empty and the guard has no descriptor. */
void gd__fork_close(struct gd__fork_guard *g)
{
    gd__fork_hold();
    if (g->fd >= 0) {
        if (g->next)
            g->next->previous = g->previous;
        if (g->previous)
            g->previous->next = g->next;
        else
            first = g->next;
        if (is_same_file(g))
            close(g->fd);
    }
    *g = (struct gd__fork_guard)GD__FORK_GUARD_NONE;
    gd__fork_let();
}
