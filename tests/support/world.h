/* SPDX-License-Identifier: MIT
 *
 * A world for tests of the whole library. It has real worker processes that do what their payload says, a page of
 * memory that the test and its workers share, and a record of every callback.
 *
 *     TEST(a_segfault_is_a_crash)
 *     {
 *         struct world w;
 *         world_open(&w, 2);                                    // two workers, on "GPUs" 0 and 1
 *         world_add(&w, (struct world_order){ .what = W_SEGV });
 *         CHECK_EQ(world_run(&w), 0);
 *         CHECK_EQ(w.finals[0].failure, GD_FAILURE_CRASH);
 *         world_close(&w);
 *     }
 *     WORLD_MAIN()
 *
 * In every case world_run() checks the following. Each task that was taken has exactly one final callback. on_exit is
 * called once, after all other callbacks. Every callback runs on the thread of the run. The figures add up. No child
 * process, descriptor or shared mapping is left. Every result belongs to its task.
 *
 * Tests and workers wait for each other through gates and counters, never for time to pass. Unless a test sets them,
 * grace periods are so long that a slow worker on a busy machine is never killed.
 */
#ifndef GD_TESTS_SUPPORT_WORLD_H
#define GD_TESTS_SUPPORT_WORLD_H

#include <gpu_dispatch/gpu_dispatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a worker does with a task. */
enum world_what {
    W_ECHO,     /* answers with a struct world_answer */
    W_BYTES,    /* answers with n bytes of a pattern, which the recorder checks */
    W_IN_PLACE, /* the same, but allocates 2n bytes and then truncates to n */
    W_NOTHING,  /* succeeds with an empty result */
    W_ERROR,
    W_ERROR_FINAL,
    W_ERROR_DATA, /* an error with n bytes of the pattern, which the recorder checks */
    W_RETURN,     /* returns -n without an error message */
    W_OOM,        /* out of memory */
    W_OOM_AMONG,  /* out of memory if its batch has more than n tasks */
    W_DEVICE_LOST,
    W_SEGV,
    W_ABORT,
    W_EXIT,   /* exit(n) */
    W_KILL,   /* sends SIGKILL to itself */
    W_SIGNAL, /* sends signal n to itself */
    W_STOP,   /* sends SIGSTOP to itself */
    W_LOOP,
    W_POLITE_LOOP,      /* waits until gd_task_cancelled(), then calls gd_result_cancelled() */
    W_INTERRUPTED_LOOP, /* waits until interrupt() was called */
    W_WRITE_INPUT,      /* writes to its payload */
    W_STDERR,           /* writes n numbered lines to its stderr, then answers */
    W_STDOUT,           /* writes n numbered lines to its stdout, then answers */
    W_STDERR_SEGV,      /* writes n lines to its stderr, then crashes */
    W_GRANDCHILD,       /* leaves a child process behind; page->grandchild is its id */
    W_LOAD_ERROR,       /* load() fails; in other tasks it leaves a mark, and the answer says if process() saw it */
    W_LOAD_SEGV,
    W_LOAD_LOOP,
    W_LOAD_WAIT,   /* load() waits for gate n */
    W_STRAY,       /* leaves a child in another session (page->grandchild is its id), then kills itself */
    W_THREAD_EXIT, /* calls pthread_exit() */
    W_LOAD_THREAD_EXIT,
    W_CLOSE_ALL,  /* closes every descriptor from 3 up, then answers */
    W_PARTIAL,    /* sends n partial results, which contain their numbers from 0, then answers */
    W_FORK_TWICE, /* forks, and both processes answer, the child first */
};

/* A payload. Its 24 bytes fit into a slot of the ring. A larger payload begins with this struct, and a pattern follows.
 * A smaller payload is only a pattern and means W_ECHO. */
struct world_order {
    uint16_t what;
    uint16_t tries; /* do this only in the first `tries` attempts, then W_ECHO; 0: always */
    uint32_t gate;  /* wait for this gate first; 0: do not wait */
    uint64_t n;
    uint64_t tag; /* copied into the answer; world_add() sets it to the number of the task */
};

