/* SPDX-License-Identifier: MIT
 *
 * Which tasks the workers of a run have begun. The test and its workers share this memory, so the test can look up what
 * a worker held when it was killed.
 *
 * A worker notes a task after the dispatcher can know that it has begun, and removes the note before it finishes the
 * task. So if a worker is killed, at any moment, every task that is noted as held is in flight for the dispatcher too.
 */
#ifndef GD_TESTS_CRASH_FLIGHT_BEGUN_H
#define GD_TESTS_CRASH_FLIGHT_BEGUN_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "crash/flight/pool.h"

enum { BEGUN_WORKERS = 4 };
#define BEGUN_ENV "GD_TEST_BEGUN"

struct begun {
    _Atomic uint64_t held[BEGUN_WORKERS][POOL_MOST]; /* task + 1; 0: free */
    struct {
        _Atomic uint32_t attempt;
        _Atomic int32_t worker;
    } last[]; /* by task: the last time that it was begun */
};

static struct begun *begun_map(int fd, size_t *size)
{
    struct stat s;
    if (fd < 0 || fstat(fd, &s) < 0)
        return NULL;
    void *p = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *size = (size_t)s.st_size;
    return p == MAP_FAILED ? NULL : p;
}

/* The test's side. *fd stays open as long as workers are started. `variable` is for their environment. */
static struct begun *begun_make(uint64_t tasks, int *fd, size_t *size, char variable[64])
{
    struct begun *b;
    *fd = memfd_create("begun", MFD_CLOEXEC);
    CHECK(*fd >= 0);
    CHECK_EQ(ftruncate(*fd, (off_t)(sizeof *b + tasks * sizeof b->last[0])), 0);
    CHECK((b = begun_map(*fd, size)) != NULL);
    snprintf(variable, 64, BEGUN_ENV "=/proc/%d/fd/%d", (int)getpid(), *fd);
    return b;
}

/* The worker's side. */
static struct begun *begun_find(void)
{
    size_t size;
    const char *path = getenv(BEGUN_ENV);
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct begun *b = begun_map(fd, &size);
    if (fd >= 0)
        close(fd);
    return b;
}

/* Whether the worker holds a task that is not this one. */
static bool begun_others(struct begun *b, int worker, uint64_t task)
{
    for (unsigned i = 0; i < POOL_MOST; i++) {
        const uint64_t held = atomic_load(&b->held[worker][i]);
        if (held != 0 && held != task + 1)
            return true;
    }
    return false;
}

#endif
