/* The life of a worker process after its memory is mapped:
 *
 *   setup -> READY -> tasks until the stop -> cleanup -> BYE -> exit
 *
 * There are two loops here, a third in pipeline.c and a fourth in flight/flight.c. single_loop() takes one task at a
 * time and loads nothing ahead. It reads the clock once for each task, because the end of one task is the start of the
 * next. Claiming a task also wakes the dispatcher for the previous result. group_loop() is for batches and for loading
 * ahead. It claims as many tasks as may be in progress, and commits results strictly in the order of their positions.
 *
 * Before each call of user code there is a claim or a flush, so the dispatcher is woken for every committed result
 * before user code runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "worker/flight/flight.h"
#include "worker/host.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* ---- helpers ---- */

uint64_t gd__host_cancel_below(const struct gd_worker *w)
{
    return atomic_load_explicit(&w->port.in->cancel, memory_order_acquire);
}

bool gd__task_locate(const struct gd_worker *w, const struct gd_task *task, int *fd, uint64_t *offset)
{
    if (task->size <= GD__INLINE_MAX)
        return false;
    *fd = w->port.arena.fd;
    *offset = (uint64_t)((const char *)task->data - (const char *)w->port.arena.base);
    return true;
}

void gd__host_flush(struct gd_worker *w)
{
    bool pending = w->port.published != w->port.result_tail;
    gd__port_flush(&w->port);
    if (pending)
        GD__KILL_POINT("flushed");
}

/* Not fflush(NULL): that waits for the lock of every stream, and a thread of the user may be reading from one. */
static void flush_output(void)
{
    fflush(stdout);
    fflush(stderr);
}

/* The guardian checks under current_lock whether a cancellation concerns the current task, so the task must not change
 * meanwhile. Without interrupt() there is nothing to check. */
static inline void set_current(struct gd_worker *w, uint64_t position)
{
    if (LIKELY(!w->ops.interrupt)) {
        atomic_store_explicit(&w->current, position, memory_order_relaxed);
        return;
    }
    pthread_mutex_lock(&w->current_lock);
    atomic_store_explicit(&w->current, position, memory_order_relaxed);
    pthread_mutex_unlock(&w->current_lock);
}

/* The task has returned and can't be interrupted any more. */
static inline void unset_current(struct gd_worker *w)
{
    if (!LIKELY(!w->ops.interrupt))
        set_current(w, GD__NO_POSITION);
}

struct gd__entry *gd__entry_of(const struct gd_result *r)
{
    const struct gd_worker *w = r->worker;
    for (uint64_t i = 0; w->entries && i <= w->entry_mask; i++)
        if (r == &w->entries[i].result)
            return &w->entries[i];
    return NULL;
}

static inline void open_entry(struct gd_worker *w, struct gd__entry *e, uint64_t position)
{
    const struct gd__task_slot *slot = gd__port_task(&w->port, position);
    e->task.id = slot->task_id;
    e->task.size = slot->payload.size;
    e->task.attempt = slot->attempt;
    e->task.loaded = NULL;
    e->task.data = slot->payload.size <= GD__INLINE_MAX
                       ? (const void *)slot->payload.bytes
                       : (const void *)((const char *)w->port.arena.base + slot->payload.offset);
    e->position = position;
    e->start_ns = 0;
    e->end_ns = 0;
    e->state = GD__ENTRY_CLAIMED;
    e->to_unload = false;
    gd__result_reset(&e->result);
}

void gd__entry_open(struct gd_worker *w, struct gd__entry *e, uint64_t position)
{
    open_entry(w, e, position);
}

void gd__entry_unload(struct gd_worker *w, struct gd__entry *e)
{
    if (!e->to_unload)
        return;
    e->to_unload = false;
    if (w->ops.unload)
        w->ops.unload(w, &e->task);
    gd__host_check_fork(w);
}

/* Marks the positions from first to below `below` as started, just before process is called. */
static inline void begin(struct gd_worker *w, uint64_t first, uint64_t below, uint64_t now_ns)
{
    set_current(w, first);
    gd__port_started(&w->port, below, now_ns);
    GD__KILL_POINT("started");
    if (LIKELY(!w->port.config.report_start))
        return;
    for (uint64_t position = first; position < below; position++) {
        struct gd__entry *e = gd__entry_at(w, position);
        if (e->state != GD__ENTRY_DONE)
            e->start_ns = now_ns;
        gd__record_put(w, GD__R_STARTED, e, NULL);
    }
    gd__host_flush(w);
}

