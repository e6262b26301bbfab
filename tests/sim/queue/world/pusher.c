/* Adds tasks to the queue, by the rules of src/queue/push/, which waits for answers and so cannot run in virtual time:
 * takes the lock, reads which tasks the queue has, sends the others, and releases the lock. A request without an answer
 * is sent again. See world.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/push/state.h"
#include "sim/queue/world/world.h"

enum { PUSHER = 0x70757368 }; /* an event for the pusher has no machine */
#define NONCE    "00112233445566778899aabbccddeeff"
#define AGAIN_NS (500 * GD__NS_PER_MS)

static void go_on(struct world *w);

static void ask(struct world *w, struct gd__queue_request *r)
{
    struct pusher *p = &w->pusher;
    r->id = p->waiting_id = ++p->next_id;
    link_ask(w, p->link, r);
}

static void ask_state(struct world *w, bool open)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__buffer text = { 0 };
    const struct gd__push_state state = { .open = open, .host = "pusher", .pid = 1, .started = 1, .nonce = NONCE };
    gd__push_state_write(&text, &state);
    WORLD_MUST(w, !text.failed, "no memory");
    w->pusher.beat_ns = w->now;
    ask(w, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                        .subject = gd__queue_state_text(subject, WORLD_NAME, "push"),
                                        .data = text.data,
                                        .size = text.size,
                                        .condition = GD__IF_ANY });
    gd__buffer_free(&text);
}

static int priority_of(const struct world *w, unsigned number)
{
    return (int)(sim_mix(w->seed ^ 0x7072696f, number) % w->plan.priorities);
}

/* How many tasks the message that begins with this task has. */
static unsigned message_size(const struct world *w, unsigned first)
{
    const struct plan *plan = &w->plan;
    unsigned most = plan->bundle;
    if (plan->mixed_bundles)
        most = 1 + (unsigned)(sim_mix(w->seed ^ 0x73697a65, first) % plan->bundle);
    unsigned n = 1;
    while (n < most && first + n < w->pusher.upto && !w->pusher.known[first + n] &&
           priority_of(w, first + n) == priority_of(w, first))
        n++;
    return n;
}

/* Writes the message that begins with the task p->sent. */
static void write_message(struct world *w, struct gd__queue_writer *writer, char subject[GD__QUEUE_SUBJECT_ROOM])
{
    struct pusher *p = &w->pusher;
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = priority_of(w, p->sent) };
    p->count = message_size(w, p->sent);
    gd__queue_tasks_begin(writer, w->server.max_payload);
    for (unsigned i = p->sent; i < p->sent + p->count; i++) {
        char text[32];
        const int size = snprintf(text, sizeof text, "%u", i);
        const struct gd__queue_task task = { .key = w->tasks[i].key,
                                             .number = i,
                                             .payload = { .form = GD__QUEUE_INLINE, .bytes = { text, (size_t)size } } };
        WORLD_MUST(w, gd__queue_tasks_add(writer, &task) == 0, "a task does not fit into its message");
        w->tasks[i].in_bundle |= p->count > 1;
    }
    WORLD_MUST(w, gd__queue_message_end(writer, &s.key) == 0, "a message cannot be completed");
    gd__queue_subject_text(subject, WORLD_NAME, &s);
}

static void send_message(struct world *w)
{
    struct gd__queue_writer writer;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    write_message(w, &writer, subject);
    ask(w, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                        .subject = subject,
                                        .data = writer.message.data,
                                        .size = writer.message.size,
                                        .condition = GD__IF_NONE });
    gd__queue_writer_free(&writer);
}

void pusher_fill(struct world *w)
{
    struct pusher *p = &w->pusher;
    p->upto = w->plan.n_tasks;
    w->links[p->link]->connected = false; /* nobody waits for these answers */
    for (p->sent = 0; p->sent < p->upto; p->sent += p->count) {
        struct gd__queue_writer writer;
        char subject[GD__QUEUE_SUBJECT_ROOM];
        write_message(w, &writer, subject);
        server_ask(&w->server, w->now, p->link,
                   &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                                .id = UINT64_MAX,
                                                .subject = subject,
                                                .data = writer.message.data,
                                                .size = writer.message.size,
                                                .condition = GD__IF_NONE });
        gd__queue_writer_free(&writer);
    }
    w->links[p->link]->connected = true;
}

static void send_next(struct world *w)
{
    struct pusher *p = &w->pusher;
    while (p->sent < p->upto && p->known[p->sent])
        p->sent++;
    if (p->sent < p->upto) {
        send_message(w);
        return;
    }
    p->step = PUSHER_UNLOCKS;
    go_on(w);
}

