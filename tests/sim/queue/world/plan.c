/* Draws the plan of a run from its seed: see world.h. Most runs are small, and each kind of fault is absent from many, so
 * that no kind hides another. */
#include "sim/queue/world/world.h"

static bool one_in(uint64_t *r, uint64_t n)
{
    return sim_below(r, n) == 0;
}

static uint64_t between(uint64_t *r, uint64_t low, uint64_t high)
{
    return low + sim_below(r, high - low + 1);
}

/* Small numbers are far more likely than large ones. */
static unsigned skewed(uint64_t *r, unsigned low, unsigned high)
{
    uint64_t span = high - low + 1;
    for (uint64_t halves = sim_below(r, 6); halves > 0 && span > 1; halves--)
        span = (span + 1) / 2;
    return low + (unsigned)sim_below(r, span);
}

static void draw_network(struct plan *p, uint64_t *r)
{
    p->hop_ns = between(r, 1, 20) * (one_in(r, 3) ? 10 * GD__NS_PER_MS : 100 * GD__NS_PER_US);
    p->publish_ns = one_in(r, 2) ? 300 * GD__NS_PER_US : 20 * GD__NS_PER_US;
    p->serve_ns = 20 * GD__NS_PER_US;
    p->reconnect_ns = between(r, 1, 30) * 100 * GD__NS_PER_MS;
    p->stale_naks = one_in(r, 2);
    p->lost_at_once = one_in(r, 2);
    if (one_in(r, 3))
        p->drop = (unsigned)between(r, 1, 100);
    if (one_in(r, 4))
        p->repeat = (unsigned)between(r, 1, 100);
    if (one_in(r, 4))
        p->slow = (unsigned)between(r, 1, 50);
    if (one_in(r, 4))
        p->later = (unsigned)between(r, 1, 100);
    if (one_in(r, 4))
        p->cuts = skewed(r, 1, 8);
    if (one_in(r, 4))
        p->disconnects = skewed(r, 1, 20);
}

static void draw_deaths(struct plan *p, uint64_t *r)
{
    if (one_in(r, 3))
        p->kills = skewed(r, 1, 12);
    if (one_in(r, 3))
        p->drains = skewed(r, 1, 8);
    if (one_in(r, 3)) {
        p->server_deaths = skewed(r, 1, 6);
        p->forgets = one_in(r, 2);
        p->loses_messages = one_in(r, 2);
    }
    if (one_in(r, 3))
        p->late_joins = skewed(r, 1, p->n_machines);
    p->keeps_spool = one_in(r, 2);
}

/* Long tasks on machines that are cut off again and again, and no other fault of the network. */
static void draw_outages(struct plan *p, uint64_t *r)
{
    p->drop = p->repeat = p->slow = p->later = p->server_deaths = 0;
    p->loses_messages = p->forgets = false;
    p->later_lease_ms = 0;
    p->lease_ms = (uint32_t)between(r, 5000, 10000);
    p->n_machines = (unsigned)between(r, 3, 10);
    p->n_workers = (unsigned)between(r, 1, 2);
    p->n_tasks = (unsigned)between(r, 3, 20);
    p->late_joins = 0;
    p->task_ns = 100 * GD__NS_PER_S;
    p->cuts = (unsigned)between(r, 50, 300);
    p->faults_ns = between(r, 10, 20) * p->task_ns;
}

void plan_draw(struct plan *p, uint64_t seed)
{
    uint64_t state = sim_mix(seed, 1), *r = &state;
    static const uint64_t durations[] = { 10 * GD__NS_PER_MS, 300 * GD__NS_PER_MS, 3 * GD__NS_PER_S,
                                          60 * GD__NS_PER_S };
    *p = (struct plan){ .n_machines = skewed(r, 1, 50), .n_workers = skewed(r, 1, 8) };
    p->n_tasks = skewed(r, 1, one_in(r, 4) ? 400 : 80);
    p->bundle = one_in(r, 2) ? 1 : skewed(r, 2, 20);
    p->mixed_bundles = one_in(r, 2);
    p->priorities = one_in(r, 3) ? 3 : 1;
    p->fails = one_in(r, 3) ? 100 : 0;
    p->poison = one_in(r, 3) ? (unsigned)between(r, 5, 60) : 0;
    p->crash_limit = (unsigned)between(r, 1, 3);
    p->lease_ms = one_in(r, 2) ? 30000 : (uint32_t)between(r, 3000, 10000);
    p->task_ns = durations[sim_below(r, 4)];
    p->setup_ns = one_in(r, 2) ? 10 * GD__NS_PER_MS : 2 * GD__NS_PER_S;
    p->pushes = skewed(r, 1, 4);
    p->idle_ns = UINT64_MAX;
    p->stop_grace_ns = one_in(r, 2) ? 25 * GD__NS_PER_S : GD__NS_PER_S;
    draw_network(p, r);
    if (!one_in(r, 5))
        draw_deaths(p, r);
    const uint64_t work_ns = p->task_ns * p->n_tasks / (p->n_machines * p->n_workers) + 2 * p->task_ns;
    p->faults_ns = between(r, 1, 4) * work_ns + between(r, 1, 60) * GD__NS_PER_S;
    if (p->priorities > 1 && one_in(r, 2))
        p->later_lease_ms = (uint32_t)between(r, 2000, 10000);
    if (one_in(r, 20))
        draw_outages(p, r);
    p->losers = one_in(r, 3) ? (unsigned)between(r, 5, 60) : 0;
}

void plan_draw_large(struct plan *p, uint64_t seed)
{
    uint64_t state = sim_mix(seed, 3), *r = &state;
    plan_draw(p, seed);
    p->n_machines = 1000;
    p->n_workers = 8;
    p->n_tasks = (unsigned)between(r, 20000, 60000);
    p->bundle = one_in(r, 2) ? 1 : (unsigned)between(r, 2, 20);
    p->poison = one_in(r, 3) ? 1 : 0;
    p->task_ns = between(r, 1, 20) * GD__NS_PER_S;
    p->lease_ms = 30000;
    p->kills = one_in(r, 3) ? 0 : (unsigned)between(r, 1, 300);
    p->drains = one_in(r, 3) ? 0 : (unsigned)between(r, 1, 300);
    p->cuts = one_in(r, 3) ? 0 : (unsigned)between(r, 1, 100);
    p->late_joins = one_in(r, 3) ? 0 : (unsigned)between(r, 1, 500);
    p->drop = p->drop > 10 ? 10 : p->drop;
    p->faults_ns = between(r, 60, 200) * GD__NS_PER_S;
    p->losers = one_in(r, 3) ? 1 : 0;
}
