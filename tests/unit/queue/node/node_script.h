/* SPDX-License-Identifier: MIT
 *
 * A node whose server is the test itself: what the node asks, tells and gives is noted, and the test answers.
 */
#ifndef GD_TESTS_UNIT_QUEUE_NODE_NODE_SCRIPT_H
#define GD_TESTS_UNIT_QUEUE_NODE_NODE_SCRIPT_H

#include <gpu_dispatch/dispatcher.h>
#include <inttypes.h>

#include "queue/messages/marker.h"
#include "queue/node/node.h"
#include "support/test.h"

enum { NOTED = 4096, KEPT_BYTES = 4096 };
#define MS UINT64_C(1000000)

struct asked {
    struct gd__queue_request q;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    unsigned char *data;
    bool ended;
};

struct told {
    enum gd__queue_notice notice;
    char token[GD__QUEUE_TOKEN_ROOM];
    uint32_t delay_ms;
};

struct script {
    struct gd__node *node;
    uint64_t now, due, random;
    struct asked asked[NOTED];
    struct told told[NOTED];
    const struct gd__node_task *given[NOTED];
    bool won[NOTED];
    size_t asks, tells, gives, decisions, keeps, forgets, lines, finishes;
    enum gd__node_end end;
    char text[512], line[512];
    uint64_t next_sequence;
    int keep_rc;
};

TEST_UNUSED static void script_ask(void *user, const struct gd__queue_request *q)
{
    struct script *s = user;
    CHECK_LT(s->asks, NOTED);
    struct asked *a = &s->asked[s->asks++];
    a->q = *q;
    if (q->subject)
        snprintf(a->subject, sizeof a->subject, "%s", q->subject);
    a->data = malloc(q->size + 1);
    CHECK(a->data);
    if (q->size > 0)
        memcpy(a->data, q->data, q->size);
    a->q.subject = a->subject;
    a->q.data = a->data;
}

TEST_UNUSED static void script_tell(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    struct script *s = user;
    CHECK_LT(s->tells, NOTED);
    struct told *t = &s->told[s->tells++];
    t->notice = notice;
    t->delay_ms = delay_ms;
    snprintf(t->token, sizeof t->token, "%s", token);
}

TEST_UNUSED static void script_give(void *user, const struct gd__node_task *task)
{
    struct script *s = user;
    CHECK_LT(s->gives, NOTED);
    s->given[s->gives++] = task;
}

TEST_UNUSED static int script_keep(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct script *s = user;
    struct gd__queue_reader r;
    CHECK_EQ(gd__queue_records_open(&r, message, size, key), 0);
    s->keeps++;
    return s->keep_rc;
}

TEST_UNUSED static void script_forget(void *user, const struct gd__queue_key *key)
{
    (void)key;
    ((struct script *)user)->forgets++;
}

TEST_UNUSED static void script_decided(void *user, const struct gd__node_task *task, bool won)
{
    struct script *s = user;
    CHECK(task->message);
    s->won[s->decisions++] = won;
}

TEST_UNUSED static void script_finished(void *user, enum gd__node_end end, const char *text)
{
    struct script *s = user;
    s->finishes++;
    s->end = end;
    snprintf(s->text, sizeof s->text, "%s", text);
}

TEST_UNUSED static void script_say(void *user, const char *line)
{
    struct script *s = user;
    s->lines++;
    snprintf(s->line, sizeof s->line, "%s", line);
}

TEST_UNUSED static uint64_t script_random(void *user)
{
    struct script *s = user;
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return s->random * UINT64_C(2685821657736338717);
}

TEST_UNUSED static struct gd__node_config script_config(void)
{
    return (struct gd__node_config){ .name = "q",
                                     .host = "h",
                                     .slots = 2,
                                     .crash_limit = 3,
                                     .lease_ms = 30000,
                                     .max_payload = 1 << 20,
                                     .idle_ns = UINT64_MAX,
                                     .lost_ns = UINT64_C(600000) * MS,
                                     .priorities = 1U << (0 - GD_PRIORITY_MIN) };
}

TEST_UNUSED static struct script *script_open(const struct gd__node_config *config)
{
    struct script *s = calloc(1, sizeof *s);
    CHECK(s);
    s->random = 88172645463325252U;
    s->now = UINT64_C(1000) * MS;
    const struct gd__node_effects effects = { s,           script_ask,    script_tell,    script_give,
                                              script_keep, script_forget, script_decided, script_finished,
                                              script_say,  script_random };
    CHECK_EQ(gd__node_open(&s->node, config, &effects), 0);
    return s;
}

