/* A machine: a real node and a real scheduler. See world.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/queue/world/world.h"

/* --- the tasks that a node has given: a set, by address --- */

static size_t place_of(const struct machine *m, const struct gd__node_task *task)
{
    return (size_t)(sim_mix((uintptr_t)task, 0) & (m->holds_room - 1));
}

static void put_hold(struct machine *m, const struct hold *hold)
{
    size_t at = place_of(m, hold->task);
    while (m->holds[at].task)
        at = (at + 1) & (m->holds_room - 1);
    m->holds[at] = *hold;
}

static void hold(struct machine *m, const struct gd__node_task *task)
{
    if (2 * ++m->n_holds > m->holds_room) {
        struct hold *old = m->holds;
        const size_t room = m->holds_room;
        m->holds_room = room ? 2 * room : 32;
        m->holds = calloc(m->holds_room, sizeof *m->holds);
        if (!m->holds)
            abort();
        for (size_t i = 0; i < room; i++)
            if (old[i].task)
                put_hold(m, &old[i]);
        free(old);
    }
    put_hold(m, &(struct hold){ .task = task });
}

struct hold *machine_hold(struct machine *m, const struct gd__node_task *task)
{
    size_t at = m->holds_room ? place_of(m, task) : 0;
    while (m->holds_room && m->holds[at].task && m->holds[at].task != task)
        at = (at + 1) & (m->holds_room - 1);
    WORLD_MUST(m->world, m->holds_room && m->holds[at].task, "a task has started or ended that was not given");
    return &m->holds[at];
}

static void let_go(struct machine *m, const struct gd__node_task *task)
{
    const size_t mask = m->holds_room - 1;
    struct hold *gone = machine_hold(m, task);
    m->n_holds--;
    gone->task = NULL;
    /* What was put behind it because its place was taken. */
    for (size_t i = ((size_t)(gone - m->holds) + 1) & mask; m->holds[i].task; i = (i + 1) & mask) {
        const struct hold moved = m->holds[i];
        m->holds[i].task = NULL;
        put_hold(m, &moved);
    }
}

/* --- what the node does --- */

static struct kept *find_kept(const struct machine *m, const struct gd__queue_key *key)
{
    size_t i = 0;
    while (i < m->n_kept && !gd__queue_key_same(&m->kept[i].key, key))
        i++;
    return i < m->n_kept ? &m->kept[i] : NULL;
}

/* A record is kept before it is published. Records of an earlier run may have the same keys, and then replace each other. */
static void check_kept(const struct machine *m, const struct gd__queue_request *r)
{
    struct gd__queue_subject s;
    if (r->ask != GD__ASK_PUBLISH || m->world->plan.keeps_spool ||
        gd__queue_subject_parse(&s, WORLD_NAME, r->subject) != 0 || s.kind != GD__QUEUE_RECORD)
        return;
    const struct kept *k = find_kept(m, &s.key);
    WORLD_MUST(m->world, k && k->size == r->size && memcmp(k->message, r->data, r->size) == 0,
               "machine %u publishes %s, and has not kept it", m->index, r->subject);
}

static void on_ask(void *user, const struct gd__queue_request *r)
{
    const struct machine *m = user;
    check_kept(m, r);
    link_ask(m->world, m->link, r);
}

static void on_tell(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    const struct machine *m = user;
    link_tell(m->world, m->link, notice, token, delay_ms);
}

static void on_give(void *user, const struct gd__node_task *task)
{
    struct machine *m = user;
    if (m->given_count == m->given_room) {
        const size_t room = m->given_room ? 2 * m->given_room : 16;
        const struct gd__node_task **new = malloc(room * sizeof(*new));
        if (!new)
            abort();
        for (size_t i = 0; i < m->given_count; i++)
            new[i] = m->given[(m->given_head + i) % m->given_room];
        free(m->given);
        m->given = new;
        m->given_head = 0;
        m->given_room = room;
    }
    m->given[(m->given_head + m->given_count++) % m->given_room] = task;
    hold(m, task);
    ledger_given(m->world, m, task);
    world_trace(m->world, "machine %u is given task %u%s", m->index, ledger_number(m->world, &task->task),
                task->alone ? ", alone" : "");
}

