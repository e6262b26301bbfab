/* SPDX-License-Identifier: MIT
 *
 * A node whose server is hostile: the bytes say what happens next. Requests are answered in any order, with any kind of
 * answer and any contents, also with valid messages that do not belong there. Tasks end, come back, or take long; the
 * connection is lost and comes back; time passes. Nothing that a server sends may crash a node, and what a node publishes
 * is valid.
 */
#include <gpu_dispatch/dispatcher.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/messages/marker.h"
#include "queue/node/node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPEN = 4096, GIVEN = 4096, EVENTS = 2000, TASKS = 6 };

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

struct state {
    const uint8_t *at;
    size_t left;
    struct gd__node *node;
    struct {
        uint64_t id;
        enum gd__queue_ask ask;
        char subject[GD__QUEUE_SUBJECT_ROOM];
    } open[OPEN];
    size_t n_open;
    const struct gd__node_task *given[GIVEN];
    size_t n_given;
    bool finished, connected;
    uint64_t now, random;
};

static uint8_t next(struct state *s)
{
    if (s->left == 0)
        return 0;
    s->left--;
    return *s->at++;
}

/* --- what the node does --- */

/* A sign of life: its subject ends with the nonce that is its content, as hexadecimal digits. */
static bool is_sign_of_life(const struct gd__queue_request *q)
{
    static const char begin[] = "gd.q.s.alive.";
    const unsigned char *nonce = q->data;
    if (strncmp(q->subject, begin, sizeof begin - 1) != 0)
        return false;
    MUST(q->size == GD__QUEUE_NONCE_SIZE && q->condition == GD__IF_ANY);
    MUST(strlen(q->subject) == sizeof begin - 1 + 2 * GD__QUEUE_NONCE_SIZE);
    for (size_t i = 0; i < GD__QUEUE_NONCE_SIZE; i++) {
        char digits[3];
        (void)snprintf(digits, sizeof digits, "%02x", nonce[i]);
        MUST(strncmp(q->subject + sizeof begin - 1 + 2 * i, digits, 2) == 0);
    }
    return true;
}

/* What a node publishes, any other node can read. */
static void check_published(const struct gd__queue_request *q)
{
    struct gd__queue_subject subject;
    struct gd__queue_reader r;
    struct gd__queue_marker marker;
    if (is_sign_of_life(q))
        return;
    MUST(gd__queue_subject_parse(&subject, "q", q->subject) == 0);
    if (subject.kind == GD__QUEUE_RECORD)
        MUST(gd__queue_records_open(&r, q->data, q->size, &subject.key) == 0 && q->condition == GD__IF_NONE);
    else if (subject.kind == GD__QUEUE_STATE)
        MUST(gd__queue_marker_read(&marker, q->data, q->size) == 0 && q->condition != GD__IF_ANY);
    else /* a repair sends what it has read, whatever that is */
        MUST(q->condition == GD__IF_NONE);
}

static void on_ask(void *user, const struct gd__queue_request *q)
{
    struct state *s = user;
    MUST(s->connected && !s->finished);
    if (q->ask == GD__ASK_PUBLISH)
        check_published(q);
    if (s->n_open == OPEN)
        return;
    s->open[s->n_open].id = q->id;
    s->open[s->n_open].ask = q->ask;
    (void)snprintf(s->open[s->n_open].subject, GD__QUEUE_SUBJECT_ROOM, "%s", q->subject ? q->subject : "");
    s->n_open++;
}

static void on_tell(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    (void)user, (void)delay_ms;
    MUST(notice >= GD__TELL_ACK && notice <= GD__TELL_WORKING && token);
}

static void on_give(void *user, const struct gd__node_task *task)
{
    struct state *s = user;
    MUST(s->n_given < GIVEN && task->message);
    s->given[s->n_given++] = task;
}

static int on_keep(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct gd__queue_reader r;
    (void)user;
    MUST(gd__queue_records_open(&r, message, size, key) == 0);
    return 0;
}

