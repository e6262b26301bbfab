/* What is known about each task, and the conditions that must hold: see world.h.
 *
 * A task may be run again only if something failed while a machine had it: each such failure excuses one more run. The
 * records in the server's stream are read at the end as any reader would read them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/messages/marker.h"
#include "sim/queue/world/inside.h"
#include "sim/queue/world/world.h"

unsigned ledger_number(struct world *w, const struct gd__queue_task *task)
{
    char text[32];
    const struct gd__queue_text bytes = task->payload.bytes;
    WORLD_MUST(w, task->payload.form == GD__QUEUE_INLINE && bytes.size < sizeof text, "the payload of a task is wrong");
    memcpy(text, bytes.at, bytes.size);
    text[bytes.size] = 0;
    const unsigned long number = strtoul(text, NULL, 10);
    WORLD_MUST(w, number < w->plan.n_tasks, "there is no task %lu", number);
    WORLD_MUST(w, gd__queue_key_same(&w->tasks[number].key, &task->key), "task %lu has the key of another", number);
    return (unsigned)number;
}

/* The same for each run of the task. */
uint64_t ledger_duration(struct world *w, unsigned number)
{
    if (w->plan.even_tasks)
        return w->plan.task_ns / 2 + sim_mix(w->seed, number) % w->plan.task_ns;
    uint64_t r = sim_mix(w->seed ^ 0x74696d65, number);
    return 1 + sim_spread(&r, w->plan.task_ns);
}

static enum task_kind kind_of(const struct world *w, unsigned number)
{
    const uint64_t x = sim_mix(w->seed ^ 0x6b696e64, number);
    return x % 1000 < w->plan.poison           ? TASK_POISON
           : (x >> 16) % 1000 < w->plan.fails  ? TASK_FAILS
           : (x >> 32) % 1000 < w->plan.losers ? TASK_LOSER
                                               : TASK_FINE;
}

void ledger_open(struct world *w)
{
    w->tasks = calloc(w->plan.n_tasks, sizeof *w->tasks);
    if (!w->tasks)
        abort();
    for (unsigned i = 0; i < w->plan.n_tasks; i++) {
        char text[32];
        const int size = snprintf(text, sizeof text, "%u", i);
        w->tasks[i].key = gd__queue_task_key(text, (size_t)size, 0);
        w->tasks[i].kind = (uint8_t)kind_of(w, i);
    }
}

void ledger_close(struct world *w)
{
    free(w->tasks);
}

/* --- runs --- */

static size_t find_record(struct world *w, const struct gd__queue_key *key)
{
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = *key };
    char text[GD__QUEUE_SUBJECT_ROOM];
    return store_find(&w->server.records, gd__queue_subject_text(text, WORLD_NAME, &s));
}

/* A node looks for the record before it runs anything, each time that it gets the message: the answer "there is none" must
 * have come after the last delivery, and allows one beginning of the message, unless the node learns before that there is a
 * record after all. A connection keeps the order of what it carries, so the server gave this answer after the delivery. */
static bool forget_look(struct link *l, const struct gd__queue_key *key)
{
    for (size_t i = 0; i < l->n_looked; i++) {
        if (gd__queue_key_same(&l->looked[i], key)) {
            l->looked[i] = l->looked[--l->n_looked];
            return true;
        }
    }
    return false;
}

void ledger_arrived(struct world *w, struct link *l, const struct gd__queue_answer *item)
{
    struct gd__queue_subject s;
    const struct machine *m = l->user;
    WORLD_MUST(w, gd__queue_subject_parse(&s, WORLD_NAME, item->subject) == 0, "a wrong subject: %s", item->subject);
    if (!inside_need_not_look(m->node, &s.key, item->sequence))
        forget_look(l, &s.key);
}

void ledger_looked(struct link *l, const struct gd__queue_key *key, bool found)
{
    forget_look(l, key);
    if (found)
        return;
    l->looked = world_grow(l->looked, &l->looked_room, l->n_looked, sizeof *l->looked);
    l->looked[l->n_looked++] = *key;
}

static bool still_runs(struct world *w, const struct machine *m, unsigned number)
{
    for (size_t i = 0; i < m->holds_room; i++)
        if (m->holds[i].task && m->holds[i].started && ledger_number(w, &m->holds[i].task->task) == number)
            return true;
    return false;
}

