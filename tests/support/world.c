/* The test's side of a world: options, source, recorder, and the checks for every run. See world.h. */
#include "support/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/world_page.h"

static void (*fail_test)(const char *file, int line, const char *text);

void world_failed_with(void (*fail)(const char *file, int line, const char *text))
{
    fail_test = fail;
}

__attribute__((format(printf, 2, 3))) static void broken(int line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (fail_test)
        fail_test(__FILE__, line, text);
    fprintf(stderr, "%s\n", text);
    abort();
}

#define MUST(cond, ...)                    \
    do {                                   \
        if (!(cond))                       \
            broken(__LINE__, __VA_ARGS__); \
    } while (0)

int world_main(int *argc, char **argv)
{
    return gd_worker_main(argc, argv, world__worker_ops());
}

void world_ops(const char *letters)
{
    setenv(WORLD_OPS_ENV, letters, 1);
}

/* --- gates and counters --- */

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

void world_gate_open(struct world_page *p, unsigned gate)
{
    atomic_store(&p->gate[gate], 1);
    futex(&p->gate[gate], FUTEX_WAKE, INT32_MAX);
}

void world_gate_wait(struct world_page *p, unsigned gate)
{
    while (atomic_load(&p->gate[gate]) == 0)
        futex(&p->gate[gate], FUTEX_WAIT, 0);
}

uint32_t world_count(const struct world_page *p, enum world_counter c)
{
    return atomic_load(&p->count[c]);
}

void world_count_add(struct world_page *p, enum world_counter c, int n)
{
    atomic_fetch_add(&p->count[c], (uint32_t)n);
    futex(&p->count[c], FUTEX_WAKE, INT32_MAX);
}

void world_await(struct world_page *p, enum world_counter c, uint32_t at_least)
{
    uint32_t seen;
    while ((seen = atomic_load(&p->count[c])) < at_least)
        futex(&p->count[c], FUTEX_WAIT, seen);
}

pid_t world_pid(struct world_page *p, int worker_id)
{
    for (uint32_t n = 0;; n++) {
        const uint32_t pid = atomic_load(&p->pid[worker_id]);
        if (pid)
            return (pid_t)pid;
        world_await(p, WC_SETUPS, n + 1);
    }
}

uint64_t world_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void world__await_stat(struct world *w, size_t offset, uint64_t at_least)
{
    struct gd_stats s = { .size = sizeof s };
    uint64_t figure;
    for (;;) {
        MUST(gd_dispatcher_stats(w->d, &s) == 0, "stats: %s", gd_error_text());
        memcpy(&figure, (const char *)&s + offset, sizeof figure);
        if (figure >= at_least)
            return;
        sched_yield();
    }
}

static char state_of(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f) {
        line[fread(line, 1, sizeof line - 1, f)] = '\0';
        fclose(f);
    }
    const char *after_name = strrchr(line, ')');
    return after_name && after_name[1] ? after_name[2] : '?';
}

void world_await_state(pid_t pid, char state)
{
    while (state_of(pid) != state)
        sched_yield();
}

void world_await_end(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    while (poll(&p, 1, -1) < 0)
        MUST(errno == EINTR, "poll: %s", strerror(errno));
}

/* --- patterns --- */

static unsigned char pattern_at(uint64_t tag, size_t i)
{
    const uint64_t x = (tag + 1) * 0x9e3779b97f4a7c15u + i * 0xff51afd7ed558ccdu;
    return (unsigned char)(x >> 56);
}

void world__pattern_fill(unsigned char *bytes, size_t from, size_t to, uint64_t tag)
{
    for (size_t i = from; i < to; i++)
        bytes[i] = pattern_at(tag, i);
}

bool world__pattern_is(const unsigned char *bytes, size_t from, size_t to, uint64_t tag)
{
    for (size_t i = from; i < to; i++)
        if (bytes[i] != pattern_at(tag, i))
            return false;
    return true;
}

