/* SPDX-License-Identifier: MIT
 *
 * Every call that needs a resource (memory, memfd, mmap, eventfd, epoll, socket pair, pipe, process, thread) fails
 * once. A small run is repeated: first the 1st such call fails, then the 2nd, and so on, until a run makes fewer calls
 * than that. Each run must complete or end with a clean error. Every task that was taken must be final exactly once,
 * on_exit must be called exactly once, and no resource may be left. Then calls of the workers fail in the same way.
 */
#include "base/fault.h"
#include "crash/common.h"

enum { N_TASKS = 12, N_WORKERS = 2, HANG_S = 60 };

/* --- the worker ------------------------------------------------------------ */

struct told {
    uint64_t id;
    uint64_t calls; /* calls that could have failed in this worker so far */
};

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    char *out = gd_result_alloc(r, t->id % 2 ? sizeof(struct told) : 100000);
    if (!out)
        return gd_result_error(r, "no room for the result");
    const struct told told = { t->id, gd__fault_count() };
    memcpy(out, &told, sizeof told);
    return 0;
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        process(w, tasks[i], results[i]);
    return 0;
}

static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

/* --- the run ---------------------------------------------------------------- */

struct trial {
    uint64_t taken, succeeded, most_calls;
    unsigned exits;
    struct ledger ledger;
};

struct shape {
    bool ordered, loading;
    unsigned batch;
    enum gd_worker_output output;
};

static int source(void *user, struct gd_item *item)
{
    static char payload[1000];
    struct trial *t = user;
    if (t->taken == N_TASKS)
        return 0;
    item->data = payload;
    item->size = t->taken % 2 ? sizeof payload : 8;
    if (t->taken % 3 == 0 && !gd_item_alloc(item, 50000))
        return gd_item_error(item, "%s", gd_error_text());
    t->taken++;
    return 1;
}

static void on_success(void *user, const struct gd_report *r)
{
    struct trial *t = user;
    struct told told;
    ledger_final(&t->ledger, r->task_id);
    CHECK_EQ(r->size, r->task_id % 2 ? sizeof told : 100000);
    memcpy(&told, r->data, sizeof told);
    CHECK_EQ(told.id, r->task_id);
    t->succeeded++;
    if (told.calls > t->most_calls)
        t->most_calls = told.calls;
}

static void on_error(void *user, const struct gd_report *r)
{
    struct trial *t = user;
    ledger_final(&t->ledger, r->task_id);
    CHECK(r->error && r->error[0]);
    CHECK(r->failure != GD_FAILURE_NONE);
}

static void on_exit_called(void *user)
{
    struct trial *t = user;
    t->exits++;
}

static void on_output(void *user, int worker, int fd, const char *text, size_t length)
{
    (void)user, (void)worker, (void)fd, (void)text, (void)length;
}

static struct gd_options options_of(const struct shape *s, struct trial *t)
{
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = device_numbers;
    o.n_gpus = N_WORKERS;
    o.source = source;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_exit = on_exit_called;
    o.on_output = on_output;
    o.user = t;
    o.setup_args = "args";
    o.setup_args_size = 5;
    o.restart_delay_ms = 1;
    o.ordered = s->ordered;
    o.batch_size = s->batch;
    o.output = s->output;
    return o;
}

static unsigned long running_fault;

static void too_long(int signal)
{
    (void)signal;
    FAIL("hangs with call %lu failing", running_fault);
}

/* Returns what run (or open) returned. */
static int attempt(const struct gd_options *o, struct trial *t)
{
    struct gd_dispatcher *d = NULL;
    t->taken = t->succeeded = 0;
    t->exits = 0;
    ledger_open(&t->ledger, N_TASKS);
    alarm(HANG_S * TEST_SLOWDOWN);
    int rc = gd_dispatcher_open(&d, o);
    const bool opened = rc == 0;
    if (opened)
        rc = gd_dispatcher_run(d);
    else
        CHECK(d == NULL);
    if (rc < 0)
        CHECK(gd_error_text()[0]);
    gd_dispatcher_close(&d);
    alarm(0);
    CHECK_EQ(t->exits, opened);
    ledger_close(&t->ledger, t->taken);
    if (rc == 0)
        CHECK_EQ(t->taken, N_TASKS);
    return rc;
}

