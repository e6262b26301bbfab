/* SPDX-License-Identifier: MIT
 *
 * A few nodes and the model server, in virtual time. The network between them drops, repeats and delays; nodes are
 * killed, drained, cut off and started again; the server dies and forgets; some tasks kill the node that runs them. After
 * a while the trouble ends. Then each task must have exactly one record, and each node must find out that the queue is
 * done.
 */
#include <gpu_dispatch/dispatcher.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "queue/messages/marker.h"
#include "queue/node/node.h"
#include "sim/queue/server/server.h"
#include "support/test.h"

enum {
    NODES = 4,
    TASKS_MOST = 400,
    RUNNING = 4096,
    OUT = 8192, /* requests of one node without an answer */
    KEPT = 512,
    LEASE_MS = 3000,
    CRASH_LIMIT = 3,
};
#define S  GD__NS_PER_S
#define MS GD__NS_PER_MS

/* Something on its way through the network. */
struct packet {
    uint64_t at_ns;
    unsigned client;
    enum { PACKET_REQUEST, PACKET_NOTICE, PACKET_ANSWER } kind;
    struct gd__queue_request request;
    struct gd__queue_answer answer;
    enum gd__queue_notice notice;
    uint32_t delay_ms;
    char subject[GD__QUEUE_SUBJECT_ROOM], token[GD__QUEUE_TOKEN_ROOM];
    unsigned char *data;
};

struct running {
    const struct gd__node_task *task;
    uint64_t end_ns;
    bool poison;
};

struct kept {
    struct gd__queue_key key;
    unsigned char *data;
    size_t size;
};

struct machine {
    struct world *w;
    struct gd__node *node; /* NULL: it is dead */
    unsigned client;       /* another one after each start */
    uint64_t tick_ns, back_ns, drain_ns;
    bool connected, done;
    uint64_t answer_ns; /* when its last answer arrives: a connection keeps the order */
    enum gd__node_end end;
    struct running running[RUNNING];
    size_t n_running;
    struct {
        uint64_t id, until_ns;
    } out[OUT];
    size_t n_out;
    struct kept kept[KEPT];
    size_t n_kept;
};

/* What happens in a run. */
struct trouble {
    bool network, kills, drains, partitions, server_dies, server_forgets, poison, returns;
};

struct world {
    uint64_t now, random, until_ns; /* trouble until then */
    struct trouble trouble;
    struct server server;
    uint64_t server_ns;
    struct packet *packets;
    size_t n_packets, packets_room;
    struct machine machines[NODES];
    unsigned n_machines, next_client, slots;
    unsigned n_tasks, n_messages;
    struct gd__queue_key keys[TASKS_MOST];
    bool poison[TASKS_MOST];
    unsigned won[TASKS_MOST], runs[TASKS_MOST], deaths[TASKS_MOST];
    uint64_t run_us;
    bool lossy, no_memory;
    unsigned lines;
};

static uint64_t draw(struct world *w)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return (w->random * UINT64_C(2685821657736338717)) >> 8;
}

static bool chance(struct world *w, unsigned one_in)
{
    return draw(w) % one_in == 0;
}

static bool in_trouble(const struct world *w)
{
    return w->now < w->until_ns;
}

/* --- the network --- */

static struct packet *new_packet(struct world *w, unsigned client)
{
    if (w->n_packets == w->packets_room) {
        w->packets_room = 2 * w->packets_room + 64;
        w->packets = realloc(w->packets, w->packets_room * sizeof *w->packets);
        CHECK(w->packets);
    }
    struct packet *p = &w->packets[w->n_packets++];
    memset(p, 0, sizeof *p);
    p->client = client;
    p->at_ns = w->now + MS / 4 + draw(w) % MS;
    if (in_trouble(w) && w->trouble.network && chance(w, 30))
        p->at_ns += draw(w) % (8 * S);
    return p;
}

