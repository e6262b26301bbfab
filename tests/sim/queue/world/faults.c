/* Faults, and what happens when they are over: see world.h.
 *
 * When the time of faults is over, the network and the server work, the list is pushed once more, and every machine is
 * there. From then on the queue must be done within a bounded time. */
#include "sim/queue/world/world.h"

static uint64_t some_time(struct world *w)
{
    return w->now + sim_below(&w->chance, w->plan.faults_ns + 1);
}

static void plan_some(struct world *w, unsigned n, enum event_kind kind)
{
    for (unsigned i = 0; i < n; i++)
        world_at(w, some_time(w), kind, 0);
}

void faults_plan(struct world *w)
{
    const struct plan *p = &w->plan;
    for (unsigned i = 0; i < p->n_machines; i++)
        world_at(w, i < p->late_joins ? some_time(w) : w->now + sim_below(&w->chance, GD__NS_PER_S), EVENT_JOIN, i);
    plan_some(w, p->server_deaths, EVENT_SERVER_DIES);
    if (p->server_dies_ns)
        world_at(w, w->now + p->server_dies_ns, EVENT_SERVER_DIES, 0);
    plan_some(w, p->kills, EVENT_KILL_RANDOM);
    plan_some(w, p->drains, EVENT_DRAIN_RANDOM);
    plan_some(w, p->cuts, EVENT_CUT_RANDOM);
    plan_some(w, p->disconnects, EVENT_DISCONNECT_RANDOM);
    world_at(w, w->now + p->faults_ns, EVENT_FAULTS_END, 0);
}

static struct machine *random_machine(struct world *w)
{
    return &w->machines[sim_below(&w->chance, w->plan.n_machines)];
}

/* --- the end of the faults --- */

/* How long it may take to finish everything: leases that run out, suspects one after the other, poison. */
static uint64_t patience(const struct world *w)
{
    const struct plan *p = &w->plan;
    const uint64_t longest = 20 * p->task_ns + p->setup_ns;
    const uint64_t lease = p->lease_ms * GD__NS_PER_MS;
    uint64_t poison = 0;
    for (unsigned i = 0; i < p->n_tasks; i++)
        poison += w->tasks[i].kind == TASK_POISON;
    return 600 * GD__NS_PER_S + 20 * lease + longest * (p->n_tasks + 10) +
           poison * (p->crash_limit + 3) * (lease + longest + 60 * GD__NS_PER_S);
}

static void end_faults(struct world *w)
{
    struct plan *p = &w->plan;
    world_trace(w, "the faults are over");
    p->drop = p->repeat = p->slow = p->later = 0;
    w->faults_over = true;
    w->give_up_at = w->now + patience(w);
    for (unsigned i = 0; i < w->n_links; i++) {
        w->links[i]->cut_in = w->links[i]->cut_out = false;
        link_health(w, w->links[i]);
    }
    if (!p->pushed_before)
        pusher_start(w, p->n_tasks);
    for (unsigned i = 0; i < p->n_machines; i++)
        world_at(w, w->now, EVENT_JOIN, i);
}

/* Looks from time to time whether everything is over: every machine has found that the queue is done, after the last
 * push. A machine that has left before comes again. */
static void look_for_end(struct world *w)
{
    bool all = w->pusher.step == PUSHER_RESTS && !w->pusher.again;
    for (unsigned i = 0; i < w->plan.n_machines; i++) {
        struct machine *m = &w->machines[i];
        const bool satisfied =
            !m->alive && m->life > 0 && m->finished && m->end == GD__NODE_DONE && m->joined_at >= w->pusher.finished_ns;
        if (!m->alive && !satisfied && w->pusher.step == PUSHER_RESTS)
            world_at(w, w->now, EVENT_JOIN, i);
        all &= satisfied || (w->plan.stay && m->alive);
    }
    if (w->plan.stay)
        all = all && ledger_is_done(w);
    if (all)
        w->done = true;
    else
        world_at(w, w->now + 10 * GD__NS_PER_S, EVENT_FAULTS_END, 0);
}

/* --- faults --- */

static void come_back(struct world *w, const struct machine *m)
{
    world_at(w, w->now + GD__NS_PER_S + sim_below(&w->chance, 60 * GD__NS_PER_S), EVENT_JOIN, m->index);
}

static void kill_by_poison(struct world *w, const struct event *e)
{
    struct machine *m = &w->machines[e->who];
    if (!m->alive || m->life != e->number)
        return;
    world_trace(w, "task %u kills machine %u", e->w, e->who);
    w->tasks[e->w].deaths++;
    machine_kill(w, e->who, e->w);
    come_back(w, m);
}

