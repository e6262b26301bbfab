/* Makes a configuration and a plan of faults from a seed.
 *
 * Most runs are small. With a few workers and tasks, unusual combinations are frequent, and a trace is short enough to
 * read. Some runs are large, because lists, bit sets and rings have limits that small runs never reach. Each kind of
 * fault is absent from many seeds, so that no kind hides another.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static uint64_t between(uint64_t *r, uint64_t low, uint64_t high)
{
    return low + sim_below(r, high - low + 1);
}

static bool one_in(uint64_t *r, uint64_t n)
{
    return sim_below(r, n) == 0;
}

/* A random number. Small numbers are far more likely than large ones. */
static uint64_t skewed(uint64_t *r, uint64_t low, uint64_t high)
{
    const uint64_t span = high - low + 1;
    uint64_t bits = 0;
    while (bits < 63 && (UINT64_C(1) << bits) < span)
        bits++;
    return low + sim_below(r, UINT64_C(1) << sim_below(r, bits + 1)) % span;
}

/* A random time from a microsecond to ten seconds. Each power of ten of the plan's range is equally likely. */
static uint64_t some_time(const struct sim_plan *p, uint64_t *r)
{
    uint64_t t = GD__NS_PER_US;
    for (uint64_t n = between(r, p->fastest, p->slowest); n > 0; n--)
        t *= 10;
    return between(r, t, 10 * t);
}

/* In a quarter of the plans all times are of the same order of magnitude, so that rare coincidences of events happen.
 */
static void draw_scale(struct sim_plan *p, uint64_t *r)
{
    const unsigned powers = 6; /* from a microsecond to a second */
    const bool close = one_in(r, 4);
    p->fastest = close ? (unsigned)sim_below(r, powers) : 0;
    p->slowest = close ? p->fastest : powers - 1;
}

static int place_anyhow(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const uint64_t x = sim_mix((uint64_t)(uintptr_t)user ^ weight, task_id);
    if (x % 7 == 0)
        return -1;
    return x % 41 == 1 ? (int)n_workers + 3
                       : (int)((x >> 8) % n_workers); /* the user's function may return a wrong worker */
}

static void draw_size(struct sim_plan *p, uint64_t *r)
{
    struct gd__sched_config *c = &p->config;
    const uint64_t size = sim_below(r, 1000);
    c->n_workers = (unsigned)(size < 600 ? between(r, 1, 4) : size < 980 ? skewed(r, 1, 64) : skewed(r, 65, 2000));
    p->n_tasks = size < 600 ? sim_below(r, 60) : size < 900 ? sim_below(r, 600) : sim_below(r, 5001);
    c->queue_size = one_in(r, 4) ? between(r, 1, 3) : skewed(r, 1, 4096);
    c->window_max = 1u << between(r, size < 980 ? 0 : 3, one_in(r, 8) ? 10 : 5);
    c->window = one_in(r, 3) ? (unsigned)skewed(r, 1, 64) : 0;
    c->window_min = one_in(r, 4) ? (unsigned)between(r, 1, 8) : 0;
    if (one_in(r, 3)) {
        c->batch_size = (unsigned)between(r, 2, 32);
        c->batch_wait_ns = one_in(r, 2) ? some_time(p, r) : 0;
    } else {
        c->batch_size = 1;
    }
    /* The same as in the dispatcher: a ring has room for at least a batch and for a whole window. */
    while (c->window_max < c->batch_size || c->window_max < c->window || c->window_max < c->window_min)
        c->window_max *= 2;
    p->check_every = c->n_workers > 64 ? 64 : p->n_tasks > 600 || c->queue_size > 512 ? 8 : 1;
}