void gd__host_begin(struct gd_worker *w, uint64_t first, uint64_t below, uint64_t now_ns)
{
    begin(w, first, below, now_ns);
}

/* The device is lost, so this process must end. Loaded tasks are unloaded, but cleanup is not called. */
_Noreturn void gd__host_leave_device(struct gd_worker *w)
{
    gd__host_flush(w);
    gd__loader_stop(w);
    flush_output();
    exit(GD__EXIT_DEVICE_LOST);
}

struct gd__wait_hooks gd__wait_hooks;

int gd__host_wait(struct gd_worker *w)
{
    gd__before_wait();
    const int there = gd__port_wait(&w->port);
    gd__after_wait();
    return there;
}

/* ---- one task ---- */

/* Runs process. The entry is DONE afterwards. */
static inline void process_one(struct gd_worker *w, struct gd__entry *e, uint64_t now_ns)
{
    e->start_ns = now_ns;
    int code;
    if (LIKELY(gd__host_cancel_below(w) <= e->position))
        code = w->ops.process(w, &e->task, &e->result);
    else
        code = gd_result_cancelled(&e->result);
    gd__host_check_fork(w);
    unset_current(w);
    GD__KILL_POINT("processed");
    if (!LIKELY(code == 0)) {
        gd__result_settle(&e->result, code, "process");
        gd__message_forget();
    }
    e->state = GD__ENTRY_DONE;
}

/* Claims one task, and waits for it if necessary. Returns false if the worker must stop. Sets *now_ns to 0 if it
 * waited. */
static inline bool claim_one(struct gd_worker *w, uint64_t *now_ns)
{
    struct gd__port *p = &w->port;
    do {
        if (!gd__port_poll(p)) {
            gd__host_flush(w);
            GD__KILL_POINT("waiting");
            if (!gd__host_wait(w))
                return false;
            *now_ns = 0;
        }
    } while (!LIKELY(gd__port_claim(p, 1)));
    GD__KILL_POINT("claimed");
    return true;
}

static void single_loop(struct gd_worker *w)
{
    uint64_t now_ns = 0;
    while (claim_one(w, &now_ns)) {
        uint64_t position = w->port.next - 1;
        struct gd__entry *e = gd__entry_at(w, position);
        open_entry(w, e, position);
        if (now_ns == 0)
            now_ns = gd__ticks_now(&w->clock);
        begin(w, position, position + 1, now_ns);
        process_one(w, e, now_ns);
        e->end_ns = now_ns = gd__ticks_now(&w->clock);
        gd__record_put(w, e->result.kind, e, &e->result);
        w->head = position + 1;
        if (!LIKELY(e->result.kind != GD__R_DEVICE_LOST))
            gd__host_leave_device(w);
    }
}

/* ---- groups: claiming ---- */

/* The size of the batch at position. Before the slot is claimed, this is only a guess. */
static uint64_t batch_at(const struct gd_worker *w, uint64_t position)
{
    uint64_t n = __atomic_load_n(&gd__port_task(&w->port, position)->batch, __ATOMIC_RELAXED);
    return n < 1 ? 1 : n < w->batch_size ? n : w->batch_size;
}

bool gd__host_claim(struct gd_worker *w, uint64_t n)
{
    struct gd__port *p = &w->port;
    if (n == 0 || !gd__port_poll(p))
        return false;
    uint64_t there = p->limit - p->next, first = p->next; /* a batch may be shorter: its end was taken back */
    if (!gd__port_claim(p, n < there ? n : there))
        return false;
    GD__KILL_POINT("claimed");
    for (uint64_t position = first; position < p->next; position++)
        open_entry(w, gd__entry_at(w, position), position);
    return true;
}

/* Claims the whole batch at head, and waits for it if necessary. Returns false if the worker must stop. */
static bool claim_head(struct gd_worker *w)
{
    struct gd__port *p = &w->port;
    while (p->next == w->head) {
        if (!gd__port_poll(p)) {
            gd__host_flush(w);
            GD__KILL_POINT("waiting");
            if (!gd__host_wait(w))
                return false;
        }
        gd__host_claim(w, batch_at(w, w->head));
    }
    uint64_t wanted = batch_at(w, w->head), have = p->next - w->head;
    if (have < wanted) /* a part of it was claimed before, to be loaded ahead */
        gd__host_claim(w, wanted - have);
    return true;
}

