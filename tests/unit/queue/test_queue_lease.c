/* SPDX-License-Identifier: MIT
 *
 * Nodes and a model of a server, in one thread and without time: at each step, a random one of all things that can
 * happen happens. Requests and answers are lost, repeated and delayed; the server delivers what is not acknowledged again
 * at any time, restarts without its acknowledgements, and in some cases without its last records; nodes are killed,
 * drained, and start again. After some steps the trouble ends, and all tasks must get their records.
 */
#include "queue/lease.h"
#include "support/test.h"

enum { TASKS = 5, NODES = 3, WIRE = 64, RESTS = 16, NONCES = 4096, TROUBLE = 400, STEPS = 20000, SEEDS = 3000 };

enum what { READ_RECORD, PUBLISH_RECORD, READ_MARKER, WRITE_MARKER, TAKE_BACK_MARKER, MOVE_TASKS };

/* A request on its way to the server, or its answer on its way back. */
struct request {
    bool used, answered;
    unsigned node, task, id; /* id: only the answer to the last request of a lease counts */
    unsigned nonce;
    enum what what;
    unsigned condition, based; /* markers: the sequence that must be there; MOVE_TASKS: the record */
    unsigned found, sequence;  /* READ_MARKER, READ_RECORD: what the server had; of a marker also its sequence */
    enum gd__lease_event answer;
};

struct lease {
    bool held, suspect;
    enum gd__lease_state state;
    unsigned id;     /* of the last request */
    unsigned nonce;  /* of this attempt; if it is odd, its record says that some tasks have moved */
    bool waiting;    /* for the answer to that request */
    unsigned marker; /* the sequence of the last one that was read or written; 0: none */
    unsigned based;  /* the record whose tasks have moved */
};

struct world {
    uint64_t random;
    bool trouble, forgets; /* forgets: the server loses records too */
    unsigned next_nonce, next_id;
    struct lease leases[NODES][TASKS];
    struct request wire[WIRE];
    /* the server: 0 is none. A record, a marker and the rest of a record are the nonce of their attempt */
    unsigned record[TASKS], stored[TASKS]; /* stored: what is on its disk */
    unsigned marker[TASKS], marker_sequence[TASKS], next_sequence;
    unsigned rests[TASKS][RESTS], n_rests[TASKS]; /* the records whose moved tasks have been published */
    bool acked[TASKS];
    /* for the checks */
    unsigned won[TASKS], won_nonce[TASKS], runs, marked_runs, taken_back, moves;
    bool was_marker[NONCES];
};

static unsigned below(struct world *w, unsigned n)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return (unsigned)((w->random * UINT64_C(2685821657736338717)) >> 33) % n;
}

/* If there is no room, the request is lost. */
static void send_request(struct world *w, unsigned node, unsigned task, enum what what)
{
    struct lease *l = &w->leases[node][task];
    l->id = ++w->next_id;
    l->waiting = true;
    const unsigned copies = !w->trouble ? 1 : below(w, 3); /* lost, once, or repeated */
    for (unsigned i = 0, left = copies; i < WIRE && left > 0; i++) {
        if (!w->wire[i].used) {
            w->wire[i] = (struct request){ .used = true,
                                           .node = node,
                                           .task = task,
                                           .id = l->id,
                                           .nonce = l->nonce,
                                           .what = what,
                                           .condition = l->marker,
                                           .based = l->based };
            left--;
        }
    }
}

static void acknowledge(struct world *w, unsigned task)
{
    w->acked[task] = w->acked[task] || !w->trouble || below(w, 2);
}

static bool has_rest(const struct world *w, unsigned task, unsigned record)
{
    for (unsigned i = 0; i < w->n_rests[task]; i++) {
        if (w->rests[task][i] == record)
            return true;
    }
    return false;
}

/* The message may be acknowledged only if what has moved is on the server. */
static void check_moved(const struct world *w, unsigned task)
{
    if (!w->forgets && w->record[task] % 2 == 1 && !has_rest(w, task, w->record[task]))
        FAIL("task message %u was acknowledged, and its rest was not published", task);
}

static void start(struct world *w, const struct lease *l)
{
    w->runs++;
    w->marked_runs += l->state == GD__LEASE_MARKED;
    if (l->suspect && !(l->state == GD__LEASE_MARKED && w->was_marker[l->nonce]))
        FAIL("a suspect was started without a marker");
}

static void win(struct world *w, unsigned task, unsigned nonce)
{
    w->won[task]++;
    w->won_nonce[task] = nonce;
}

static void lose(const struct world *w, unsigned task, unsigned nonce)
{
    if (!w->forgets && (w->record[task] == 0 || w->record[task] == nonce))
        FAIL("a node was told that another record of task %u counts, and none does", task);
}