struct world_answer {
    uint64_t tag, task_id, seed;
    int32_t worker_id, gpu_id;
    uint32_t attempt, restarts;
    uint32_t batch; /* number of tasks in its batch; 0: process() was called, not process_batch() */
    uint32_t pid;
    uint64_t args_sum; /* of setup_args */
    uint64_t input_size;
    uint32_t loaded;  /* load() was called for the task */
    uint32_t arena;   /* payload and arena are aligned as the header promises */
    int32_t device;   /* CUDA_VISIBLE_DEVICES, as a number; -1: unset */
    int32_t order;    /* CUDA_DEVICE_ORDER is PCI_BUS_ID */
    uint64_t cpus;    /* the CPUs that it may run on; only the first 64 are counted */
    char visible[96]; /* CUDA_VISIBLE_DEVICES */
    char gpu_ids[32]; /* all its devices: "0,1" */
};

/* How setup() and cleanup() behave. The workers receive this struct as setup_args. */
struct world_setup {
    uint32_t what;     /* W_ECHO (fine), W_ERROR, W_SEGV, W_EXIT, W_LOOP, W_KILL, W_STDERR_SEGV */
    uint32_t gate;     /* setup() waits for this gate */
    uint64_t workers;  /* bits: the ids of the workers that behave like this; 0: all */
    uint32_t restarts; /* only processes with fewer restarts than this; 0: all */
    uint32_t after;    /* only processes with at least this many restarts */
    uint32_t code;     /* the exit code of W_EXIT */
    uint32_t cleanup;  /* what cleanup() does; the same values as `what` */
    uint32_t cleanup_gate;
    char padding[4]; /* more bytes for args_sum */
};

enum world_counter {
    WC_SETUPS,  /* calls of setup() */
    WC_ENTERED, /* tasks that process() has begun */
    WC_BATCHES, /* calls of process_batch() */
    WC_LOADS,   /* calls of load() */
    WC_LOADING, /* calls of load() in progress */
    WC_LOADED,  /* tasks loaded and not yet unloaded */
    WC_UNLOADS,
    WC_CLEANUPS, /* calls of cleanup() */
    WC_INTERRUPTS,
    WC_CANCELLED, /* tasks that saw gd_task_cancelled() */
    WC_SOURCE,    /* calls of the source */
    WC_USER,      /* for the test itself */
    WC_N
};

enum {
    WORLD_GATES = 64,
    WORLD_WORKERS = 64,
    WORLD_TASKS = 16384,
    WORLD_LOG = 16384,
    WORLD_ENDLESS_MS = 3600 * 1000,
};

/* A time limit that healthy tasks do not exceed. On a busy machine a process may be paused for two seconds, and with a
 * sanitizer it needs longer to start. TEST_SLOWDOWN is in support/test.h. */
#define WORLD_PATIENCE_MS (TEST_SLOWDOWN > 1 ? 6000 : 2500)

struct world_page {
    _Atomic uint32_t gate[WORLD_GATES]; /* 1: open */
    _Atomic uint32_t count[WC_N];
    _Atomic uint32_t pid[WORLD_WORKERS];
    _Atomic uint32_t grandchild;
    _Atomic uint32_t largest_batch;
    _Atomic uint32_t most_loaded;
    _Atomic uint32_t runs[WORLD_TASKS];   /* how often process() was called for each task */
    _Atomic uint32_t loader[WORLD_TASKS]; /* the worker that called load() last for each task, plus 1 */
    _Atomic uint32_t n_log;
    struct {
        uint32_t task, worker;
    } log[WORLD_LOG]; /* in the order of the calls of process() */
};

struct world_final {
    unsigned finals;
    char callback; /* 'S' on_success, 'E' on_error, 'T' on_timeout */
    enum gd_failure failure;
    uint64_t order; /* its position among the final callbacks */
    int worker_id, gpu_id, signal, exit_code;
    unsigned attempt, starts;
    uint64_t start_ns, end_ns, first_start_ns;
    char *error;
    struct world_answer answer;
};

/* Kinds of events. For a worker: 's' setup failed, 'c' cleanup failed, 'x' exited, 'X' exited and is not replaced. For
 * a device (worker_id -1): 'd' out of use, 'i' idle. */
struct world_event {
    char kind;
    int worker_id, gpu_id;
    char *text;
};

struct world {
    struct gd_options o; /* a test may change these before world_run() */
    struct gd_dispatcher *d;
    struct world_page *page;
    struct world_setup setup;
    int gpus[WORLD_WORKERS];

    struct world_order *orders;
    size_t *sizes;
    size_t n_orders, room;
    size_t next; /* index of the task that the source gives next */
    char *buffer;
    bool in_place;            /* the source allocates payloads with gd_item_alloc() */
    uint64_t source_gate_at;  /* the source waits for gate 1 before it gives this task; 0: it does not */
    uint64_t source_fails_at; /* the source fails instead of giving this task; 0: it does not */