static void on_forget(void *user, const struct gd__queue_key *key)
{
    struct machine *m = user;
    struct kept *k = find_kept(m, key);
    if (!k)
        return;
    free(k->message);
    *k = m->kept[--m->n_kept];
}

static int on_keep(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct machine *m = user;
    on_forget(m, key); /* the new one replaces it */
    m->kept = world_grow(m->kept, &m->kept_room, m->n_kept, sizeof *m->kept);
    struct kept *k = &m->kept[m->n_kept++];
    *k = (struct kept){ .key = *key, .message = malloc(size + 1), .size = size };
    if (!k->message)
        abort();
    memcpy(k->message, message, size);
    return 0;
}

static void on_decided(void *user, const struct gd__node_task *task, bool won)
{
    struct machine *m = user;
    ledger_decided(m->world, task, won);
    let_go(m, task);
}

static void on_finished(void *user, enum gd__node_end end, const char *text)
{
    struct machine *m = user;
    static const char *const names[] = { [GD__NODE_DONE] = "done",
                                         [GD__NODE_IDLE] = "idle",
                                         [GD__NODE_DRAINED] = "drained",
                                         [GD__NODE_CUT_OFF] = "cut off",
                                         [GD__NODE_FAILED] = "failed" };
    world_trace(m->world, "machine %u finishes: %s %s", m->index, names[end], text ? text : "");
    WORLD_MUST(m->world, !m->finished, "machine %u finishes twice", m->index);
    m->finished = true;
    m->end = end;
    m->world->figures.cut_off += end != GD__NODE_DONE && end != GD__NODE_DRAINED;
}

static void on_say(void *user, const char *line)
{
    const struct machine *m = user;
    char text[GD__QUEUE_KEY_ROOM];
    struct gd__queue_key key;
    world_trace(m->world, "machine %u says: %s", m->index, line);
    if (strstr(line, "recorded as a crash") && sscanf(line, "task %55s", text) == 1 &&
        gd__queue_key_parse(&key, text) == 0)
        ledger_convicted(m->world, &key);
}

static uint64_t on_random(void *user)
{
    return sim_random(&((struct machine *)user)->world->chance);
}

/* --- what the link reports --- */

static void on_answer(void *user, const struct gd__queue_answer *a)
{
    struct machine *m = user;
    gd__node_answer(m->node, m->world->now, a);
    machine_settle(m);
}

static void on_connected(void *user, bool is_connected)
{
    struct machine *m = user;
    world_trace(m->world, "machine %u is %s", m->index, is_connected ? "connected" : "disconnected");
    gd__node_connected(m->node, m->world->now, is_connected);
    machine_settle(m);
}

/* --- opening and closing --- */

static void open_sched(struct machine *m)
{
    const struct plan *p = &m->world->plan;
    static int gpu_ids[64];
    for (int i = 0; i < 64; i++)
        gpu_ids[i] = i;
    const struct gd__sched_config config = {
        .n_workers = p->n_workers,
        .gpu_ids = gpu_ids,
        .queue_size = 256,
        .cancel_grace_ns = 5 * GD__NS_PER_S,
        .cleanup_grace_ns = 3600 * GD__NS_PER_S,
        .stop_grace_ns = p->stop_grace_ns,
        .kill_wait_ns = 60 * GD__NS_PER_S,
        .restart_delay_ns = GD__NS_PER_S,
        .crash_limit = p->crash_limit,
        .setup_attempts = 1,
        .death_limit = 100,
        .window_min = 1,
        .window_max = RING,
        .batch_size = 1,
        .concurrency = 1,
        .placement = GD_PLACE_DYNAMIC,
    };
    WORLD_MUST(m->world, gd__sched_open(&m->sched, &config, &worker_effects, m) == 0, "the scheduler does not open");
    m->sched_open = true;
}

