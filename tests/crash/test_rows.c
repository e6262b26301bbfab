/* SPDX-License-Identifier: MIT
 *
 * More faults that the core must survive. Each has its own test cases:
 *
 *   - a task that always kills its worker
 *   - a worker that always crashes in setup
 *   - a worker that is stopped
 *   - a device that is lost
 *   - a dispatcher that is killed with SIGKILL at any moment
 *   - an interrupt during a restart
 *   - very many hand-overs of tasks on too few processors
 *   - one kill a second for a long time (soak tests only)
 *
 * The environment variable ROW chooses what a worker does. The options --handovers N and --seconds N, before the name
 * of a test case, set the number of hand-overs and the length of the soak test.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "crash/common.h"
#include "support/directory.h"

static uint64_t handovers_wanted, seconds_wanted;

/* --- the workers ------------------------------------------------------------ */

static const char *row;
static int my_gpu;
static unsigned my_restarts;

enum { POISON = 4321 };

static int answer(const struct gd_task *t, struct gd_result *r)
{
    const uint64_t x = mix(t->id);
    return gd_result_set(r, &x, sizeof x);
}

/* Reports to the test that something has begun. stdout is a pipe to the test. */
static void tell(char what)
{
    (void)!write(STDOUT_FILENO, &what, 1);
}

/* Waits until the test has released its lock on the file "gate". */
static void wait_at_gate(void)
{
    const int fd = open("gate", O_RDONLY | O_CLOEXEC);
    (void)flock(fd, LOCK_SH);
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    (void)w;
    my_gpu = s->gpu_id;
    my_restarts = s->restarts;
    if (strcmp(row, "crash_loop") == 0 && s->gpu_id == 1)
        abort();
    if (strcmp(row, "all_crash") == 0) {
        wait_at_gate();
        _exit(9);
    }
    if (strcmp(row, "slow_restart") == 0 && s->restarts > 0)
        pause();
    if (strcmp(row, "orphans") == 0) {
        tell('s');
        if (s->gpu_id == 1 && fork() == 0) /* a child of the worker must end with the worker */
            for (;;)
                pause();
    }
    return 0;
}

static int process_orphan(const struct gd_task *t, struct gd_result *r)
{
    tell('t');
    if (t->id % 8 == 7)
        for (;;) /* ignores every signal that can be ignored */
            ;
    burn(mix(t->id) % 200000);
    return answer(t, r);
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    if (strcmp(row, "poison") == 0 && t->id == POISON)
        raise(SIGSEGV);
    if (strcmp(row, "stopped") == 0 && t->id == 5)
        raise(SIGSTOP);
    if (strcmp(row, "slow_restart") == 0 && t->id == 3 && t->attempt == 1)
        raise(SIGKILL);
    if (strcmp(row, "lost_device") == 0 && my_gpu == 0)
        return gd_result_device_lost(r, "fell off the bus");
    if (strcmp(row, "orphans") == 0)
        return process_orphan(t, r);
    if (strcmp(row, "stopped_orphans") == 0) {
        const pid_t pid = getpid();
        (void)!write(STDOUT_FILENO, &pid, sizeof pid);
        raise(SIGSTOP);
        for (;;)
            ;
    }
    if (strcmp(row, "handovers") == 0 && mix(t->id) % 256 == 0) {
        const struct timespec pause = { 0, (long)(mix(t->id + 1) % 100000) };
        nanosleep(&pause, NULL);
    }
    return answer(t, r);
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        process(w, tasks[i], results[i]);
    return 0;
}

/* --- the runs ------------------------------------------------------------------ */

struct run {
    struct ledger ledger;
    uint64_t tasks, taken, succeeded, timeouts, failed, charged;
    unsigned setup_failures, exits, ends;
    struct gd_report last_failure; /* a copy whose pointers are no longer valid */
    char words[512];
    uint64_t last_final, longest_gap;
    uint64_t by_worker[16];
    bool interrupt_on_exit;
    bool pauses;
    unsigned interrupts;
    const int *gate; /* opened when a task was given; NULL: no gate */
};