/* Passes claimed tasks to the loader, and claims more if that is allowed. */
static void load_ahead(struct gd_worker *w)
{
    struct gd__port *p = &w->port;
    uint64_t bound = gd__loader_bound(w);
    while (gd__loader_hand(w) == p->next && p->next - w->head < bound && !gd__is_solo(w, w->head)) {
        if (!gd__host_claim(w, 1))
            break;
    }
}

/* ---- groups: processing ---- */

void gd__host_commit(struct gd_worker *w, uint64_t below)
{
    bool lost = false;
    for (; w->head < below; w->head++) {
        struct gd__entry *e = gd__entry_at(w, w->head);
        if (e->state != GD__ENTRY_DONE)
            break;
        gd__entry_unload(w, e);
        if (e->end_ns == 0)
            e->end_ns = gd__now_ns();
        lost |= e->result.kind == GD__R_DEVICE_LOST;
        gd__record_put(w, e->result.kind, e, &e->result);
    }
    if (lost)
        gd__host_leave_device(w);
}

/* Calls process for each task of a group, one after the other. */
static void run_in_turn(struct gd_worker *w, uint64_t below)
{
    while (w->head < below) {
        struct gd__entry *e = gd__entry_at(w, w->head);
        gd__host_flush(w);
        if (w->loader) {
            set_current(w, w->head);
            gd__loader_await(w, w->head);
        }
        uint64_t now_ns = gd__now_ns();
        begin(w, w->head, w->head + 1, now_ns);
        if (e->state != GD__ENTRY_DONE)
            process_one(w, e, now_ns);
        unset_current(w);
        gd__host_commit(w, w->head + 1);
    }
}

/* A batch that is passed to process_batch, in one or more calls. */
struct batch {
    uint64_t below;          /* position after its last task */
    uint64_t fitted;         /* the most tasks that succeeded in one call after another call had failed */
    bool failed;             /* a call ran out of memory */
    bool failed_unexplained; /* a call failed although each of its tasks succeeds alone */
};

static bool ran_out(struct gd_worker *w, size_t first, size_t n, int code)
{
    bool out = code == GD_E_NO_MEMORY;
    for (size_t i = first; i < first + n && !out; i++)
        out = w->batch[i]->result.kind == GD__R_OUT_OF_MEMORY;
    return out;
}

/* Makes one call for w->batch[first .. first + n). Returns its code. The results are not settled yet. */
static int call_batch(struct gd_worker *w, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        gd__result_reset(&w->batch[i]->result);
        w->batch_tasks[i] = &w->batch[i]->task;
        w->batch_results[i] = &w->batch[i]->result;
    }
    gd__host_flush(w);
    set_current(w, w->batch[first]->position);
    if (gd__host_cancel_below(w) <= w->batch[first + n - 1]->position) {
        int code = w->ops.process_batch(w, &w->batch_tasks[first], &w->batch_results[first], n);
        gd__host_check_fork(w);
        unset_current(w);
        return code;
    }
    unset_current(w);
    for (size_t i = first; i < first + n; i++)
        gd_result_cancelled(w->batch_results[i]);
    return 0;
}

static void settle_batch(struct gd_worker *w, const struct batch *b, size_t first, size_t n, int code)
{
    GD__KILL_POINT("processed");
    uint64_t now_ns = gd__now_ns();
    for (size_t i = first; i < first + n; i++) {
        gd__result_settle(&w->batch[i]->result, code, "process_batch");
        w->batch[i]->end_ns = now_ns;
        w->batch[i]->state = GD__ENTRY_DONE;
    }
    if (code)
        gd__message_forget();
    gd__host_commit(w, b->below);
}

/* Runs w->batch[first .. first + n), in halves if it runs out of memory. Returns true if a single task ran out of
 * memory. */
static bool run_split(struct gd_worker *w, struct batch *b, size_t first, size_t n)
{
    int code = call_batch(w, first, n);
    bool out = ran_out(w, first, n, code);
    if (out && n > 1) {
        b->failed = true;
        bool alone = run_split(w, b, first, n / 2);
        alone |= run_split(w, b, first + n / 2, n - n / 2);
        b->failed_unexplained |= !alone;
        return alone;
    }
    if (!out && b->failed && n > b->fitted)
        b->fitted = n;
    settle_batch(w, b, first, n, code);
    return out;
}