/* The message with this key was made of a bundle whose nodes or workers have died. */
static bool is_flagged(struct world *w, const struct gd__queue_key *key)
{
    struct gd__queue_subject s;
    struct gd__queue_reader reader;
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *m = &w->server.tasks.all[i];
        if (gd__queue_subject_parse(&s, WORLD_NAME, m->subject) == 0 && gd__queue_key_same(&s.key, key))
            return gd__queue_tasks_open(&reader, m->data, m->size, NULL) == 0 && reader.suspect;
    }
    return false;
}

/* The last machine that began a task alone must have died or ended it, before another one begins it alone or finds that
 * it is a crash. Only a machine that was cut off for about three leases may look dead. Its last sign of life may have been
 * a third of a lease before that, and the next one comes so long after it, or when it is connected again. */
static void check_silence(struct world *w, unsigned number)
{
    const struct plan *p = &w->plan;
    const struct task_facts *t = &w->tasks[number];
    if (t->alone_on == 0 || w->lossy || p->server_deaths || p->later_lease_ms)
        return;
    const struct machine *m = &w->machines[t->alone_on - 1];
    if (!m->alive || m->life != t->alone_life || !still_runs(w, m, number))
        return;
    WORLD_MUST(w, link_outage(w, w->links[m->link]) + 4 * GD__NS_PER_S >= 2 * p->lease_ms * GD__NS_PER_MS,
               "task %u is charged, although machine %u still runs it and was not cut off for long", number, m->index);
}

/* How often it was begun as a suspect, according to the server. With a crash_limit of 1 there is no beginning together with
 * others, and a bundle is split before it is begun. */
static unsigned count_beginnings(struct world *w, const struct gd__queue_key *key)
{
    const struct gd__queue_subject s = { .kind = GD__QUEUE_STATE, .key = *key };
    char text[GD__QUEUE_SUBJECT_ROOM];
    const size_t found = store_find(&w->server.states, gd__queue_subject_text(text, WORLD_NAME, &s));
    struct gd__queue_marker marker = { 0 };
    if (found != STORE_NONE)
        WORLD_MUST(
            w, gd__queue_marker_read(&marker, w->server.states.all[found].data, w->server.states.all[found].size) == 0,
            "a marker is damaged");
    return marker.alone + (w->plan.crash_limit > 1 && (marker.together || is_flagged(w, key)));
}

/* Each beginning that counts ended without a record, because a machine or its workers died, or seemed to. */
static void check_beginnings(struct world *w, unsigned number, unsigned begun)
{
    const unsigned ends = (unsigned)w->tasks[number].blamed + w->tasks[number].losses;
    WORLD_MUST(w, begun <= ends, "%u beginnings of task %u count, but only %u have ended without a record", begun,
               number, ends);
}

/* The last beginning was exclusive: no other task can have killed its machine. */
static void check_verdict(struct world *w, const struct gd__queue_key *key, unsigned number)
{
    const struct task_facts *t = &w->tasks[number];
    const unsigned begun = count_beginnings(w, key);
    check_beginnings(w, number, begun);
    if (w->figures.server_deaths > 0)
        return;
    WORLD_MUST(w, begun >= w->plan.crash_limit, "task %u is a crash after %u beginnings", number, begun);
    WORLD_MUST(w, !t->died_of_another, "task %u is a crash, but another task has killed its machine", number);
}

void ledger_convicted(struct world *w, const struct gd__queue_key *key)
{
    for (unsigned i = 0; i < w->plan.n_tasks; i++)
        if (gd__queue_key_same(&w->tasks[i].key, key)) {
            check_silence(w, i);
            check_verdict(w, key, i);
        }
}

static void begun_alone(struct world *w, const struct machine *m, unsigned number)
{
    check_silence(w, number);
    w->tasks[number].alone_on = m->index + 1;
    w->tasks[number].alone_life = m->life;
}

void ledger_given(struct world *w, const struct machine *m, const struct gd__node_task *task)
{
    const struct gd__queue_key *key = inside_key(task->message);
    const unsigned number = ledger_number(w, &task->task);
    if (task->index > 0)
        return; /* its message has begun */
    WORLD_MUST(w, forget_look(w->links[m->link], key),
               "machine %u begins task %u, and does not know that it has no record since its message arrived", m->index,
               number);
    if (task->alone)
        check_beginnings(w, number, count_beginnings(w, key) - 1); /* the others */
}