static void open_node(struct machine *m)
{
    const struct plan *p = &m->world->plan;
    char host[32];
    snprintf(host, sizeof host, "host%u", m->index);
    const struct gd__node_config config = {
        .name = WORLD_NAME,
        .host = host,
        .slots = p->n_workers,
        .crash_limit = p->crash_limit,
        .lease_ms = p->lease_ms,
        .max_payload = m->world->server.max_payload,
        .idle_ns = p->idle_ns,
        .stay = p->stay,
        .lost_ns = 600 * GD__NS_PER_S,
        .priorities = ((UINT32_C(1) << (p->later_lease_ms ? 1 : p->priorities)) - 1) << -GD_PRIORITY_MIN,
    };
    const struct gd__node_effects effects = {
        .user = m,
        .ask = on_ask,
        .tell = on_tell,
        .give = on_give,
        .keep = on_keep,
        .forget = on_forget,
        .decided = on_decided,
        .finished = on_finished,
        .say = on_say,
        .random = on_random,
    };
    WORLD_MUST(m->world, gd__node_open(&m->node, &config, &effects) == 0, "the node does not open");
    m->link = link_open(m->world, m, on_answer, on_connected);
}

static void publish_kept(struct machine *m)
{
    for (size_t i = 0; i < m->n_kept; i++) {
        const struct kept *k = &m->kept[i];
        if (m->world->plan.keeps_spool)
            gd__node_publish_kept(m->node, &k->key, k->message, k->size);
        else
            free(k->message);
    }
    if (!m->world->plan.keeps_spool)
        m->n_kept = 0;
}

void machine_join(struct world *w, unsigned index)
{
    struct machine *m = &w->machines[index];
    if (m->alive)
        return;
    world_trace(w, "machine %u joins", index);
    m->alive = true;
    m->draining = m->finished = false;
    m->life++;
    m->tick_at = GD__NEVER;
    m->joined_at = w->now;
    m->given_count = m->n_ended = m->n_holds = 0;
    if (m->holds_room)
        memset(m->holds, 0, m->holds_room * sizeof *m->holds);
    m->workers = calloc(w->plan.n_workers, sizeof *m->workers);
    if (!m->workers)
        abort();
    open_sched(m);
    open_node(m);
    publish_kept(m);
    gd__sched_start(&m->sched, w->now);
    machine_settle(m);
}

static void close_machine(struct machine *m)
{
    if (m->node) {
        gd__node_close(&m->node);
        link_close(m->world, m->link);
    }
    if (m->sched_open)
        gd__sched_close(&m->sched);
    for (unsigned k = 0; m->alive && k < m->world->plan.n_workers; k++)
        if (m->workers[k].run)
            ledger_busy(m->world, -1);
    m->sched_open = m->alive = false;
    free(m->workers);
    m->workers = NULL;
    m->life++;
}

void machine_kill(struct world *w, unsigned index, unsigned killer)
{
    struct machine *m = &w->machines[index];
    if (!m->alive)
        return;
    world_trace(w, "machine %u dies, with %zu tasks", index, m->n_holds);
    w->figures.node_deaths++;
    ledger_killed(w, m, killer);
    ledger_gone(w, m);
    close_machine(m);
}

void machine_drain(struct world *w, unsigned index)
{
    struct machine *m = &w->machines[index];
    if (!m->alive || m->draining)
        return;
    world_trace(w, "machine %u drains", index);
    m->draining = true;
    gd__node_drain(m->node, w->now);
    gd__sched_shutdown(&m->sched, w->now);
    machine_settle(m);
}

void machine_free(struct machine *m)
{
    close_machine(m);
    for (size_t i = 0; i < m->n_kept; i++)
        free(m->kept[i].message);
    free(m->kept);
    free(m->given);
    free(m->ended);
    free(m->holds);
}

/* --- between the node and the scheduler --- */

static bool feed(struct machine *m)
{
    bool any = false;
    while (m->given_count > 0 && m->sched.counts.taken < gd__sched_allowed(&m->sched)) {
        const struct gd__node_task *task = m->given[m->given_head];
        m->given_head = (m->given_head + 1) % m->given_room;
        m->given_count--;
        any = true;
        if (m->draining) {
            machine_ended(m, &(struct ended){ .task = task, .failure = GD_FAILURE_CANCELLED });
            continue;
        }
        const uint64_t payload[4] = { (uint64_t)(uintptr_t)task };
        gd__sched_add(&m->sched, m->world->now,
                      &(struct gd__new_task){ .payload = payload,
                                              .weight = task->task.weight,
                                              .priority = task->priority,
                                              .crashes = task->crashes,
                                              .timeout_ns = task->task.timeout_ms * GD__NS_PER_MS });
    }
    return any;
}