static void on_forget(void *user, const struct gd__queue_key *key)
{
    (void)user, (void)key;
}

static void on_decided(void *user, const struct gd__node_task *task, bool won)
{
    (void)user, (void)won;
    MUST(task->task.key.tasks == 1);
}

static void on_finished(void *user, enum gd__node_end end, const char *text)
{
    struct state *s = user;
    MUST(!s->finished && text && end >= GD__NODE_DONE);
    s->finished = true;
}

static void on_say(void *user, const char *line)
{
    (void)user;
    MUST(line[0] != '\0');
}

static uint64_t on_random(void *user)
{
    struct state *s = user;
    s->random = s->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return s->random >> 8;
}

/* --- what happens --- */

static struct gd__queue_key key_of(unsigned number)
{
    return gd__queue_task_key(&number, sizeof number, 0);
}

/* Valid messages with the tasks first, first + 1, ... */
static void write_tasks(struct gd__queue_writer *w, unsigned first, unsigned count, struct gd__queue_key *key)
{
    gd__queue_tasks_begin(w, 1 << 20);
    for (unsigned i = first; i < first + count; i++) {
        const struct gd__queue_task t = { .key = key_of(i),
                                          .number = i,
                                          .payload = { .form = GD__QUEUE_INLINE, .bytes = { "x", 1 } } };
        MUST(gd__queue_tasks_add(w, &t) == 0);
    }
    MUST(gd__queue_message_end(w, key) == 0);
}

static void write_records(struct gd__queue_writer *w, unsigned first, unsigned count, unsigned moved)
{
    static const unsigned char nonce[GD__QUEUE_NONCE_SIZE] = "n";
    struct gd__queue_key key;
    gd__queue_records_begin(w, 1 << 20, nonce, (struct gd__queue_text){ "h", 1 });
    for (unsigned i = first; i < first + count; i++) {
        struct gd__queue_record r = { .key = key_of(i), .number = i, .state = GD__QUEUE_DONE };
        if (moved >> (i - first) & 1)
            r.state = GD__QUEUE_MOVED;
        MUST(gd__queue_records_add(w, &r) == 0);
    }
    MUST(gd__queue_message_end(w, &key) == 0);
}

static void send(struct state *s, struct gd__queue_answer *a)
{
    gd__node_answer(s->node, s->now, a);
}

/* An answer with a message: any bytes, a marker, a record, or tasks. */
static void answer_contents(struct state *s, struct gd__queue_answer *a)
{
    const uint8_t what = next(s), first = next(s) % TASKS, count = 1 + next(s) % TASKS;
    char subject[GD__QUEUE_SUBJECT_ROOM] = "";
    unsigned char marker[GD__QUEUE_MARKER_SIZE];
    struct gd__queue_writer w = { 0 };
    struct gd__queue_subject name = { .kind = GD__QUEUE_TASK };
    write_tasks(&w, first, count, &name.key);
    w.message.data[6] = what & 1; /* the flag of a suspect */
    name.resend = what >> 1 & 1;
    gd__queue_subject_text(subject, "q", &name);
    a->subject = subject;
    a->data = w.message.data;
    a->size = w.message.size;
    if (what % 8 == 7) {
        a->size = next(s) < s->left ? next(s) % (s->left + 1) : s->left;
        a->data = s->at;
    } else if (what % 8 == 6) {
        gd__queue_marker_write(marker, &(struct gd__queue_marker){ .together = next(s) & 1, .alone = next(s) % 5 });
        a->data = marker;
        a->size = sizeof marker;
    } else if (what % 8 >= 4) {
        gd__queue_writer_free(&w);
        write_records(&w, first, count, next(s));
        a->data = w.message.data;
        a->size = w.message.size;
    } else if (what % 8 == 3) {
        name.kind = GD__QUEUE_RECORD;
        name.resend = 0;
        gd__queue_subject_text(subject, "q", &name);
    }
    send(s, a);
    gd__queue_writer_free(&w);
}