static void set_data(struct packet *p, const void *data, size_t size)
{
    p->data = malloc(size + 1);
    CHECK(p->data);
    if (size > 0)
        memcpy(p->data, data, size);
}

/* How many times a packet arrives. */
static unsigned copies(struct world *w)
{
    if (!in_trouble(w) || !w->trouble.network)
        return 1;
    return chance(w, 20) ? 0 : chance(w, 20) ? 2 : 1;
}

static struct machine *find_machine(struct world *w, unsigned client)
{
    for (unsigned i = 0; i < w->n_machines; i++) {
        if (w->machines[i].client == client && w->machines[i].node)
            return &w->machines[i];
    }
    return NULL;
}

static void on_ask(void *user, const struct gd__queue_request *q)
{
    struct machine *m = user;
    struct world *w = m->w;
    CHECK(m->connected);
    CHECK_LT(m->n_out, OUT);
    m->out[m->n_out].id = q->id;
    m->out[m->n_out++].until_ns = w->now + (q->wait_ms + 5000) * MS;
    for (unsigned c = copies(w); c > 0; c--) {
        struct packet *p = new_packet(w, m->client);
        p->kind = PACKET_REQUEST;
        p->request = *q;
        if (q->subject)
            snprintf(p->subject, sizeof p->subject, "%s", q->subject);
        set_data(p, q->data, q->size);
    }
}

static void on_tell(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    struct machine *m = user;
    for (unsigned c = m->connected ? copies(m->w) : 0; c > 0; c--) {
        struct packet *p = new_packet(m->w, m->client);
        p->kind = PACKET_NOTICE;
        p->notice = notice;
        p->delay_ms = delay_ms;
        snprintf(p->token, sizeof p->token, "%s", token);
    }
}

/* The items of a list are one message of the real server, so none of them gets lost alone. */
static void on_server_answer(void *user, unsigned client, const struct gd__queue_answer *a)
{
    struct world *w = user;
    struct machine *m = find_machine(w, client);
    const bool is_listed = a->kind == GD__ANSWER_ITEM && !a->token;
    for (unsigned c = !m ? 0 : is_listed ? 1 : copies(w); c > 0; c--) {
        struct packet *p = new_packet(w, client);
        p->kind = PACKET_ANSWER;
        p->answer = *a;
        p->at_ns = p->at_ns > m->answer_ns ? p->at_ns : m->answer_ns + 1;
        m->answer_ns = p->at_ns;
        snprintf(p->subject, sizeof p->subject, "%s", a->subject ? a->subject : "");
        snprintf(p->token, sizeof p->token, "%s", a->token ? a->token : "");
        set_data(p, a->data, a->size);
    }
}

/* --- a node --- */

static unsigned task_number(const struct world *w, const struct gd__queue_key *key)
{
    for (unsigned i = 0; i < w->n_tasks; i++) {
        if (gd__queue_key_same(&w->keys[i], key))
            return i;
    }
    FAIL("a task that nobody pushed");
}

static void on_give(void *user, const struct gd__node_task *task)
{
    struct machine *m = user;
    struct world *w = m->w;
    CHECK_LT(m->n_running, RUNNING);
    const unsigned number = task_number(w, &task->task.key);
    CHECK_EQ(task->task.number, number);
    w->runs[number]++;
    for (size_t i = 0; i < m->n_running; i++)
        CHECK(!(task->alone && m->running[i].task->alone));
    m->running[m->n_running++] =
        (struct running){ task, w->now + (w->run_us + draw(w) % w->run_us) * 1000, w->poison[number] };
}

static size_t find_kept(const struct machine *m, const struct gd__queue_key *key)
{
    size_t i = 0;
    while (i < m->n_kept && !gd__queue_key_same(&m->kept[i].key, key))
        i++;
    return i;
}