static int source(void *user, struct gd_item *item)
{
    struct run *run = user;
    static uint64_t payload;
    if (run->taken == run->tasks)
        return 0;
    if (run->taken == 1 && run->gate)
        CHECK_EQ(flock(*run->gate, LOCK_UN), 0);
    if (run->pauses && mix(run->taken ^ 99) % 4096 == 0) {
        const struct timespec pause = { 0, (long)(mix(run->taken) % 200000) };
        nanosleep(&pause, NULL);
    }
    payload = run->taken++;
    item->data = &payload;
    item->size = sizeof payload;
    return 1;
}

static void final(struct run *run, const struct gd_report *r)
{
    ledger_final(&run->ledger, r->task_id);
    const uint64_t now = now_ns();
    if (run->last_final && now - run->last_final > run->longest_gap)
        run->longest_gap = now - run->last_final;
    run->last_final = now;
}

static void on_success(void *user, const struct gd_report *r)
{
    struct run *run = user;
    uint64_t x;
    final(run, r);
    CHECK_EQ(r->size, sizeof x);
    memcpy(&x, r->data, sizeof x);
    CHECK_EQ(x, mix(r->task_id));
    run->succeeded++;
    run->charged += r->attempt > 1;
    run->by_worker[r->worker_id & 15]++;
}

static void on_error(void *user, const struct gd_report *r)
{
    struct run *run = user;
    final(run, r);
    run->failed++;
    run->last_failure = *r;
    snprintf(run->words, sizeof run->words, "%s", r->error);
}

static void on_timeout(void *user, const struct gd_report *r)
{
    struct run *run = user;
    final(run, r);
    run->timeouts++;
    run->last_failure = *r;
}

static void on_setup_fail(void *user, int worker, int gpu, const char *error)
{
    struct run *run = user;
    (void)worker, (void)gpu;
    snprintf(run->words, sizeof run->words, "%s", error);
    run->setup_failures++;
}

static void on_worker_exit(void *user, int worker, int gpu, const char *why, bool given_up)
{
    struct run *run = user;
    (void)worker, (void)gpu, (void)why, (void)given_up;
    run->exits++;
    for (unsigned i = 0; run->interrupt_on_exit && i < run->interrupts; i++)
        kill(getpid(), SIGINT);
}

static void on_end(void *user)
{
    struct run *run = user;
    run->ends++;
}

static struct gd_options options_of(struct run *run, size_t n_workers, const char *const *env)
{
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = device_numbers;
    o.n_gpus = n_workers;
    o.handle_signals = true;
    o.source = source;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_timeout = on_timeout;
    o.on_setup_fail = on_setup_fail;
    o.on_worker_exit = on_worker_exit;
    o.on_exit = on_end;
    o.user = run;
    o.env = env;
    o.output = GD_OUTPUT_DISCARD;
    return o;
}

/* Runs to the end. Checks that every task taken is final, and that no process, memory or descriptor is left. */
static int run_all(struct run *run, const struct gd_options *o, struct gd_stats *stats)
{
    struct gd_dispatcher *d;
    struct gd_stats unused = { .size = sizeof unused };
    adopt_orphans();
    const struct footprint before = footprint();
    ledger_open(&run->ledger, run->tasks);
    CHECK_EQ(gd_dispatcher_open(&d, o), 0);
    const int rc = gd_dispatcher_run(d);
    CHECK_EQ(gd_dispatcher_stats(d, stats ? stats : &unused), 0);
    gd_dispatcher_close(&d);
    ledger_close(&run->ledger, run->taken);
    CHECK_EQ(run->ends, 1);
    check_footprint(&before, 16384);
    return rc;
}

