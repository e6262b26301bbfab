/* The worker of every system test: it does what the payload says. See world.h.
 *
 * It runs in worker processes, which execute the test program again. It finds the page that it shares with the test
 * through an environment variable, so that the page does not depend on the library under test.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/world_page.h"

static struct world_page *page;
static struct gd_setup given;
static struct world_setup behaviour;
static _Atomic uint32_t interrupted;
static uint64_t args_sum;
static char load_mark;

static void map_page(void)
{
    const char *path = getenv(WORLD_PAGE_ENV);
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "cannot map the page of the test at %s\n", path ? path : "(unset)");
        _exit(99);
    }
    close(fd);
    page = p;
}

static void raise_to(_Atomic uint32_t *most, uint32_t n)
{
    uint32_t present = atomic_load(most);
    while (present < n && !atomic_compare_exchange_weak(most, &present, n))
        ;
}

static void print_lines(FILE *to, uint64_t n)
{
    for (uint64_t i = 1; i <= n; i++)
        fprintf(to, "line %llu\n", (unsigned long long)i);
    fflush(to);
}

static void crash(void)
{
    volatile uintptr_t address = 4096; /* this address is never mapped; sanitizers would report NULL in another way */
    *(volatile int *)address = 1;
    _exit(98);
}

/* For workers with process() and for workers with begin(). */
static bool is_cancelled(const struct gd_worker *w, const struct gd_result *r)
{
    return gd_task_cancelled(w) || gd_result_cancel_requested(r);
}

static void loop_for_ever(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

/* Crashes, ends or hangs. Used by setup, cleanup, load and process. */
static void misbehave(unsigned what, uint64_t n)
{
    switch (what) {
    case W_SEGV:
    case W_LOAD_SEGV:
        crash();
        break;
    case W_STDERR_SEGV:
        print_lines(stderr, n);
        crash();
        break;
    case W_ABORT:
        abort();
    case W_EXIT:
        exit((int)n);
    case W_KILL:
        kill(getpid(), SIGKILL);
        break;
    case W_SIGNAL:
        kill(getpid(), (int)n);
        break;
    case W_STOP:
        kill(getpid(), SIGSTOP);
        break;
    case W_LOOP:
    case W_LOAD_LOOP:
        loop_for_ever();
        break;
    default:
        break;
    }
}

/* --- setup and cleanup --- */

static bool is_meant(void)
{
    const bool worker = behaviour.workers == 0 || (behaviour.workers >> given.worker_id & 1);
    const bool early = behaviour.restarts == 0 || given.restarts < behaviour.restarts;
    return worker && early && given.restarts >= behaviour.after;
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    given = *s;
    args_sum = world_args_sum(s->args, s->args_size);
    if (s->args_size == sizeof behaviour)
        memcpy(&behaviour, s->args, sizeof behaviour);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (s->worker_id >= 0 && s->worker_id < WORLD_WORKERS)
        atomic_store(&page->pid[s->worker_id], (uint32_t)getpid());
    world_count_add(page, WC_SETUPS, 1);
    if (!is_meant())
        return 0;
    if (behaviour.gate)
        world_gate_wait(page, behaviour.gate);
    misbehave(behaviour.what, behaviour.what == W_EXIT ? behaviour.code : 3);
    return behaviour.what == W_ERROR ? gd_worker_error(w, "setup of worker %d refused", s->worker_id) : 0;
}

static int cleanup(struct gd_worker *w)
{
    world_count_add(page, WC_CLEANUPS, 1);
    if (!is_meant())
        return 0;
    if (behaviour.cleanup_gate)
        world_gate_wait(page, behaviour.cleanup_gate);
    misbehave(behaviour.cleanup, behaviour.code);
    return behaviour.cleanup == W_ERROR ? gd_worker_error(w, "cleanup of worker %d refused", gd_worker_id(w)) : 0;
}

static void interrupt(struct gd_worker *w)
{
    (void)w;
    atomic_store(&interrupted, 1);
    world_count_add(page, WC_INTERRUPTS, 1);
}

/* --- tasks --- */

static struct world_order order_of(const struct gd_task *t)
{
    struct world_order o = { .tag = t->id };
    if (t->size >= sizeof o)
        memcpy(&o, t->data, sizeof o);
    if (o.tries > 0 && t->attempt > o.tries)
        o.what = W_ECHO;
    return o;
}

static bool arena_is_right(const struct gd_worker *w, const struct gd_task *t)
{
    const void *base = NULL;
    size_t size = 0;
    gd_worker_arena(w, &base, &size);
    if (!base || size == 0 || (uintptr_t)base % (size_t)sysconf(_SC_PAGESIZE))
        return false;
    return t->size <= 24 || (uintptr_t)t->data % 16 == 0;
}

static uint64_t own_cpus(void)
{
    cpu_set_t set;
    uint64_t cpus = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < 64; i++)
            cpus |= (uint64_t)(CPU_ISSET(i, &set) != 0) << i;
    return cpus;
}

