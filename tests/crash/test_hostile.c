/* SPDX-License-Identifier: MIT
 *
 * A hostile worker overwrites everything that it can write, at random moments, while honest workers run at the same
 * time. Whatever it does, the dispatcher survives, every task is final exactly once, no honest worker is affected, and
 * the result of an honest worker's task is the answer of that task.
 *
 * Each seed is a separate short run. The hostile worker has the number 0. Its attacks are made by a thread and by the
 * process function itself: see hostile_worker.h. With tasks in flight, it also finishes them in wrong ways: see
 * flight/misdeeds.h. A process that replaces this worker is hostile too.
 *
 * test_hostile --seed N [CASE...] runs one seed of each case; --seeds N runs N seeds.
 */
#include "crash/flight/misdeeds.h"
#include "crash/hostile_worker.h"
#include "proc/descendants.h"

enum { N_HONEST = 2, N_WORKERS = N_HONEST + 1, HOSTILE = 0, TIMEOUT_MS = 400, GRACE_MS = 20 };
/* How long a task in flight takes at most. So a run lasts long enough for several hostile processes. */
enum { FLIGHT_MOST_NS = 10000000 };

static uint64_t seeds_wanted, seed_wanted = UINT64_MAX;

/* --- the workers ------------------------------------------------------------- */

static struct enemy enemies[2]; /* one for the thread, one for the process function */

/* Attacks at random moments until the process ends. */
static void *hostile_thread(void *arg)
{
    struct enemy *e = arg;
    for (;;) {
        const struct timespec pause = { 0, (long)rng_below(&e->r, 3000000) };
        nanosleep(&pause, NULL);
        attack_some(e, 2);
    }
    return NULL;
}

static int set_answer(const struct gd_task *t, struct gd_result *r)
{
    const struct answer a = answer_to(t->id, t->data, t->size / sizeof(uint64_t));
    char *out = gd_result_alloc(r, t->id % 2 ? sizeof a : sizeof a + 100);
    if (!out)
        return GD_E_NO_MEMORY;
    memcpy(out, &a, sizeof a);
    return 0;
}

static struct {
    uint64_t seed, rare;
    bool never;
} manners; /* of a worker with tasks in flight, if it is hostile */

static void finish(const struct pooled *p)
{
    struct rng r = { mix(manners.seed) ^ mix(p->task->id << 8 | p->task->attempt) };
    if (set_answer(p->task, p->result) < 0)
        gd_result_error(p->result, "no room for the result");
    finish_somehow(p->result, &r, manners.rare, manners.never);
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    uint64_t seed;
    memcpy(&seed, s->args, sizeof seed);
    struct rng r = { mix(seed * 1000 + s->restarts) ^ 99 };
    manners.seed = seed;
    manners.rare = s->worker_id == HOSTILE ? 2 + rng_below(&r, 30) : 0;
    manners.never = rng_below(&r, 8) == 0;
    if (w->ops.begin && pool_start(FLIGHT_MOST_NS, seed, finish) != 0)
        return gd_worker_error(w, "no threads");
    if (s->worker_id != HOSTILE)
        return 0;
    enemies[0] = enemy_of(w, seed * 1000 + s->restarts);
    enemies[1] = enemy_of(w, seed * 1000 + s->restarts + 500);
    gd_worker_set_user(w, &enemies[1]);
    if (rng_below(&enemies[1].r, 8) == 0)
        attack_some(&enemies[1], 2); /* before the worker is ready */
    pthread_t thread;
    if (rng_below(&enemies[1].r, 4) != 0)
        pthread_create(&thread, NULL, hostile_thread, &enemies[0]);
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    struct enemy *e = gd_worker_user(w);
    if (e)
        attack_some(e, 2);
    burn(rng_below(&(struct rng){ t->id }, 200000));
    return set_answer(t, r);
}

/* If the worker may have many tasks, it attacks less often, so that it gets many. */
static int begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    struct enemy *e = gd_worker_user(w);
    if (e && rng_below(&e->r, gd__flight_of(w)->concurrency) < 4)
        attack_some(e, 2);
    return pool_add(w, t, r, NULL) ? 0 : gd_result_error(r, "more tasks in flight than allowed");
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (process(w, tasks[i], results[i]) < 0)
            return GD_E_NO_MEMORY;
    return 0;
}

static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

/* --- the run ------------------------------------------------------------------- */

struct siege {
    uint64_t seed, tasks, taken;
    unsigned concurrency;
    struct ledger ledger;
};

enum { PAYLOAD_MOST = 400 };

static size_t words_of(uint64_t id)
{
    return PAYLOAD_WORDS + mix(id) % (PAYLOAD_MOST - PAYLOAD_WORDS);
}