static int on_keep(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct machine *m = user;
    const size_t i = find_kept(m, key);
    CHECK_LT(i, KEPT);
    if (i < m->n_kept)
        free(m->kept[i].data);
    else
        m->n_kept++;
    m->kept[i] = (struct kept){ *key, malloc(size), size };
    CHECK(m->kept[i].data);
    memcpy(m->kept[i].data, message, size);
    return 0;
}

static void on_forget(void *user, const struct gd__queue_key *key)
{
    struct machine *m = user;
    const size_t i = find_kept(m, key);
    if (i == m->n_kept) /* a record of an earlier run and one of this run had the same key */
        return;
    free(m->kept[i].data);
    m->kept[i] = m->kept[--m->n_kept];
}

static void on_decided(void *user, const struct gd__node_task *task, bool won)
{
    struct machine *m = user;
    m->w->won[task_number(m->w, &task->task.key)] += won;
}

static void on_finished(void *user, enum gd__node_end end, const char *text)
{
    struct machine *m = user;
    (void)text;
    CHECK(!m->done);
    m->done = true;
    m->end = end;
}

static void on_say(void *user, const char *line)
{
    struct machine *m = user;
    CHECK(line[0] != '\0');
    m->w->lines++;
}

static uint64_t on_random(void *user)
{
    return draw(((struct machine *)user)->w);
}

static void start_machine(struct world *w, struct machine *m)
{
    struct gd__node_config c = { .name = "q",
                                 .host = "h",
                                 .slots = w->slots,
                                 .crash_limit = CRASH_LIMIT,
                                 .lease_ms = LEASE_MS,
                                 .max_payload = 1 << 20,
                                 .idle_ns = UINT64_MAX,
                                 .lost_ns = 600 * S,
                                 .priorities = 1U << (0 - GD_PRIORITY_MIN) };
    const struct gd__node_effects e = { m,         on_ask,     on_tell,     on_give, on_keep,
                                        on_forget, on_decided, on_finished, on_say,  on_random };
    if (chance(w, 2)) /* otherwise it finds out by itself */
        c.priorities |= 1U << (2 - GD_PRIORITY_MIN);
    m->w = w;
    m->client = ++w->next_client;
    m->connected = true;
    m->done = false;
    m->n_running = m->n_out = 0;
    m->drain_ns = GD__NEVER;
    m->back_ns = GD__NEVER;
    if (gd__node_open(&m->node, &c, &e) < 0) {
        CHECK(w->no_memory && !m->node);
        m->back_ns = w->now + S;
        return;
    }
    for (size_t i = 0; i < m->n_kept; i++) {
        const int rc = gd__node_publish_kept(m->node, &m->kept[i].key, m->kept[i].data, m->kept[i].size);
        CHECK(rc == 0 || (rc == GD_E_NO_MEMORY && w->no_memory));
    }
    m->tick_ns = w->now;
}

static void stop_machine(struct world *w, struct machine *m, uint64_t away_ns)
{
    server_forget_client(&w->server, m->client);
    gd__node_close(&m->node);
    m->n_running = 0;
    m->done = false;
    m->back_ns = w->now + away_ns;
}

/* Somebody starts a node again while there is trouble: the server may still lose records that this node has seen. */
static void check_finished(struct world *w, struct machine *m)
{
    if (m->done && (m->end != GD__NODE_DONE || in_trouble(w)))
        stop_machine(w, m, draw(w) % (3 * S));
    else if (m->done)
        server_forget_client(&w->server, m->client);
}

/* --- packets arrive --- */

static bool is_outstanding(struct machine *m, uint64_t id, bool ended)
{
    for (size_t i = 0; i < m->n_out; i++) {
        if (m->out[i].id == id) {
            if (ended)
                m->out[i] = m->out[--m->n_out];
            return true;
        }
    }
    return false;
}

