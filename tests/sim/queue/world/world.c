/* Virtual time: see world.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/queue/world/world.h"

void world_fail(struct world *w, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(w->words, sizeof w->words, format, a);
    va_end(a);
    longjmp(w->failed, 1);
}

void world_trace(struct world *w, const char *format, ...)
{
    if (!w->trace)
        return;
    va_list a;
    printf("%12.6f ", (double)(w->now - WORLD_BEGINNING) / 1e9);
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    putchar('\n');
}

bool world_happens(struct world *w, unsigned thousandths)
{
    return thousandths > 0 && sim_below(&w->chance, 1000) < thousandths;
}

void *world_grow(void *array, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return array;
    *room = *room ? 2 * *room : 8;
    array = realloc(array, *room * size);
    if (!array)
        abort();
    return array;
}

/* --- the event queue --- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

void world_put(struct world *w, const struct event *e)
{
    size_t room = w->events_room;
    w->events = world_grow(w->events, &room, w->n_events + 2, sizeof *w->events);
    w->events_room = room;
    struct event new = *e;
    new.serial = ++w->serial;
    uint64_t i = ++w->n_events;
    for (; i > 1 && before(&new, &w->events[i / 2]); i /= 2)
        w->events[i] = w->events[i / 2];
    w->events[i] = new;
}

void world_at(struct world *w, uint64_t at, enum event_kind kind, unsigned who)
{
    world_put(w, &(struct event){ .at = at, .kind = kind, .who = who });
}

static struct event take_event(struct world *w)
{
    const struct event first = w->events[1], moved = w->events[w->n_events--];
    uint64_t i = 1;
    for (uint64_t child; (child = 2 * i) <= w->n_events; i = child) {
        if (child < w->n_events && before(&w->events[child + 1], &w->events[child]))
            child++;
        if (!before(&w->events[child], &moved))
            break;
        w->events[i] = w->events[child];
    }
    w->events[i] = moved;
    return first;
}

/* --- the server --- */

void world_tick_server(struct world *w)
{
    const uint64_t next = server_tick(&w->server, w->now);
    if (next == GD__NEVER || next >= w->server_tick_at)
        return;
    w->server_tick_at = next;
    world_put(w, &(struct event){ .at = next, .kind = EVENT_SERVER_TICK, .number = next });
}

static void server_event(struct world *w, const struct event *e)
{
    if (e->number != w->server_tick_at)
        return;
    w->server_tick_at = GD__NEVER;
    if (w->server_up)
        world_tick_server(w);
}

static void on_expired(void *user, const struct stored *message)
{
    struct world *w = user;
    const struct link *l = w->links[message->holder];
    const bool silent = w->bad_network || !l->open || !l->connected || w->figures.server_deaths > 0;
    world_trace(w, "the lease of %s runs out", message->subject);
    WORLD_MUST(w, silent, "the lease of %s runs out, although its node can be reached", message->subject);
    ledger_came_back(w, message);
}

/* --- one run --- */

static void handle(struct world *w, const struct event *e)
{
    switch (e->kind) {
    case EVENT_TO_SERVER:
    case EVENT_TO_CLIENT:
    case EVENT_TIMEOUT:
    case EVENT_LINK_DOWN:
    case EVENT_LINK_UP:
        wire_event(w, e);
        break;
    case EVENT_SERVER_TICK:
        server_event(w, e);
        break;
    case EVENT_MACHINE_TICK:
    case EVENT_WORKER_READY:
    case EVENT_WORKER_FINISH:
    case EVENT_WORKER_EXIT:
        machine_event(w, e);
        break;
    case EVENT_PUSHER:
        pusher_event(w, e);
        break;
    default:
        faults_event(w, e);
    }
}

static void advance(struct world *w)
{
    WORLD_MUST(w, w->n_events > 0, "nothing happens any more, but the queue is not done");
    const struct event e = take_event(w);
    w->now = e.at > w->now ? e.at : w->now;
    w->handled++;
    if (w->progress)
        *w->progress = w->handled;
    WORLD_MUST(w, w->now < w->give_up_at, "%s %.0f s after the faults ended, the queue is not done",
               w->faults_over ? "" : "(faults are not over)",
               (double)(w->now - WORLD_BEGINNING - w->plan.faults_ns) / 1e9);
    handle(w, &e);
    letter_free(e.letter);
}

static void open_server(struct world *w)
{
    server_open(&w->server, WORLD_NAME,
                &(struct server_effects){ .user = w, .answer = wire_answer, .expired = on_expired });
    w->server.stale_naks = w->plan.stale_naks;
    w->server.tasks.exists = w->server.records.exists = w->server.states.exists = true;
    for (unsigned i = 0; i < w->plan.priorities; i++) {
        struct server_consumer *c = &w->server.consumers[i - GD_PRIORITY_MIN];
        c->exists = true;
        c->lease_ms = i > 0 && w->plan.later_lease_ms ? w->plan.later_lease_ms : w->plan.lease_ms;
    }
    const struct plan *p = &w->plan;
    w->lossy = p->drop || p->slow || p->later || p->repeat;
    w->bad_network = w->lossy || p->cuts || p->disconnects || p->hop_ns > 10 * GD__NS_PER_MS;
    w->server_up = true;
    w->server_tick_at = GD__NEVER;
}

static void run(struct world *w)
{
    open_server(w);
    ledger_open(w);
    pusher_open(w);
    faults_plan(w);
    while (!w->done)
        advance(w);
    ledger_check_end(w);
}

static void clear(struct world *w)
{
    for (uint64_t i = 1; i <= w->n_events; i++)
        letter_free(w->events[i].letter);
    for (unsigned i = 0; i < w->plan.n_machines; i++)
        machine_free(&w->machines[i]);
    for (unsigned i = 0; i < w->n_links; i++) {
        free(w->links[i]->waits);
        free(w->links[i]->looked);
        free(w->links[i]);
    }
    free(w->links);
    free(w->machines);
    free(w->events);
    pusher_close(w);
    ledger_close(w);
    server_close(&w->server);
}

int world_run(struct world *w, uint64_t seed, const struct plan *plan, bool trace, volatile uint64_t *progress)
{
    uint64_t *const per_100ms = w->figures.per_100ms;
    const size_t room = w->figures.per_100ms_room;
    memset(w, 0, sizeof *w);
    w->figures.per_100ms = per_100ms;
    w->figures.per_100ms_room = room;
    w->seed = seed;
    w->trace = trace;
    w->progress = progress;
    w->chance = sim_mix(seed, 2);
    w->now = WORLD_BEGINNING;
    w->give_up_at = GD__NEVER;
    if (plan)
        w->plan = *plan;
    else
        plan_draw(&w->plan, seed);
    w->machines = calloc(w->plan.n_machines, sizeof *w->machines);
    if (!w->machines)
        abort();
    for (unsigned i = 0; i < w->plan.n_machines; i++)
        w->machines[i] = (struct machine){ .index = i, .world = w };
    const int failed = setjmp(w->failed);
    if (failed == 0)
        run(w);
    clear(w);
    return failed;
}
