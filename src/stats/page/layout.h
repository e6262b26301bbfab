/* The byte layout of the page that a run publishes for observers. Version GD__PAGE_VERSION. It is defined only in this
 * file.
 *
 *   0              struct gd__page_header    written once, before the page gets its name
 *   4096           struct gd__page_live      single words
 *   sequences      uint64_t [1 + n_workers]  sequence locks: one for the run, one for each worker
 *   run            struct gd__page_run
 *   workers        struct gd__page_worker [n_workers]
 *   devices        struct gd__page_device [n_devices]           written once, like the header
 *   tasks          struct gd__page_task [GD__PAGE_TASKS]        a ring of the tasks that ended last
 *   failures       struct gd__page_failure [GD__PAGE_FAILURES]  a ring of the failures
 *   requests       struct gd__page_request [GD__PAGE_REQUESTS]  a ring of the requests to the job
 *
 * Every part begins at a multiple of 64 bytes. The offsets follow from the two counts (gd__page_plan()), so a reader
 * depends only on these counts, which it compares with the size of the file.
 *
 * There is one writer, the run's thread, and any number of readers. The writer does not depend on them. A part with a
 * sequence lock is being written while its sequence number is odd. If the number differs after a read, the part was
 * written during the read. A ring needs no lock: before the writer changes position p it stores begun = p + 1. A reader
 * that has copied position p then reads begun. Its copy is complete if begun <= p + capacity. The number of filled
 * positions is in the run's part. Positions count from 0 and never wrap.
 *
 * All data that changes consists of 64-bit words, which the writer stores with release. So a reader that sees a new
 * word also sees the odd sequence number.
 */
#ifndef GD_STATS_PAGE_LAYOUT_H
#define GD_STATS_PAGE_LAYOUT_H

#include <gpu_dispatch/observe.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GD__PAGE_MAGIC   0x3145474150534447ull /* "GDSPAGE1" */
#define GD__PAGE_VERSION 6u

enum {
    GD__PAGE_TASKS = 4096,
    GD__PAGE_FAILURES = 256,
    GD__PAGE_REQUESTS = 64,
    GD__PAGE_MOST = 4096, /* most workers or devices */
    GD__PAGE_JOB = 256,
    GD__PAGE_LINE = 64,
};

struct gd__page_header {
    uint64_t magic;
    uint64_t version;
    uint64_t size; /* size of the file */
    uint64_t n_workers, n_devices;
    uint64_t pid;
    uint64_t pid_start; /* when that process started, from /proc/PID/stat, since process ids are reused */
    uint64_t pid_space; /* the PID namespace of that process id */
    uint64_t number;    /* the number of this run in its process, from 1 */
    uint64_t started;   /* Unix time, ns */
    char job[GD__PAGE_JOB];
};
_Static_assert(sizeof(struct gd__page_header) == 336, "the header has no holes");

struct gd__page_live {
    _Atomic uint64_t awake_ns; /* since when the run's thread is awake; 0: it sleeps */
    _Atomic uint64_t tasks_begun, failures_begun, requests_begun;
};
_Static_assert(sizeof(struct gd__page_live) == 32, "only 64-bit words");

struct gd__page_run {
    struct gd_stats stats;
    uint64_t tasks_ended, tasks_tail;       /* total, and number of filled ring positions */
    uint64_t failures_ended, failures_tail; /* likewise */
    uint64_t published_ns;
    uint64_t ended;
    double work_done, work_total;
    uint64_t requests; /* total; all of them are put into the ring */
};
_Static_assert(sizeof(struct gd_stats) == 176, "a changed struct gd_stats needs a new GD__PAGE_VERSION");
_Static_assert(sizeof(struct gd__page_run) == 248, "no holes");

/* Texts are unchanged bytes. The reader makes them safe for a terminal. */
struct gd__page_worker {
    struct gd_worker_stats stats;
    uint64_t idle, since_ns, device_out;
    uint64_t task_size; /* how many bytes of task are filled */
    char task[96];
};
_Static_assert(sizeof(struct gd_worker_stats) == 104, "a changed struct gd_worker_stats needs a new GD__PAGE_VERSION");
_Static_assert(sizeof(struct gd__page_worker) == 232, "no holes");

struct gd__page_device {
    int64_t gpu_id, vendor;
    char name[96], uuid[96];
    int64_t group;
};
_Static_assert(sizeof(struct gd__page_device) == 216, "no holes");

struct gd__page_task {
    struct gd_task_view task;
    uint64_t reserved;
};
_Static_assert(sizeof(struct gd__page_task) == 64, "one cache line");

struct gd__page_failure {
    struct gd_task_view task;
    uint32_t input_size, error_size;
    char input[160], error[512];
};
_Static_assert(sizeof(struct gd__page_failure) == 736, "no holes");

struct gd__page_request {
    uint64_t at_ns;
    int64_t code;
    uint64_t text_size;
    char text[256];
};
_Static_assert(sizeof(struct gd__page_request) == 280, "no holes");

/* The offsets of the parts. */
struct gd__page_plan {
    uint64_t n_workers, n_devices;
    size_t live, sequences, run, workers, devices, tasks, failures, requests, size;
};

/* False if there are too many workers or devices. */
_Bool gd__page_plan(struct gd__page_plan *p, uint64_t n_workers, uint64_t n_devices);

/* --- 64-bit words --- */

/* The stores pair with the acquire loads of a reader in the same process. A reader that uses pread() has its own fences
 * (reader.c). */
static inline void gd__words_store(_Atomic uint64_t *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        uint64_t word;
        __builtin_memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
        atomic_store_explicit(&to[i], word, memory_order_release);
    }
}

static inline void gd__words_load(void *to, const _Atomic uint64_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *from; i++) {
        const uint64_t word = atomic_load_explicit(&from[i], memory_order_acquire);
        __builtin_memcpy((char *)to + i * sizeof word, &word, sizeof word);
    }
}

/* Writes a part with a sequence lock. There is only one writer. */
static inline void gd__sequence_write(_Atomic uint64_t *sequence, _Atomic uint64_t *to, const void *from, size_t bytes)
{
    const uint64_t before = atomic_load_explicit(sequence, memory_order_relaxed);
    atomic_store_explicit(sequence, before + 1, memory_order_relaxed);
    gd__words_store(to, from, bytes);
    atomic_store_explicit(sequence, before + 2, memory_order_release);
}

/* Whether a reader's copy is complete, given the sequence numbers read before and after it. */
static inline _Bool gd__sequence_whole(uint64_t before, uint64_t after)
{
    return before == after && before % 2 == 0;
}

#endif