static void to_node(struct world *w, const struct packet *p)
{
    struct machine *m = find_machine(w, p->client);
    if (!m || !m->connected || m->done)
        return;
    struct gd__queue_answer a = p->answer;
    a.subject = p->subject;
    a.token = p->token;
    a.data = p->data;
    if (is_outstanding(m, a.id, a.kind != GD__ANSWER_ITEM)) {
        gd__node_answer(m->node, w->now, &a);
        m->tick_ns = w->now;
        check_finished(w, m);
    }
}

static void to_server(struct world *w, struct packet *p)
{
    struct gd__queue_request q = p->request;
    const struct machine *m = find_machine(w, p->client);
    if (m && !m->connected)
        return;
    if (p->kind == PACKET_NOTICE) {
        server_tell(&w->server, w->now, p->notice, p->token, p->delay_ms);
    } else {
        q.subject = q.subject ? p->subject : NULL;
        q.data = p->data;
        server_ask(&w->server, w->now, p->client, &q);
    }
    w->server_ns = w->now;
}

static void arrive(struct world *w, size_t i)
{
    struct packet p = w->packets[i];
    w->packets[i] = w->packets[--w->n_packets];
    if (p.kind == PACKET_ANSWER)
        to_node(w, &p);
    else
        to_server(w, &p);
    free(p.data);
}

/* --- machines --- */

static void lose_request(struct world *w, struct machine *m, size_t i)
{
    const struct gd__queue_answer a = { .id = m->out[i].id, .kind = GD__ANSWER_LOST, .text = "" };
    m->out[i] = m->out[--m->n_out];
    gd__node_answer(m->node, w->now, &a);
    m->tick_ns = w->now;
}

/* Nothing that is on its way survives the connection. */
static void drop_packets(struct world *w, unsigned client)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_packets; i++) {
        if (w->packets[i].client == client)
            free(w->packets[i].data);
        else
            w->packets[kept++] = w->packets[i];
    }
    w->n_packets = kept;
}

static void connection(struct world *w, struct machine *m, bool connected)
{
    m->connected = connected;
    drop_packets(w, m->client);
    if (!connected)
        server_forget_client(&w->server, m->client);
    gd__node_connected(m->node, w->now, connected);
    while (!connected && m->n_out > 0)
        lose_request(w, m, 0);
    m->tick_ns = w->now;
}

static void end_running(struct world *w, struct machine *m, size_t i)
{
    const struct running r = m->running[i];
    const unsigned number = task_number(w, &r.task->task.key);
    m->running[i] = m->running[--m->n_running];
    if (r.poison) {
        w->deaths[number]++;
        stop_machine(w, m, draw(w) % (2 * S));
        return;
    }
    m->tick_ns = w->now;
    if (w->trouble.returns && in_trouble(w) && chance(w, 20)) {
        gd__node_returned(m->node, w->now, r.task);
        return;
    }
    const struct gd__queue_record record = { .state = GD__QUEUE_DONE, .attempts = 1, .run_us = w->run_us };
    gd__node_ended(m->node, w->now, r.task, &record);
}

/* A drain lets running tasks end; those that have not begun in the scheduler come back. */
static void drain_machine(struct world *w, struct machine *m)
{
    m->drain_ns = GD__NEVER;
    gd__node_drain(m->node, w->now);
    while (m->n_running > w->slots) {
        const struct gd__node_task *t = m->running[--m->n_running].task;
        gd__node_returned(m->node, w->now, t);
    }
    m->tick_ns = w->now;
}

static uint64_t machine_next(const struct machine *m)
{
    uint64_t next = m->back_ns;
    if (m->done)
        return GD__NEVER;
    if (!m->node)
        return m->back_ns;
    next = m->tick_ns < next ? m->tick_ns : next;
    next = m->drain_ns < next ? m->drain_ns : next;
    for (size_t i = 0; i < m->n_running; i++)
        next = m->running[i].end_ns < next ? m->running[i].end_ns : next;
    for (size_t i = 0; i < m->n_out; i++)
        next = m->out[i].until_ns < next ? m->out[i].until_ns : next;
    return next;
}