static void kill_random(struct world *w)
{
    const struct machine *m = random_machine(w);
    if (!m->alive)
        return;
    machine_kill(w, m->index, NO_TASK);
    come_back(w, m);
}

static void cut_random(struct world *w)
{
    const struct machine *m = random_machine(w);
    if (!m->alive)
        return;
    struct link *l = w->links[m->link];
    const uint64_t way = sim_below(&w->chance, 3);
    l->cut_in = way != 0;
    l->cut_out = way != 1;
    link_health(w, l);
    const uint64_t longest = 4 * w->plan.lease_ms * GD__NS_PER_MS;
    const uint64_t end = w->now + sim_below(&w->chance, longest);
    world_trace(w, "machine %u is cut off%s%s", m->index, l->cut_in ? " in" : "", l->cut_out ? " out" : "");
    world_at(w, end, EVENT_MEND, m->link);
}

/* If it was long enough, the client has noticed, and connects again. */
static void mend(struct world *w, unsigned link)
{
    struct link *l = w->links[link];
    l->cut_in = l->cut_out = false;
    link_health(w, l);
    if (sim_below(&w->chance, 2))
        link_lose(w, link);
}

/* Each stream has its own file, and so have deliveries: none of them is always older than another. */
static struct server_loss draw_loss(struct world *w)
{
    const struct plan *p = &w->plan;
    struct server_loss loss = { .counts = true };
    if (p->loses_messages) {
        loss.tasks_ns = sim_below(&w->chance, GD__NS_PER_S);
        loss.records_ns = sim_below(&w->chance, GD__NS_PER_S);
        loss.states_ns = sim_below(&w->chance, GD__NS_PER_S);
    }
    if (p->loses_messages || p->forgets)
        loss.deliveries_ns = sim_below(&w->chance, (p->forgets ? 2 : 1) * GD__NS_PER_S);
    return loss;
}

static void server_dies(struct world *w)
{
    const struct plan *p = &w->plan;
    if (!w->server_up)
        return;
    const struct server_loss loss = draw_loss(w);
    world_trace(w,
                "the server dies, and loses %.3f s of tasks, %.3f s of records, %.3f s of states, %.3f s of deliveries",
                (double)loss.tasks_ns / 1e9, (double)loss.records_ns / 1e9, (double)loss.states_ns / 1e9,
                (double)loss.deliveries_ns / 1e9);
    w->figures.server_deaths++;
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *m = &w->server.tasks.all[i];
        if (m->delivery == DELIVERY_HELD &&
            (m->stored_ns > w->now - loss.tasks_ns || m->first_ns > w->now - loss.deliveries_ns))
            ledger_came_back(w, m);
    }
    ledger_lost(w, w->now - loss.records_ns);
    server_die(&w->server, w->now, &loss);
    w->server_up = false;
    w->server_tick_at = GD__NEVER;
    w->server_busy_until = 0;
    for (unsigned i = 0; i < w->n_links; i++)
        link_lose(w, i);
    world_at(w, w->now + (p->server_dies_ns ? 10 * GD__NS_PER_S : 1 + sim_below(&w->chance, 20 * GD__NS_PER_S)),
             EVENT_SERVER_BACK, 0);
}

static void server_back(struct world *w)
{
    world_trace(w, "the server is back");
    w->server_up = true;
    world_tick_server(w);
    if (w->plan.loses_messages && w->pusher.upto > 0)
        pusher_start(w, w->pusher.upto); /* whoever pushes must push again */
}

void faults_event(struct world *w, const struct event *e)
{
    struct machine *m;
    switch (e->kind) {
    case EVENT_JOIN:
        machine_join(w, e->who);
        break;
    case EVENT_KILL:
        kill_by_poison(w, e);
        break;
    case EVENT_KILL_RANDOM:
        kill_random(w);
        break;
    case EVENT_DRAIN_RANDOM:
        m = random_machine(w);
        if (m->alive) {
            machine_drain(w, m->index);
            world_at(w, w->now + 60 * GD__NS_PER_S, EVENT_JOIN, m->index);
        }
        break;
    case EVENT_CUT_RANDOM:
        cut_random(w);
        break;
    case EVENT_MEND:
        mend(w, e->who);
        break;
    case EVENT_DISCONNECT_RANDOM:
        m = random_machine(w);
        if (m->alive)
            link_lose(w, m->link);
        break;
    case EVENT_SERVER_DIES:
        server_dies(w);
        break;
    case EVENT_SERVER_BACK:
        server_back(w);
        break;
    case EVENT_FAULTS_END:
        if (!w->faults_over)
            end_faults(w);
        look_for_end(w);
        break;
    default:
        world_fail(w, "an event of the kind %d is not handled", (int)e->kind);
    }
}