static void draw_placement(struct sim_plan *p, uint64_t *r)
{
    struct gd__sched_config *c = &p->config;
    c->ordered = one_in(r, 3);
    c->total_tasks = one_in(r, 2) ? p->n_tasks : sim_below(r, p->n_tasks * 2 + 1);
    c->placement = one_in(r, 2) ? GD_PLACE_DYNAMIC : (enum gd_placement)sim_below(r, 4);
    if (c->placement == GD_PLACE_CHUNKS && c->total_tasks == 0)
        c->total_tasks = 1;
    if (c->placement == GD_PLACE_CHUNKS && c->queue_size < c->total_tasks)
        c->queue_size = c->total_tasks;
    if (c->placement == GD_PLACE_CUSTOM)
        c->place = place_anyhow;
    int *ids = malloc(c->n_workers * sizeof *ids);
    if (!ids)
        abort();
    const unsigned per_gpu = one_in(r, 3) ? (unsigned)between(r, 2, 4) : 1;
    for (unsigned i = 0; i < c->n_workers; i++)
        ids[i] = (int)(i / per_gpu);
    c->gpu_ids = ids;
}

static void draw_limits(struct sim_plan *p, uint64_t *r)
{
    struct gd__sched_config *c = &p->config;
    p->task_ns = one_in(r, 8) ? 0 : some_time(p, r);
    if (one_in(r, 4)) {
        p->change_at = 1 + sim_below(r, p->n_tasks + 1);
        p->changed_ns = some_time(p, r);
    }
    if (one_in(r, 2))
        c->task_timeout_ns = (p->task_ns + GD__NS_PER_US) * between(r, 2, 50);
    c->cancel_grace_ns = one_in(r, 6) ? 0 : some_time(p, r);
    c->end_wait_ns = one_in(r, 6) ? 0 : some_time(p, r);
    c->setup_timeout_ns = one_in(r, 2) ? 10 * some_time(p, r) : 0;
    c->stop_grace_ns = one_in(r, 6) ? 0 : 10 * some_time(p, r);
    c->cleanup_grace_ns = one_in(r, 6) ? 0 : 10 * some_time(p, r);
    c->kill_wait_ns = 5 * GD__NS_PER_S;
    c->retries = one_in(r, 2) ? (unsigned)between(r, 1, 4) : 0;
    c->retry_timeouts = one_in(r, 2);
    c->retry_delay_ns = one_in(r, 4) ? 0 : some_time(p, r);
    c->restart_delay_ns = one_in(r, 4) ? 0 : some_time(p, r);
    c->signal_wait_ns = one_in(r, 8) ? 0 : some_time(p, r);
    c->shortage_wait_ns = some_time(p, r);
    c->crash_limit = (unsigned)between(r, 1, 4);
    c->setup_attempts = (unsigned)between(r, 1, 4);
    c->max_tasks = one_in(r, 3) ? (unsigned)between(r, 1, one_in(r, 2) ? 3 : 40) : 0;
    c->setup_jobs = one_in(r, 3) ? (unsigned)between(r, 1, 4) : 0;
    c->death_limit = (unsigned)(one_in(r, 3) ? between(r, 1, 3) : between(r, 8, 30));
}

static unsigned chance(uint64_t *r, uint64_t one_in_n, uint64_t high)
{
    return one_in(r, one_in_n) ? (unsigned)between(r, 1, high) : 0;
}

static void draw_misfortunes(struct sim_plan *p, uint64_t *r)
{
    const struct gd__sched_config *c = &p->config;
    p->poison = chance(r, 3, one_in(r, 4) ? 500 : 50);
    p->hangs = c->task_timeout_ns ? chance(r, 2, one_in(r, 4) ? 600 : 100) : 0;
    p->ends_tasks = one_in(r, 2) ? 1000 : chance(r, 2, 1000);
    p->error = chance(r, 3, 500);
    p->error_final = chance(r, 5, 200);
    p->out_of_memory = chance(r, 6, 200);
    p->safe_batch = c->batch_size > 1 ? chance(r, 3, 300) : 0;
    p->device_lost = chance(r, 6, 200);
    p->spawn_fails = chance(r, 6, 300);
    p->setup_fails = chance(r, 6, 400);
    p->setup_dies = chance(r, 5, 500);
    p->setup_hangs = c->setup_timeout_ns ? chance(r, 4, 300) : 0;
    p->immortal = chance(r, 6, 600);
    p->bad = chance(r, 5, 300);
    p->lingers = c->cleanup_grace_ns ? chance(r, 6, 300) : 0;
    p->fate = chance(r, 2, 700);
    p->stops = c->task_timeout_ns ? chance(r, 3, 1000) : 0;
    p->by_stop_signal = chance(r, 3, 1000);
    p->shortage = chance(r, 4, one_in(r, 4) ? 1000 : 300);
    if (one_in(r, 3)) {
        p->external_kills = (unsigned)skewed(r, 1, 200);
        p->external_kill_gap_ns = some_time(p, r);
    }
}