/* Writes "0,1", or "wrong" if gd_worker_gpu_ids(), struct gd_setup and the environment do not agree. */
static void write_gpu_ids(const struct gd_worker *w, char *out, size_t size)
{
    size_t n = 0, used = 0;
    const int *ids = gd_worker_gpu_ids(w, &n);
    const char *variable = getenv("GPU_DISPATCH_GPU_IDS");
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%d", i ? "," : "", ids[i]);
    if (n != given.n_gpus || memcmp(ids, given.gpu_ids, n * sizeof *ids) != 0 || !variable ||
        strcmp(variable, out) != 0)
        snprintf(out, size, "wrong");
}

static int answer(const struct gd_worker *w, const struct gd_task *t, struct gd_result *r, const struct world_order *o,
                  uint32_t batch)
{
    const char *device = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER");
    struct world_answer a = {
        .tag = o->tag,
        .task_id = t->id,
        .seed = given.seed,
        .worker_id = gd_worker_id(w),
        .gpu_id = gd_worker_gpu_id(w),
        .attempt = t->attempt,
        .restarts = given.restarts,
        .batch = batch,
        .pid = (uint32_t)getpid(),
        .args_sum = args_sum,
        .input_size = t->size,
        .loaded = t->loaded == &load_mark,
        .arena = arena_is_right(w, t),
        .device = device ? atoi(device) : -1,
        .order = order && strcmp(order, "PCI_BUS_ID") == 0,
        .cpus = own_cpus(),
    };
    snprintf(a.visible, sizeof a.visible, "%s", device ? device : "(unset)");
    write_gpu_ids(w, a.gpu_ids, sizeof a.gpu_ids);
    return gd_result_set(r, &a, sizeof a);
}

static int answer_bytes(struct gd_result *r, const struct world_order *o)
{
    const bool shorten = o->what == W_IN_PLACE;
    unsigned char *bytes = gd_result_alloc(r, o->n * (shorten ? 2 : 1));
    if (!bytes && o->n > 0)
        return gd_result_error(r, "no room for %llu bytes: %s", (unsigned long long)o->n, gd_error_text());
    if (bytes)
        world__pattern_fill(bytes, 0, o->n, o->tag);
    return shorten ? gd_result_truncate(r, o->n) : 0;
}

static int stop_politely(const struct gd_worker *w, struct gd_result *r)
{
    while (!is_cancelled(w, r))
        ;
    world_count_add(page, WC_CANCELLED, 1);
    return gd_result_cancelled(r);
}

static int wait_for_interrupt(struct gd_result *r)
{
    while (!atomic_load(&interrupted))
        ;
    atomic_store(&interrupted, 0);
    return gd_result_cancelled(r);
}

static void leave_grandchild(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    atomic_store(&page->grandchild, (uint32_t)pid);
}

/* Waits until the child is in its own session, then kills this process. */
static void leave_stray(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) < 0)
        _exit(97);
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ends[0], &byte, 1) != 1)
        _exit(97);
    atomic_store(&page->grandchild, (uint32_t)pid);
    kill(getpid(), SIGKILL);
}