TEST_UNUSED static void script_close(struct script *s)
{
    gd__node_close(&s->node);
    CHECK(s->node == NULL);
    for (size_t i = 0; i < s->asks; i++)
        free(s->asked[i].data);
    free(s);
}

TEST_UNUSED static void tick(struct script *s)
{
    s->due = gd__node_tick(s->node, s->now);
}

/* Lets time pass: a tick whenever the node wants one. */
TEST_UNUSED static void pass(struct script *s, uint64_t ms)
{
    const uint64_t end = s->now + ms * MS;
    tick(s);
    while (s->due <= end) {
        s->now = s->due > s->now ? s->due : s->now + 1;
        tick(s);
    }
    s->now = end;
    tick(s);
}

/* The oldest request of this kind that has no answer; NULL: none. */
TEST_UNUSED static struct asked *find_asked(struct script *s, enum gd__queue_ask ask, const char *part)
{
    for (size_t i = 0; i < s->asks; i++) {
        struct asked *a = &s->asked[i];
        if (!a->ended && a->q.ask == ask && (!part || strstr(a->subject, part)))
            return a;
    }
    return NULL;
}

TEST_UNUSED static struct asked *must_ask(struct script *s, enum gd__queue_ask ask, const char *part)
{
    struct asked *a = find_asked(s, ask, part);
    if (!a)
        FAIL("the node did not ask %d %s", ask, part ? part : "");
    return a;
}

TEST_UNUSED static void answer_with(struct script *s, struct asked *a, struct gd__queue_answer answer)
{
    answer.id = a->q.id;
    answer.text = answer.text ? answer.text : "";
    a->ended = answer.kind != GD__ANSWER_ITEM;
    gd__node_answer(s->node, s->now, &answer);
    tick(s);
}

TEST_UNUSED static void answer(struct script *s, struct asked *a, enum gd__queue_answer_kind kind)
{
    answer_with(s, a, (struct gd__queue_answer){ .kind = kind, .sequence = ++s->next_sequence });
}

/* The answer to LAST: a message. */
TEST_UNUSED static void answer_data(struct script *s, struct asked *a, const void *data, size_t size)
{
    answer_with(
        s, a,
        (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .sequence = ++s->next_sequence, .data = data, .size = size });
}

/* --- messages --- */

TEST_UNUSED static struct gd__queue_task a_task(unsigned number)
{
    static char names[NOTED][16];
    char *name = names[number % NOTED];
    const size_t size = (size_t)snprintf(name, sizeof names[0], "task %u", number);
    return (struct gd__queue_task){ .key = gd__queue_task_key(name, size, 0),
                                    .number = number,
                                    .payload = { .form = GD__QUEUE_INLINE, .bytes = { name, size } } };
}

struct message {
    struct gd__queue_writer w;
    struct gd__queue_key key;
    char subject[GD__QUEUE_SUBJECT_ROOM], record[GD__QUEUE_SUBJECT_ROOM], marker[GD__QUEUE_SUBJECT_ROOM];
};

TEST_UNUSED static void name_message(struct message *m, int priority, uint32_t resend)
{
    gd__queue_subject_text(m->subject, "q", &(struct gd__queue_subject){ GD__QUEUE_TASK, priority, m->key, resend });
    gd__queue_subject_text(m->record, "q", &(struct gd__queue_subject){ GD__QUEUE_RECORD, 0, m->key, 0 });
    gd__queue_subject_text(m->marker, "q", &(struct gd__queue_subject){ GD__QUEUE_STATE, 0, m->key, 0 });
}

/* The tasks first, first + 1, ... */
TEST_UNUSED static struct message make_message(unsigned first, unsigned count, int priority)
{
    struct message m;
    gd__queue_tasks_begin(&m.w, 1 << 20);
    for (unsigned i = 0; i < count; i++) {
        const struct gd__queue_task t = a_task(first + i);
        CHECK_EQ(gd__queue_tasks_add(&m.w, &t), 0);
    }
    CHECK_EQ(gd__queue_message_end(&m.w, &m.key), 0);
    name_message(&m, priority, 0);
    return m;
}

TEST_UNUSED static void free_message(struct message *m)
{
    gd__queue_writer_free(&m->w);
}