static void draw_pace(struct sim_plan *p, uint64_t *r)
{
    p->setup_ns = one_in(r, 6) ? 0 : some_time(p, r);
    p->message_ns = one_in(r, 3) ? 0 : some_time(p, r) / 10;
    p->exit_ns = one_in(r, 4) ? 0 : some_time(p, r);
    p->kill_ns = one_in(r, 4) ? 0 : some_time(p, r) / 100;
    p->cleanup_ns = one_in(r, 4) ? 0 : some_time(p, r);
    p->source_gap_ns = one_in(r, 2) ? 0 : some_time(p, r);
    p->late_ns = one_in(r, 3) ? some_time(p, r) : 0;
    p->source_burst = one_in(r, 2) ? 1 : (unsigned)between(r, 1, 64);
    p->load_ahead = one_in(r, 4) ? (unsigned)between(r, 1, 8) : 0;
    p->claim_races = one_in(r, 2);
    p->lazy_pump = one_in(r, 2);
    p->tick_first = one_in(r, 2);
    const uint64_t span = (p->task_ns + p->source_gap_ns + GD__NS_PER_US) * (p->n_tasks + 2) + 2 * p->setup_ns;
    p->shutdown_at = one_in(r, 6) ? 1 + sim_below(r, span) : 0;
    p->abort_at = one_in(r, 12) ? 1 + sim_below(r, span) : 0;
    p->source_cut_at = one_in(r, 12) ? 1 + sim_below(r, span) : 0;
    p->stop_all_at = one_in(r, 8) ? 1 + sim_below(r, span) : 0;
    p->stop_all_gap_ns = some_time(p, r);
}

void sim_plan_draw(struct sim_plan *p, uint64_t seed)
{
    uint64_t r = sim_mix(seed, 1);
    memset(p, 0, sizeof *p);
    draw_scale(p, &r);
    draw_size(p, &r);
    draw_placement(p, &r);
    draw_limits(p, &r);
    draw_misfortunes(p, &r);
    draw_pace(p, &r);
    if (one_in(&r, 8))
        p->config.start_gap_ns = some_time(p, &r);
    if (one_in(&r, 8)) {
        p->device_failures = (unsigned)between(&r, 1, 4);
        p->device_failure_gap_ns = some_time(p, &r);
    }
    if (one_in(&r, 4)) {
        p->freeze_at = 1 + sim_below(&r, 2 * (p->setup_ns + (p->task_ns + GD__NS_PER_US) * (p->n_tasks + 2)));
        p->freeze_ns = 10 * some_time(p, &r);
    }
    p->priorities = one_in(&r, 6);
    p->own_limits = one_in(&r, 6);
    sim_control_draw(p, &r);
    p->config.concurrency = one_in(&r, 3) ? (unsigned)skewed(&r, 2, one_in(&r, 8) ? 300 : 16) : 1;
    p->config.window_min_is_set = one_in(&r, 2);
    p->config.place_user = (void *)(uintptr_t)(seed & 0xffff);
    sim_runs_draw(p, &r);
}

void sim_plan_free(struct sim_plan *p)
{
    int *ids;
    memcpy(&ids, &p->config.gpu_ids, sizeof ids);
    free(ids);
    p->config.gpu_ids = NULL;
}
