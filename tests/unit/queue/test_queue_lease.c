/* SPDX-License-Identifier: MIT
 *
 * Nodes and a model of a server, in one thread and without time: at each step, a random one of all things that can
 * happen happens. Requests and answers are lost, repeated and delayed; the server delivers what is not acknowledged again
 * at any time, restarts without its acknowledgements, and in some cases without its last records; nodes are killed,
 * drained, and start again. After some steps the trouble ends, and all tasks must get their records.
 */
#include "queue/lease.h"
#include "support/test.h"

enum { TASKS = 5, NODES = 3, WIRE = 64, TROUBLE = 400, STEPS = 20000, SEEDS = 3000 };

/* A request on its way to the server, or its answer on its way back. */
struct request {
    bool used, answered;
    unsigned node, task, id; /* id: only the answer to the last request of a lease counts */
    unsigned nonce;
    bool publish; /* otherwise it reads the record */
    enum gd__lease_event answer;
};

struct lease {
    bool held;
    enum gd__lease_state state;
    unsigned id;    /* of the last request */
    unsigned nonce; /* of this attempt */
    bool waiting;   /* for the answer to that request */
};

struct world {
    uint64_t random;
    bool trouble, forgets; /* forgets: the server loses records too */
    unsigned next_nonce, next_id;
    struct lease leases[NODES][TASKS];
    struct request wire[WIRE];
    /* the server: 0 is no record */
    unsigned record[TASKS], stored[TASKS]; /* stored: what is on its disk */
    bool acked[TASKS];
    /* for the checks */
    unsigned won[TASKS], won_nonce[TASKS], runs;
};

static unsigned below(struct world *w, unsigned n)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return (unsigned)((w->random * UINT64_C(2685821657736338717)) >> 33) % n;
}

/* If there is no room, the request is lost. */
static void send_request(struct world *w, unsigned node, unsigned task, bool publish)
{
    struct lease *l = &w->leases[node][task];
    l->id = ++w->next_id;
    l->waiting = true;
    const unsigned copies = !w->trouble ? 1 : below(w, 3); /* lost, once, or repeated */
    for (unsigned i = 0, left = copies; i < WIRE && left > 0; i++) {
        if (!w->wire[i].used) {
            w->wire[i] = (struct request){ true, false, node, task, l->id, l->nonce, publish, GD__LEASE_NO_ANSWER };
            left--;
        }
    }
}

static void step(struct world *w, unsigned node, unsigned task, enum gd__lease_event event)
{
    struct lease *l = &w->leases[node][task];
    switch (gd__lease_step(&l->state, event)) {
    case GD__LEASE_LOOK:
    case GD__LEASE_READ:
        send_request(w, node, task, false);
        break;
    case GD__LEASE_PUBLISH:
        send_request(w, node, task, true);
        break;
    case GD__LEASE_START:
        w->runs++;
        break;
    case GD__LEASE_ACK_WON:
        w->won[task]++;
        w->won_nonce[task] = l->nonce;
        w->acked[task] = w->acked[task] || !w->trouble || below(w, 2);
        break;
    case GD__LEASE_ACK_LOST:
        if (!w->forgets && (w->record[task] == 0 || w->record[task] == l->nonce))
            FAIL("a node was told that another record of task %u counts, and none does", task);
        w->acked[task] = w->acked[task] || !w->trouble || below(w, 2);
        break;
    case GD__LEASE_NOTHING:
    case GD__LEASE_NAK:
    case GD__LEASE_LEAVE:
        break;
    }
    if (l->state == GD__LEASE_ENDED)
        l->held = false;
}

static void serve(struct world *w, struct request *q)
{
    unsigned *record = &w->record[q->task];
    if (q->publish) {
        q->answer = *record ? GD__LEASE_REFUSED : GD__LEASE_ACCEPTED;
        *record = *record ? *record : q->nonce;
    } else {
        q->answer = *record == 0 ? GD__LEASE_NO_RECORD : *record == q->nonce ? GD__LEASE_OURS : GD__LEASE_ANOTHERS;
    }
    q->answered = true;
}

/* A request reaches the server, or an answer its node. */
static void move(struct world *w, struct request *q)
{
    if (!q->used)
        return;
    if (!q->answered) {
        serve(w, q);
        return;
    }
    q->used = false;
    struct lease *l = &w->leases[q->node][q->task];
    if (!l->held || !l->waiting || l->id != q->id || (w->trouble && below(w, 3) == 0))
        return;
    l->waiting = false;
    step(w, q->node, q->task, q->answer);
}

/* The server delivers a task that it holds for not acknowledged: to any node, even if another one works on it. */
static void deliver(struct world *w, unsigned node, unsigned task)
{
    struct lease *l = &w->leases[node][task];
    if (w->acked[task] || l->held)
        return;
    *l = (struct lease){ .held = true, .nonce = ++w->next_nonce };
    step(w, node, task, GD__LEASE_BEGIN);
}

static void restart_server(struct world *w)
{
    for (unsigned t = 0; t < TASKS; t++) {
        w->acked[t] = w->acked[t] && below(w, 2);
        if (w->forgets)
            w->record[t] = w->stored[t];
    }
}