void ledger_started(struct world *w, struct machine *m, const struct gd__node_task *task)
{
    const unsigned number = ledger_number(w, &task->task);
    struct task_facts *t = &w->tasks[number];
    t->starts++;
    struct hold *hold = machine_hold(m, task);
    const bool again = hold->started; /* its worker has died on the same machine, so this is no new beginning */
    hold->started = true;
    if (task->alone && !again)
        begun_alone(w, m, number);
    w->figures.runs++;
    w->figures.reruns += t->starts > 1;
    WORLD_MUST(w, t->starts <= 1 + t->excuses, "machine %u runs task %u for the %uth time, after %u failures", m->index,
               number, t->starts, t->excuses);
}

/* A task that was interrupted will be run again. If all workers have lost their devices, the task has lost one too, and that
 * was noted then. */
void ledger_returned(struct world *w, struct machine *m, const struct gd__node_task *task, bool no_worker)
{
    struct task_facts *t = &w->tasks[ledger_number(w, &task->task)];
    const struct hold *h = machine_hold(m, task);
    t->excuses += h->started && !no_worker;
    t->interrupted += h->started && !no_worker;
}

/* It is run again, here or on another machine. */
void ledger_lost_device(struct world *w, unsigned number)
{
    w->tasks[number].losses++;
    w->tasks[number].excuses++;
}

static void suspect(struct world *w, const struct stored *message, bool excused)
{
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    WORLD_MUST(w, gd__queue_tasks_open(&reader, message->data, message->size, NULL) == 0, "a task message is damaged");
    while (gd__queue_tasks_next(&reader, &task)) {
        struct task_facts *t = &w->tasks[ledger_number(w, &task)];
        t->excuses += excused;
        t->blamed++;
        t->died_of_another = t->died_of_another && !excused;
    }
}

/* The message is delivered again, although its node has not given it back. If that node is there, it may run its tasks, or
 * have run them; the death of a machine has excused what it had begun. */
void ledger_came_back(struct world *w, const struct stored *message)
{
    suspect(w, message, w->links[message->holder]->open);
}

/* All tasks of its message are begun alone from now on, as after the death of a machine. */
void ledger_charged(struct world *w, const struct gd__node_task *task)
{
    const size_t index = store_from(&w->server.tasks, inside_sequence(task->message));
    if (task->of > 1 && index < w->server.tasks.n)
        suspect(w, &w->server.tasks.all[index], false);
}

void ledger_busy(struct world *w, int by)
{
    struct figures *f = &w->figures;
    f->area += (double)w->busy_workers * (double)(w->now - f->changed_ns);
    f->changed_ns = w->now;
    w->busy_workers += (unsigned)by;
    if (w->busy_workers < w->plan.n_machines * w->plan.n_workers)
        return;
    f->last_full_ns = w->now;
    f->area_last = f->area;
    if (f->first_full_ns == 0) {
        f->first_full_ns = w->now;
        f->area_first = f->area;
    }
}

void ledger_decided(struct world *w, const struct gd__node_task *task, bool won)
{
    struct task_facts *t = &w->tasks[ledger_number(w, &task->task)];
    if (!won)
        return;
    WORLD_MUST(w, ++t->wins == 1 || w->plan.loses_messages, "task %u: two records count",
               ledger_number(w, &task->task));
}

/* The delivery that this task came with still counts. */
static bool is_holder(const struct world *w, const struct machine *m, const struct gd__node_task *task)
{
    const uint64_t sequence = inside_sequence(task->message);
    const size_t index = store_from(&w->server.tasks, sequence);
    const struct stored *message = &w->server.tasks.all[index];
    return index < w->server.tasks.n && message->sequence == sequence && message->delivery == DELIVERY_HELD &&
           message->holder == m->link;
}

/* A suspect whose marker is written may not be given to the scheduler yet, so any message of the machine counts. */
static void killed_by_chance(struct world *w, const struct machine *m)
{
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *s = &w->server.tasks.all[i];
        if (s->delivery != DELIVERY_HELD || s->holder != m->link)
            continue;
        WORLD_MUST(w, gd__queue_tasks_open(&reader, s->data, s->size, NULL) == 0, "a task message is damaged");
        while (gd__queue_tasks_next(&reader, &task))
            w->tasks[ledger_number(w, &task)].died_of_another = false;
    }
}