static void poison(unsigned batch, bool ordered)
{
    static const char *const env[] = { "ROW=poison", NULL };
    struct run run = { .tasks = 10000 };
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_options o = options_of(&run, 4, env);
    o.batch_size = batch;
    o.batch_wait_us = batch > 1 ? 60000000 : 0; /* so that the task is never alone in its batch */
    o.ordered = ordered;
    CHECK_EQ(run_all(&run, &o, &stats), 0);
    CHECK_EQ(run.succeeded, 9999);
    CHECK_EQ(run.failed, 1);
    CHECK_EQ(run.last_failure.task_id, POISON);
    CHECK_EQ(run.last_failure.failure, GD_FAILURE_CRASH);
    CHECK_EQ(run.last_failure.signal, SIGSEGV);
    CHECK_CONTAINS(run.words, "signal 11");
    if (batch > 1) { /* one more death, to find the task that caused it; the others of the batch ran twice */
        CHECK_EQ(stats.crashes, o.crash_limit + 1);
        CHECK_LT(run.charged, batch);
    } else {
        CHECK_EQ(run.last_failure.attempt, o.crash_limit);
        CHECK_EQ(stats.crashes, o.crash_limit);
        CHECK_EQ(run.charged, 0);
    }
}

TEST(a_task_that_always_crashes_harms_no_other)
{
    poison(1, false);
}

TEST(a_task_that_always_crashes_in_order)
{
    poison(1, true);
}

TEST(a_task_that_always_crashes_in_a_batch)
{
    poison(8, false);
}

TEST(a_worker_that_crashes_in_setup_is_given_up)
{
    static const char *const env[] = { "ROW=crash_loop", NULL };
    struct run run = { .tasks = 200 };
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_options o = options_of(&run, 3, env);
    CHECK_EQ(run_all(&run, &o, &stats), 0);
    CHECK_EQ(run.succeeded, 200);
    CHECK_EQ(run.by_worker[1], 0);
    CHECK_LE(run.setup_failures, 1); /* the other workers may finish all tasks before this one is given up */
    CHECK_LE(stats.crashes, 3);
}

