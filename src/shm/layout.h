/* The byte layout of the memory that the dispatcher and a worker share. The version is GD__LAYOUT_VERSION. The layout
 * is defined only in this file.
 *
 * There are three memfds, all sealed against shrinking, growing and further seals:
 *
 *   task region     the dispatcher writes, this worker reads (F_SEAL_FUTURE_WRITE)
 *     0      struct gd__task_header
 *     4096   struct gd__task_slot [task_capacity]           the task ring
 *     cancel_offset   _Atomic uint64_t [cancel_places]      flight mode: the task at each place that must stop
 *     args_offset     setup arguments, args_size bytes
 *
 *   result region   this worker writes, the dispatcher reads
 *     0      struct gd__result_header
 *     4096   struct gd__result_slot [result_capacity]       the result ring
 *     data_offset .. region_size   result bytes (sparse: a page costs memory only after it is touched)
 *
 *   arena           the dispatcher writes, every worker reads (F_SEAL_FUTURE_WRITE)
 *     0      struct gd__arena_header
 *     4096 .. size   payloads (sparse)
 *
 * Positions in rings count from 0 and never wrap (64 bits). The slot of a position is position & (capacity - 1).
 *
 * Claiming and taking back. The dispatcher appends tasks and publishes `limit`. The worker may start position p only
 * after
 *     claimed = p + 1; full fence; limit > p.
 * The dispatcher takes back tasks that were not started by
 *     limit = r; full fence; read claimed (c).
 * All positions >= max(r, c) then belong to the dispatcher again, and it sets limit = max(r, c). At least one side sees
 * the other's store, so no position is both run and taken back. A worker whose claim fails (limit <= p after it) sets
 * claimed = p and waits.
 *
 * Two modes. In serial mode (concurrency 1) a worker has one task or one batch at a time. Results come in the order of
 * positions, and tasks below `cancel` must stop. In flight mode (concurrency 2 to GD__FLIGHT_MAX) up to `concurrency`
 * tasks are in flight: begun and not finished. The mode follows from the number in the READY record.
 *
 *                      serial mode                           flight mode
 *   STARTED records    only if config.report_start           for every task, before its code is called
 *   order of results   that of positions                     any; a record has the task's place
 *   task slot is free  when its result was committed         when `started` has passed it: the worker has copied it
 *   cancelled          position < cancel                     cancel_at[place] == position + 1
 *
 * A place is a number below `concurrency`. The worker chooses one for each task that it begins. The result frees it.
 *
 * Sleeping. A side that is about to sleep stores `sleeping` = n, does a full fence, checks once more for something to
 * do, and sleeps on its bell. It stores 0 when it is awake. A side that has published something does a full fence, and
 * rings the other's bell only if it reads sleeping != 0. n is 1, or the number of this sleep (2, 3, ..., then 2 again).
 * The bell is rung only once for each number, however much is published before the sleeper wakes up. A sleeper reads
 * the count of its bell before it checks. So it sees at least everything that was published before the last ring that
 * it has counted.
 *
 * The worker's bell is a futex, `bell` in the task header. The worker can wait on it but not write it. (It is not an
 * eventfd: both sides share its O_NONBLOCK flag, so a worker could fill it, make it block, and so stop the dispatcher.)
 * A worker that also waits for other things sets `bell_kind` to GD__BELL_SOCKET in its header. Then the dispatcher
 * rings by sending one byte on a socket, GD__FD_TASK_BELL, with MSG_DONTWAIT. This never blocks, whatever the worker
 * does.
 * The dispatcher's bell is an eventfd. The dispatcher only watches it and never writes it.
 *
 * The dispatcher trusts nothing in the result region: it copies, then checks.
 */
#ifndef GD_SHM_LAYOUT_H
#define GD_SHM_LAYOUT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GD__LAYOUT_VERSION 5u
#define GD__TASK_MAGIC     0x314b534154444743ull /* "CGDTASK1" */
#define GD__RESULT_MAGIC   0x3153455244474347ull
#define GD__ARENA_MAGIC    0x314e455241444743ull
#define GD__PAGE           4096u
#define GD__LINE           64u
#define GD__EXTENT         (2u << 20) /* a huge page: see extents.h */
#define GD__INLINE_MAX     24u        /* payloads and results of up to this many bytes travel in the slot */
#define GD__FLIGHT_MAX     4096u      /* the most tasks in flight in one worker */
#define GD__FLIGHT_UNSET   256u       /* the same if gd_options.concurrency is 0 */