static void go_on(struct world *w)
{
    struct pusher *p = &w->pusher;
    switch (p->step) {
    case PUSHER_RESTS:
        break;
    case PUSHER_LOCKS:
        ask_state(w, true);
        break;
    case PUSHER_READS:
        ask(w, &(struct gd__queue_request){
                   .ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = p->read_from, .most = 100 });
        break;
    case PUSHER_SENDS:
        p->beats = w->now >= p->beat_ns + GD__PUSH_BEAT_MS * GD__NS_PER_MS;
        if (p->beats)
            ask_state(w, true);
        else
            send_next(w);
        break;
    case PUSHER_UNLOCKS:
        ask_state(w, false);
        break;
    }
}

static void finish(struct world *w)
{
    struct pusher *p = &w->pusher;
    world_trace(w, "the push of %u tasks is finished", p->upto);
    p->step = PUSHER_RESTS;
    p->finished++;
    p->finished_ns = w->now;
    if (p->again)
        pusher_start(w, p->next_upto);
}

static void note_known(struct world *w, const struct gd__queue_answer *a)
{
    struct pusher *p = &w->pusher;
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    p->read_from = a->sequence + 1;
    WORLD_MUST(w, gd__queue_tasks_open(&reader, a->data, a->size, NULL) == 0, "a task message is damaged");
    while (gd__queue_tasks_next(&reader, &task))
        p->known[ledger_number(w, &task)] = true;
}

static void next_step(struct world *w, uint64_t items)
{
    struct pusher *p = &w->pusher;
    if (p->step == PUSHER_LOCKS) {
        p->step = PUSHER_READS;
    } else if (p->step == PUSHER_READS && items == 0) {
        p->step = PUSHER_SENDS;
    } else if (p->step == PUSHER_SENDS) {
        p->sent += p->beats ? 0 : p->count;
    } else if (p->step == PUSHER_UNLOCKS) {
        finish(w);
        return;
    }
    go_on(w);
}

static void on_answer(void *user, const struct gd__queue_answer *a)
{
    struct world *w = user;
    struct pusher *p = &w->pusher;
    if (a->id != p->waiting_id)
        return;
    if (a->kind == GD__ANSWER_ITEM) {
        note_known(w, a);
        p->items++;
        return;
    }
    p->waiting_id = 0;
    const uint64_t items = p->items;
    p->items = 0;
    if (a->kind == GD__ANSWER_OK || a->kind == GD__ANSWER_REFUSED)
        next_step(w, items);
    else
        world_put(w, &(struct event){ .at = w->now + AGAIN_NS, .kind = EVENT_PUSHER, .number = p->next_id });
}

static void on_connected(void *user, bool is_connected)
{
    struct world *w = user;
    w->pusher.connected = is_connected;
}

void pusher_event(struct world *w, const struct event *e)
{
    if (e->who == PUSHER)
        pusher_start(w, (unsigned)e->number);
    else if (e->number == w->pusher.next_id)
        go_on(w);
}

void pusher_start(struct world *w, unsigned upto)
{
    struct pusher *p = &w->pusher;
    if (p->step != PUSHER_RESTS) {
        p->again = true; /* what is being sent must not change */
        p->next_upto = upto > p->next_upto ? upto : p->next_upto;
        return;
    }
    world_trace(w, "a push of %u tasks begins", upto);
    p->again = false;
    p->upto = upto > p->upto ? upto : p->upto;
    p->step = PUSHER_LOCKS;
    p->sent = 0;
    p->read_from = 1;
    memset(p->known, 0, w->plan.n_tasks);
    go_on(w);
}

void pusher_open(struct world *w)
{
    struct pusher *p = &w->pusher;
    p->known = calloc(w->plan.n_tasks + 1, 1);
    if (!p->known)
        abort();
    p->link = link_open(w, w, on_answer, on_connected);
    if (w->plan.pushed_before) {
        pusher_fill(w);
        return;
    }
    for (unsigned i = 0; i < w->plan.pushes; i++) {
        const uint64_t upto = (uint64_t)w->plan.n_tasks * (i + 1) / w->plan.pushes;
        world_put(w, &(struct event){ .at = w->now + w->plan.faults_ns * i / (w->plan.pushes + 1),
                                      .kind = EVENT_PUSHER,
                                      .who = PUSHER,
                                      .number = upto });
    }
}

void pusher_close(struct world *w)
{
    free(w->pusher.known);
}