static void step(struct world *w, unsigned node, unsigned task, enum gd__lease_event event)
{
    struct lease *l = &w->leases[node][task];
    const bool was_unmarking = l->state == GD__LEASE_UNMARKING;
    const enum gd__lease_action action = gd__lease_step(&l->state, event);
    switch (action) {
    case GD__LEASE_LOOK:
    case GD__LEASE_READ:
        send_request(w, node, task, READ_RECORD);
        break;
    case GD__LEASE_PUBLISH:
        send_request(w, node, task, PUBLISH_RECORD);
        break;
    case GD__LEASE_READ_MARKER:
        send_request(w, node, task, READ_MARKER);
        break;
    case GD__LEASE_MARK:
        send_request(w, node, task, WRITE_MARKER);
        break;
    case GD__LEASE_UNMARK:
        send_request(w, node, task, TAKE_BACK_MARKER);
        break;
    case GD__LEASE_START:
        start(w, l);
        break;
    case GD__LEASE_MOVE_WON:
        win(w, task, l->nonce);
        send_request(w, node, task, MOVE_TASKS);
        break;
    case GD__LEASE_MOVE_LOST:
        lose(w, task, l->nonce);
        send_request(w, node, task, MOVE_TASKS);
        break;
    case GD__LEASE_MOVE:
        send_request(w, node, task, MOVE_TASKS);
        break;
    case GD__LEASE_ACK_WON:
        win(w, task, l->nonce);
        check_moved(w, task);
        acknowledge(w, task);
        break;
    case GD__LEASE_ACK_LOST:
        lose(w, task, l->nonce);
        check_moved(w, task);
        acknowledge(w, task);
        break;
    case GD__LEASE_ACK:
        check_moved(w, task);
        acknowledge(w, task);
        break;
    case GD__LEASE_NAK:
        if (was_unmarking && w->marker[task] == l->nonce)
            FAIL("task message %u was given back with the marker of this attempt", task);
        w->taken_back += was_unmarking;
        break;
    case GD__LEASE_NOTHING:
    case GD__LEASE_LEAVE:
        break;
    }
    if (l->state == GD__LEASE_ENDED)
        l->held = false;
}

static enum gd__lease_event found_event(const struct request *q)
{
    const bool part = q->found % 2 == 1;
    if (q->found == 0)
        return GD__LEASE_NO_RECORD;
    if (q->found == q->nonce)
        return part ? GD__LEASE_OURS_PART : GD__LEASE_OURS;
    return part ? GD__LEASE_ANOTHERS_PART : GD__LEASE_ANOTHERS;
}

static void serve_marker(struct world *w, struct request *q)
{
    unsigned *sequence = &w->marker_sequence[q->task];
    if (q->what != READ_MARKER) {
        const bool ok = *sequence == q->condition;
        q->answer = ok ? GD__LEASE_MARKER_OK : GD__LEASE_MARKER_LOST;
        if (ok) {
            *sequence = ++w->next_sequence;
            w->marker[q->task] = q->what == WRITE_MARKER ? q->nonce : 0;
            w->was_marker[w->marker[q->task]] = true;
        }
    }
    q->found = w->marker[q->task];
    q->sequence = *sequence;
}

static void serve(struct world *w, struct request *q)
{
    unsigned *record = &w->record[q->task];
    q->answered = true;
    switch (q->what) {
    case READ_RECORD:
        q->found = *record;
        q->answer = found_event(q);
        break;
    case PUBLISH_RECORD:
        q->answer = *record ? GD__LEASE_REFUSED : q->nonce % 2 ? GD__LEASE_ACCEPTED_PART : GD__LEASE_ACCEPTED;
        *record = *record ? *record : q->nonce;
        break;
    case MOVE_TASKS:
        if (!has_rest(w, q->task, q->based) && w->n_rests[q->task] < RESTS)
            w->rests[q->task][w->n_rests[q->task]++] = q->based;
        w->moves++;
        q->answer = GD__LEASE_MOVED;
        break;
    case READ_MARKER:
    case WRITE_MARKER:
    case TAKE_BACK_MARKER:
        serve_marker(w, q);
        break;
    }
}

/* What an answer means depends on the state of the lease, as in a node. */
static enum gd__lease_event event_of(struct world *w, struct lease *l, const struct request *q)
{
    if (q->what == READ_RECORD && l->state == GD__LEASE_CONFIRMING && q->found == l->based && q->found != 0)
        return GD__LEASE_SAME;
    if (q->what == READ_RECORD && l->state == GD__LEASE_LOOKING && q->found == 0 && l->suspect)
        return GD__LEASE_SUSPECT;
    if (q->what == READ_RECORD)
        l->based = q->found;
    if (q->what == PUBLISH_RECORD)
        l->based = l->nonce;
    if (q->what == READ_MARKER) {
        const bool ours = q->found == l->nonce;
        l->marker = q->sequence;
        return ours ? GD__LEASE_MARKER_OK : q->found != 0 && below(w, 8) == 0 ? GD__LEASE_CONVICTED : GD__LEASE_TURN;
    }
    if (q->answer == GD__LEASE_MARKER_OK)
        l->marker = q->sequence;
    return q->answer;
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
    step(w, q->node, q->task, event_of(w, l, q));
}