/* The full fence of the protocol. ThreadSanitizer does not support fences, so it gets a read-modify-write instead. */
#if defined(__SANITIZE_THREAD__)
#define GD__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GD__TSAN 1
#endif
#endif
static inline void gd__full_fence(void)
{
#ifdef GD__TSAN
    _Atomic int own = 0;
    atomic_fetch_add(&own, 1);
#elif defined(__x86_64__)
    __asm__ volatile("lock; orl $0, (%%rsp)" ::: "memory", "cc"); /* three times as fast as clang's mfence */
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Call it once in each turn of a loop that waits without sleeping. */
static inline void gd__spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* The number of the next sleep, given that of the last (0: none yet). */
static inline uint32_t gd__next_sleep(uint32_t last)
{
    return last < 2 || last == UINT32_MAX ? 2 : last + 1;
}

/* The payload of a task: inline if size <= GD__INLINE_MAX, otherwise in the arena. */
struct gd__payload {
    uint64_t size;
    union {
        struct {
            uint64_t offset;    /* in the arena */
            uint64_t allocated; /* size of the block there; for the dispatcher only */
        };
        unsigned char bytes[GD__INLINE_MAX];
    };
};

enum gd__task_flags {
    GD__TASK_SOLO = 1u, /* suspected of crashing: no other task may be in progress at the same time */
};

struct gd__task_slot {
    uint64_t task_id;
    uint32_t attempt;
    uint16_t batch; /* number of tasks of this batch from this slot on, this one included (>= 1) */
    uint16_t flags; /* enum gd__task_flags */
    struct gd__payload payload;
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct gd__task_slot) == 64, "a task slot is one cache line");

enum { GD__GPUS_MOST = 32 }; /* the most devices of a worker */

struct gd__worker_config { /* set once, before the worker starts */
    uint64_t magic;
    uint32_t version;
    uint32_t generation; /* how often the worker was restarted: each process gets new memory */
    int32_t worker_id;
    int32_t gpu_id;
    uint64_t seed;
    uint64_t task_region_size;
    uint64_t result_region_size;
    uint64_t arena_size;
    uint64_t arena_hot_size; /* the part worth pinning, from offset 0 */
    uint64_t task_capacity;
    uint64_t result_capacity;
    uint64_t data_offset; /* where the result bytes begin in the result region */
    uint64_t args_offset; /* in the task region */
    uint64_t args_size;
    uint64_t spin_ns;      /* how long to spin before sleeping */
    uint32_t report_start; /* 1: send GD__R_STARTED records */
    uint32_t batch_size;
    uint32_t io_threads;
    uint32_t load_ahead;
    uint32_t n_gpus;
    int32_t gpu_ids[GD__GPUS_MOST]; /* all devices of the worker; the first is gpu_id */
    uint32_t concurrency;           /* the most tasks in flight; 0: the worker decides */
    uint32_t cancel_places;         /* entries of cancel_at */
    uint64_t cancel_offset;         /* where cancel_at begins in the task region; a multiple of the page size */
    uint64_t batch_wait_ns;         /* how long a program that gathers tasks may wait for more: see worker/stream.c */
};

struct gd__task_header {
    struct gd__worker_config config;
    alignas(GD__LINE) _Atomic uint64_t limit;    /* tasks at positions below this may be claimed */
    alignas(GD__LINE) _Atomic uint64_t consumed; /* result records below this have been read: their slots are free */
    _Atomic uint64_t released;                   /* the bytes of result records below this are free */
    alignas(GD__LINE) _Atomic uint64_t cancel;   /* serial mode: tasks at positions below this must stop */
    _Atomic uint32_t stop;                       /* 1: clean up and exit when no task is left below limit */
    alignas(GD__LINE) _Atomic uint32_t bell;     /* each ring adds 1; the worker sleeps on it */
};
_Static_assert(sizeof(struct gd__task_header) <= GD__PAGE, "task header fits its page");

enum gd__bell_kind {
    GD__BELL_FUTEX,  /* `bell` in the task header */
    GD__BELL_SOCKET, /* GD__FD_TASK_BELL */
};

struct gd__result_header {
    uint64_t magic; /* written by the worker when it has mapped everything */
    uint32_t version;
    uint32_t pid;
    alignas(GD__LINE) _Atomic uint64_t tail; /* result records below this are complete */
    alignas(GD__LINE) _Atomic uint64_t claimed;
    _Atomic uint64_t started;  /* process() was called for all positions below this (a batch counts as a whole) */
    _Atomic uint64_t loading;  /* load() was called for all positions below this; 0 without load() */
    _Atomic uint64_t start_ns; /* when position started - 1 was started */
    alignas(GD__LINE) _Atomic uint32_t sleeping; /* not 0: the worker sleeps on its bell */
    _Atomic uint32_t wants_room;                 /* 1: it waits for room for results, and perhaps for other events */
    _Atomic uint32_t bell_kind;                  /* enum gd__bell_kind */
};
_Static_assert(sizeof(struct gd__result_header) <= GD__PAGE, "result header fits its page");