static int source(void *user, struct gd_item *item)
{
    struct siege *s = user;
    if (s->taken == s->tasks)
        return 0;
    const size_t words = words_of(s->taken);
    uint64_t *payload = gd_item_alloc(item, words * sizeof *payload);
    if (!payload)
        return gd_item_error(item, "no room");
    fill_payload(payload, s->taken, s->seed, words);
    s->taken++;
    return 1;
}

static volatile unsigned char touched;

static void touch(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    if (size > 0)
        touched = (unsigned char)(at[0] + at[size / 2] + at[size - 1]);
}

static void on_success(void *user, const struct gd_report *r)
{
    struct siege *s = user;
    uint64_t expected[PAYLOAD_MOST];
    ledger_final(&s->ledger, r->task_id);
    const size_t words = words_of(r->task_id);
    fill_payload(expected, r->task_id, s->seed, words);
    CHECK_EQ(r->input_size, words * sizeof *expected);
    CHECK_MEM(r->input, expected, r->input_size); /* workers cannot write to it */
    touch(r->data, r->size);
    if (r->worker_id == HOSTILE)
        return;
    const struct answer want = answer_to(r->task_id, expected, words);
    CHECK_EQ(r->size, r->task_id % 2 ? sizeof want : sizeof want + 100);
    CHECK_MEM(r->data, &want, sizeof want);
}

static void on_failure(void *user, const struct gd_report *r)
{
    struct siege *s = user;
    ledger_final(&s->ledger, r->task_id);
    touch(r->error, strlen(r->error));
    if (r->worker_id == HOSTILE)
        return;
    /* On a busy machine a task of an honest worker may time out too. Any other failure is an error. */
    if (r->failure != GD_FAILURE_TIMEOUT)
        FAIL("seed %llu: task %llu failed on worker %d as %s: %s", (unsigned long long)s->seed,
             (unsigned long long)r->task_id, r->worker_id, gd_failure_name(r->failure), r->error);
}

static void on_task_start(void *user, uint64_t id, int worker, unsigned attempt, uint64_t start_ns)
{
    (void)worker, (void)attempt, (void)start_ns;
    const struct siege *s = user;
    CHECK_LT(id, s->taken);
    CHECK_EQ(s->ledger.finals[id], 0);
}

static void on_partial(void *user, uint64_t id, int worker, unsigned attempt, const void *data, size_t size)
{
    const struct siege *s = user;
    CHECK_LT(id, s->taken);
    CHECK_EQ(s->ledger.finals[id], 0);
    CHECK_EQ(worker, HOSTILE); /* the honest workers send none */
    CHECK_GE(attempt, 1);
    touch(data, size);
}

/* On a busy machine an honest worker may be killed because its setup or its task took too long. */
static void on_worker_exit(void *user, int worker, int gpu, const char *why, bool given_up)
{
    const struct siege *s = user;
    (void)gpu;
    touch(why, strlen(why));
    if (worker == HOSTILE)
        return;
    if (given_up || !(strstr(why, "its setup took longer") || strstr(why, "did not stop at the time limit")))
        FAIL("seed %llu: an honest worker died%s: %s", (unsigned long long)s->seed, given_up ? " and was given up" : "",
             why);
}

static void on_words(void *user, int worker, int gpu, const char *words)
{
    (void)user, (void)worker, (void)gpu;
    touch(words, strlen(words));
}

/* With one task at a time, a worker has either function. Batches are only for process(). */
static void choose_worker(const struct siege *s, struct gd_options *o, struct rng *r)
{
    static const char *const env[2][2][2] = {
        { { NULL }, { "HOSTILE_WORKER=loading" } },
        { { "HOSTILE_WORKER=flight" }, { "HOSTILE_WORKER=loading flight" } },
    };
    const bool flight = s->concurrency > 1 || rng_below(r, 2);
    o->concurrency = s->concurrency;
    o->batch_size = !flight && rng_below(r, 3) == 0 ? 3 : 1;
    o->env = env[flight][rng_below(r, 3) == 0];
}