static void make_trouble(struct world *w, unsigned node, unsigned task)
{
    static const enum gd__lease_event ends[] = { GD__LEASE_DRAIN, GD__LEASE_GIVE_UP };
    const unsigned what = below(w, 8);
    if (what == 0) {
        memset(w->leases[node], 0, sizeof w->leases[node]); /* kill -9 */
    } else if (what == 1) {
        restart_server(w);
    } else if (what < 4 && w->leases[node][task].held) {
        step(w, node, task, ends[what - 2]);
    } else if (what == 4) {
        memcpy(w->stored, w->record, sizeof w->stored);
    }
}

/* A task that was acknowledged and has no record is published again: completion is by count. */
static void repair(struct world *w)
{
    for (unsigned t = 0; t < TASKS; t++)
        w->acked[t] = w->acked[t] && w->record[t] != 0;
}

static void one_step(struct world *w)
{
    const unsigned node = below(w, NODES), task = below(w, TASKS);
    struct lease *l = &w->leases[node][task];
    switch (below(w, 8)) {
    case 0:
        deliver(w, node, task);
        break;
    case 1:
        if (l->held && l->state == GD__LEASE_RUNNING)
            step(w, node, task, GD__LEASE_RAN);
        break;
    case 2:
        if (l->held && l->waiting && below(w, 4) == 0) /* the answer may still be on its way */
            step(w, node, task, GD__LEASE_NO_ANSWER);
        break;
    case 3:
        if (w->trouble && below(w, 4) == 0)
            make_trouble(w, node, task);
        else
            repair(w);
        break;
    default:
        move(w, &w->wire[below(w, WIRE)]);
    }
}

static bool all_done(const struct world *w)
{
    for (unsigned t = 0; t < TASKS; t++) {
        if (w->record[t] == 0 || !w->acked[t])
            return false;
        for (unsigned n = 0; n < NODES; n++) {
            if (w->leases[n][t].held)
                return false;
        }
    }
    return true;
}

/* Returns how many tasks have been run. */
static unsigned run_seed(uint64_t seed, bool forgets)
{
    struct world w = { .random = seed * 2 + 1, .trouble = true, .forgets = forgets };
    unsigned records[TASKS] = { 0 }, steps = 0;
    for (; steps < STEPS && (w.trouble || !all_done(&w)); steps++) {
        w.trouble = steps < TROUBLE;
        one_step(&w);
        for (unsigned t = 0; t < TASKS && !forgets; t++) {
            if (records[t] && w.record[t] != records[t])
                FAIL("seed %u: the record of task %u was replaced", (unsigned)seed, t);
            records[t] = w.record[t];
            if (w.won[t] > 0 && w.won_nonce[t] != w.record[t])
                FAIL("seed %u: a node was told that its record of task %u counts, and it does not", (unsigned)seed, t);
            if (w.won[t] > 1)
                FAIL("seed %u: two nodes were told that their record of task %u counts", (unsigned)seed, t);
        }
    }
    if (!all_done(&w))
        FAIL("seed %u: not done after %u steps", (unsigned)seed, steps);
    return w.runs;
}

TEST(one_record_for_each_task)
{
    unsigned runs = 0;
    for (uint64_t seed = 0; seed < SEEDS * (test_soak() ? 100 : 1); seed++)
        runs += run_seed(seed, false);
    CHECK_GT(runs, SEEDS * TASKS); /* otherwise nothing was run twice, and nothing was tested */
}

TEST(a_server_that_loses_records)
{
    for (uint64_t seed = 0; seed < SEEDS * (test_soak() ? 100 : 1); seed++)
        (void)run_seed(seed, true);
}

TEST(late_events_change_nothing)
{
    enum gd__lease_state s = GD__LEASE_RUNNING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NO_RECORD), GD__LEASE_NOTHING);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_ACCEPTED), GD__LEASE_NOTHING);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NOTHING);
    CHECK_EQ(s, GD__LEASE_RUNNING);
    s = GD__LEASE_ENDED;
    for (int e = 0; e < GD__LEASE_EVENTS; e++)
        CHECK_EQ(gd__lease_step(&s, (enum gd__lease_event)e), GD__LEASE_NOTHING);
    CHECK_EQ(s, GD__LEASE_ENDED);
}

/* A task that has a record is not run, whatever the delivery count of the server says. */
TEST(a_delivery_after_the_record)
{
    enum gd__lease_state s = GD__LEASE_NEW;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_BEGIN), GD__LEASE_LOOK);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NO_ANSWER), GD__LEASE_LOOK);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_ANOTHERS), GD__LEASE_ACK_LOST);
    CHECK_EQ(s, GD__LEASE_ENDED);
}

TEST(drain)
{
    enum gd__lease_state s = GD__LEASE_NEW;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NAK);
    s = GD__LEASE_LOOKING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NAK);
    s = GD__LEASE_PUBLISHING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NOTHING);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_GIVE_UP), GD__LEASE_LEAVE);
}

TEST_MAIN()