/* Remembers how many tasks fit into a call, unless one task alone caused the failure. */
static void learn_safe_batch(struct gd_worker *w, const struct batch *b)
{
    if (b->failed_unexplained && b->fitted && (w->safe_batch == 0 || b->fitted < w->safe_batch))
        w->safe_batch = b->fitted;
}

static size_t gather_batch(struct gd_worker *w, uint64_t below, uint64_t now_ns)
{
    size_t n = 0;
    for (uint64_t position = w->head; position < below; position++) {
        struct gd__entry *e = gd__entry_at(w, position);
        if (e->state == GD__ENTRY_DONE) /* its load failed, so it is not passed to process_batch */
            continue;
        e->start_ns = now_ns;
        w->batch[n++] = e;
    }
    return n;
}

static void run_batch(struct gd_worker *w, uint64_t below)
{
    struct batch b = { .below = below };
    gd__host_flush(w);
    set_current(w, w->head);
    for (uint64_t position = w->head; w->loader && position < below; position++)
        gd__loader_await(w, position);
    uint64_t now_ns = gd__now_ns();
    begin(w, w->head, below, now_ns);
    size_t n = gather_batch(w, below, now_ns), first = 0;
    while (first < n) {
        size_t part = n - first;
        if (w->safe_batch && part > w->safe_batch)
            part = w->safe_batch;
        run_split(w, &b, first, part);
        learn_safe_batch(w, &b);
        first += part;
    }
    unset_current(w);
    gd__host_commit(w, below); /* for a group in which all loads failed */
}

static void group_loop(struct gd_worker *w)
{
    bool batched = w->ops.process_batch && (w->batch_size > 1 || !w->ops.process);
    while (claim_head(w)) {
        uint64_t n = batch_at(w, w->head), have = w->port.next - w->head;
        if (w->loader)
            load_ahead(w);
        uint64_t below = w->head + (n < have ? n : have);
        if (batched)
            run_batch(w, below);
        else
            run_in_turn(w, below);
    }
}

/* ---- setup, loop, cleanup ---- */

static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t n = 1;
    while (n < at_least)
        n *= 2;
    return n;
}