uint64_t world_args_sum(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t sum = size;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

/* --- the source --- */

static void write_payload(const struct world *w, size_t i, unsigned char *to)
{
    const size_t size = w->sizes[i], head = size >= sizeof *w->orders ? sizeof *w->orders : 0;
    if (head > 0)
        memcpy(to, &w->orders[i], sizeof *w->orders);
    world__pattern_fill(to, head, size, w->orders[i].tag);
}

static int next_order(void *user, struct gd_item *item)
{
    struct world *w = user;
    const size_t i = w->next;
    world_count_add(w->page, WC_SOURCE, 1);
    if (w->source_gate_at > 0 && i == w->source_gate_at)
        world_gate_wait(w->page, 1);
    if (w->source_fails_at > 0 && i == w->source_fails_at)
        return gd_item_error(item, "no item %zu", i);
    if (i >= w->n_orders)
        return 0;
    const size_t size = w->sizes[i];
    unsigned char *to = w->in_place ? gd_item_alloc(item, size) : realloc(w->buffer, size + 1);
    if (!to)
        return w->in_place ? 0 : gd_item_error(item, "no memory");
    if (!w->in_place) {
        w->buffer = (char *)to;
        item->data = to;
        item->size = size;
    }
    write_payload(w, i, to);
    w->next++;
    return 1;
}

/* --- the recorder --- */

static void note_callback(struct world *w)
{
    w->late += w->exits > 0;
    MUST(pthread_equal(pthread_self(), w->thread), "a callback ran on a thread that is not the thread of the run");
}

static void check_report(const struct world *w, const struct gd_report *r)
{
    const size_t i = r->task_id, size = w->sizes[i];
    const size_t head = size >= sizeof *w->orders ? sizeof *w->orders : 0;
    MUST(r->input_size == size, "task %zu had %zu bytes and is reported with %zu", i, size, r->input_size);
    MUST(world__pattern_is(r->input, head, size, w->orders[i].tag), "the input of task %zu is damaged", i);
    MUST(r->end_ns >= r->start_ns, "task %zu ended before it began", i);
    MUST(r->start_ns == 0 || r->first_start_ns <= r->start_ns, "task %zu: the first attempt began last", i);
    MUST(r->attempt > 1 || r->start_ns == 0 || r->first_start_ns == r->start_ns,
         "task %zu was tried once and began twice", i);
    MUST(r->failure == GD_FAILURE_NONE || (r->error && *r->error), "task %zu failed without an error message", i);
}

static void check_result(const struct world *w, const struct gd_report *r, struct world_answer *a)
{
    const struct world_order *o = &w->orders[r->task_id];
    const bool tried = o->tries > 0 && r->attempt > o->tries;
    const bool has_head = w->sizes[r->task_id] >= sizeof *o;
    const uint64_t tag = has_head ? o->tag : r->task_id;
    const unsigned what = tried || !has_head ? W_ECHO : o->what;
    if (what == W_NOTHING) {
        MUST(r->size == 0, "task %llu has a result of %zu bytes", (unsigned long long)r->task_id, r->size);
    } else if (what == W_BYTES || what == W_IN_PLACE) {
        MUST(r->size == o->n && world__pattern_is(r->data, 0, r->size, tag), "the result of task %llu is damaged",
             (unsigned long long)r->task_id);
    } else {
        MUST(r->size == sizeof *a, "task %llu has a result of %zu bytes", (unsigned long long)r->task_id, r->size);
        memcpy(a, r->data, sizeof *a);
        MUST(a->tag == tag && a->task_id == r->task_id, "task %llu has the result of another task",
             (unsigned long long)r->task_id);
        MUST(a->worker_id == r->worker_id && a->gpu_id == r->gpu_id && a->attempt == r->attempt,
             "task %llu was reported for worker %d attempt %u, and ran on %d as %u", (unsigned long long)r->task_id,
             r->worker_id, r->attempt, a->worker_id, a->attempt);
    }
}

/* A failed task has data only if its worker has set some, and if the last error message comes from that worker. */
static void check_failed_data(const struct world *w, const struct gd_report *r)
{
    const struct world_order *o = &w->orders[r->task_id];
    const bool expected = o->what == W_ERROR_DATA && r->failure == GD_FAILURE_ERROR;
    MUST(r->size == (expected && o->n < SIZE_MAX / 2 ? o->n : 0), "the failure of task %llu has %zu bytes of data",
         (unsigned long long)r->task_id, r->size);
    MUST(world__pattern_is(r->data, 0, r->size, o->tag), "the data of failed task %llu is damaged",
         (unsigned long long)r->task_id);
}

static void record(struct world *w, const struct gd_report *r, char callback)
{
    note_callback(w);
    MUST(r->task_id < w->n_orders, "task %llu was never given", (unsigned long long)r->task_id);
    struct world_final *f = &w->finals[r->task_id];
    check_report(w, r);
    f->finals++;
    f->callback = callback;
    f->failure = r->failure;
    f->order = w->n_finals++;
    f->worker_id = r->worker_id;
    f->gpu_id = r->gpu_id;
    f->signal = r->signal;
    f->exit_code = r->exit_code;
    f->attempt = r->attempt;
    f->start_ns = r->start_ns;
    f->first_start_ns = r->first_start_ns;
    f->end_ns = r->end_ns;
    f->error = r->error ? strdup(r->error) : NULL;
    if (callback == 'S')
        check_result(w, r, &f->answer);
    else
        check_failed_data(w, r);
    if (w->on_final)
        w->on_final(w, r);
}

static void on_success(void *user, const struct gd_report *r)
{
    MUST(r->failure == GD_FAILURE_NONE, "on_success was called for a failure");
    record(user, r, 'S');
}

static void on_error(void *user, const struct gd_report *r)
{
    MUST(r->failure != GD_FAILURE_NONE, "on_error was called for a success");
    record(user, r, 'E');
}

static void on_timeout(void *user, const struct gd_report *r)
{
    MUST(r->failure == GD_FAILURE_TIMEOUT, "on_timeout was called for another kind of failure");
    record(user, r, 'T');
}

static void note_event(struct world *w, char kind, int worker_id, int gpu_id, const char *text)
{
    note_callback(w);
    MUST(text && *text, "an event has no text");
    if (w->n_events == sizeof w->events / sizeof *w->events)
        return;
    struct world_event *e = &w->events[w->n_events++];
    *e = (struct world_event){ kind, worker_id, gpu_id, strdup(text) };
    if (w->on_event)
        w->on_event(w, e);
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    note_event(user, 's', worker_id, gpu_id, error);
}

static void on_cleanup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    note_event(user, 'c', worker_id, gpu_id, error);
}