/* Delivers a message to a pull, which stays open. */
TEST_UNUSED static void deliver(struct script *s, struct asked *pull, const struct message *m, uint64_t deliveries,
                                uint64_t pending)
{
    char token[64];
    snprintf(token, sizeof token, "token %" PRIu64, ++s->next_sequence);
    answer_with(s, pull,
                (struct gd__queue_answer){ .kind = GD__ANSWER_ITEM,
                                           .subject = m->subject,
                                           .sequence = m->w.count * 1000 + m->key.hash[0],
                                           .data = m->w.message.data,
                                           .size = m->w.message.size,
                                           .token = token,
                                           .deliveries = deliveries,
                                           .pending = pending });
}

/* Makes the node hold a message, and tells it that there is no record. */
TEST_UNUSED static void deliver_new(struct script *s, const struct message *m, uint64_t pending)
{
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), m, 1, pending);
    answer(s, must_ask(s, GD__ASK_LAST, m->record), GD__ANSWER_NONE);
}

/* --- suspects --- */

TEST_UNUSED static struct asked *deliver_suspect(struct script *s, const struct message *m, uint64_t deliveries)
{
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), m, deliveries, 1);
    CHECK(!find_asked(s, GD__ASK_LAST, m->marker));
    answer(s, must_ask(s, GD__ASK_LAST, m->record), GD__ANSWER_NONE);
    return must_ask(s, GD__ASK_LAST, m->marker);
}

TEST_UNUSED static void answer_marker(struct script *s, struct asked *read, bool together, uint32_t alone)
{
    unsigned char bytes[GD__QUEUE_MARKER_SIZE];
    gd__queue_marker_write(bytes, &(struct gd__queue_marker){ .together = together, .alone = alone });
    answer_data(s, read, bytes, sizeof bytes);
}

TEST_UNUSED static struct gd__queue_marker marker_in(const struct asked *a)
{
    struct gd__queue_marker k;
    CHECK_EQ(gd__queue_marker_read(&k, a->q.data, a->q.size), 0);
    return k;
}

/* --- records --- */

TEST_UNUSED static struct gd__queue_record a_record(uint64_t run_us)
{
    return (struct gd__queue_record){ .state = GD__QUEUE_DONE, .attempts = 1, .run_us = run_us };
}

TEST_UNUSED static void end_task(struct script *s, size_t given, uint64_t run_us)
{
    const struct gd__queue_record r = a_record(run_us);
    gd__node_ended(s->node, s->now, s->given[given], &r);
    tick(s);
}

/* A record message of another node for this message; bit i of moved: task i has moved. */
TEST_UNUSED static struct gd__queue_writer others_record(unsigned first, unsigned count, unsigned moved)
{
    static const unsigned char nonce[GD__QUEUE_NONCE_SIZE] = "another node";
    struct gd__queue_writer w;
    struct gd__queue_key key;
    gd__queue_records_begin(&w, 1 << 20, nonce, (struct gd__queue_text){ "g", 1 });
    for (unsigned i = 0; i < count; i++) {
        struct gd__queue_record r = { .key = a_task(first + i).key, .number = first + i, .state = GD__QUEUE_DONE };
        if (moved >> i & 1)
            r.state = GD__QUEUE_MOVED;
        CHECK_EQ(gd__queue_records_add(&w, &r), 0);
    }
    CHECK_EQ(gd__queue_message_end(&w, &key), 0);
    return w;
}

/* The states in a record message that the node has published: "DFM". */
TEST_UNUSED static const char *states_of(const struct asked *a)
{
    static char out[256];
    struct gd__queue_reader r;
    struct gd__queue_record e;
    size_t n = 0;
    CHECK_EQ(gd__queue_records_open(&r, a->q.data, a->q.size, NULL), 0);
    while (gd__queue_records_next(&r, &e))
        out[n++] = " DFM"[e.state];
    out[n] = '\0';
    return out;
}

TEST_UNUSED static size_t count_open(const struct script *s, enum gd__queue_ask ask)
{
    size_t count = 0;
    for (size_t i = 0; i < s->asks; i++)
        count += !s->asked[i].ended && s->asked[i].q.ask == ask;
    return count;
}

TEST_UNUSED static size_t count_told(const struct script *s, enum gd__queue_notice notice)
{
    size_t count = 0;
    for (size_t i = 0; i < s->tells; i++)
        count += s->told[i].notice == notice;
    return count;
}

#endif