static void machine_tick(struct world *w, struct machine *m)
{
    m->tick_ns = gd__node_tick(m->node, w->now);
    if (m->tick_ns <= w->now)
        m->tick_ns = w->now + 1;
    check_finished(w, m);
}

static void machine_event(struct world *w, struct machine *m)
{
    if (!m->node) {
        start_machine(w, m);
        return;
    }
    if (!m->connected && m->back_ns <= w->now) {
        m->back_ns = GD__NEVER;
        connection(w, m, true);
        return;
    }
    if (m->drain_ns <= w->now) {
        drain_machine(w, m);
        return;
    }
    for (size_t i = 0; i < m->n_running; i++) {
        if (m->running[i].end_ns <= w->now) {
            end_running(w, m, i);
            return;
        }
    }
    for (size_t i = 0; i < m->n_out; i++) {
        if (m->out[i].until_ns <= w->now) {
            lose_request(w, m, i);
            return;
        }
    }
    machine_tick(w, m);
}

/* --- trouble --- */

static void server_death(struct world *w)
{
    struct server_loss loss = { .counts = true, .deliveries_ns = draw(w) % (2 * S) };
    if (w->trouble.server_forgets && chance(w, 2)) {
        loss.tasks_ns = 0;
        loss.records_ns = draw(w) % S;
        loss.states_ns = draw(w) % S;
        w->lossy = true;
    }
    server_die(&w->server, w->now, &loss);
    for (unsigned client = 0; client <= w->next_client; client++)
        drop_packets(w, client);
    for (unsigned i = 0; i < w->n_machines; i++) {
        struct machine *m = &w->machines[i];
        if (m->node && !m->done && m->connected) {
            connection(w, m, false);
            m->back_ns = w->now + 100 * MS + draw(w) % S;
        }
    }
    w->server_ns = w->now;
}

static void make_trouble(struct world *w)
{
    struct machine *m = &w->machines[draw(w) % w->n_machines];
    const bool is_up = m->node && !m->done;
    switch (draw(w) % 5) {
    case 0:
        if (w->trouble.kills && is_up)
            stop_machine(w, m, draw(w) % (2 * LEASE_MS * MS));
        break;
    case 1:
        if (w->trouble.drains && is_up)
            m->drain_ns = w->now;
        break;
    case 2:
        if (w->trouble.partitions && is_up && m->connected) {
            connection(w, m, false);
            m->back_ns = w->now + draw(w) % (3 * LEASE_MS * MS);
        }
        break;
    case 3:
        if (w->trouble.server_dies)
            server_death(w);
        break;
    default:
        break;
    }
}

/* --- a run --- */

static void push(struct world *w, unsigned first, unsigned count, int priority)
{
    struct gd__queue_writer writer;
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = priority };
    char subject[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_tasks_begin(&writer, 1 << 20);
    for (unsigned i = first; i < first + count; i++) {
        const struct gd__queue_task t = { .key = gd__queue_task_key(&i, sizeof i, 0),
                                          .number = i,
                                          .payload = { .form = GD__QUEUE_INLINE, .bytes = { "x", 1 } } };
        w->keys[i] = t.key;
        CHECK_EQ(gd__queue_tasks_add(&writer, &t), 0);
    }
    CHECK_EQ(gd__queue_message_end(&writer, &s.key), 0);
    gd__queue_subject_text(subject, "q", &s);
    server_ask(&w->server, w->now, 0,
               &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                            .stream = GD__QUEUE_TASK,
                                            .subject = subject,
                                            .data = writer.message.data,
                                            .size = writer.message.size });
    gd__queue_writer_free(&writer);
    w->n_messages++;
}

static void push_all(struct world *w, unsigned tasks, unsigned bundle)
{
    static const int priorities[] = { 0, 2 };
    for (unsigned first = 0; first < tasks;) {
        const unsigned wanted = 1 + (unsigned)(draw(w) % bundle), left = tasks - first;
        push(w, first, wanted < left ? wanted : left, priorities[draw(w) % 2]);
        first += wanted < left ? wanted : left;
    }
    w->n_tasks = tasks;
    for (unsigned i = 0; i < tasks && w->trouble.poison; i++)
        w->poison[i] = chance(w, 60);
}