static void on_device_idle(void *user, int gpu_id, const char *why)
{
    note_event(user, 'i', -1, gpu_id, why);
}

static void on_device_out(void *user, int gpu_id, const char *why)
{
    note_event(user, 'd', -1, gpu_id, why);
}

static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    note_event(user, given_up ? 'X' : 'x', worker_id, gpu_id, why);
}

void world_on_task_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    struct world *w = user;
    note_callback(w);
    MUST(task_id < w->n_orders && w->finals[task_id].finals == 0, "a task has started after its final callback");
    MUST(attempt >= 1 && start_ns > 0, "on_task_start has no attempt or no time");
    w->finals[task_id].starts++;
    if (w->on_started)
        w->on_started(w, task_id, worker_id);
}

static void on_output(void *user, int worker_id, int fd, const char *text, size_t length)
{
    struct world *w = user;
    note_callback(w);
    MUST(fd == 1 || fd == 2, "on_output has descriptor %d", fd);
    MUST(worker_id >= 0, "on_output has worker %d", worker_id);
    w->output = realloc(w->output, w->output_size + length + 1);
    memcpy(w->output + w->output_size, text, length);
    w->output_size += length;
    w->output[w->output_size] = '\0';
}

static void on_exit_callback(void *user)
{
    struct world *w = user;
    note_callback(w);
    w->exits++;
}

/* --- opening --- */