void ledger_killed(struct world *w, const struct machine *m, unsigned killer)
{
    if (killer == NO_TASK)
        killed_by_chance(w, m);
    for (size_t i = 0; m->n_holds > 0 && i < m->holds_room && killer != NO_TASK; i++) {
        const struct gd__node_task *task = m->holds[i].task;
        if (!task || !task->alone || !is_holder(w, m, task))
            continue;
        const unsigned number = ledger_number(w, &task->task);
        w->tasks[number].died_of_another = killer != number;
    }
}

/* A machine is gone: what it has begun is run again. If it does not hold the message any more, that was excused before. */
void ledger_gone(struct world *w, const struct machine *m)
{
    for (size_t i = 0; m->n_holds > 0 && i < m->holds_room; i++) {
        const struct hold *h = &m->holds[i];
        if (h->task && h->started && is_holder(w, m, h->task))
            w->tasks[ledger_number(w, &h->task->task)].excuses++;
    }
}

/* --- records --- */

static size_t record_of(struct world *w, const struct stored *task)
{
    struct gd__queue_subject s;
    WORLD_MUST(w, gd__queue_subject_parse(&s, WORLD_NAME, task->subject) == 0, "a wrong subject: %s", task->subject);
    return find_record(w, &s.key);
}

static bool is_resend(const struct stored *m)
{
    struct gd__queue_subject s;
    return gd__queue_subject_parse(&s, WORLD_NAME, m->subject) == 0 && s.resend > 0;
}

bool ledger_is_done(struct world *w)
{
    for (size_t i = 0; i < w->server.tasks.n; i++)
        if (record_of(w, &w->server.tasks.all[i]) == STORE_NONE)
            return false;
    return true;
}

/* If the marker of a suspect is not lost too, its beginning looks as if its machine had died. */
static void lose_record(struct world *w, const struct stored *record)
{
    struct gd__queue_reader reader;
    struct gd__queue_record r;
    WORLD_MUST(w, gd__queue_records_open(&reader, record->data, record->size, NULL) == 0, "a record is damaged");
    while (gd__queue_records_next(&reader, &r)) {
        w->tasks[r.number].excuses += r.state != GD__QUEUE_MOVED;
        w->tasks[r.number].blamed += r.state != GD__QUEUE_MOVED;
    }
}

/* Its node has not ended it, and will publish its record again. */
static bool is_held(struct world *w, const struct stored *m)
{
    struct gd__queue_subject s;
    const struct link *l = w->links[m->holder];
    WORLD_MUST(w, gd__queue_subject_parse(&s, WORLD_NAME, m->subject) == 0, "a wrong subject: %s", m->subject);
    return m->delivery == DELIVERY_HELD && l->open && inside_holds(((struct machine *)l->user)->node, &s.key);
}

void ledger_lost(struct world *w, uint64_t since)
{
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *m = &w->server.tasks.all[i];
        const size_t record = is_held(w, m) ? STORE_NONE : record_of(w, m);
        if (record != STORE_NONE && w->server.records.all[record].stored_ns > since)
            lose_record(w, &w->server.records.all[record]);
    }
}

/* --- notices --- */

/* Is this task in a message other than this one? It was published lately, so the last ones are read first. */
static bool has_moved(struct world *w, size_t index, const struct gd__queue_key *key)
{
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    for (size_t i = w->server.tasks.n; i-- > 0;) {
        const struct stored *m = &w->server.tasks.all[i];
        WORLD_MUST(w, gd__queue_tasks_open(&reader, m->data, m->size, NULL) == 0, "a task message is damaged");
        while (i != index && !is_resend(m) && gd__queue_tasks_next(&reader, &task))
            if (gd__queue_key_same(&task.key, key))
                return true;
    }
    return false;
}

/* A message is acknowledged only if it has a record, and if the tasks that have moved are in other messages. */
static void check_ack(struct world *w, unsigned client, size_t index)
{
    struct gd__queue_reader reader;
    struct gd__queue_record r;
    const struct stored *m = &w->server.tasks.all[index];
    const size_t record = record_of(w, m);
    WORLD_MUST(w, record != STORE_NONE, "client %u acknowledges %s, which has no record", client, m->subject);
    const struct stored *found = &w->server.records.all[record];
    WORLD_MUST(w, gd__queue_records_open(&reader, found->data, found->size, NULL) == 0, "a record is damaged");
    while (gd__queue_records_next(&reader, &r))
        WORLD_MUST(w, r.state != GD__QUEUE_MOVED || has_moved(w, index, &r.key),
                   "client %u acknowledges %s, and a task of it that has moved is nowhere", client, m->subject);
}

