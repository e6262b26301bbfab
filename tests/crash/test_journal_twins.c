/* Two hosts run the same job on the same journal, again and again, each as soon as its last run has ended. Both are
 * killed, stopped and continued at random moments. A run that is stopped is given up after a fifth of a second, so there
 * are often two runs that believe that they hold the journal. In the end, every input has one record, and every line of
 * the followed file is there once.
 *
 * Both hosts are this machine: $GPU_DISPATCH_LOCK_TEST gives them different names, and locks that do not exclude each
 * other. Only SQLite's own locks work between them.
 */
#include "support/journal.h"

#include "common.h"

enum { LINES = 1500, HOSTS = 2 };

static const char *const worlds[] = { "locks=local", "locks=none", "locks=local,links=none", "locks=none,links=none" };
enum { WORLDS = sizeof worlds / sizeof *worlds };

struct host {
    pid_t pid;
    int ended; /* pidfd */
    bool stopped;
};

struct twins {
    struct host hosts[HOSTS];
    const char *world;
    int events[2]; /* a pipe: '.' for each task that ended, '!' if a run could not use the journal */
};

/* --- a run, in a process of its own --- */

static void tell(const struct twins *t, char event)
{
    CHECK_EQ(write(t->events[1], &event, 1), 1);
}

static void on_final(struct job *job, const struct gd_report *r)
{
    (void)r;
    tell(job->mine, '.');
}

/* A run that was given up, or that found the database locked, is not an error here. */
static void check(const struct twins *t, int rc, const char *what)
{
    if (rc < 0 && rc != GD_E_JOURNAL && rc != GD_E_BUSY && !strstr(gd_error_text(), "another run took over"))
        FAIL("%s: %s: %d, %s", t->world, what, rc, gd_error_text());
    if (rc == GD_E_BUSY)
        tell(t, '!');
}

static int follow_and_run(struct twins *t, struct job *job)
{
    job->follow = "out";
    job->follow_fd = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int rc = gd_journal_follow(job->journal, "out", job->follow_fd);
    check(t, rc, "follow");
    if (rc < 0)
        return rc;
    CHECK_EQ(gd_dispatcher_open(&job->d, &job->o), 0);
    rc = gd_dispatcher_run(job->d);
    check(t, rc, "run");
    gd_dispatcher_close(&job->d);
    return rc;
}

/* Returns whether the job is done. */
static bool run_on(struct twins *t, int host)
{
    char text[128];
    struct job job = JOB("run.db");
    snprintf(text, sizeof text, "shared=1,host=%c,boot=boot-%c,stale_ms=200,%s", 'a' + host, 'a' + host, t->world);
    setenv("GPU_DISPATCH_LOCK_TEST", text, 1);
    job_numbers(&job, LINES);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.j.lock_wait_ms = 100 * 1000;
    job.j.window_ms = 2;
    job.on_final = on_final;
    job.mine = t;
    int rc = job_open(&job);
    check(t, rc, "open");
    if (rc < 0)
        return false;
    rc = follow_and_run(t, &job);
    const int closed = gd_journal_close(&job.journal);
    check(t, closed, "close");
    return rc == 0 && closed == 0;
}

static void start(struct twins *t, int host)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(run_on(t, host) ? 0 : 3);
    CHECK_GT(pid, 0);
    t->hosts[host] = (struct host){ .pid = pid, .ended = (int)syscall(SYS_pidfd_open, pid, 0) };
    CHECK(t->hosts[host].ended >= 0);
}

/* Waits until the process has ended. Returns whether the job is done. */
static bool finish(struct twins *t, int host)
{
    int status;
    CHECK_EQ(waitpid(t->hosts[host].pid, &status, 0), t->hosts[host].pid);
    close(t->hosts[host].ended);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3)
        FAIL("a run ended with exit code %d (%s)", WEXITSTATUS(status), t->world);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- what happens to the runs --- */

static void go_on(struct host *h)
{
    h->stopped = false;
    kill(h->pid, SIGCONT);
}

/* One of the two always runs, so that there is always a next event. */
static void act(struct twins *t, struct rng *rng)
{
    const unsigned which = (unsigned)rng_below(rng, HOSTS);
    struct host *h = &t->hosts[which], *other = &t->hosts[1 - which];
    if (rng_below(rng, 3) == 0) {
        kill(h->pid, SIGKILL);
    } else if (h->stopped) {
        go_on(h);
    } else {
        go_on(other);
        h->stopped = true;
        kill(h->pid, SIGSTOP);
    }
}

/* Returns true if a process has ended with the job done. */
static bool await(struct twins *t, uint64_t *tasks)
{
    char events[512];
    struct pollfd p[] = { { t->events[0], POLLIN, 0 },
                          { t->hosts[0].ended, POLLIN, 0 },
                          { t->hosts[1].ended, POLLIN, 0 } };
    CHECK_GT(poll(p, 3, -1), 0);
    const ssize_t n = p[0].revents ? read(t->events[0], events, sizeof events) : 0;
    for (ssize_t i = 0; i < n; i++) {
        *tasks += events[i] == '.';
        for (int h = 0; events[i] == '!' && h < HOSTS; h++) /* one may be stopped in the middle of a transaction */
            go_on(&t->hosts[h]);
    }
    for (int h = 0; h < HOSTS; h++) {
        if (!p[1 + h].revents)
            continue;
        const bool done = finish(t, h);
        start(t, h);
        if (done)
            return true;
    }
    return false;
}

static void end_all(struct twins *t)
{
    for (int h = 0; h < HOSTS; h++) {
        kill(t->hosts[h].pid, SIGKILL);
        finish(t, h);
    }
}

static void check_result(struct twins *t)
{
    char all[64], line[64];
    bool seen[LINES] = { false };
    int n = 0;
    start(t, 0);
    while (!finish(t, 0))
        start(t, 0);
    snprintf(all, sizeof all, "%d|%d|%d", LINES, LINES, LINES);
    CHECK_STR(job_sql("run.db",
                      "SELECT count(*), count(DISTINCT input), (SELECT all_done FROM run ORDER BY number DESC)"
                      " FROM task"),
              all);
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
    FILE *out = fopen("out", "re");
    for (; fgets(line, sizeof line, out); n++) {
        const int number = atoi(line);
        if (number < 0 || number >= LINES || seen[number])
            FAIL("%s: line %d of the followed file is %s again", t->world, n + 1, line);
        seen[number] = true;
    }
    fclose(out);
    CHECK_EQ(n, LINES);
}

static int one_job(struct rng *rng, const char *world, int most)
{
    struct twins t = { .world = world };
    uint64_t tasks = 0, next = 1;
    int acts = 0;
    directory_enter();
    CHECK_EQ(pipe2(t.events, O_CLOEXEC), 0);
    CHECK_GT(fcntl(t.events[1], F_SETPIPE_SZ, 1 << 20), 0);
    for (int h = 0; h < HOSTS; h++)
        start(&t, h);
    while (acts < most && !await(&t, &tasks)) {
        if (tasks < next)
            continue;
        act(&t, rng);
        acts++;
        next = tasks + 1 + rng_below(rng, 60);
    }
    end_all(&t);
    check_result(&t);
    close(t.events[0]), close(t.events[1]);
    return acts;
}

TEST_WITHIN(900, two_hosts_that_take_each_others_journal)
{
    const int most = test_soak() ? 4000 : 120;
    struct rng rng = { 5 };
    int acts = 0, jobs = 0;
    for (; acts < most; jobs++)
        acts += one_job(&rng, worlds[jobs % WORLDS], most - acts);
    printf("%d kills, stops and continuations in %d jobs\n", acts, jobs);
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
