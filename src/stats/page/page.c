/* The page of a run: shared memory in which the run publishes its status. It is a file in a directory of the user. If
 * no file can be made there, it is a memfd, which only observers in the same process can open. The page is mapped once,
 * written by one thread, and never grows. */
#include "stats/page/page.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/file/run_directory.h"
#include "base/process/owner.h"
#include "base/text/printable.h"
#include "shm/region.h"

static _Atomic uint64_t runs_so_far; /* in this process; used for the number in a page's name */

/* --- layout --- */

static size_t after(size_t at, uint64_t n, size_t size)
{
    const size_t end = at + (size_t)n * size;
    return (end + GD__PAGE_LINE - 1) & ~(size_t)(GD__PAGE_LINE - 1);
}

_Bool gd__page_plan(struct gd__page_plan *p, uint64_t n_workers, uint64_t n_devices)
{
    enum { HEADER = 4096 };
    _Static_assert(sizeof(struct gd__page_header) <= HEADER, "the header fits its place");
    if (n_workers > GD__PAGE_MOST || n_devices > GD__PAGE_MOST)
        return false;
    p->n_workers = n_workers;
    p->n_devices = n_devices;
    p->live = HEADER;
    p->sequences = after(p->live, 1, sizeof(struct gd__page_live));
    p->run = after(p->sequences, 1 + n_workers, sizeof(uint64_t));
    p->workers = after(p->run, 1, sizeof(struct gd__page_run));
    p->devices = after(p->workers, n_workers, sizeof(struct gd__page_worker));
    p->tasks = after(p->devices, n_devices, sizeof(struct gd__page_device));
    p->failures = after(p->tasks, GD__PAGE_TASKS, sizeof(struct gd__page_task));
    p->requests = after(p->failures, GD__PAGE_FAILURES, sizeof(struct gd__page_failure));
    p->size = (after(p->requests, GD__PAGE_REQUESTS, sizeof(struct gd__page_request)) + HEADER - 1) / HEADER * HEADER;
    return true;
}

static _Atomic uint64_t *words_at(const struct gd__page *p, size_t offset)
{
    return (_Atomic uint64_t *)(void *)(p->base + offset);
}

static struct gd__page_live *live_of(const struct gd__page *p)
{
    return (struct gd__page_live *)(void *)(p->base + p->plan.live);
}

/* --- creating --- */

static uint64_t unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
}

/* No other process sees the page yet. */
static void fill(struct gd__page *p, const struct gd__page_spec *spec, const struct gd__owner *owner, uint64_t number)
{
    struct gd__page_header h = {
        .magic = GD__PAGE_MAGIC,
        .version = GD__PAGE_VERSION,
        .size = p->plan.size,
        .n_workers = spec->n_workers,
        .n_devices = spec->n_devices,
        .pid = owner->pid,
        .pid_start = owner->start,
        .pid_space = owner->space,
        .number = number,
        .started = unix_ns(),
    };
    gd__text_fit(h.job, sizeof h.job, spec->job, strlen(spec->job));
    memcpy(p->base, &h, sizeof h);
    if (spec->n_devices > 0)
        memcpy(p->base + p->plan.devices, spec->devices, spec->n_devices * sizeof *spec->devices);
}

