/* SPDX-License-Identifier: MIT
 *
 * Chaos tests of the command: jobs made from seeds get random signals, are resumed until they are done, and are checked
 * (chaos.h). The message of a failure has the seed.
 *
 *   chaos_command                        the seeds of every test run
 *   chaos_command --seed N [CASE...]     only that seed
 *   GD_SOAK=N chaos_command              N times 50 random seeds of larger jobs, for each case
 *
 * The exact moment of a signal depends on the machine. So a seed determines a job and its signals, but not every
 * detail.
 */
#include "chaos/chaos.h"

#include "support/directory.h"

/* Seeds after 8 were added because they found errors that the others had not found. */
static const uint64_t always[] = { 1, 2, 3, 4, 5, 6, 7, 8, 51 };

enum { SOAK_JOBS = 50, SOAK_SCALE = 10 };

static uint64_t seed_wanted;
static bool has_seed;

struct total {
    unsigned jobs, tasks, runs, signals;
    uint64_t began;
};

/* --- one job --------------------------------------------------------------------------- */

static void make_job(const struct plan *p)
{
    FILE *in = fopen("in", "we"), *log = fopen("log", "we");
    CHECK(in && log);
    for (unsigned i = 0; i < p->n; i++)
        fprintf(in, "%s%u\n", kind_names[p->kinds[i]], i);
    CHECK_EQ(fclose(in), 0);
    CHECK_EQ(fclose(log), 0);
    CHECK_EQ(mkfifo("gate", 0666), 0);
    CHECK_EQ(mkfifo("never", 0666), 0);
    make_directories("kept");
    make_directories("locks");
    make_directories("counts");
}

/* True: the job is done. */
static bool do_run(const struct plan *p, struct checker *c, unsigned nth, struct outcome *o, struct total *t)
{
    const bool last = nth > p->n_storms || c->done;
    storm_run(p, nth, last ? NULL : p->steps[nth - 1], last ? 0 : p->n_steps[nth - 1], o);
    check_run(c, o);
    free(o->harm.hits);
    t->signals += o->harm.sent;
    t->runs++;
    c->done = o->status <= 101;
    return c->done;
}

static void do_job(const struct theme *theme, uint64_t seed, unsigned scale, struct total *t)
{
    struct plan p;
    struct checker c;
    struct outcome o;
    char directory[64];
    snprintf(directory, sizeof directory, "%s-%llu", theme->name, (unsigned long long)seed);
    make_directories(directory);
    CHECK_EQ(chdir(directory), 0);
    plan_make(&p, theme, seed, scale);
    if (has_seed)
        plan_print(&p);
    make_job(&p);
    checker_open(&c, &p);
    unsigned nth = 1;
    while (!do_run(&p, &c, nth, &o, t))
        if (nth++ > p.n_storms)
            FAIL("seed %llu: run %u got no signal and ended with %d: %s", (unsigned long long)seed, nth - 1, o.status,
                 storm_last_output(nth - 1));
    const int status = o.status;
    /* Resuming a job that is done changes nothing. */
    if (seed % 2 == 0 && (!do_run(&p, &c, nth + 1, &o, t) || o.status != status))
        FAIL("seed %llu: the job was done, but a resumed run ended with %d, not %d", (unsigned long long)seed, o.status,
             status);
    check_end(&c, status);
    t->jobs++;
    t->tasks += p.n;
    checker_close(&c);
    plan_free(&p);
    CHECK_EQ(chdir(".."), 0);
    directory_remove(directory);
}

/* --- cases ------------------------------------------------------------------------------- */

static uint64_t random_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return mix((uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec) % 1000000000;
}

static unsigned soak_jobs(void)
{
    const long times = strtol(getenv("GD_SOAK"), NULL, 10);
    return SOAK_JOBS * (unsigned)(times > 0 ? times : 1);
}

static void do_jobs(const struct theme *theme)
{
    struct total t = { .began = now_ns() };
    if (!gd_journal_available())
        SKIP("built without journals");
    adopt_orphans();
    directory_enter();
    const unsigned jobs = has_seed      ? 1
                          : test_soak() ? soak_jobs()
                          : SANITIZED   ? COUNT_OF(always) / 3
                                        : COUNT_OF(always);
    for (unsigned i = 0; i < jobs; i++) {
        const uint64_t seed = has_seed ? seed_wanted : test_soak() ? random_seed() : always[i];
        const uint64_t began = now_ns();
        do_job(theme, seed, test_soak() ? SOAK_SCALE : 1, &t);
        if (has_seed || test_soak() || getenv("GD_CHAOS_VERBOSE"))
            printf("# %s, seed %llu: %.1f s\n", theme->name, (unsigned long long)seed,
                   (double)(now_ns() - began) / 1e9);
    }
    printf("# %s: %u jobs, %u tasks, %u runs, %u signals, %.1f s\n", theme->name, t.jobs, t.tasks, t.runs, t.signals,
           (double)(now_ns() - t.began) / 1e9);
}

TEST_WITHIN(300, commands)
{
    do_jobs(&theme_commands);
}

TEST_WITHIN(300, streams)
{
    do_jobs(&theme_streams);
}

TEST_WITHIN(300, timeouts)
{
    do_jobs(&theme_timeouts);
}

int main(int argc, char **argv)
{
    become_task(argc, argv);
    if (argc > 2 && strcmp(argv[1], "--seed") == 0) {
        seed_wanted = strtoull(argv[2], NULL, 10);
        has_seed = true;
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    return test_main(argc, argv);
}