static void check_nothing_left(const struct footprint *before, unsigned long n)
{
    const struct footprint after = footprint_after(before);
    if (after.fds != before->fds || after.children != before->children || after.memfd_maps != 0)
        FAIL("with call %lu failing: %d descriptors (%d before), %d children, %d mapped memfds left", n, after.fds,
             before->fds, after.children, after.memfd_maps);
}

static void fail_in_dispatcher(struct shape s)
{
    static const char *const loading_env[] = { "FAULTS_LOADING=1", NULL };
    struct trial t = { 0 };
    struct gd_options o = options_of(&s, &t);
    o.env = s.loading ? loading_env : NULL;
    adopt_orphans();
    signal(SIGALRM, too_long);
    CHECK_EQ(attempt(&o, &t), 0);
    const struct footprint before = footprint();
    unsigned long n = 1, errors = 0;
    for (;; n++) {
        running_fault = n;
        gd__fault_begin(n);
        const int rc = attempt(&o, &t);
        const unsigned long calls = gd__fault_count();
        gd__fault_begin(0);
        errors += rc < 0;
        check_nothing_left(&before, n);
        if (calls < n) {
            CHECK_EQ(rc, 0);
            CHECK_EQ(t.succeeded, N_TASKS);
            break;
        }
    }
    printf("# %lu faults, %lu of them ended the run with an error\n", n - 1, errors);
    CHECK_GT(n, 40);
    CHECK_GT(errors, 5);
    CHECK_LT(errors, n - 1); /* some failures can be survived */
}

/* The call fails in every worker process, so that a worker that always fails is given up, too. */
static void fail_in_workers(struct shape s)
{
    char variable[64];
    const char *env[] = { variable, s.loading ? "FAULTS_LOADING=1" : NULL, NULL };
    struct trial t = { 0 };
    struct gd_options o = options_of(&s, &t);
    o.env = env;
    o.output = GD_OUTPUT_DISCARD;
    adopt_orphans();
    signal(SIGALRM, too_long);
    snprintf(variable, sizeof variable, "GD_FAULT_WORKER=0");
    CHECK_EQ(attempt(&o, &t), 0);
    CHECK_EQ(t.succeeded, N_TASKS);
    const struct footprint before = footprint();
    const unsigned long most = t.most_calls + 4;
    unsigned long errors = 0;
    for (unsigned long n = 1; n <= most; n++) {
        running_fault = n;
        snprintf(variable, sizeof variable, "GD_FAULT_WORKER=%lu", n);
        const int rc = attempt(&o, &t);
        CHECK(rc == 0 || rc == GD_E_SETUP || rc == GD_E_NO_WORKERS);
        errors += rc < 0;
        check_nothing_left(&before, n);
    }
    printf("# %lu faults in every worker; after %lu of them no worker was left\n", most, errors);
    CHECK_GT(most, 10);
}

TEST_WITHIN(180, any_call_of_the_dispatcher_may_fail)
{
    fail_in_dispatcher((struct shape){ .batch = 1 });
}

TEST_WITHIN(180, any_call_of_an_ordered_run_may_fail)
{
    fail_in_dispatcher((struct shape){ .batch = 3, .ordered = true, .output = GD_OUTPUT_CAPTURE });
}

TEST_WITHIN(180, any_call_of_a_worker_may_fail)
{
    fail_in_workers((struct shape){ .batch = 1 });
}

TEST_WITHIN(180, any_call_of_a_loading_worker_may_fail)
{
    fail_in_workers((struct shape){ .batch = 3, .loading = true });
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .process = process,
        .process_batch = process_batch,
        .load = getenv("FAULTS_LOADING") ? load : NULL,
    };
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    return test_main(argc, argv);
}