static int map(struct gd__page *p)
{
    void *base =
        GD__FAULT("mmap") ? MAP_FAILED : mmap(NULL, p->plan.size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (base == MAP_FAILED)
        return gd__error_errno("cannot map the status page of this run into memory");
    p->base = base;
    return 0;
}

static int open_file(struct gd__page *p, unsigned i, char temporary[GD__PAGE_NAME])
{
    const int directory = gd__run_directory_open(i, true, NULL);
    if (directory < 0)
        return directory;
    p->directory = directory;
    p->fd = gd__page_file_create(p->directory, p->name, p->plan.size, temporary);
    int rc = p->fd < 0 ? p->fd : map(p);
    if (rc == 0)
        return 0;
    if (p->fd >= 0) {
        gd__page_file_remove(p->directory, temporary, p->fd);
        close(p->fd);
    }
    close(p->directory);
    p->fd = p->directory = -1;
    return rc;
}

static int open_memory(struct gd__page *p)
{
    struct gd__region r;
    const int rc = gd__region_create(&r, "gpu_dispatch-page", p->plan.size, p->plan.size, GD__REGION_WE_WRITE);
    if (rc == 0) {
        p->fd = r.fd;
        p->base = r.base;
    }
    return rc;
}

static void leave_directory(struct gd__page *p, const char *name)
{
    if (p->directory < 0)
        return;
    gd__page_file_remove(p->directory, name, p->fd);
    close(p->directory);
    p->directory = -1;
}

/* The name shows users which process the page belongs to. Programs rely on the header. */
static void choose_name(struct gd__page *p, const struct gd__owner *owner, uint64_t number)
{
    snprintf(p->name, sizeof p->name, "%llu.%llu-%llu", (unsigned long long)owner->pid, (unsigned long long)number,
             (unsigned long long)owner->space);
}

static int make(struct gd__page *p, const struct gd__page_spec *spec)
{
    struct gd__owner owner;
    char temporary[GD__PAGE_NAME];
    const uint64_t number = atomic_fetch_add(&runs_so_far, 1) + 1;
    int rc = GD_E_SYSTEM;
    gd__owner_self(&owner);
    p->pid = owner.pid;
    choose_name(p, &owner, number);
    for (unsigned i = 0; i < GD__RUN_DIRECTORIES && rc < 0; i++)
        rc = open_file(p, i, temporary);
    if (rc < 0)
        rc = open_memory(p);
    if (rc < 0)
        return rc;
    fill(p, spec, &owner, number);
    if (p->directory >= 0 && gd__page_file_commit(p->directory, temporary, p->name) < 0)
        leave_directory(p, temporary);
    return 0;
}

int gd__page_open(struct gd__page **out, const struct gd__page_spec *spec)
{
    struct gd__page *p = gd__calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return gd__error(GD_E_NO_MEMORY, "no memory for the status page of this run");
    p->fd = p->directory = -1;
    p->run.stats.size = sizeof p->run.stats;
    p->run.stats.n_workers = spec->n_workers;
    int rc = gd__page_plan(&p->plan, spec->n_workers, spec->n_devices)
                 ? 0
                 : gd__error(GD_E_TOO_LARGE,
                             "the status page of a run has room for %d workers and %d devices, but this run has %u and "
                             "%u",
                             GD__PAGE_MOST, GD__PAGE_MOST, spec->n_workers, spec->n_devices);
    if (rc == 0)
        rc = make(p, spec);
    if (rc < 0)
        gd__page_close(&p);
    *out = p;
    return rc;
}

/* False in a fork of the process: the page is mapped there too, but it is the parent's. */
static bool is_own(const struct gd__page *p)
{
    return p->pid == (uint64_t)getpid();
}

void gd__page_close(struct gd__page **pp)
{
    struct gd__page *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    if (p->base && is_own(p))
        gd__page_end(p);
    if (p->directory >= 0)
        close(p->directory);
    if (p->base)
        munmap(p->base, p->plan.size);
    if (p->fd >= 0)
        close(p->fd);
    gd__free(p);
}

/* --- writing --- */

void gd__page_put_task(struct gd__page *p, const struct gd_task_view *task)
{
    const uint64_t position = p->run.tasks_tail++;
    const size_t at = p->plan.tasks + (position % GD__PAGE_TASKS) * sizeof(struct gd__page_task);
    atomic_store_explicit(&live_of(p)->tasks_begun, position + 1, memory_order_relaxed);
    gd__words_store(words_at(p, at), task, sizeof *task);
}

void gd__page_put_failure(struct gd__page *p, const struct gd__page_failure *failure)
{
    const uint64_t position = p->run.failures_tail++;
    const size_t at = p->plan.failures + (position % GD__PAGE_FAILURES) * sizeof *failure;
    atomic_store_explicit(&live_of(p)->failures_begun, position + 1, memory_order_relaxed);
    gd__words_store(words_at(p, at), failure, sizeof *failure);
}

void gd__page_put_request(struct gd__page *p, const struct gd__page_request *request)
{
    const uint64_t position = p->run.requests++;
    const size_t at = p->plan.requests + (position % GD__PAGE_REQUESTS) * sizeof *request;
    atomic_store_explicit(&live_of(p)->requests_begun, position + 1, memory_order_relaxed);
    gd__words_store(words_at(p, at), request, sizeof *request);
}

void gd__page_put_worker(struct gd__page *p, unsigned i, const struct gd__page_worker *worker)
{
    gd__sequence_write(words_at(p, p->plan.sequences) + 1 + i, words_at(p, p->plan.workers + i * sizeof *worker),
                       worker, sizeof *worker);
}

void gd__page_put_run(struct gd__page *p)
{
    gd__sequence_write(words_at(p, p->plan.sequences), words_at(p, p->plan.run), &p->run, sizeof p->run);
}

void gd__page_end(struct gd__page *p)
{
    if (p->run.ended)
        return;
    p->run.ended = 1;
    gd__page_put_run(p);
    leave_directory(p, p->name);
}