    struct world_final *finals;
    uint64_t n_finals;
    struct world_event events[256];
    unsigned n_events;
    unsigned exits, late;     /* calls of on_exit; callbacks after on_exit */
    unsigned leaves_children; /* number of processes that the case expects to be left behind */
    bool source_left;         /* the source may still be running: do not check descriptors and mappings */
    pthread_t thread;
    unsigned fds, mappings; /* before the dispatcher was opened */
    struct gd_stats stats;  /* after the run */
    struct gd_worker_stats workers[WORLD_WORKERS];
    char text[1024]; /* gd_error_text() after the run */
    char *output;    /* all text that on_output received */
    size_t output_size;

    void (*on_final)(struct world *w, const struct gd_report *r); /* called when the report is recorded */
    void (*on_event)(struct world *w, const struct world_event *e);
    void (*on_started)(struct world *w, uint64_t task_id, int worker_id);
    void *mine; /* for the test itself */
};

void world_open(struct world *w, unsigned n_gpus);
size_t world_add(struct world *w, struct world_order order);
size_t world_add_sized(struct world *w, struct world_order order, size_t size);
void world_add_many(struct world *w, size_t n, struct world_order order);
int world_run(struct world *w);
void world_close(struct world *w);

/* world_run() in two steps: world_start() opens the dispatcher, world_finish() runs it. */
void world_start(struct world *w);
int world_finish(struct world *w);
/* Runs the world on another thread. world_join() waits for its end and returns the result of world_finish(). */
void world_launch(struct world *w);
int world_join(struct world *w);

/* For a dispatcher that keeps its workers. world_next() forgets the tasks and the record of the last run. Add other
 * tasks, then call world_finish() again. world_end() closes the dispatcher, and checks that nothing is left. */
void world_next(struct world *w);
void world_end(struct world *w);

/* Chooses the functions of the workers. They have setup(), process() and cleanup(). Letters remove functions: 's'
 * setup() and cleanup(), 'p' process(). Letters also add functions: 'b' process_batch(), 'l' load() and unload(), 'i'
 * interrupt(), 'f' begin(). begin() runs each task on its own thread, and setup() allows gd_options.concurrency tasks.
 */
void world_ops(const char *letters);
void world_on_task_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns);

/* --- events --- */
void world_gate_open(struct world_page *p, unsigned gate);
void world_gate_wait(struct world_page *p, unsigned gate);
uint32_t world_count(const struct world_page *p, enum world_counter c);
void world_count_add(struct world_page *p, enum world_counter c, int n);
void world_await(struct world_page *p, enum world_counter c, uint32_t at_least);
/* Waits until a figure of the run has at least this value: world_await_stat(&w, taken, 10). The run takes a task a little
 * later than the source gives it. */
#define world_await_stat(w, figure, at_least) world__await_stat(w, offsetof(struct gd_stats, figure), at_least)
void world__await_stat(struct world *w, size_t offset, uint64_t at_least);
/* Returns the process id of a worker. Waits until its setup() has begun. */
pid_t world_pid(struct world_page *p, int worker_id);
/* Waits until a process sleeps ('S') or is stopped ('T'). A signal may take a moment to arrive. */
void world_await_state(pid_t pid, char state);
uint64_t world_now_ms(void);
/* Waits until a process ends. The process need not be our child. */
void world_await_end(int pidfd);

/* --- questions --- */
unsigned world_callbacks(const struct world *w, char callback);
unsigned world_failures(const struct world *w, enum gd_failure failure);
unsigned world_events(const struct world *w, char kind);
const struct world_event *world_event(const struct world *w, char kind);
uint64_t world_args_sum(const void *bytes, size_t size);

/* --- main --- */
int world_main(int *argc, char **argv);
void world_failed_with(void (*fail)(const char *file, int line, const char *text));

#define WORLD_MAIN()                                                          \
    static void world_fail_here(const char *file, int line, const char *text) \
    {                                                                         \
        test_fail(file, line, "%s", text);                                    \
    }                                                                         \
    int main(int argc, char **argv)                                           \
    {                                                                         \
        if (world_main(&argc, argv) < 0)                                      \
            return fprintf(stderr, "%s\n", gd_error_text()), 1;               \
        world_failed_with(world_fail_here);                                   \
        return test_main(argc, argv);                                         \
    }

#endif