/* A node that was connected all the time acknowledges the message of a record that it has published. A record of an earlier
 * run may be published while the node has the message. */
static void check_nak(struct world *w, unsigned client, const struct stored *m)
{
    const struct link *l = w->links[client];
    const size_t record = record_of(w, m);
    if (record == STORE_NONE || w->plan.keeps_spool || m->delivered_ns <= l->lost_ns ||
        ((struct machine *)l->user)->draining)
        return;
    WORLD_MUST(w, w->server.records.all[record].publisher != client + 1,
               "client %u gives back %s, although its own record counts", client, m->subject);
}

/* A server that has died gives the numbers of deliveries, and if it has lost messages, their sequences too, to others. If a
 * node still has the old message, what it says about its end is meant for the old one, and ends the new delivery: a real
 * server too compares nothing but these numbers. A node may even have both messages. So a node must not acknowledge with an
 * old token. If it gives back a wrong message, that one runs once more. */
void ledger_told(struct world *w, unsigned client, enum gd__queue_notice notice, const char *text)
{
    const struct server_token token = server_token(text);
    const size_t index = store_from(&w->server.tasks, token.sequence);
    if (index == w->server.tasks.n || w->server.tasks.all[index].sequence != token.sequence)
        return;
    const struct stored *m = &w->server.tasks.all[index];
    if (notice == GD__TELL_ACK) {
        WORLD_MUST(w, m->identity == token.identity, "client %u acknowledges %s by mistake", client, m->subject);
        check_ack(w, client, index);
    } else if (m->delivery == DELIVERY_HELD && m->delivery_identity == token.delivery_identity) {
        check_nak(w, client, m);
    } else if (m->delivery == DELIVERY_HELD && m->deliveries == token.delivery) {
        WORLD_MUST(w, w->figures.server_deaths > 0, "client %u ends the delivery %s of client %u", client, text,
                   m->holder);
        ledger_came_back(w, m);
    }
}

/* --- the end --- */

static void check_crash(struct world *w, unsigned number, const struct task_facts *t)
{
    const unsigned ends = (unsigned)t->blamed + t->losses;
    w->figures.innocent_crashes += t->kind != TASK_POISON && t->kind != TASK_LOSER;
    WORLD_MUST(w, ends >= w->plan.crash_limit, "task %u has the record \"crash\" after %u deaths", number, ends);
}

static void check_record(struct world *w, const struct gd__queue_record *r, unsigned number)
{
    const struct task_facts *t = &w->tasks[number];
    char expected[64];
    const int size = snprintf(expected, sizeof expected, "output of %u", number);
    if (r->state == GD__QUEUE_DONE) {
        WORLD_MUST(w, t->kind == TASK_FINE, "task %u cannot have succeeded", number);
        WORLD_MUST(w, r->output.bytes.size == (size_t)size && memcmp(r->output.bytes.at, expected, (size_t)size) == 0,
                   "task %u has the output of another", number);
        return;
    }
    const bool crash = r->failure.size == 5 && memcmp(r->failure.at, "crash", 5) == 0;
    const bool lost = r->failure.size == 11 && memcmp(r->failure.at, "device_lost", 11) == 0;
    if (crash)
        check_crash(w, number, t);
    else if (lost)
        WORLD_MUST(w, t->kind == TASK_LOSER, "task %u cannot have lost its device", number);
    else
        WORLD_MUST(w, t->kind == TASK_FAILS, "task %u cannot have failed: %.*s", number, (int)r->failure.size,
                   r->failure.at);
}

/* The records of one task message, compared with its tasks. */
static void check_message(struct world *w, const struct stored *task, const struct stored *record, uint8_t *found)
{
    struct gd__queue_reader tasks, records;
    struct gd__queue_task t;
    struct gd__queue_record r;
    WORLD_MUST(w, gd__queue_tasks_open(&tasks, task->data, task->size, NULL) == 0, "a task message is damaged");
    WORLD_MUST(w, gd__queue_records_open(&records, record->data, record->size, NULL) == 0, "a record is damaged");
    while (gd__queue_tasks_next(&tasks, &t)) {
        const unsigned number = ledger_number(w, &t);
        WORLD_MUST(w, gd__queue_records_next(&records, &r), "%s: a record is missing", task->subject);
        WORLD_MUST(w, gd__queue_key_same(&t.key, &r.key), "%s: a record of another task", task->subject);
        if (r.state == GD__QUEUE_MOVED) {
            w->figures.splits++;
            continue;
        }
        check_record(w, &r, number);
        WORLD_MUST(w, ++found[number] == 1, "task %u has %u records", number, found[number]);
    }
}