static void answer(struct state *s)
{
    static const uint64_t numbers[] = { 0, 1, 2, 1000, UINT64_MAX };
    if (s->n_open == 0)
        return;
    const size_t i = (next(s) | (size_t)next(s) << 8) % s->n_open;
    struct gd__queue_answer a = { .id = s->open[i].id,
                                  .kind = 1 + next(s) % GD__ANSWER_FAILED,
                                  .text = next(s) & 1 ? "text" : "",
                                  .subject = s->open[i].subject,
                                  .sequence = next(s),
                                  .token = "token",
                                  .deliveries = next(s) % 4,
                                  .pending = next(s) % 2 };
    a.consumer.pending = numbers[next(s) % 5];
    a.consumer.unacknowledged = numbers[next(s) % 3];
    a.consumer.waiting = numbers[next(s) % 5];
    a.stream.messages = numbers[next(s) % 5];
    a.time_us = numbers[next(s) % 5];
    if (a.kind == GD__ANSWER_DENIED && next(s) % 8) /* otherwise everything ends at once */
        a.kind = GD__ANSWER_LATER;
    if (a.kind != GD__ANSWER_ITEM)
        s->open[i] = s->open[--s->n_open];
    answer_contents(s, &a);
}

static void end_given(struct state *s, bool ended)
{
    static const char output[65536];
    if (s->n_given == 0)
        return;
    const size_t i = next(s) % s->n_given;
    const struct gd__node_task *t = s->given[i];
    s->given[i] = s->given[--s->n_given];
    if (!ended) {
        gd__node_charged(s->node, s->now, t, (uint32_t)(i % 4));
        return;
    }
    const struct gd__queue_record r = { .state = GD__QUEUE_DONE,
                                        .attempts = 1,
                                        .run_us = (uint64_t)1 << next(s) % 30,
                                        .output = { .form = GD__QUEUE_INLINE, .bytes = { output, next(s) * 257U } } };
    gd__node_ended(s->node, s->now, t, &r);
}

static void connect(struct state *s, bool connected)
{
    s->connected = connected;
    gd__node_connected(s->node, s->now, connected);
    while (!connected && s->n_open > 0) {
        struct gd__queue_answer a = { .id = s->open[--s->n_open].id, .kind = GD__ANSWER_LOST, .text = "" };
        send(s, &a);
    }
}

static void happen(struct state *s)
{
    const uint8_t what = next(s);
    if (what < 160)
        answer(s);
    else if (what < 200)
        end_given(s, what < 190);
    else if (what < 250)
        s->now += (uint64_t)1 << (20 + next(s) % 17);
    else if (what < 254)
        connect(s, what < 252 || !s->connected);
    else if (what == 254)
        gd__node_drain(s->node, s->now);
    (void)gd__node_tick(s->node, s->now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state state;
    struct state *s = &state;
    *s = (struct state){ .at = data, .left = size, .connected = true, .now = 1000000000 };
    const uint8_t first = next(s);
    const struct gd__node_config c = { .name = "q",
                                       .host = "h",
                                       .slots = 1 + first % 4,
                                       .crash_limit = 1 + (first >> 2) % 3,
                                       .lease_ms = 3000,
                                       .max_payload = first & 16 ? 1 << 20 : 70000,
                                       .idle_ns = first & 32 ? UINT64_MAX : UINT64_C(60000000000),
                                       .stay = first & 64,
                                       .lost_ns = UINT64_C(60000000000),
                                       .priorities = first & 128 ? 0x90 : 0x10 };
    const struct gd__node_effects e = { s,         on_ask,     on_tell,     on_give, on_keep,
                                        on_forget, on_decided, on_finished, on_say,  on_random };
    MUST(gd__node_open(&s->node, &c, &e) == 0);
    (void)gd__node_tick(s->node, s->now);
    for (int i = 0; i < EVENTS && s->left > 0 && !s->finished; i++)
        happen(s);
    gd__node_close(&s->node);
    return 0;
}