void machine_ended(struct machine *m, const struct ended *e)
{
    m->ended = world_grow(m->ended, &m->ended_room, m->n_ended, sizeof *m->ended);
    m->ended[m->n_ended++] = *e;
}

static void report_end(struct machine *m, const struct ended *e)
{
    struct world *w = m->world;
    if (e->failure == GD_FAILURE_CANCELLED || e->failure == GD_FAILURE_NO_WORKER) {
        const unsigned crashes = e->failure == GD_FAILURE_NO_WORKER ? e->crashes : 0;
        ledger_returned(w, m, e->task, e->failure == GD_FAILURE_NO_WORKER);
        if (crashes > e->task->crashes)
            ledger_charged(w, e->task);
        let_go(m, e->task);
        gd__node_charged(m->node, w->now, e->task, crashes);
        return;
    }
    char output[64];
    snprintf(output, sizeof output, "output of %u", ledger_number(w, &e->task->task));
    const bool done = e->failure == GD_FAILURE_NONE;
    struct gd__queue_record record = {
        .state = done ? GD__QUEUE_DONE : GD__QUEUE_FAILED,
        .attempts = 1,
        .started_us = e->start_ns / GD__NS_PER_US,
        .run_us = (e->end_ns - e->start_ns) / GD__NS_PER_US,
        .gpu = { "0", 1 },
    };
    if (done)
        record.output = (struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { output, strlen(output) } };
    else if (e->failure == GD_FAILURE_DEVICE_LOST)
        record.failure = (struct gd__queue_text){ "device_lost", 11 };
    else
        record.failure = (struct gd__queue_text){ "error", 5 };
    gd__node_ended(m->node, w->now, e->task, &record);
}

static bool report_ends(struct machine *m)
{
    const size_t n = m->n_ended;
    for (size_t i = 0; i < m->n_ended; i++) {
        const struct ended e = m->ended[i];
        report_end(m, &e);
    }
    m->n_ended = 0;
    return n > 0;
}

/* All devices are lost. Somebody repairs the machine, and it joins again. */
static void leave_without_devices(struct machine *m)
{
    if (m->draining || !m->sched.stopping)
        return;
    world_trace(m->world, "machine %u has no device left", m->index);
    m->draining = true;
    gd__node_drain(m->node, m->world->now);
    world_at(m->world, m->world->now + 60 * GD__NS_PER_S, EVENT_JOIN, m->index);
}

void machine_settle(struct machine *m)
{
    struct world *w = m->world;
    uint64_t next;
    unsigned rounds = 0;
    do {
        WORLD_MUST(w, ++rounds < 1000, "machine %u has endless work at one time", m->index);
        if (gd__sched_deadline(&m->sched) <= w->now)
            gd__sched_tick(&m->sched, w->now);
        gd__sched_pump(&m->sched, w->now);
        leave_without_devices(m);
        report_ends(m);
        next = gd__node_tick(m->node, w->now);
    } while (!m->finished && (feed(m) || m->n_ended > 0 || next <= w->now));
    if (m->finished) {
        WORLD_MUST(w, m->n_holds == 0 || m->end == GD__NODE_CUT_OFF || m->end == GD__NODE_FAILED,
                   "machine %u finishes with %zu tasks", m->index, m->n_holds);
        ledger_gone(w, m);
        close_machine(m);
        return;
    }
    next = gd__sched_deadline(&m->sched) < next ? gd__sched_deadline(&m->sched) : next;
    if (next != GD__NEVER && next < m->tick_at) {
        m->tick_at = next;
        world_put(w, &(struct event){ .at = next, .kind = EVENT_MACHINE_TICK, .who = m->index, .number = m->life });
    }
}

void machine_event(struct world *w, const struct event *e)
{
    struct machine *m = &w->machines[e->who];
    if (!m->alive)
        return;
    if (e->kind != EVENT_MACHINE_TICK)
        worker_event(m, e);
    else if (e->number != m->life || e->at != m->tick_at)
        return;
    else
        m->tick_at = GD__NEVER;
    machine_settle(m);
}