static struct world_page *make_page(void)
{
    char path[64];
    const int low = memfd_create("world", MFD_CLOEXEC);
    const int fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* above the streams that tests close */
    close(low);
    MUST(fd >= 0 && ftruncate(fd, sizeof(struct world_page)) == 0, "memfd: %s", strerror(errno));
    void *p = mmap(NULL, sizeof(struct world_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(p != MAP_FAILED, "mmap: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv(WORLD_PAGE_ENV, path, 1);
    return p;
}

void world_open(struct world *w, unsigned n_gpus)
{
    *w = (struct world){ .o = GD_OPTIONS_INIT };
    for (unsigned i = 0; i < WORLD_WORKERS; i++)
        w->gpus[i] = (int)i;
    w->page = make_page();
    w->o.gpu_ids = w->gpus;
    w->o.n_gpus = n_gpus;
    w->o.output = GD_OUTPUT_DISCARD;
    w->o.cancel_grace_ms = w->o.cleanup_grace_ms = WORLD_ENDLESS_MS;
    w->o.user = w;
    w->o.source = next_order;
    w->o.on_success = on_success;
    w->o.on_error = on_error;
    w->o.on_timeout = on_timeout;
    w->o.on_setup_fail = on_setup_fail;
    w->o.on_cleanup_fail = on_cleanup_fail;
    w->o.on_worker_exit = on_worker_exit;
    w->o.on_device_out = on_device_out;
    w->o.on_device_idle = on_device_idle;
    w->o.on_output = on_output;
    w->o.on_exit = on_exit_callback;
}

size_t world_add_sized(struct world *w, struct world_order order, size_t size)
{
    if (w->n_orders == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->orders = realloc(w->orders, w->room * sizeof *w->orders);
        w->sizes = realloc(w->sizes, w->room * sizeof *w->sizes);
        MUST(w->orders && w->sizes, "no memory");
    }
    order.tag = w->n_orders;
    w->orders[w->n_orders] = order;
    w->sizes[w->n_orders] = size;
    return w->n_orders++;
}

size_t world_add(struct world *w, struct world_order order)
{
    return world_add_sized(w, order, sizeof order);
}

void world_add_many(struct world *w, size_t n, struct world_order order)
{
    while (n-- > 0)
        world_add(w, order);
}

static void forget_record(struct world *w)
{
    for (size_t i = 0; w->finals && i < w->n_orders; i++)
        free(w->finals[i].error);
    for (unsigned i = 0; i < w->n_events; i++)
        free(w->events[i].text);
    free(w->finals);
    w->finals = NULL;
}

void world_next(struct world *w)
{
    forget_record(w);
    w->n_orders = w->next = 0;
    w->n_finals = w->n_events = w->exits = w->late = 0;
}

void world_close(struct world *w)
{
    forget_record(w);
    free(w->orders);
    free(w->sizes);
    free(w->buffer);
    free(w->output);
    munmap(w->page, sizeof *w->page);
}

/* --- running, and the checks after the run --- */

static unsigned count_fds(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    MUST(dir, "/proc/self/fd: %s", strerror(errno));
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static unsigned count_shared_mappings(void)
{
    unsigned n = 0;
    char line[1024];
    FILE *f = fopen("/proc/self/maps", "re");
    MUST(f, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof line, f))
        n += strstr(line, "memfd:") != NULL;
    fclose(f);
    return n;
}

static void check_finals(const struct world *w)
{
    const struct gd_stats *s = &w->stats;
    MUST(w->exits == 1, "on_exit was called %u times", w->exits);
    MUST(w->late == 0, "%u callbacks were called after on_exit", w->late);
    for (uint64_t i = 0; i < w->n_orders; i++)
        MUST(w->finals[i].finals == (i < s->taken), "task %llu has %u finals (%llu were taken)", (unsigned long long)i,
             w->finals[i].finals, (unsigned long long)s->taken);
    MUST(s->completed + s->failed + s->timeouts == s->taken, "the figures do not add up: %llu + %llu + %llu of %llu",
         (unsigned long long)s->completed, (unsigned long long)s->failed, (unsigned long long)s->timeouts,
         (unsigned long long)s->taken);
    MUST(s->pending == 0 && s->running == 0, "something is pending (%llu) or running (%llu) after the end",
         (unsigned long long)s->pending, (unsigned long long)s->running);
    MUST(s->completed == world_callbacks(w, 'S'), "completed is %llu", (unsigned long long)s->completed);
}

static void check_children(const struct world *w)
{
    unsigned left = 0;
    if (w->leaves_children > 0)
        left = w->leaves_children; /* the test itself reaps these children */
    else if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
        left = 1;
    MUST(left == w->leaves_children, "a child process is left");
}

void world_start(struct world *w)
{
    const bool own_args = !w->o.setup_args && memcmp(&w->setup, &(struct world_setup){ 0 }, sizeof w->setup) != 0;
    if (own_args) {
        w->o.setup_args = &w->setup;
        w->o.setup_args_size = sizeof w->setup;
    }
    w->fds = count_fds();
    w->mappings = count_shared_mappings();
    const int rc = gd_dispatcher_open(&w->d, &w->o);
    MUST(rc == 0, "gd_dispatcher_open: %s", gd_error_text());
}

int world_finish(struct world *w)
{
    const struct gd_stats size = { .size = sizeof size };
    w->thread = pthread_self();
    w->finals = calloc(w->n_orders + 1, sizeof *w->finals);
    MUST(w->finals, "no memory");
    const int rc = gd_dispatcher_run(w->d);
    snprintf(w->text, sizeof w->text, "%s", rc < 0 ? gd_error_text() : "");
    w->stats = size;
    MUST(gd_dispatcher_stats(w->d, &w->stats) == 0, "stats: %s", gd_error_text());
    gd_dispatcher_worker_stats(w->d, w->workers, sizeof *w->workers, WORLD_WORKERS);
    check_finals(w);
    if (!w->o.keep_workers)
        check_children(w);
    return rc;
}

static bool is_source_thread(const char *id)
{
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", id);
    FILE *f = fopen(path, "re");
    if (!f)
        return false; /* not a thread, or it has ended */
    const bool is_source = fgets(name, sizeof name, f) && strcmp(name, "gd-feeder\n") == 0;
    fclose(f);
    return is_source;
}

static bool some_source_runs(void)
{
    bool found = false;
    DIR *dir = opendir("/proc/self/task");
    MUST(dir, "/proc/self/task: %s", strerror(errno));
    for (const struct dirent *e; !found && (e = readdir(dir));)
        found = is_source_thread(e->d_name);
    closedir(dir);
    return found;
}

/* A run that is stopped may not wait for its source. The source still uses the world, and the memory of the run, until it
 * returns. */
static void await_end_of_source(void)
{
    while (some_source_runs())
        sched_yield();
}

void world_end(struct world *w)
{
    gd_dispatcher_close(&w->d);
    MUST(w->d == NULL, "gd_dispatcher_close() did not set the pointer to NULL");
    check_children(w);
    if (w->source_left)
        return;
    await_end_of_source();
    MUST(count_fds() == w->fds, "%u descriptors before the run, %u after it", w->fds, count_fds());
    MUST(count_shared_mappings() == w->mappings, "%u shared mappings before the run, %u after it", w->mappings,
         count_shared_mappings());
}

int world_run(struct world *w)
{
    world_start(w);
    const int rc = world_finish(w);
    world_end(w);
    return rc;
}

struct launch {
    struct world *w;
    pthread_t thread;
    int rc;
};
static struct launch launches[8];

static void *launched(void *arg)
{
    struct launch *l = arg;
    l->rc = world_finish(l->w);
    return NULL;
}

void world_launch(struct world *w)
{
    struct launch *l = launches;
    while (l->w)
        l++;
    world_start(w);
    l->w = w;
    MUST(pthread_create(&l->thread, NULL, launched, l) == 0, "no thread");
}

static bool some_world_runs(void)
{
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (launches[i].w)
            return true;
    return false;
}

int world_join(struct world *w)
{
    struct launch *l = launches;
    while (l->w != w)
        l++;
    pthread_join(l->thread, NULL);
    l->w = NULL;
    gd_dispatcher_close(&w->d);
    if (!w->source_left && !some_world_runs())
        await_end_of_source();
    return l->rc;
}

/* --- counting what was recorded --- */

unsigned world_callbacks(const struct world *w, char callback)
{
    unsigned n = 0;
    for (size_t i = 0; i < w->n_orders; i++)
        n += w->finals[i].finals > 0 && w->finals[i].callback == callback;
    return n;
}

unsigned world_failures(const struct world *w, enum gd_failure failure)
{
    unsigned n = 0;
    for (size_t i = 0; i < w->n_orders; i++)
        n += w->finals[i].finals > 0 && w->finals[i].failure == failure;
    return n;
}

unsigned world_events(const struct world *w, char kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->n_events; i++)
        n += w->events[i].kind == kind;
    return n;
}

const struct world_event *world_event(const struct world *w, char kind)
{
    for (unsigned i = 0; i < w->n_events; i++)
        if (w->events[i].kind == kind)
            return &w->events[i];
    broken(__LINE__, "there is no event '%c'", kind);
    return NULL;
}