static void open_world(struct world *w, uint64_t seed, const struct trouble *trouble)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    memset(w, 0, sizeof *w);
    w->random = seed * 2 + 1;
    for (int i = 0; i < 20; i++)
        (void)draw(w);
    w->trouble = *trouble;
    w->now = 1000 * S;
    server_open(&w->server, "q", &(struct server_effects){ .user = w, .answer = on_server_answer, .random = NULL });
    for (int i = 0; i < 3; i++)
        server_ask(&w->server, w->now, 0,
                   &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = kinds[i], .replicas = 1 });
    for (int p = 0; p <= 2; p += 2)
        server_ask(&w->server, w->now, 0,
                   &(struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .priority = p, .lease_ms = LEASE_MS });
    w->slots = 1 + (unsigned)(draw(w) % 4);
    w->run_us = chance(w, 2) ? 5000 : 300000;
    w->n_machines = 1 + (unsigned)(draw(w) % NODES);
    push_all(w, 20 + (unsigned)(draw(w) % 100), chance(w, 2) ? 1 : 20);
    for (unsigned i = 0; i < w->n_machines; i++)
        start_machine(w, &w->machines[i]);
}

static void close_world(struct world *w)
{
    for (unsigned i = 0; i < w->n_machines; i++) {
        struct machine *m = &w->machines[i];
        gd__node_close(&m->node);
        for (size_t k = 0; k < m->n_kept; k++)
            free(m->kept[k].data);
    }
    for (size_t i = 0; i < w->n_packets; i++)
        free(w->packets[i].data);
    free(w->packets);
    server_close(&w->server);
}

static bool all_done(const struct world *w)
{
    for (unsigned i = 0; i < w->n_machines; i++) {
        if (!w->machines[i].done || w->machines[i].end != GD__NODE_DONE)
            return false;
    }
    return true;
}

/* Does the next thing that happens. */
static void advance(struct world *w)
{
    uint64_t next = w->server_ns;
    struct machine *who = NULL;
    size_t packet = SIZE_MAX;
    for (unsigned i = 0; i < w->n_machines; i++) {
        if (machine_next(&w->machines[i]) < next) {
            who = &w->machines[i];
            next = machine_next(who);
        }
    }
    for (size_t i = 0; i < w->n_packets; i++) {
        if (w->packets[i].at_ns < next) {
            packet = i;
            next = w->packets[i].at_ns;
        }
    }
    CHECK(next != GD__NEVER);
    w->now = next > w->now ? next : w->now;
    if (packet != SIZE_MAX)
        arrive(w, packet);
    else if (who)
        machine_event(w, who);
    else
        w->server_ns = server_tick(&w->server, w->now);
}

/* --- what must hold --- */

static void count_records(struct world *w, unsigned ends[TASKS_MOST], unsigned crashes[TASKS_MOST])
{
    const struct store *records = &w->server.records;
    for (size_t i = 0; i < records->n; i++) {
        const struct stored *m = &records->all[i];
        struct gd__queue_subject s;
        struct gd__queue_reader r;
        struct gd__queue_record e;
        if (m->replaced_ns != GD__NEVER)
            continue;
        CHECK_EQ(gd__queue_subject_parse(&s, "q", m->subject), 0);
        CHECK_EQ(gd__queue_records_open(&r, m->data, m->size, &s.key), 0);
        while (gd__queue_records_next(&r, &e)) {
            const unsigned number = task_number(w, &e.key);
            CHECK_EQ(e.number, number);
            ends[number] += e.state != GD__QUEUE_MOVED;
            crashes[number] += e.state == GD__QUEUE_FAILED;
        }
    }
}

