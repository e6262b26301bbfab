/* SPDX-License-Identifier: MIT
 *
 * Chaos: a thread of the test kills random workers with SIGKILL at random moments while they work. Every task must be
 * final exactly once with the answer to its own payload. No descriptor, mapping, zombie or orphan may be left.
 *
 * The killer waits for a number of finished tasks, not for time. The source waits for a number of kills before it gives
 * more tasks. So a run has as many kills as requested, however fast the machine is. The limits on crashes are very
 * high, because these tests are about the bookkeeping.
 *
 * In the cases with tasks in flight, the crash limit is 1, so every task that is charged with a death fails at once.
 * The memory in flight/begun.h says which tasks each worker held, so the test can check which task was charged:
 *
 *   - a task fails only if its worker was killed while it held no other task
 *   - a task that was in flight at two deaths runs alone, on the worker of the second death
 *   - with one task at a time, no task is tried twice
 *
 * test_chaos --tasks N --kills N [CASE...] sets the size of each case. With GD_SOAK it is a million tasks and 10,000
 * kills.
 */
#include <sys/eventfd.h>

#include "crash/flight/chaos_worker.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { N_WORKERS = BEGUN_WORKERS, WORK_MOST_NS = 40000 };

static uint64_t tasks_wanted, kills_wanted; /* 0: the default of the case */

/* --- the worker ---------------------------------------------------------- */

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    burn(mix(t->id ^ t->attempt) % WORK_MOST_NS);
    return set_answer(t, r);
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (process(w, tasks[i], results[i]) < 0)
            return GD_E_NO_MEMORY;
    return 0;
}

static int process_loaded(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    return is_loaded(t) ? process(w, t, r) : gd_result_error_final(r, "got the loaded data of another task");
}

static const struct gd_worker_ops plain_ops = {
    .size = sizeof plain_ops,
    .process = process,
    .process_batch = process_batch,
};
static const struct gd_worker_ops loading_ops = {
    .size = sizeof loading_ops,
    .process = process_loaded,
    .load = load,
    .unload = unload,
};

/* --- the run --------------------------------------------------------------- */

/* The partial results of a task: how many came, and of which attempt. */
struct parts {
    uint32_t attempt, n;
};

struct chaos {
    uint64_t tasks, kills;
    size_t most_words;
    bool ordered, loading, stream;
    unsigned batch;
    unsigned concurrency; /* 0: workers have process(), otherwise begin() */

    struct gd_dispatcher *d;
    struct ledger ledger;
    struct begun *begun; /* NULL: not used */
    struct parts *parts;
    uint64_t next_in_order, charged, retried;
    uint64_t taken; /* used only by the source */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t done, killed; /* under the lock */
    bool over;
    int last_killed[N_WORKERS]; /* used only by the killer */
};

static size_t words_of(const struct chaos *c, uint64_t id)
{
    const uint64_t r = mix(id * 2 + 1);
    if (r % 16 != 0)
        return PAYLOAD_WORDS + r / 16 % 30;
    return PAYLOAD_WORDS + r / 16 % (c->most_words - PAYLOAD_WORDS + 1);
}

static int give_words(const struct chaos *c, struct gd_item *item)
{
    const size_t words = words_of(c, c->taken);
    uint64_t *payload = gd_item_alloc(item, words * sizeof *payload);
    if (!payload)
        return gd_item_error(item, "no room");
    fill_payload(payload, c->taken, mix(c->taken), words);
    return 1;
}

/* For stream programs. `quote` surrounds the text in the answer. */
static size_t write_text(char text[64], uint64_t id, const char *quote)
{
    return (size_t)snprintf(text, 64, "%stask %llu %llx%s", quote, (unsigned long long)id, (unsigned long long)mix(id),
                            quote);
}

static int give_text(const struct chaos *c, struct gd_item *item)
{
    char text[64];
    const size_t size = write_text(text, c->taken, "");
    void *payload = gd_item_alloc(item, size);
    if (!payload)
        return gd_item_error(item, "no room");
    memcpy(payload, text, size);
    return 1;
}

static int source(void *user, struct gd_item *item)
{
    struct chaos *c = user;
    if (c->taken == c->tasks)
        return 0;
    /* Gives no more tasks than the number of kills so far allows, and does not end before the last kill. */
    pthread_mutex_lock(&c->lock);
    while (c->killed < c->kills && (c->taken + 1 == c->tasks || c->taken * c->kills > (c->killed + 8) * c->tasks))
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    const int code = c->stream ? give_text(c, item) : give_words(c, item);
    c->taken++;
    return code;
}

