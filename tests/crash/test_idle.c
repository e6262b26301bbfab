/* SPDX-License-Identifier: MIT
 *
 * Idle processes use no CPU time: when every worker is ready and the source has no task, neither the dispatcher nor a
 * worker uses CPU time. The same is true between two runs of one dispatcher. The test reads the CPU clock of each
 * process, waits for two seconds, and reads it again.
 */
#include <sys/eventfd.h>

#include "crash/common.h"

enum { N_WORKERS = 4, WATCHED_MS = 2000 };
#define MOST_CPU_NS (1 * MS)

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

struct idle {
    struct gd_dispatcher *d;
    int done_fd; /* signalled when the first tasks are done */
    int go_fd;   /* the source waits for it */
    uint64_t taken, ended;
    int rc;
};

static int source(void *user, struct gd_item *item)
{
    struct idle *i = user;
    uint64_t n;
    if (i->taken == 4 * N_WORKERS && read(i->go_fd, &n, sizeof n) == sizeof n)
        return 0;
    item->data = NULL;
    item->size = 0;
    i->taken++;
    return 1;
}

/* Successes and failures both count: on a busy machine a task may be late. */
static void on_end(void *user, const struct gd_report *r)
{
    struct idle *i = user;
    const uint64_t one = 1;
    (void)r;
    if (++i->ended == 4 * N_WORKERS)
        CHECK_EQ(write(i->done_fd, &one, sizeof one), sizeof one);
}

static void *run(void *user)
{
    struct idle *i = user;
    i->rc = gd_dispatcher_run(i->d);
    return NULL;
}

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    CHECK_EQ(clock_getcpuclockid(pid, &clock), 0);
    CHECK_EQ(clock_gettime(clock, &t), 0);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Whether each thread of the process sleeps, except the calling thread. A thread that has work but gets no processor is
 * not asleep. */
static bool is_asleep(pid_t pid)
{
    char path[300], text[512];
    bool asleep = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, e->d_name);
        FILE *f = fopen(path, "re");
        text[f ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
        if (f)
            fclose(f);
        const char *at = strrchr(text, ')');
        asleep = asleep && at && at[2] == 'S';
    }
    if (dir)
        closedir(dir);
    return dir && asleep;
}

/* Waits until all workers are ready, have nothing to do and sleep. Returns their process ids, and ours. */
static void await_idle(const struct idle *i, pid_t pids[N_WORKERS + 1])
{
    const struct timespec moment = { 0, 20000000 };
    struct gd_worker_stats w[N_WORKERS];
    for (unsigned asleep = 0; asleep < N_WORKERS + 1;) {
        ppoll(NULL, 0, &moment, NULL);
        CHECK_EQ(gd_dispatcher_worker_stats(i->d, w, sizeof *w, N_WORKERS), N_WORKERS);
        asleep = is_asleep(pids[N_WORKERS] = getpid());
        for (unsigned k = 0; k < N_WORKERS; k++) {
            pids[k] = (pid_t)w[k].pid;
            asleep += w[k].state == GD_WORKER_IDLE && is_asleep(pids[k]);
        }
    }
}

static void watch_cpu(const pid_t pids[N_WORKERS + 1])
{
    const struct timespec watched = { WATCHED_MS / 1000, WATCHED_MS % 1000 * 1000000 };
    uint64_t before[N_WORKERS + 1];
    for (int k = 0; k <= N_WORKERS; k++)
        CHECK_GT(before[k] = cpu_ns(pids[k]), 0);
    ppoll(NULL, 0, &watched, NULL);
    for (int k = 0; k <= N_WORKERS; k++) {
        const uint64_t used = cpu_ns(pids[k]) - before[k];
        printf("# %s: %.1f us of CPU time in %d ms\n", k == N_WORKERS ? "dispatcher" : "worker", (double)used / 1e3,
               WATCHED_MS);
        CHECK_LT(used, MOST_CPU_NS);
    }
}

static void check_idle(const char *const *env, unsigned batch)
{
    struct idle i = { .done_fd = eventfd(0, EFD_CLOEXEC), .go_fd = eventfd(0, EFD_CLOEXEC) };
    struct gd_options o = GD_OPTIONS_INIT;
    pthread_t thread;
    pid_t pids[N_WORKERS + 1];
    uint64_t one = 1;
    o.gpu_ids = device_numbers;
    o.n_gpus = N_WORKERS;
    o.source = source;
    o.on_success = o.on_error = on_end;
    o.user = &i;
    o.env = env;
    o.batch_size = batch;
    o.batch_wait_us = batch > 1 ? 1000 : 0;
    o.task_timeout_ms = 500; /* no timer may run while no task runs */
    CHECK_EQ(gd_dispatcher_open(&i.d, &o), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run, &i), 0);
    CHECK_EQ(read(i.done_fd, &one, sizeof one), sizeof one);
    await_idle(&i, pids);
    watch_cpu(pids);
    one = 1;
    CHECK_EQ(write(i.go_fd, &one, sizeof one), sizeof one);
    pthread_join(thread, NULL);
    CHECK_EQ(i.rc, 0);
    gd_dispatcher_close(&i.d);
    close(i.go_fd);
    close(i.done_fd);
}

TEST(idle_costs_nothing)
{
    check_idle(NULL, 1);
}

TEST(idle_batches_and_loaders_cost_nothing)
{
    static const char *const env[] = { "IDLE_LOADING=1", NULL };
    check_idle(env, 4);
}

static int give_few(void *user, struct gd_item *item)
{
    struct idle *i = user;
    (void)item;
    return i->taken++ < N_WORKERS;
}

static void ignore(void *user, const struct gd_report *r)
{
    (void)user, (void)r;
}

static bool all_idle(const struct idle *i)
{
    struct gd_worker_stats w[N_WORKERS];
    bool idle = true;
    CHECK_EQ(gd_dispatcher_worker_stats(i->d, w, sizeof *w, N_WORKERS), N_WORKERS);
    for (int k = 0; k < N_WORKERS; k++)
        idle = idle && w[k].state == GD_WORKER_IDLE;
    return idle;
}

TEST(nothing_is_used_between_two_runs)
{
    struct idle i = { .done_fd = -1 };
    struct gd_options o = GD_OPTIONS_INIT;
    pid_t pids[N_WORKERS + 1];
    o.gpu_ids = device_numbers;
    o.n_gpus = N_WORKERS;
    o.source = give_few;
    o.on_success = o.on_error = ignore;
    o.user = &i;
    o.keep_workers = true;
    CHECK_EQ(gd_dispatcher_open(&i.d, &o), 0);
    do {
        i.taken = 0;
        CHECK_EQ(gd_dispatcher_run(i.d), 0);
    } while (!all_idle(&i)); /* a run does not wait for workers in setup */
    await_idle(&i, pids);
    watch_cpu(pids);
    gd_dispatcher_close(&i.d);
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .process = process,
        .load = getenv("IDLE_LOADING") ? load : NULL,
    };
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    return test_main(argc, argv);
}