/* Each rest of a bundle that a node has published is a new message, and not a suspect, unless nodes or workers have died. */
static void count_rests(struct world *w)
{
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *m = &w->server.tasks.all[i];
        WORLD_MUST(w, gd__queue_tasks_open(&reader, m->data, m->size, NULL) == 0, "a task message is damaged");
        while (m->publisher != w->pusher.link + 1 && !reader.suspect && gd__queue_tasks_next(&reader, &task))
            w->tasks[ledger_number(w, &task)].rests++;
    }
}

/* A poisonous task kills nodes until it is found. Each time the server dies, it forgets the delivery count, and may lose
 * the last marker. A task that was interrupted because its node drains may kill that node while it still runs: it was given
 * back before, as one that is not suspected. So are the tasks of a rest. */
static void check_deaths(struct world *w)
{
    const unsigned forgotten = (unsigned)w->figures.server_deaths * (w->plan.loses_messages ? 2 : 1);
    count_rests(w);
    for (unsigned i = 0; i < w->plan.n_tasks; i++) {
        const struct task_facts *t = &w->tasks[i];
        const unsigned most = w->plan.crash_limit + 1 + t->rests + forgotten + t->interrupted;
        WORLD_MUST(w, t->deaths <= most, "task %u has killed %u nodes; at most %u may die", i, t->deaths, most);
    }
}

/* A visit to a machine costs at most crash_limit losses. They are not counted if the machine dies or drains, or if the
 * server forgets the marker or that the message was delivered before. A bundle is split first. */
static void check_losses(struct world *w)
{
    const unsigned forgotten = (unsigned)w->figures.server_deaths * 2;
    for (unsigned i = 0; i < w->plan.n_tasks; i++) {
        const struct task_facts *t = &w->tasks[i];
        const unsigned visits = 1 + t->in_bundle + t->blamed + t->interrupted + forgotten;
        WORLD_MUST(w, t->losses <= w->plan.crash_limit * visits, "task %u has lost %u devices in %u visits", i,
                   t->losses, visits);
    }
}

static void check_streams(struct world *w)
{
    for (size_t i = 0; i < w->server.records.n; i++)
        WORLD_MUST(w, w->server.records.all[i].replaced_ns == GD__NEVER, "%s was replaced",
                   w->server.records.all[i].subject);
    for (size_t i = 0; i < w->server.tasks.n; i++)
        WORLD_MUST(w, w->figures.server_deaths > 0 || w->bad_network || !is_resend(&w->server.tasks.all[i]),
                   "%s was sent again, although the server has lost nothing", w->server.tasks.all[i].subject);
}

/* If no node was lost, each record was reported to the node that has published it. */
static void check_wins(struct world *w)
{
    if (w->figures.node_deaths > 0 || w->figures.server_deaths > 0 || w->figures.cut_off > 0 ||
        w->figures.innocent_crashes > 0)
        return;
    for (unsigned i = 0; i < w->plan.n_tasks; i++)
        WORLD_MUST(w, w->tasks[i].wins == 1 || w->tasks[i].kind == TASK_POISON || w->tasks[i].kind == TASK_LOSER,
                   "no node has learned that its record of task %u counts", i);
}

void ledger_check_end(struct world *w)
{
    uint8_t *found = calloc(w->plan.n_tasks, 1);
    if (!found)
        abort();
    unsigned missing = UINT32_MAX;
    for (size_t i = 0; i < w->server.tasks.n; i++) {
        const struct stored *task = &w->server.tasks.all[i];
        const size_t record = record_of(w, task);
        WORLD_MUST(w, record != STORE_NONE, "%s has no record", task->subject);
        if (!is_resend(task))
            check_message(w, task, &w->server.records.all[record], found);
    }
    for (unsigned i = 0; i < w->plan.n_tasks; i++)
        missing = found[i] ? missing : i;
    free(found);
    WORLD_MUST(w, missing == UINT32_MAX, "task %u has no record", missing);
    check_deaths(w);
    check_losses(w);
    check_streams(w);
    check_wins(w);
}