static void run_seed(uint64_t seed, unsigned concurrency)
{
    struct siege s = { .seed = seed, .concurrency = concurrency, .tasks = concurrency > 8 ? 400 : 96 };
    struct gd_options o = GD_OPTIONS_INIT;
    struct rng r = { mix(seed) ^ 77 };
    o.gpu_ids = device_numbers;
    o.n_gpus = N_WORKERS;
    o.source = source;
    o.on_success = on_success;
    o.on_error = o.on_timeout = on_failure;
    o.on_setup_fail = o.on_cleanup_fail = on_words;
    o.on_task_start = rng_below(&r, 2) ? on_task_start : NULL;
    o.on_partial = rng_below(&r, 4) ? on_partial : NULL;
    o.on_worker_exit = on_worker_exit;
    o.user = &s;
    o.setup_args = &seed;
    o.setup_args_size = sizeof seed;
    o.output = GD_OUTPUT_DISCARD;
    o.task_timeout_ms = TIMEOUT_MS * TEST_SLOWDOWN;
    o.setup_timeout_ms = 4 * TIMEOUT_MS * TEST_SLOWDOWN;
    o.cancel_grace_ms = GRACE_MS;
    o.stop_grace_ms = o.cleanup_grace_ms = TIMEOUT_MS * TEST_SLOWDOWN;
    o.restart_delay_ms = 1;
    o.death_limit = 4;
    o.queue_size = 1 + rng_below(&r, 2 * s.tasks);
    o.ordered = rng_below(&r, 3) == 0;
    choose_worker(&s, &o, &r);
    ledger_open(&s.ledger, s.tasks);
    const int rc = gd_run(&o);
    if (rc != 0)
        FAIL("seed %llu: the run ended with %s: %s", (unsigned long long)seed, gd_error_name(rc), gd_error_text());
    ledger_close(&s.ledger, s.tasks);
}

static uint64_t running_seed;
static const char *volatile waits_for = "its run";
enum { CHILDREN_TEXT = 300 };

/* Adds the first fields of the process's stat file in /proc: number, name, state. State T means that the process is
 * stopped. */
static void add_state(void *user, pid_t pid)
{
    char *text = user, path[64], words[48] = "";
    const size_t length = strlen(text);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, words, sizeof words - 1) > 0)
        snprintf(text + length, CHILDREN_TEXT - length, "; child %s", words);
    close(fd);
}

static void too_long(int signal)
{
    char children[CHILDREN_TEXT] = "";
    (void)signal;
    gd__children_each(add_state, children);
    FAIL("seed %llu hangs, in %s%s", (unsigned long long)running_seed, waits_for, children);
}

/* Processes that haunt() left behind have become our children. They end by themselves. */
static void wait_for_ghosts(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void run_seeds(unsigned concurrency, uint64_t first, uint64_t step, uint64_t end)
{
    adopt_orphans();
    signal(SIGALRM, too_long);
    run_seed(UINT64_MAX - 1, concurrency); /* first uses of the C library */
    wait_for_ghosts();
    const struct footprint before = footprint();
    for (uint64_t seed = first; seed < end; seed += step) {
        running_seed = seed;
        alarm(60 * TEST_SLOWDOWN);
        waits_for = "its run";
        run_seed(seed, concurrency);
        waits_for = "the wait for leftover processes";
        wait_for_ghosts();
        alarm(0);
        CHECK_EQ(footprint().fds, before.fds);
        CHECK_EQ(footprint().memfd_maps, 0);
    }
    check_footprint(&before, 8192);
}

static void besiege(unsigned concurrency)
{
    /* The three cases share the seeds. */
    const uint64_t seeds = seeds_wanted ? seeds_wanted : test_soak() ? 33334 : SANITIZED ? 84 : 334;
    if (seed_wanted != UINT64_MAX) {
        run_seeds(concurrency, seed_wanted, 1, seed_wanted + 1);
        return;
    }
    const uint64_t parts = 4; /* processes that share the seeds; they mostly wait */
    pid_t pids[4];
    for (uint64_t i = 0; i < parts; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_seeds(concurrency, i, parts, seeds);
            exit(0);
        }
    }
    for (uint64_t i = 0; i < parts; i++) {
        int status;
        CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
        if (WIFSIGNALED(status))
            FAIL("the dispatcher was killed by signal %d", WTERMSIG(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

TEST_WITHIN(800, a_hostile_worker_harms_only_itself)
{
    besiege(1);
}

TEST_WITHIN(800, a_hostile_worker_with_8_tasks_in_flight_harms_only_itself)
{
    besiege(8);
}

TEST_WITHIN(800, a_hostile_worker_with_64_tasks_in_flight_harms_only_itself)
{
    besiege(64);
}

static bool is_worker(const char *kind)
{
    const char *wanted = getenv("HOSTILE_WORKER");
    return wanted && strstr(wanted, kind);
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .setup = setup,
        .process = process,
        .process_batch = process_batch,
        .load = is_worker("loading") ? load : NULL,
        .begin = is_worker("flight") ? begin : NULL,
    };
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    while (argc > 2 && (strcmp(argv[1], "--seed") == 0 || strcmp(argv[1], "--seeds") == 0)) {
        *(argv[1][6] ? &seeds_wanted : &seed_wanted) = strtoull(argv[2], NULL, 10);
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    return test_main(argc, argv);
}