/* The server delivers a task that it holds for not acknowledged: to any node, even if another one works on it. */
static void deliver(struct world *w, unsigned node, unsigned task)
{
    struct lease *l = &w->leases[node][task];
    if (w->acked[task] || l->held || w->next_nonce + 1 == NONCES)
        return;
    *l = (struct lease){ .held = true, .nonce = ++w->next_nonce, .suspect = below(w, 2) };
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
        if (l->held && (l->state == GD__LEASE_RUNNING || l->state == GD__LEASE_MARKED))
            step(w, node, task,
                 below(w, 4) != 0   ? GD__LEASE_RAN
                 : below(w, 2) == 0 ? GD__LEASE_NOT_RUN
                                    : GD__LEASE_CHARGED);
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

struct counts {
    unsigned runs, marked_runs, taken_back, moves;
};

static void run_seed(uint64_t seed, bool forgets, struct counts *counts)
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
    counts->runs += w.runs;
    counts->marked_runs += w.marked_runs;
    counts->taken_back += w.taken_back;
    counts->moves += w.moves;
}

TEST(one_record_for_each_task)
{
    struct counts counts = { 0 };
    for (uint64_t seed = 0; seed < SEEDS * (test_soak() ? 100 : 1); seed++)
        run_seed(seed, false, &counts);
    /* Otherwise nothing was run twice, no suspect was run or given back, and nothing was tested. */
    CHECK_GT(counts.runs, SEEDS * TASKS);
    CHECK_GT(counts.marked_runs, SEEDS);
    CHECK_GT(counts.taken_back, SEEDS / 10);
    CHECK_GT(counts.moves, SEEDS);
}

TEST(a_server_that_loses_records)
{
    struct counts counts = { 0 };
    for (uint64_t seed = 0; seed < SEEDS * (test_soak() ? 100 : 1); seed++)
        run_seed(seed, true, &counts);
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

/* The marker of a suspect is taken back before the message goes back, unless it has run. */
TEST(suspects)
{
    enum gd__lease_state s = GD__LEASE_LOOKING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_SUSPECT), GD__LEASE_READ_MARKER);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_TURN), GD__LEASE_MARK);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NOTHING); /* the answer is needed */
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_MARKER_OK), GD__LEASE_START);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NOT_RUN), GD__LEASE_UNMARK);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NO_ANSWER), GD__LEASE_UNMARK);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_MARKER_LOST), GD__LEASE_LEAVE); /* another node has it */
    s = GD__LEASE_SUSPECTED;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_CONVICTED), GD__LEASE_PUBLISH);
    s = GD__LEASE_SUSPECTED;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_DRAIN), GD__LEASE_NAK);
    s = GD__LEASE_MARKED;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_RAN), GD__LEASE_PUBLISH);
}

/* Workers have died of the task: a marker that counts them is written before the message goes back. */
TEST(deaths_of_workers_are_counted_before_a_message_goes_back)
{
    static const enum gd__lease_state runs[] = { GD__LEASE_RUNNING, GD__LEASE_MARKED };
    for (size_t i = 0; i < 2; i++) {
        enum gd__lease_state s = runs[i];
        CHECK_EQ(gd__lease_step(&s, GD__LEASE_CHARGED), GD__LEASE_UNMARK);
        CHECK_EQ(gd__lease_step(&s, GD__LEASE_MARKER_OK), GD__LEASE_NAK);
    }
}

/* What has moved is published before the message is acknowledged, and then the record must still be the same. */
TEST(a_part)
{
    enum gd__lease_state s = GD__LEASE_PUBLISHING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_ACCEPTED_PART), GD__LEASE_MOVE_WON);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NO_ANSWER), GD__LEASE_MOVE);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_MOVED), GD__LEASE_READ);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_ANOTHERS_PART), GD__LEASE_MOVE);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_MOVED), GD__LEASE_READ);
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_SAME), GD__LEASE_ACK);
    s = GD__LEASE_CONFIRMING;
    CHECK_EQ(gd__lease_step(&s, GD__LEASE_NO_RECORD), GD__LEASE_NAK);
    CHECK_EQ(s, GD__LEASE_ENDED);
}

TEST_MAIN()