/* Returns in both processes. The parent waits until the child has ended. */
static void return_twice(void)
{
    const pid_t pid = fork();
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void write_to_input(const struct gd_task *t)
{
    *(volatile unsigned char *)(uintptr_t)t->data = 1;
}

static int fail_with_data(struct gd_result *r, unsigned long long id, const struct world_order *o)
{
    unsigned char *bytes = gd_result_alloc_failed(r, o->n, "task %llu failed with data", id);
    if (bytes)
        world__pattern_fill(bytes, 0, o->n, o->tag);
    return GD_E_FAILED;
}

static int fail_as_ordered(struct gd_result *r, const struct gd_task *t, const struct world_order *o, uint32_t batch)
{
    const unsigned long long id = (unsigned long long)t->id;
    switch (o->what) {
    case W_ERROR:
        return gd_result_error(r, "task %llu went wrong at attempt %u", id, t->attempt);
    case W_ERROR_FINAL:
        return gd_result_error_final(r, "task %llu is hopeless", id);
    case W_ERROR_DATA:
        return fail_with_data(r, id, o);
    case W_RETURN:
        return -(int)o->n;
    case W_OOM:
        return gd_result_out_of_memory(r, "task %llu does not fit", id);
    case W_OOM_AMONG:
        return batch > o->n ? gd_result_out_of_memory(r, "%u do not fit", batch) : 1;
    case W_DEVICE_LOST:
        return gd_result_device_lost(r, "task %llu lost its device", id);
    default:
        return 1; /* none of the above */
    }
}

static int obey(struct gd_worker *w, const struct gd_task *t, struct gd_result *r, uint32_t batch)
{
    const struct world_order o = order_of(t);
    const size_t head = t->size >= sizeof o ? sizeof o : 0;
    if (t->id < WORLD_TASKS)
        atomic_fetch_add(&page->runs[t->id], 1);
    const uint32_t line = atomic_fetch_add(&page->n_log, 1);
    if (line < WORLD_LOG) {
        page->log[line].task = (uint32_t)t->id;
        page->log[line].worker = (uint32_t)gd_worker_id(w);
    }
    world_count_add(page, WC_ENTERED, 1);
    if (!world__pattern_is(t->data, head, t->size, o.tag))
        return gd_result_error_final(r, "the payload of task %llu is damaged", (unsigned long long)t->id);
    if (o.gate)
        world_gate_wait(page, o.gate);
    misbehave(o.what, o.n);
    const int failed = fail_as_ordered(r, t, &o, batch);
    if (failed <= 0)
        return failed;
    switch (o.what) {
    case W_NOTHING:
        return 0;
    case W_BYTES:
    case W_IN_PLACE:
        return answer_bytes(r, &o);
    case W_POLITE_LOOP:
        return stop_politely(w, r);
    case W_INTERRUPTED_LOOP:
        return wait_for_interrupt(r);
    case W_WRITE_INPUT:
        write_to_input(t);
        break;
    case W_STDERR:
        print_lines(stderr, o.n);
        break;
    case W_STDOUT:
        print_lines(stdout, o.n);
        break;
    case W_GRANDCHILD:
        leave_grandchild();
        break;
    case W_STRAY:
        leave_stray();
        break;
    case W_THREAD_EXIT:
        pthread_exit(NULL);
    case W_CLOSE_ALL:
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        break;
    case W_PARTIAL:
        for (uint64_t i = 0; i < o.n; i++)
            if (gd_result_partial(r, &i, sizeof i) < 0)
                return gd_result_error(r, "partial result %llu: %s", (unsigned long long)i, gd_error_text());
        break;
    case W_FORK_TWICE:
        return_twice();
        break;
    default:
        break;
    }
    return answer(w, t, r, &o, batch);
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    return obey(w, t, r, 0);
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    world_count_add(page, WC_BATCHES, 1);
    raise_to(&page->largest_batch, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        obey(w, tasks[i], results[i], (uint32_t)n);
    return 0;
}

static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    const struct world_order o = order_of(t);
    if (t->id < WORLD_TASKS)
        atomic_store(&page->loader[t->id], (uint32_t)gd_worker_id(w) + 1);
    world_count_add(page, WC_LOADS, 1);
    if (o.what == W_LOAD_ERROR)
        return gd_result_error(r, "task %llu can't be loaded", (unsigned long long)t->id);
    if (o.what == W_LOAD_THREAD_EXIT)
        pthread_exit(NULL);
    if (o.what == W_LOAD_SEGV || o.what == W_LOAD_LOOP)
        misbehave(o.what, o.n);
    if (o.what == W_LOAD_WAIT)
        world_gate_wait(page, (unsigned)o.n);
    t->loaded = &load_mark;
    world_count_add(page, WC_LOADED, 1);
    raise_to(&page->most_loaded, world_count(page, WC_LOADED));
    return 0;
}

static void unload(struct gd_worker *w, struct gd_task *t)
{
    (void)w;
    if (t->loaded != &load_mark)
        abort();
    t->loaded = NULL;
    world_count_add(page, WC_LOADED, -1);
    world_count_add(page, WC_UNLOADS, 1);
}

/* --- tasks in flight --- */

struct flight {
    struct gd_worker *w;
    const struct gd_task *t;
    struct gd_result *r;
};

static void *fly(void *arg)
{
    const struct flight f = *(struct flight *)arg;
    free(arg);
    obey(f.w, f.t, f.r, 0);
    gd_result_finish(f.r);
    return NULL;
}

static int begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    struct flight *f = malloc(sizeof *f);
    pthread_t thread;
    if (!f)
        abort();
    *f = (struct flight){ w, t, r };
    if (pthread_create(&thread, NULL, fly, f) != 0)
        abort();
    pthread_detach(thread);
    return 0;
}

const struct gd_worker_ops *world__worker_ops(void)
{
    static struct gd_worker_ops ops;
    const char *letters = getenv(WORLD_OPS_ENV);
    const bool is_worker = getenv(WORLD_PAGE_ENV) != NULL;
    if (!letters)
        letters = "";
    ops = (struct gd_worker_ops){
        .size = sizeof ops,
        .setup = strchr(letters, 's') ? NULL : setup,
        .process = strchr(letters, 'p') ? NULL : process,
        .process_batch = strchr(letters, 'b') ? process_batch : NULL,
        .load = strchr(letters, 'l') ? load : NULL,
        .unload = strchr(letters, 'l') ? unload : NULL,
        .cleanup = strchr(letters, 's') ? NULL : cleanup,
        .interrupt = strchr(letters, 'i') ? interrupt : NULL,
        .begin = strchr(letters, 'f') ? begin : NULL,
    };
    if (is_worker)
        map_page();
    return &ops;
}