/* Allocates everything that is needed until the end, before the worker reports that it is ready. */
static int make_entries(struct gd_worker *w)
{
    const uint64_t bound = w->pipe ? GD__PIPE_DEPTH : w->ops.load && !w->ops.begin ? gd__loader_bound(w) : 1;
    uint64_t most = bound > w->batch_size ? bound : w->batch_size;
    if (most > w->port.config.task_capacity) /* more can't be claimed */
        most = w->port.config.task_capacity;
    uint64_t n = power_of_two(most);
    w->entry_mask = n - 1;
    w->entries = gd__calloc(n, sizeof w->entries[0]);
    w->batch = gd__calloc(w->batch_size, sizeof w->batch[0]);
    w->batch_tasks = gd__calloc(w->batch_size, sizeof w->batch_tasks[0]);
    w->batch_results = gd__calloc(w->batch_size, sizeof w->batch_results[0]);
    if (!w->entries || !w->batch || !w->batch_tasks || !w->batch_results)
        return gd__error_errno("no memory for %llu tasks in progress", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        gd__result_init(&w->entries[i].result, w);
    return 0;
}

unsigned gd__host_concurrency(const struct gd_worker *w)
{
    const unsigned bound = w->port.config.concurrency;
    const unsigned n = w->announced ? w->announced : bound ? bound : 1;
    const unsigned most = bound == 0 ? GD__FLIGHT_UNSET : bound < GD__FLIGHT_MAX ? bound : GD__FLIGHT_MAX;
    return n < most ? n : most;
}

/* Stores the outcome of setup or cleanup in w->own. */
static void settle_own(struct gd_worker *w, int code, const char *who)
{
    gd__host_check_fork(w);
    gd__result_settle(&w->own, code, who);
    gd__message_forget();
    flush_output();
}

static void set_up(struct gd_worker *w)
{
    const struct gd__worker_config *c = &w->port.config;
    struct gd_setup s = {
        .size = sizeof s,
        .worker_id = c->worker_id,
        .gpu_id = c->gpu_id,
        .seed = c->seed,
        .args = c->args_size ? (const char *)w->port.tasks.base + c->args_offset : NULL,
        .args_size = c->args_size,
        .restarts = c->generation,
        .batch_size = (unsigned)w->batch_size,
        .concurrency = c->concurrency,
    };
    s.gpu_ids = gd_worker_gpu_ids(w, &s.n_gpus);
    if (w->ops.begin && w->batch_size > 1) {
        gd_worker_error(w,
                        "gd_options.batch_size is %u, but the worker has begin(), which gets one task at a time: set "
                        "batch_size to 1",
                        s.batch_size);
        return;
    }
    GD__KILL_POINT("before_setup");
    w->in_setup = true;
    settle_own(w, w->ops.setup ? w->ops.setup(w, &s) : 0, "setup");
    w->in_setup = false;
    GD__KILL_POINT("after_setup");
    if (w->own.kind != GD__R_SUCCESS)
        return;
    int code = make_entries(w);
    if (code == 0 && (w->ops.begin || (w->pipe && w->announced)))
        code = gd__flight_open(w, gd__host_concurrency(w));
    else if (code == 0 && w->pipe)
        code = gd__pipeline_open(w);
    if (code == 0 && w->ops.load)
        code = gd__loader_start(w);
    settle_own(w, code, "starting the worker");
}

/* cleanup is not called after a setup that failed, because setup may have done only a part of its work. */
_Noreturn static void leave_after_setup(struct gd_worker *w)
{
    gd__record_put(w, GD__R_SETUP_FAILED, NULL, &w->own);
    gd__port_flush(&w->port);
    exit(GD__EXIT_SETUP);
}

static void clean_up(struct gd_worker *w)
{
    set_current(w, GD__NO_POSITION);
    gd__loader_stop(w);
    gd__result_reset(&w->own);
    GD__KILL_POINT("before_cleanup");
    settle_own(w, w->ops.cleanup ? w->ops.cleanup(w) : 0, "cleanup");
    GD__KILL_POINT("after_cleanup");
    if (w->own.kind != GD__R_SUCCESS)
        gd__record_put(w, GD__R_CLEANUP_FAILED, NULL, &w->own);
}

/* The memory of flight/ is not released, because the guardian thread may still use it. */
static void release_memory(struct gd_worker *w)
{
    gd__pipeline_close(w);
    gd__free(w->batch_results);
    gd__free(w->batch_tasks);
    gd__free(w->batch);
    gd__free(w->entries);
}

_Noreturn void gd__host_leave_fork(void)
{
    static const char message[] =
        "gpu_dispatch: a process that the worker's code forked returned into the worker, so it "
        "was ended: a forked process must leave with _exit()\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(GD__EXIT_FORK);
}

_Noreturn void gd__host_thread_left(void *unused)
{
    static const char message[] = "gpu_dispatch: the worker's code ended the thread that called it (pthread_exit() or "
                                  "pthread_cancel()): it must return instead\n";
    (void)unused;
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(GD__EXIT_THREAD);
}

_Noreturn static void run_worker(struct gd_worker *w)
{
    uint32_t batch = w->port.config.batch_size;
    w->batch_size = batch < 1 ? 1 : batch < UINT16_MAX ? batch : UINT16_MAX;
    gd__result_init(&w->own, w);
    gd__ticks_init(&w->clock);
    set_up(w);
    if (w->own.kind != GD__R_SUCCESS)
        leave_after_setup(w);
    const struct gd__entry ready = {
        .position = (w->end_task ? GD__READY_ENDS_TASKS : 0) | (w->ops.load ? GD__READY_LOADS : 0),
        .task.attempt = gd__flight_of(w) ? gd__host_concurrency(w) : 1,
    };
    gd__record_put(w, GD__R_READY, &ready, NULL);
    gd__port_flush(&w->port);
    GD__KILL_POINT("ready");

    if (gd__flight_of(w))
        gd__flight_loop(w);
    else if (w->pipe)
        gd__pipeline_loop(w);
    else if (w->batch_size == 1 && w->ops.process && !w->ops.load)
        single_loop(w);
    else
        group_loop(w);

    clean_up(w);
    flush_output();
    GD__KILL_POINT("before_bye");
    gd__record_put(w, GD__R_BYE, NULL, NULL);
    gd__port_flush(&w->port);
    GD__KILL_POINT("after_bye");
    release_memory(w);
    exit(0); /* not _exit: user code may have registered handlers */
}

_Noreturn void gd__host_run(struct gd_worker *w)
{
    pthread_cleanup_push(gd__host_thread_left, NULL);
    run_worker(w);
    pthread_cleanup_pop(0);
}
