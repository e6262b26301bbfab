/* Virtual workers: see world.h. A worker starts a task as soon as it has one. The task ends after its duration, unless it
 * is poison: then the whole machine dies. Each worker has its own device, and some tasks end with its loss. */
#include "sim/queue/world/world.h"

static void start_next(struct machine *m, unsigned k)
{
    struct world *w = m->world;
    struct worker *worker = &m->workers[k];
    if (worker->run || worker->started == worker->published || !worker->ready)
        return;
    const struct gd__node_task *task = worker->ring[worker->started++ % RING];
    const unsigned number = ledger_number(w, &task->task);
    worker->begin_ns = w->now;
    worker->run = ++w->runs;
    ledger_started(w, m, task);
    ledger_busy(w, 1);
    world_trace(w, "machine %u, worker %u: task %u starts", m->index, k, number);
    const uint64_t end = w->now + ledger_duration(w, number);
    if (w->tasks[number].kind == TASK_POISON)
        world_put(w, &(struct event){ .at = end, .kind = EVENT_KILL, .who = m->index, .w = number, .number = m->life });
    else
        world_put(w, &(struct event){
                         .at = end, .kind = EVENT_WORKER_FINISH, .who = m->index, .w = k, .number = worker->run });
}

static void on_spawn(void *ctx, unsigned k)
{
    struct machine *m = ctx;
    m->workers[k] = (struct worker){ .generation = ++m->world->runs };
    const uint64_t setup = m->world->plan.setup_ns;
    world_put(m->world, &(struct event){ .at = m->world->now + setup / 2 + sim_below(&m->world->chance, setup / 2 + 1),
                                         .kind = EVENT_WORKER_READY,
                                         .who = m->index,
                                         .w = k,
                                         .number = m->workers[k].generation });
}

static void on_assign(void *ctx, unsigned k, const struct gd__task *t, unsigned attempt)
{
    struct worker *worker = &((struct machine *)ctx)->workers[k];
    (void)attempt;
    worker->ring[worker->handed++ % RING] = (const struct gd__node_task *)(uintptr_t)t->payload[0];
}

static void on_publish(void *ctx, unsigned k)
{
    struct machine *m = ctx;
    m->workers[k].published = m->workers[k].handed;
    start_next(m, k);
}

static uint64_t on_take_back(void *ctx, unsigned k, uint64_t keep)
{
    struct worker *worker = &((struct machine *)ctx)->workers[k];
    worker->handed = worker->published = keep > worker->started ? keep : worker->started;
    return worker->handed;
}

static void on_probe(void *ctx, unsigned k, uint64_t head, struct gd__probe *out)
{
    const struct worker *worker = &((struct machine *)ctx)->workers[k];
    (void)head;
    *out = (struct gd__probe){ .started = worker->started, .start_ns = worker->begin_ns };
}

/* Workers do not react when they are asked to stop a task; then they are killed. */
static void on_cancel(void *ctx, unsigned k, uint64_t below)
{
    (void)ctx, (void)k, (void)below;
}

static void leave(struct machine *m, unsigned k)
{
    struct worker *worker = &m->workers[k];
    if (worker->gone)
        return;
    worker->gone = true;
    world_put(
        m->world,
        &(struct event){
            .at = m->world->now, .kind = EVENT_WORKER_EXIT, .who = m->index, .w = k, .number = worker->generation });
}

static void on_kill(void *ctx, unsigned k)
{
    struct machine *m = ctx;
    ledger_busy(m->world, m->workers[k].run ? -1 : 0);
    m->workers[k].run = 0;
    m->workers[k].ready = false;
    leave(m, k);
}

static void on_stop(void *ctx, unsigned k)
{
    struct machine *m = ctx;
    struct worker *worker = &m->workers[k];
    worker->stopping = true;
    if (worker->finished == worker->handed)
        leave(m, k);
}

static void on_abandon(void *ctx, unsigned k)
{
    (void)ctx, (void)k;
}

static void on_deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    machine_ended(ctx, &(struct ended){ .task = (const struct gd__node_task *)(uintptr_t)t->payload[0],
                                        .failure = o->failure,
                                        .crashes = t->crashes,
                                        .start_ns = o->start_ns,
                                        .end_ns = o->end_ns });
}

static void on_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o)
{
    (void)ctx, (void)t, (void)o;
}

static void on_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    (void)ctx, (void)t, (void)o;
}

static void on_setup_failed(void *ctx, unsigned k, const char *message)
{
    world_fail(((struct machine *)ctx)->world, "worker %u: %s", k, message);
}

static void on_worker_died(void *ctx, unsigned k, const char *message, bool given_up)
{
    (void)ctx, (void)k, (void)message, (void)given_up;
}

static void on_device_out(void *ctx, unsigned k, const char *message)
{
    const struct machine *m = ctx;
    world_trace(m->world, "machine %u loses the device of worker %u: %s", m->index, k, message ? message : "");
}

const struct gd__sched_effects worker_effects = {
    .spawn = on_spawn,
    .assign = on_assign,
    .publish = on_publish,
    .take_back = on_take_back,
    .probe = on_probe,
    .cancel = on_cancel,
    .kill = on_kill,
    .stop = on_stop,
    .abandon = on_abandon,
    .deliver = on_deliver,
    .hold = on_hold,
    .drop = on_drop,
    .setup_failed = on_setup_failed,
    .worker_died = on_worker_died,
    .device_out = on_device_out,
};

static void finish(struct machine *m, unsigned k)
{
    struct world *w = m->world;
    struct worker *worker = &m->workers[k];
    const struct gd__node_task *task = worker->ring[worker->finished % RING];
    const unsigned number = ledger_number(w, &task->task);
    static const enum gd_failure failures[] = {
        [TASK_FINE] = GD_FAILURE_NONE, [TASK_FAILS] = GD_FAILURE_ERROR, [TASK_LOSER] = GD_FAILURE_DEVICE_LOST
    };
    const struct gd__outcome o = { .worker = (int)k,
                                   .start_ns = worker->begin_ns,
                                   .end_ns = w->now,
                                   .final = true,
                                   .failure = failures[w->tasks[number].kind],
                                   .bytes = "",
                                   .size = 0 };
    m->busy_ns += w->now - worker->begin_ns;
    w->figures.busy_ns += w->now - worker->begin_ns;
    w->figures.last_end_ns = w->now;
    worker->finished++;
    worker->run = 0;
    ledger_busy(w, -1);
    if (o.failure == GD_FAILURE_DEVICE_LOST)
        ledger_lost_device(w, number); /* its process does nothing more, and is killed */
    else
        start_next(m, k);
    WORLD_MUST(w, gd__sched_result(&m->sched, w->now, k, &o, 0) == 0, "the scheduler refuses a result");
    if (worker->stopping && worker->finished == worker->handed)
        leave(m, k);
}

void worker_event(struct machine *m, const struct event *e)
{
    struct world *w = m->world;
    struct worker *worker = &m->workers[e->w];
    if (e->kind == EVENT_WORKER_FINISH) {
        if (worker->run == e->number)
            finish(m, e->w);
        return;
    }
    if (worker->generation != e->number)
        return;
    if (e->kind == EVENT_WORKER_READY) {
        if (worker->gone)
            return;
        worker->ready = true;
        WORLD_MUST(w, gd__sched_ready(&m->sched, w->now, e->w, 1) == 0, "the scheduler refuses a worker");
    } else {
        gd__sched_exited(
            &m->sched, w->now, e->w,
            &(struct gd__death){ .started = worker->started, .start_ns = worker->begin_ns, .message = "it ended" });
    }
}