static void count_done(struct chaos *c, uint64_t id)
{
    ledger_final(&c->ledger, id);
    if (c->ordered)
        CHECK_EQ(id, c->next_in_order++);
    pthread_mutex_lock(&c->lock);
    c->done++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void check_text(const struct gd_report *r)
{
    char text[64];
    CHECK_EQ(r->size, write_text(text, r->task_id, "\""));
    CHECK_MEM(r->data, text, r->size);
}

static void check_words(const struct chaos *c, const struct gd_report *r)
{
    static uint64_t *expected;
    if (!expected)
        CHECK((expected = malloc(c->most_words * sizeof *expected + 1024)) != NULL);
    const size_t words = words_of(c, r->task_id);
    fill_payload(expected, r->task_id, mix(r->task_id), words);
    const struct answer want = answer_to(r->task_id, expected, words);
    CHECK_EQ(r->size, r->task_id % 3 ? sizeof want : sizeof want + words * sizeof *expected);
    CHECK_MEM(r->data, &want, sizeof want);
    if (r->task_id % 3 == 0)
        CHECK_MEM((const char *)r->data + sizeof want, expected, words * sizeof *expected);
    CHECK_EQ(r->input_size, words * sizeof *expected);
    CHECK_MEM(r->input, expected, r->input_size);
}

/* The result and the partial results are those of the last attempt. */
static void check_attempt(const struct chaos *c, const struct gd_report *r)
{
    const struct parts *p = &c->parts[r->task_id];
    CHECK_EQ(atomic_load(&c->begun->last[r->task_id].attempt), r->attempt);
    CHECK_EQ(atomic_load(&c->begun->last[r->task_id].worker), r->worker_id);
    if (c->concurrency == 1)
        CHECK_EQ(r->attempt, 1);
    CHECK_EQ(p->n, has_parts(r->task_id) ? N_PARTS : 0);
    CHECK_EQ(p->attempt, has_parts(r->task_id) ? r->attempt : 0);
}

static void on_partial(void *user, uint64_t id, int worker, unsigned attempt, const void *data, size_t size)
{
    const struct chaos *c = user;
    uint64_t number = UINT64_MAX;
    (void)worker;
    CHECK_LT(id, c->tasks);
    CHECK_EQ(c->ledger.finals[id], 0);
    struct parts *p = &c->parts[id];
    CHECK_GE(attempt, p->attempt);
    if (attempt > p->attempt)
        *p = (struct parts){ .attempt = attempt };
    CHECK_EQ(size, sizeof number);
    memcpy(&number, data, sizeof number);
    CHECK_EQ(number, p->n++);
}

static void on_success(void *user, const struct gd_report *r)
{
    struct chaos *c = user;
    if (c->stream)
        check_text(r);
    else
        check_words(c, r);
    if (c->begun)
        check_attempt(c, r);
    count_done(c, r->task_id);
}

/* The worker's next process has not started yet, so the memory says what the dead one held. In an ordered run, the
 * report may come too late for this check. */
static bool was_alone(const struct chaos *c, const struct gd_report *r)
{
    const bool killed = r->failure == GD_FAILURE_CRASH && r->signal == SIGKILL;
    return killed && (c->ordered || !begun_others(c->begun, r->worker_id, r->task_id));
}

static void on_error(void *user, const struct gd_report *r)
{
    struct chaos *c = user;
    if (c->begun && was_alone(c, r)) {
        c->charged++;
        count_done(c, r->task_id);
        return;
    }
    FAIL("task %llu failed as %s: %s", (unsigned long long)r->task_id, gd_failure_name(r->failure), r->error);
}

/* --- the killer -------------------------------------------------------------- */

/* Whether the process is a living child of ours. A process id from the statistics may belong to another process by now.
 */
static bool is_live_child(int pid)
{
    char path[64], text[512], state = 'Z';
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    return at && sscanf(at + 1, " %c %d", &state, &parent) == 2 && parent == getpid() && state != 'Z' && state != 'X';
}

/* Kills each process only once. A killed process takes a while to die, and looks alive until then. */
static bool kill_one(struct chaos *c, struct rng *r)
{
    struct gd_worker_stats w[N_WORKERS];
    if (gd_dispatcher_worker_stats(c->d, w, sizeof *w, N_WORKERS) != N_WORKERS)
        return false;
    const uint64_t i = rng_below(r, N_WORKERS);
    const int pid = (int)w[i].pid;
    const int fd = pid > 0 && pid != c->last_killed[i] ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    const bool hit = fd >= 0 && is_live_child(pid) && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
    if (fd >= 0)
        close(fd);
    if (hit)
        c->last_killed[i] = pid;
    return hit;
}

/* Waits until this many tasks are done. False: the run is over. Also returns when all tasks given so far are done,
 * because the source gives no more before the next kill. */
static bool wait_done(struct chaos *c, uint64_t done)
{
    pthread_mutex_lock(&c->lock);
    while (!c->over && c->done < done && c->done < c->killed * c->tasks / c->kills)
        pthread_cond_wait(&c->changed, &c->lock);
    const bool go_on = !c->over;
    pthread_mutex_unlock(&c->lock);
    return go_on;
}

static void *killer(void *user)
{
    struct chaos *c = user;
    struct rng r = { c->tasks ^ c->kills };
    uint64_t target = 0;
    while (c->killed < c->kills && wait_done(c, target)) {
        burn(rng_below(&r, 300000)); /* a moment that nothing else determines */
        if (!kill_one(c, &r)) {
            sched_yield(); /* the statistics are a little old: this worker is dead already */
            continue;
        }
        pthread_mutex_lock(&c->lock);
        c->killed++;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        target += rng_below(&r, 2 * c->tasks / c->kills);
    }
    return NULL;
}

/* --- cases --------------------------------------------------------------------- */

static void set_options(struct chaos *c, struct gd_options *o)
{
    *o = (struct gd_options)GD_OPTIONS_INIT;
    o->gpu_ids = device_numbers;
    o->n_gpus = N_WORKERS;
    o->source = source;
    o->on_success = on_success;
    o->on_error = on_error;
    o->user = c;
    o->queue_size = 256;
    o->ordered = c->ordered;
    o->batch_size = c->batch;
    o->io_threads = 2;
    o->crash_limit = o->setup_attempts = o->death_limit = 1u << 30;
    o->restart_delay_ms = 0;
    o->concurrency = c->concurrency;
}

/* Runs the dispatcher while the killer kills its workers. */
static void run_with_killer(struct chaos *c, const struct gd_options *o)
{
    struct gd_stats stats = { .size = sizeof stats };
    pthread_t thread;
    CHECK_EQ(gd_dispatcher_open(&c->d, o), 0);
    CHECK_EQ(pthread_create(&thread, NULL, killer, c), 0);
    const int rc = gd_dispatcher_run(c->d);
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(thread, NULL);
    CHECK_EQ(rc, 0);
    CHECK_EQ(gd_dispatcher_stats(c->d, &stats), 0);
    CHECK_EQ(stats.completed, c->tasks - c->charged);
    CHECK_EQ(stats.failed, c->charged);
    CHECK_LE(c->charged, c->kills);
    c->retried = stats.retried;
    CHECK_EQ(stats.timeouts + stats.pending + stats.running, 0);
    CHECK_GE(stats.restarts + N_WORKERS, c->kills); /* the last process of each worker may not be replaced */
    gd_dispatcher_close(&c->d);
    CHECK(c->d == NULL);
    CHECK_EQ(c->killed, c->kills);
}

static void run_in_flight(struct chaos *c, struct gd_options *o)
{
    char variable[64];
    const char *const env[] = { c->loading ? "CHAOS_WORKER=flight_loading" : "CHAOS_WORKER=flight", variable, NULL };
    size_t size;
    int fd;
    c->begun = begun_make(c->tasks, &fd, &size, variable);
    CHECK((c->parts = calloc(c->tasks, sizeof *c->parts)) != NULL);
    o->env = env;
    o->on_partial = on_partial;
    o->crash_limit = 1;
    run_with_killer(c, o);
    free(c->parts);
    munmap(c->begun, size);
    close(fd);
}

static void run_stream(struct chaos *c, struct gd_options *o)
{
    const char *directory = getenv("GD_TEST_PLUGINS"), *host = getenv("GPU_DISPATCH_HOST");
    char program[4096], host_path[4096], option[] = "--stream", end[] = "--", mode[] = "gather";
    if (!directory || !host)
        SKIP("GD_TEST_PLUGINS or GPU_DISPATCH_HOST is not set");
    snprintf(program, sizeof program, "%s/stream_program", directory);
    snprintf(host_path, sizeof host_path, "%s", host);
    char *const argv[] = { host_path, option, end, program, mode, NULL };
    o->worker_argv = argv;
    o->output = GD_OUTPUT_DISCARD;
    o->orphans = GD_ORPHANS_REAP; /* the programs of the hosts that are killed */
    run_with_killer(c, o);
}

static void run_once(struct chaos *c)
{
    static const char *const loading_env[] = { "CHAOS_WORKER=loading", NULL };
    struct gd_options o;
    set_options(c, &o);
    ledger_open(&c->ledger, c->tasks);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    o.env = c->loading ? loading_env : NULL;
    if (c->stream)
        run_stream(c, &o);
    else if (c->concurrency > 0)
        run_in_flight(c, &o);
    else
        run_with_killer(c, &o);
    ledger_close(&c->ledger, c->tasks);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

static void run_chaos(struct chaos c)
{
    adopt_orphans();
    if (SANITIZED) {
        c.tasks /= 4;
        c.kills /= 4;
    }
    if (tasks_wanted)
        c.tasks = tasks_wanted;
    if (kills_wanted)
        c.kills = kills_wanted;
    /* Runs a small job first, so that memory that the C library keeps from its first use is not counted. */
    struct chaos small = c;
    small.tasks = c.tasks / 100 + 100;
    small.kills = 10;
    run_once(&small);
    const struct footprint before = footprint();
    const uint64_t start = now_ns();
    struct chaos whole = c;
    run_once(&whole);
    printf("# %llu tasks, %llu kills, %llu attempts repeated, %llu tasks failed, %.1f s\n", (unsigned long long)c.tasks,
           (unsigned long long)c.kills, (unsigned long long)whole.retried, (unsigned long long)whole.charged,
           (double)(now_ns() - start) / 1e9);
    check_footprint(&before, 8192);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST_WITHIN(600, chaos)
{
    run_chaos((struct chaos){ .tasks = 200000, .kills = 1000, .most_words = 512, .batch = 1 });
}

TEST_WITHIN(300, chaos_in_batches)
{
    run_chaos((struct chaos){ .tasks = 20000, .kills = 150, .most_words = 512, .batch = 4 });
}

TEST_WITHIN(300, chaos_loading_ahead)
{
    run_chaos((struct chaos){ .tasks = 20000, .kills = 150, .most_words = 512, .batch = 1, .loading = true });
}

TEST_WITHIN(300, chaos_in_order)
{
    run_chaos((struct chaos){ .tasks = 20000, .kills = 150, .most_words = 512, .batch = 1, .ordered = true });
}

/* Up to a megabyte: every sixteenth payload has a random size up to that. */
TEST_WITHIN(300, chaos_with_large_payloads)
{
    run_chaos((struct chaos){ .tasks = 10000, .kills = 150, .most_words = (1u << 20) / sizeof(uint64_t), .batch = 1 });
}

/* `make soak` runs these with a million tasks. Tests run fewer than 200,000, because they share the time that `chaos`
 * takes. */
TEST_WITHIN(300, chaos_with_begin_and_one_task_at_a_time)
{
    run_chaos((struct chaos){ .tasks = 20000, .kills = 150, .most_words = 512, .batch = 1, .concurrency = 1 });
}

TEST_WITHIN(300, chaos_with_8_tasks_in_flight)
{
    run_chaos((struct chaos){ .tasks = 40000, .kills = 200, .most_words = 512, .batch = 1, .concurrency = 8 });
}

TEST_WITHIN(300, chaos_with_64_tasks_in_flight)
{
    run_chaos((struct chaos){ .tasks = 40000, .kills = 200, .most_words = 512, .batch = 1, .concurrency = 64 });
}

TEST_WITHIN(300, chaos_loading_ahead_with_8_tasks_in_flight)
{
    run_chaos((struct chaos){
        .tasks = 20000, .kills = 100, .most_words = 512, .batch = 1, .concurrency = 8, .loading = true });
}

TEST_WITHIN(300, chaos_with_64_tasks_in_flight_in_order)
{
    run_chaos((struct chaos){
        .tasks = 20000, .kills = 100, .most_words = 512, .batch = 1, .concurrency = 64, .ordered = true });
}

TEST_WITHIN(300, chaos_of_stream_programs_with_64_tasks_in_flight)
{
    run_chaos((struct chaos){ .tasks = 20000, .kills = 100, .batch = 1, .concurrency = 64, .stream = true });
}

static const struct gd_worker_ops *chosen_ops(void)
{
    const char *worker = getenv("CHAOS_WORKER");
    if (!worker)
        return &plain_ops;
    if (strcmp(worker, "loading") == 0)
        return &loading_ops;
    return strcmp(worker, "flight") == 0 ? &flight_ops : &flight_loading_ops;
}

int main(int argc, char **argv)
{
    if (gd_worker_main(&argc, argv, chosen_ops()) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    if (test_soak()) {
        tasks_wanted = 1000000;
        kills_wanted = 10000;
    }
    while (argc > 2 && (strcmp(argv[1], "--tasks") == 0 || strcmp(argv[1], "--kills") == 0)) {
        *(argv[1][2] == 't' ? &tasks_wanted : &kills_wanted) = strtoull(argv[2], NULL, 10);
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    return test_main(argc, argv);
}
