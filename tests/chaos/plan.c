/* SPDX-License-Identifier: MIT
 *
 * Makes a job and its signals from a seed. All random choices are in this file.
 *
 * The limits are so high that signals alone can't make a task fail. There is one exception: for --retries, a killed
 * command counts like a command that failed by itself. check.c takes this into account for each task. */
#include "chaos/chaos.h"

const struct theme theme_commands = {
    .name = "commands",
    .most_tasks = 40,
    .weights = { [QUICK] = 12,
                 [SLOW] = 6,
                 [NOISY] = 2,
                 [LONG] = 2,
                 [SESSION] = 2,
                 [CATCHES] = 2,
                 [FAILS] = 2,
                 [FAILS_ONCE] = 2,
                 [CRASHES] = 1 },
};

const struct theme theme_streams = {
    .name = "streams",
    .most_tasks = 40,
    .stream = true,
    .weights = { [QUICK] = 12, [SLOW] = 6, [NOISY] = 1, [LONG] = 2, [FAILS] = 2, [FAILS_ONCE] = 2 },
};

/* On a busy machine a quick task may exceed its time limit too. The checker accepts both ends. */
const struct theme theme_timeouts = {
    .name = "timeouts",
    .most_tasks = 12,
    .timeout_ms = 500,
    .weights = { [QUICK] = 12, [SLOW] = 4, [SESSION] = 1, [FAILS] = 1, [HANGS] = 2 },
};

/* The signals that are sent, and their relative frequency. */
static const struct {
    int number;
    unsigned weight;
    bool stops;
} signals[] = {
    { SIGKILL, 6, false }, { SIGSTOP, 3, true }, { SIGTERM, 5, false },
    { SIGINT, 5, false },  { SIGHUP, 2, false }, { SIGTSTP, 2, true },
};

static const unsigned aims[N_AIMS] = {
    [ANY_PROCESS] = 3, [A_WORKER] = 3, [A_COMMAND] = 3, [EVERYTHING] = 4, [THE_DISPATCHER] = 4
};

static unsigned choose(struct rng *r, const unsigned *weights, unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += weights[i];
    uint64_t at = rng_below(r, sum);
    unsigned i = 0;
    while (at >= weights[i])
        at -= weights[i++];
    return i;
}

static bool one_in(struct rng *r, unsigned n)
{
    return rng_below(r, n) == 0;
}

static unsigned between(struct rng *r, unsigned least, unsigned most)
{
    return least + (unsigned)rng_below(r, most - least + 1);
}

bool signal_stops(int signal)
{
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        if (signals[i].number == signal)
            return signals[i].stops;
    return false;
}

static int choose_signal(struct rng *r)
{
    unsigned weights[COUNT_OF(signals)];
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        weights[i] = signals[i].weight;
    return signals[choose(r, weights, COUNT_OF(weights))].number;
}

/* A task logs three lines and leaves one in --output. */
static void make_step(struct plan *p, struct rng *r, struct step *s)
{
    const unsigned share = p->n / (p->n_storms + 1) + 1;
    s->by_output = p->output && one_in(r, 4);
    s->lines = one_in(r, 8) ? 0 : (unsigned)rng_below(r, s->by_output ? share : 2 * share);
    s->aim = (enum aim)choose(r, aims, N_AIMS);
    s->signal = choose_signal(r);
    s->twice = (s->signal == SIGINT || s->signal == SIGTERM) && one_in(r, 3);
    s->on_after = (unsigned)rng_below(r, 8);
    s->across = one_in(r, 3);
    s->open_gate = one_in(r, 2);
}

/* A worker is given up after this many deaths in a row: gd_options.death_limit of the command. */
enum { DEATHS_MOST = 10 };

static void make_tasks(struct plan *p, const struct theme *theme, struct rng *r)
{
    p->kinds = calloc(p->n, sizeof *p->kinds);
    CHECK(p->kinds != NULL);
    for (unsigned i = 0; i < p->n; i++)
        p->kinds[i] = (enum kind)choose(r, theme->weights, N_KINDS);
    /* This task kills as many workers as the crash limit allows. A worker that has died ten times in a row is given up.
     * So with a higher crash limit, a job with one worker could not be done. */
    if (theme->stream && p->n > 0 && one_in(r, 2) && p->crash_limit < DEATHS_MOST)
        p->kinds[rng_below(r, p->n)] = CRASHES;
}

void plan_make(struct plan *p, const struct theme *theme, uint64_t seed, unsigned scale)
{
    struct rng r = { mix(seed) };
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->stream = theme->stream;
    p->timeout_ms = theme->timeout_ms ? theme->timeout_ms : one_in(&r, 3) ? 600000 : 0;
    p->n = between(&r, 1, theme->most_tasks * scale);
    p->gpus = between(&r, 1, 2);
    p->per_gpu = between(&r, 1, 2);
    p->tries = theme->timeout_ms ? between(&r, 1, 2) : between(&r, 2, 3);
    p->keep_order = one_in(&r, 3);
    p->tag = one_in(&r, 3);
    p->output = !one_in(&r, 4);
    p->joblog = !one_in(&r, 3);
    p->results = one_in(&r, 2);
    p->full_sync = one_in(&r, 4);
    p->window_ms = one_in(&r, 2) ? 1 : 100;
    p->n_storms = between(&r, 1, scale > 1 ? MOST_RUNS - 1 : 4);
    for (unsigned run = 0; run < p->n_storms; run++) {
        p->n_steps[run] = between(&r, 1, scale > 1 ? MOST_STEPS : 4);
        for (unsigned i = 0; i < p->n_steps[run]; i++)
            make_step(p, &r, &p->steps[run][i]);
    }
    /* More than the number of signals in one run. Each signal may come twice. */
    p->crash_limit = p->stream ? (scale > 1 ? 2 * MOST_STEPS + 1 : 9) : 1000;
    make_tasks(p, theme, &r);
}

void plan_free(struct plan *p)
{
    free(p->kinds);
    p->kinds = NULL;
}

static void print_step(unsigned run, const struct step *s)
{
    static const char *const at[N_AIMS] = { "any process", "a worker", "a command", "everything", "the dispatcher" };
    printf("# run %u: after %u lines of %s %s%s at %s%s%s\n", run, s->lines, s->by_output ? "--output" : "the log",
           s->twice ? "twice SIG" : "SIG", sigabbrev_np(s->signal), at[s->aim],
           signal_stops(s->signal) && s->across ? ", across the next" : "", s->open_gate ? ", gate open" : "");
}

void plan_print(const struct plan *p)
{
    printf(
        "# seed %llu: %u tasks, %u x %u workers, %u tries, crash limit %u, timeout %u ms, window %u ms%s%s%s%s%s%s\n",
        (unsigned long long)p->seed, p->n, p->gpus, p->per_gpu, p->tries, p->crash_limit, p->timeout_ms, p->window_ms,
        p->keep_order ? ", -k" : "", p->tag ? ", --tag" : "", p->output ? ", --output" : "",
        p->joblog ? ", --joblog" : "", p->results ? ", --results" : "", p->full_sync ? ", --sync full" : "");
    for (unsigned run = 0; run < p->n_storms; run++)
        for (unsigned i = 0; i < p->n_steps[run]; i++)
            print_step(run + 1, &p->steps[run][i]);
}