TEST(the_run_reports_that_every_worker_crashes_in_setup)
{
    static const char *const env[] = { "ROW=all_crash", NULL };
    struct run run = { .tasks = 50 };
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_options o = options_of(&run, 3, env);
    directory_enter();
    const int gate = open("gate", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(gate >= 0 && flock(gate, LOCK_EX) == 0);
    run.gate = &gate;
    CHECK_EQ(run_all(&run, &o, &stats), GD_E_SETUP);
    CHECK_GT(run.taken, 0);
    CHECK_EQ(run.setup_failures, 3);
    CHECK_EQ(stats.crashes, 9);
    CHECK_EQ(run.failed, run.taken);
    CHECK_EQ(run.last_failure.failure, GD_FAILURE_NO_WORKER);
}

TEST(a_stopped_worker_is_replaced)
{
    static const char *const env[] = { "ROW=stopped", NULL };
    struct run run = { .tasks = 100 };
    struct gd_options o = options_of(&run, 2, env);
    o.task_timeout_ms = 5000; /* other tasks take far less, even if they have to wait for a processor */
    o.cancel_grace_ms = 50;
    CHECK_EQ(run_all(&run, &o, NULL), 0);
    CHECK_EQ(run.timeouts, 1);
    CHECK_EQ(run.last_failure.task_id, 5);
    CHECK_EQ(run.succeeded, 99);
}

TEST(a_lost_device_is_set_aside_and_its_tasks_move)
{
    static const char *const env[] = { "ROW=lost_device", NULL };
    struct run run = { .tasks = 300 };
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_options o = options_of(&run, 2, env);
    CHECK_EQ(run_all(&run, &o, &stats), 0);
    CHECK_EQ(run.succeeded, 300);
    CHECK_EQ(run.by_worker[1], 300);
    CHECK_LE(stats.restarts, 1); /* restarted at most once */
}

/* --- the dispatcher is killed ------------------------------------------------------ */

enum { N_DRIVEN = 4 };

_Noreturn static void drive(const char *what, int out)
{
    const char *const env[] = { what, NULL };
    struct run run = { .tasks = 1000000 };
    struct gd_options o = options_of(&run, N_DRIVEN, env);
    dup2(out, STDOUT_FILENO); /* workers inherit it: end of file means that all of them have ended */
    close(out);
    o.output = GD_OUTPUT_INHERIT;
    ledger_open(&run.ledger, run.tasks);
    gd_run(&o);
    _exit(1);
}

/* Reads the reports until end of file. If a process is left, this never returns. */
static void read_to_end(int fd)
{
    char told[4096];
    while (read(fd, told, sizeof told) > 0)
        ;
}

/* Starts a process that dispatches. *out is the reading end of the pipe that its workers write to. */
static pid_t start_driver(const char *what, int *out)
{
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        drive(what, pipes[1]);
    close(pipes[1]);
    *out = pipes[0];
    return pid;
}

/* Kills the dispatching process and waits until all its workers have ended. Returns true if that took less than a
 * second. */
static bool kill_driver(pid_t pid, int out)
{
    const uint64_t start = now_ns();
    CHECK_EQ(kill(pid, SIGKILL), 0);
    read_to_end(out);
    const bool in_time = now_ns() - start < SECOND;
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(out);
    return in_time;
}

/* On a busy machine, some rounds may take longer than a second, but not most of them. */
static void check_rounds(int rounds, int in_time)
{
    printf("# %d of %d rounds were over within a second\n", in_time, rounds);
    CHECK_GE(in_time, rounds / 2);
}

TEST_WITHIN(120, no_worker_outlives_a_killed_dispatcher)
{
    struct rng r = { 1 };
    const int rounds = test_soak() ? 5000 : 200;
    int in_time = 0;
    for (int i = 0; i < rounds; i++) {
        int out;
        const pid_t pid = start_driver("ROW=orphans", &out);
        char told;
        for (uint64_t n = rng_below(&r, 9); n > 0; n--) /* four setups, four tasks that may never end */
            CHECK_EQ(read(out, &told, 1), 1);
        burn(rng_below(&r, 3 * MS));
        in_time += kill_driver(pid, out);
    }
    check_rounds(rounds, in_time);
}

static bool is_stopped(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    return at && at[2] == 'T';
}

TEST(no_stopped_worker_outlives_a_killed_dispatcher)
{
    enum { ROUNDS = 20 };
    int in_time = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int out;
        const pid_t pid = start_driver("ROW=stopped_orphans", &out);
        for (int k = 0; k < N_DRIVEN; k++) {
            pid_t worker;
            CHECK_EQ(read(out, &worker, sizeof worker), sizeof worker);
            while (!is_stopped(worker))
                sched_yield();
        }
        in_time += kill_driver(pid, out);
    }
    check_rounds(ROUNDS, in_time);
}

/* --- interrupts ----------------------------------------------------------------------- */

static void keep(int signal)
{
    (void)signal;
}

static void interrupt_restart(unsigned interrupts, unsigned restart_delay_ms)
{
    static const char *const env[] = { "ROW=slow_restart", NULL };
    struct run run = { .tasks = 1000000, .interrupt_on_exit = true, .interrupts = interrupts };
    struct gd_options o = options_of(&run, 1, env);
    struct sigaction before = { .sa_handler = keep }, after;
    CHECK_EQ(sigaction(SIGINT, &before, NULL), 0);
    o.cancel_grace_ms = 100;
    o.stop_grace_ms = o.cleanup_grace_ms =
        3600 * 1000; /* the worker would not end by itself; the run must not wait for it */
    o.restart_delay_ms = restart_delay_ms;
    CHECK_EQ(run_all(&run, &o, NULL), GD_E_INTERRUPTED);
    CHECK_EQ(run.exits, 1);
    CHECK_EQ(run.last_failure.failure, GD_FAILURE_CANCELLED);
    CHECK_EQ(sigaction(SIGINT, NULL, &after), 0);
    CHECK(after.sa_handler == keep);
}

TEST(an_interrupt_during_a_restart)
{
    interrupt_restart(1, 10);
}

TEST(two_interrupts_during_a_restart)
{
    interrupt_restart(2, 10);
}

/* --- many hand-overs ------------------------------------------------------------------- */