static void check_records(struct world *w, uint64_t seed)
{
    unsigned ends[TASKS_MOST] = { 0 }, crashes[TASKS_MOST] = { 0 };
    count_records(w, ends, crashes);
    for (unsigned i = 0; i < w->n_tasks; i++) {
        /* A server that has lost the record of a bundle, but not the rest of it, lets a task end twice. */
        if (ends[i] != 1 && !(w->lossy && ends[i] > 1))
            FAIL("seed %llu: task %u has %u records", (unsigned long long)seed, i, ends[i]);
        if (w->won[i] > 1 && !w->lossy)
            FAIL("seed %llu: two nodes were told that their record of task %u counts", (unsigned long long)seed, i);
        if (w->deaths[i] > CRASH_LIMIT + 1 && w->trouble.poison && !w->trouble.kills)
            FAIL("seed %llu: task %u has killed %u nodes", (unsigned long long)seed, i, w->deaths[i]);
        /* Whether a node died or is only not heard of, nobody can tell. */
        if (!crashes[i] != !w->poison[i] && (w->poison[i] || !(w->trouble.kills || w->trouble.network)))
            FAIL("seed %llu: task %u is %sa crash", (unsigned long long)seed, i, crashes[i] ? "" : "not ");
    }
}

static void finish_seed(struct world *w, uint64_t seed)
{
    w->until_ns = w->now + 2 * S + draw(w) % (60 * S);
    uint64_t trouble_ns = w->now + draw(w) % S;
    const uint64_t limit = w->until_ns + 1000 * S;
    while (!all_done(w)) {
        advance(w);
        if (w->now >= trouble_ns && in_trouble(w)) {
            make_trouble(w);
            trouble_ns = w->now + draw(w) % (3 * S);
        }
        if (w->now > limit)
            FAIL("seed %llu: not done", (unsigned long long)seed);
    }
    check_records(w, seed);
}

/* Each of these runs has one allocation that fails. What was held in it is given back, or done later. */
TEST(no_memory)
{
    static struct world w;
    const struct trouble trouble = { .kills = true, .drains = true, .partitions = true, .poison = true };
    unsigned lines = 0;
    for (uint64_t seed = 0; seed < 150 * (test_soak() ? 50 : 1); seed++) {
        open_world(&w, seed, &trouble);
        w.no_memory = true;
        gd__fault_begin(1 + draw(&w) % 1500);
        finish_seed(&w, seed);
        gd__fault_begin(0);
        lines += w.lines;
        close_world(&w);
    }
    CHECK_GT(lines, 50);
}

static void run_seeds(const struct trouble *trouble, uint64_t seeds)
{
    static struct world w;
    const char *one = getenv("GD_SEED");
    const uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    for (uint64_t seed = first; seed < (one ? first + 1 : seeds * (test_soak() ? 50 : 1)); seed++) {
        open_world(&w, seed, trouble);
        finish_seed(&w, seed);
        close_world(&w);
    }
}

TEST(no_trouble)
{
    run_seeds(&(struct trouble){ 0 }, 60);
}

TEST(a_network_that_drops_repeats_and_delays)
{
    run_seeds(&(struct trouble){ .network = true }, 60);
}

TEST(nodes_are_killed_drained_and_cut_off)
{
    run_seeds(&(struct trouble){ .kills = true, .drains = true, .partitions = true, .returns = true }, 60);
}

TEST(a_server_that_dies)
{
    run_seeds(&(struct trouble){ .server_dies = true }, 60);
}

TEST(a_server_that_forgets)
{
    run_seeds(&(struct trouble){ .server_dies = true, .server_forgets = true }, 60);
}

TEST(tasks_that_kill_nodes)
{
    run_seeds(&(struct trouble){ .poison = true }, 60);
}

TEST(everything_at_once)
{
    run_seeds(&(struct trouble){ true, true, true, true, true, true, true, true }, 100);
}

TEST_MAIN()