struct gd__arena_header {
    uint64_t magic;
    uint64_t size;
    alignas(GD__LINE) _Atomic uint32_t sleeping; /* not 0: the dispatcher sleeps; ring the result bell */
};

/* The worker can end a cancelled task by force, and reports it then: the byte 'e' asks for that (worker/main.c). */
#define GD__READY_ENDS_TASKS UINT64_C(1)
#define GD__READY_LOADS      UINT64_C(2) /* the worker has load(), so it needs tasks ahead of time */

enum gd__record_kind {
    GD__R_READY = 1,      /* setup done; position: GD__READY_... flags; attempt: the most tasks in flight (>= 1) */
    GD__R_SETUP_FAILED,   /* bytes: the error message */
    GD__R_STARTED,        /* position, place, task_id, attempt, start_ns */
    GD__R_PARTIAL,        /* bytes: a part of the result; the task goes on. Serial mode: only for the task at head */
    GD__R_SUCCESS,        /* bytes: the result */
    GD__R_ERROR,          /* bytes: the error message; the task may be retried */
    GD__R_ERROR_FINAL,    /* bytes: the error message */
    GD__R_ERROR_DATA,     /* bytes: data, then the error message, then its size as a uint32_t */
    GD__R_OUT_OF_MEMORY,  /* bytes: the error message */
    GD__R_DEVICE_LOST,    /* bytes: the error message */
    GD__R_CANCELLED,      /* the task stopped because it was cancelled */
    GD__R_SIGNALLED,      /* bytes as in ERROR_DATA; SIGTERM, SIGINT or SIGHUP ended it or was sent to the worker */
    GD__R_SHORTAGE,       /* bytes: the error message; not begun, because no process could be started */
    GD__R_CLEANUP_FAILED, /* bytes: the error message */
    GD__R_BYE,            /* cleanup done, about to exit */
    GD__R_KINDS
};

struct gd__result_slot {
    uint8_t kind;        /* enum gd__record_kind */
    uint8_t inline_size; /* result bytes in the slot; 0xff: they are at offset, size */
    union {
        uint16_t safe_batch; /* serial mode; non-zero: the largest batch that did not run out of memory */
        uint16_t place;      /* flight mode: of STARTED, PARTIAL and results */
    };
    uint32_t attempt;
    uint64_t position;
    uint64_t start_ns;
    uint64_t end_ns;
    union {
        unsigned char bytes[GD__INLINE_MAX];
        struct {
            uint64_t offset; /* in the result region */
            uint64_t size;
        };
    };
    uint64_t task_id;
};
_Static_assert(sizeof(struct gd__result_slot) == 64, "a result slot is one cache line");
#define GD__NOT_INLINE 0xffu

/* A worker inherits a socket as descriptor GD__BOOT_FD (named by GD__BOOT_ENV). The first message on it is struct
 * gd__boot with GD__BOOT_FDS descriptors. After that the dispatcher sends one byte 'c' for each cancelled task. End of
 * file means that the dispatcher is gone. The worker also watches the pidfd of the dispatcher, GD__FD_DISPATCHER, which
 * is readable when the dispatcher is gone. This is needed because a fork of the dispatcher may hold its end of the
 * socket open. */
#define GD__BOOT_ENV "GPU_DISPATCH_WORKER_FD"
#define GD__BOOT_FD  3
/* The name of the worker's process. All processes that it starts inherit it, so the dispatcher can find those that the
 * worker leaves behind. The adapter for commands appends ":TASK.ATTEMPT" to it. See dispatch/workers/strays.c. */
#define GD__PROCESS_ENV "GPU_DISPATCH_PROCESS"
enum gd__boot_fd {
    GD__FD_TASKS,
    GD__FD_RESULTS,
    GD__FD_ARENA,
    GD__FD_RESULT_BELL,
    GD__FD_DISPATCHER,
    GD__FD_TASK_BELL,
    GD__BOOT_FDS
};
struct gd__boot {
    uint64_t magic; /* GD__TASK_MAGIC */
    uint32_t version;
    uint32_t reserved;
    uint64_t task_region_size;
    uint64_t result_region_size;
    uint64_t arena_size;
};

/* A slot that the other side wrote last is in the cache of its core, so a read here misses the cache. Prefetch it some
 * slots ahead. */
#ifndef GD__AHEAD
#define GD__AHEAD 4u
#endif
static inline void gd__will_read(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}
static inline void gd__will_write(const void *p)
{
#if defined(__x86_64__)
    /* Compilers assume that the baseline lacks this instruction and prefetch for reading, which does not help: this
     * core must own the line. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

#endif