TEST_WITHIN(240, no_hand_over_stalls)
{
    static const char *const env[] = { "ROW=handovers", NULL };
    const uint64_t usual = SANITIZED ? 200000 : 10000000;
    struct run run = { .tasks = handovers_wanted ? handovers_wanted
                                : test_soak()    ? 1000000000
                                                 : usual,
                       .pauses = true };
    struct gd_options o = options_of(&run, 8, env);
    const uint64_t start = now_ns();
    CHECK_EQ(run_all(&run, &o, NULL), 0);
    CHECK_EQ(run.succeeded, run.tasks);
    printf("# %llu tasks in %.1f s, longest gap between two %.1f ms\n", (unsigned long long)run.tasks,
           (double)(now_ns() - start) / 1e9, (double)run.longest_gap / 1e6);
    CHECK_LT(run.longest_gap, 20 * SECOND); /* nothing polls, so a lost wake-up would stop the run forever */
}

/* --- one kill a second for a long time ---------------------------------------------------------- */

struct soak {
    struct run run;
    struct gd_dispatcher *d;
    uint64_t end, next_kill, kills;
    struct footprint first; /* after the first 5 kills */
    struct rng r;
};

static int soak_source(void *user, struct gd_item *item)
{
    struct soak *s = user;
    static uint64_t payload;
    if (now_ns() >= s->end || s->run.taken == s->run.tasks)
        return 0;
    payload = s->run.taken++;
    item->data = &payload;
    item->size = sizeof payload;
    return 1;
}

static void soak_success(void *user, const struct gd_report *r)
{
    struct soak *s = user;
    s->run.succeeded++;
    CHECK_EQ(r->size, sizeof(uint64_t));
    if (s->run.succeeded % 256 || now_ns() < s->next_kill)
        return;
    struct gd_worker_stats w[4];
    CHECK_EQ(gd_dispatcher_worker_stats(s->d, w, sizeof *w, 4), 4);
    const uint64_t pid = w[rng_below(&s->r, 4)].pid;
    if (pid > 0)
        kill((pid_t)pid, SIGKILL); /* the dispatcher can't reap it during a callback */
    s->next_kill = now_ns() + SECOND;
    if (++s->kills == 5)
        s->first = footprint();
    if (s->kills > 5 && s->kills % 10 == 0) {
        const struct footprint now = footprint();
        CHECK_LE(now.fds, s->first.fds + 4 * 8); /* some workers may just be starting or ending */
        CHECK_LE(now.rss_kb, s->first.rss_kb + 4096);
    }
}

TEST_WITHIN(86400, soak_with_a_kill_a_second)
{
    if (!test_soak() && !seconds_wanted)
        SKIP("only under make soak, or with --seconds N");
    static const char *const env[] = { "ROW=plain", NULL };
    struct soak s = { .run = { .tasks = UINT64_MAX } };
    struct gd_options o = options_of(&s.run, 4, env);
    o.user = &s;
    o.source = soak_source;
    o.on_success = soak_success;
    o.on_error = NULL;
    o.on_timeout = NULL;
    o.on_worker_exit = NULL;
    o.on_setup_fail = NULL;
    o.on_exit = NULL;
    o.crash_limit = o.death_limit = o.setup_attempts = 1u << 30;
    s.end = now_ns() + (seconds_wanted ? seconds_wanted : 3600) * SECOND;
    CHECK_EQ(gd_dispatcher_open(&s.d, &o), 0);
    CHECK_EQ(gd_dispatcher_run(s.d), 0);
    gd_dispatcher_close(&s.d);
    CHECK_EQ(s.run.succeeded, s.run.taken);
    printf("# %llu tasks, %llu kills\n", (unsigned long long)s.run.taken, (unsigned long long)s.kills);
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .setup = setup,
        .process = process,
        .process_batch = process_batch,
    };
    row = getenv("ROW") ? getenv("ROW") : "";
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    while (argc > 2 && (strcmp(argv[1], "--handovers") == 0 || strcmp(argv[1], "--seconds") == 0)) {
        *(argv[1][2] == 'h' ? &handovers_wanted : &seconds_wanted) = strtoull(argv[2], NULL, 10);
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    return test_main(argc, argv);
}
