/* SPDX-License-Identifier: MIT
 *
 * The join of tasks and records: bundles, tasks that moved, tasks that were added again, and messages that are damaged.
 */
#include "base/error.h"
#include "queue/read/index.h"
#include "support/test.h"

enum { MOST = 1 << 20 };

/* A key from a small number. */
static struct gd__queue_key key(unsigned n, uint32_t repeat, uint32_t again)
{
    struct gd__queue_key k = gd__queue_task_key(&n, sizeof n, repeat);
    k.again = again;
    return k;
}

struct queue {
    struct gd__read_index x;
    uint64_t tasks, records; /* the last sequences */
    int priority;
};

static void open_queue(struct queue *q)
{
    *q = (struct queue){ 0 };
    CHECK_EQ(gd__read_index_open(&q->x, "q"), 0);
}

static void subject_of(char out[GD__QUEUE_SUBJECT_ROOM], enum gd__queue_kind kind, int priority,
                       const struct gd__queue_key *k, uint32_t resend)
{
    gd__queue_subject_text(
        out, "q", &(struct gd__queue_subject){ .kind = kind, .priority = priority, .key = *k, .resend = resend });
}

static void push_again(struct queue *q, const struct gd__queue_key *keys, size_t n, uint32_t resend)
{
    struct gd__queue_writer w;
    struct gd__queue_key k;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_tasks_begin(&w, MOST);
    for (size_t i = 0; i < n; i++) {
        const struct gd__queue_task t = { .key = keys[i], .payload = { .form = GD__QUEUE_INLINE } };
        CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    }
    CHECK_EQ(gd__queue_message_end(&w, &k), 0);
    subject_of(subject, GD__QUEUE_TASK, q->priority, &k, resend);
    CHECK_EQ(gd__read_index_tasks(&q->x, ++q->tasks, subject, w.message.data, w.message.size), 0);
    gd__queue_writer_free(&w);
}

static void push(struct queue *q, const struct gd__queue_key *keys, size_t n)
{
    push_again(q, keys, n, 0);
}

static void push_one(struct queue *q, struct gd__queue_key k)
{
    push(q, &k, 1);
}

/* The record message of these tasks, with a state for each. */
static void finish(struct queue *q, const struct gd__queue_key *keys, const enum gd__queue_state *states, size_t n)
{
    static const unsigned char nonce[GD__QUEUE_NONCE_SIZE];
    struct gd__queue_writer w;
    struct gd__queue_key k;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_records_begin(&w, MOST, nonce, (struct gd__queue_text){ "host", 4 });
    for (size_t i = 0; i < n; i++) {
        struct gd__queue_record r = { .key = keys[i], .state = states[i] };
        if (r.state != GD__QUEUE_MOVED) {
            r.attempts = 1;
            r.run_us = 1000;
        }
        if (r.state == GD__QUEUE_FAILED)
            r.failure = (struct gd__queue_text){ "error", 5 };
        CHECK_EQ(gd__queue_records_add(&w, &r), 0);
    }
    CHECK_EQ(gd__queue_message_end(&w, &k), 0);
    subject_of(subject, GD__QUEUE_RECORD, 0, &k, 0);
    CHECK_EQ(gd__read_index_records(&q->x, ++q->records, subject, w.message.data, w.message.size), 0);
    gd__queue_writer_free(&w);
}

static void finish_one(struct queue *q, struct gd__queue_key k, enum gd__queue_state state)
{
    finish(q, &k, &state, 1);
}

static void check_counts(const struct queue *q, uint64_t tasks, uint64_t done, uint64_t failed)
{
    CHECK_EQ(q->x.n, tasks);
    CHECK_EQ(q->x.done, done);
    CHECK_EQ(q->x.failed, failed);
}

TEST(an_empty_queue)
{
    struct queue q;
    open_queue(&q);
    check_counts(&q, 0, 0, 0);
    gd__read_index_free(&q.x);
}

TEST(tasks_and_records_are_joined_in_push_order)
{
    struct queue q;
    open_queue(&q);
    for (unsigned i = 0; i < 5; i++)
        push_one(&q, key(i, 0, 0));
    finish_one(&q, key(3, 0, 0), GD__QUEUE_DONE);
    finish_one(&q, key(1, 0, 0), GD__QUEUE_FAILED);
    check_counts(&q, 5, 1, 1);
    CHECK_EQ(q.x.busy_us, 2000);
    for (unsigned i = 0; i < 5; i++) {
        const struct gd__queue_key k = key(i, 0, 0);
        CHECK_MEM(q.x.tasks[i].hash, k.hash, GD__HASH_SIZE);
        CHECK_EQ(q.x.tasks_at.items[q.x.tasks[i].task_message].sequence, i + 1);
    }
    CHECK_EQ(q.x.tasks[3].state, GD__QUEUE_DONE);
    CHECK_EQ(q.x.records_at.items[q.x.tasks[3].record_message].sequence, 1);
    CHECK_EQ(q.x.tasks[1].state, GD__QUEUE_FAILED);
    CHECK_EQ(q.x.tasks[0].record_message, GD__READ_NO_MESSAGE);
    gd__read_index_free(&q.x);
}

TEST(equal_inputs_are_different_tasks)
{
    struct queue q;
    open_queue(&q);
    push_one(&q, key(7, 0, 0));
    push_one(&q, key(7, 1, 0));
    finish_one(&q, key(7, 1, 0), GD__QUEUE_DONE);
    check_counts(&q, 2, 1, 0);
    CHECK_EQ(q.x.tasks[0].state, 0);
    gd__read_index_free(&q.x);
}

TEST(a_bundle_has_a_record_for_each_task)
{
    const struct gd__queue_key keys[] = { key(1, 0, 0), key(2, 0, 0), key(3, 0, 0) };
    const enum gd__queue_state states[] = { GD__QUEUE_DONE, GD__QUEUE_FAILED, GD__QUEUE_DONE };
    struct queue q;
    open_queue(&q);
    push(&q, keys, 3);
    check_counts(&q, 3, 0, 0);
    finish(&q, keys, states, 3);
    check_counts(&q, 3, 2, 1);
    CHECK_EQ(q.x.tasks[2].record_item, 2);
    CHECK_EQ(q.x.tasks[2].task_item, 2);
    gd__read_index_free(&q.x);
}

/* The rest of a bundle is a message of its own, with a record of its own. */
TEST(a_task_that_moved_counts_once_and_keeps_its_place)
{
    const struct gd__queue_key keys[] = { key(1, 0, 0), key(2, 0, 0), key(3, 0, 0) };
    const enum gd__queue_state split[] = { GD__QUEUE_DONE, GD__QUEUE_MOVED, GD__QUEUE_MOVED };
    const enum gd__queue_state done[] = { GD__QUEUE_DONE, GD__QUEUE_FAILED };
    struct queue q;
    open_queue(&q);
    push(&q, keys, 3);
    push_one(&q, key(4, 0, 0));
    finish(&q, keys, split, 3);
    check_counts(&q, 4, 1, 0);
    push(&q, keys + 1, 2);
    check_counts(&q, 4, 1, 0);
    finish(&q, keys + 1, done, 2);
    check_counts(&q, 4, 2, 1);
    const struct gd__read_task *t = &q.x.tasks[2];
    CHECK_MEM(t->hash, keys[2].hash, GD__HASH_SIZE);
    CHECK_EQ(q.x.tasks_at.items[t->task_message].sequence, 3);
    CHECK_EQ(t->task_item, 1);
    CHECK_EQ(q.x.records_at.items[t->record_message].sequence, 2);
    CHECK_EQ(t->record_item, 1);
    gd__read_index_free(&q.x);
}

TEST(a_message_that_was_sent_again_adds_no_task)
{
    const struct gd__queue_key k = key(1, 0, 0);
    struct queue q;
    open_queue(&q);
    push(&q, &k, 1);
    push_again(&q, &k, 1, 1);
    check_counts(&q, 1, 0, 0);
    finish_one(&q, k, GD__QUEUE_DONE);
    check_counts(&q, 1, 1, 0);
    CHECK_EQ(q.x.skipped, 0);
    gd__read_index_free(&q.x);
}

TEST(a_task_that_was_added_again_has_no_record_until_it_has_ended_again)
{
    struct queue q;
    open_queue(&q);
    push_one(&q, key(1, 0, 0));
    finish_one(&q, key(1, 0, 0), GD__QUEUE_FAILED);
    check_counts(&q, 1, 0, 1);
    push_one(&q, key(2, 0, 0));
    push_one(&q, key(1, 0, 1));
    check_counts(&q, 2, 0, 0);
    CHECK_EQ(q.x.tasks[0].record_message, GD__READ_NO_MESSAGE);
    CHECK_EQ(q.x.tasks_at.items[q.x.tasks[0].task_message].sequence, 3);
    finish_one(&q, key(1, 0, 1), GD__QUEUE_DONE);
    check_counts(&q, 2, 1, 0);
    CHECK_EQ(q.x.busy_us, 2000);
    CHECK_EQ(q.x.skipped, 0);
    gd__read_index_free(&q.x);
}

/* All tasks are read before all records, as at the first call. */
TEST(the_record_with_the_highest_again_counts)
{
    struct queue q;
    open_queue(&q);
    push_one(&q, key(1, 0, 0));
    push_one(&q, key(2, 0, 0));
    push_one(&q, key(1, 0, 2));
    push_one(&q, key(1, 0, 1));
    finish_one(&q, key(1, 0, 0), GD__QUEUE_FAILED);
    finish_one(&q, key(1, 0, 2), GD__QUEUE_DONE);
    finish_one(&q, key(1, 0, 1), GD__QUEUE_FAILED);
    check_counts(&q, 2, 1, 0);
    CHECK_EQ(q.x.records_at.items[q.x.tasks[0].record_message].sequence, 2);
    CHECK_EQ(q.x.tasks_at.items[q.x.tasks[0].task_message].sequence, 3);
    CHECK_EQ(q.x.skipped, 0);
    gd__read_index_free(&q.x);
}

TEST(a_message_that_comes_twice_is_ignored)
{
    struct queue q;
    open_queue(&q);
    push_one(&q, key(1, 0, 0));
    finish_one(&q, key(1, 0, 0), GD__QUEUE_DONE);
    q.tasks = q.records = 0;
    push_one(&q, key(2, 0, 0));
    finish_one(&q, key(1, 0, 0), GD__QUEUE_DONE);
    check_counts(&q, 1, 1, 0);
    CHECK_EQ(q.x.skipped, 0);
    gd__read_index_free(&q.x);
}

TEST(messages_that_cannot_be_used_are_skipped_and_the_first_is_named)
{
    struct queue q;
    open_queue(&q);
    CHECK_EQ(gd__read_index_tasks(&q.x, ++q.tasks, "gd.q.t.0.nonsense", "x", 1), 0);
    CHECK_CONTAINS(q.x.first_skipped, "message 1 of the stream gd_q_t");
    CHECK_CONTAINS(q.x.first_skipped, "nonsense");
    push_one(&q, key(1, 0, 0));
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__queue_key k = key(1, 0, 0);
    subject_of(subject, GD__QUEUE_RECORD, 0, &k, 0);
    CHECK_EQ(gd__read_index_records(&q.x, ++q.records, subject, "GDQr", 4), 0);
    CHECK_EQ(q.x.skipped, 2);
    CHECK_EQ(q.x.tasks_at.last, 2);
    CHECK_CONTAINS(q.x.first_skipped, "message 1 of the stream gd_q_t");
    finish_one(&q, k, GD__QUEUE_DONE);
    check_counts(&q, 1, 1, 0);
    gd__read_index_free(&q.x);
}

/* The messages are valid, but the streams must not have each other's subjects. */
TEST(a_message_with_a_subject_of_the_other_stream_is_skipped)
{
    const struct gd__queue_key k = key(1, 0, 0);
    const struct gd__queue_task t = { .key = k, .payload = { .form = GD__QUEUE_INLINE } };
    struct gd__queue_writer w;
    struct gd__queue_key same;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct queue q;
    open_queue(&q);
    gd__queue_tasks_begin(&w, MOST);
    CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    CHECK_EQ(gd__queue_message_end(&w, &same), 0);
    subject_of(subject, GD__QUEUE_RECORD, 0, &k, 0);
    CHECK_EQ(gd__read_index_tasks(&q.x, 1, subject, w.message.data, w.message.size), 0);
    CHECK_EQ(q.x.skipped, 1);
    check_counts(&q, 0, 0, 0);
    gd__queue_writer_free(&w);
    gd__read_index_free(&q.x);
}

TEST(a_record_without_a_task_is_skipped)
{
    struct queue q;
    open_queue(&q);
    finish_one(&q, key(1, 0, 0), GD__QUEUE_DONE);
    CHECK_EQ(q.x.skipped, 1);
    CHECK_CONTAINS(q.x.first_skipped, "a task that the queue does not have");
    push_one(&q, key(2, 0, 0));
    finish_one(&q, key(2, 0, 1), GD__QUEUE_DONE);
    CHECK_EQ(q.x.skipped, 2);
    check_counts(&q, 1, 0, 0);
    gd__read_index_free(&q.x);
}

/* It may not happen: the first one counts. */
TEST(a_second_record_of_a_task_is_skipped)
{
    const struct gd__queue_key keys[] = { key(1, 0, 0), key(2, 0, 0) };
    const enum gd__queue_state states[] = { GD__QUEUE_DONE, GD__QUEUE_DONE };
    struct queue q;
    open_queue(&q);
    push(&q, keys, 2);
    push(&q, keys, 1);
    finish(&q, keys, states, 2);
    finish_one(&q, keys[0], GD__QUEUE_FAILED);
    check_counts(&q, 2, 2, 0);
    CHECK_EQ(q.x.skipped, 1);
    CHECK_CONTAINS(q.x.first_skipped, "a second record of a task");
    gd__read_index_free(&q.x);
}

TEST(a_bundle_may_name_a_task_twice)
{
    const struct gd__queue_key keys[] = { key(1, 0, 0), key(1, 0, 0) };
    const enum gd__queue_state states[] = { GD__QUEUE_DONE, GD__QUEUE_DONE };
    struct queue q;
    open_queue(&q);
    push(&q, keys, 2);
    finish(&q, keys, states, 2);
    check_counts(&q, 1, 1, 0);
    CHECK_EQ(q.x.skipped, 1);
    gd__read_index_free(&q.x);
}

TEST(new_records_are_listed_for_those_who_follow)
{
    struct queue q;
    open_queue(&q);
    push_one(&q, key(1, 0, 0));
    push_one(&q, key(2, 0, 0));
    finish_one(&q, key(2, 0, 0), GD__QUEUE_DONE);
    CHECK_EQ(q.x.n_new, 0);
    q.x.keep_new = true;
    finish_one(&q, key(1, 0, 0), GD__QUEUE_FAILED);
    CHECK_EQ(q.x.n_new, 1);
    CHECK_EQ(q.x.new_records[0], 0);
    gd__read_index_free(&q.x);
}

TEST(held_tasks_are_those_of_the_first_messages)
{
    const struct gd__queue_key keys[] = { key(1, 0, 0), key(2, 0, 0), key(3, 0, 0) };
    struct queue q;
    uint64_t held = 99;
    open_queue(&q);
    CHECK_EQ(gd__read_index_held(&q.x, 0, 5, &held), 0);
    CHECK_EQ(held, 0);
    push_one(&q, key(9, 0, 0));
    push(&q, keys, 3);
    push_one(&q, key(4, 0, 0));
    q.priority = 1;
    push_one(&q, key(5, 0, 0));
    finish_one(&q, key(9, 0, 0), GD__QUEUE_DONE);
    static const uint64_t expected[] = { 0, 3, 4, 4 };
    for (uint64_t n = 0; n < 4; n++) {
        CHECK_EQ(gd__read_index_held(&q.x, 0, n, &held), 0);
        CHECK_EQ(held, expected[n]);
    }
    CHECK_EQ(gd__read_index_held(&q.x, 1, 7, &held), 0);
    CHECK_EQ(held, 1);
    CHECK_EQ(gd__read_index_held(&q.x, -1, 7, &held), 0);
    CHECK_EQ(held, 0);
    gd__read_index_free(&q.x);
}

/* Many tasks: the tables grow, and every task is found again. */
TEST(a_large_queue)
{
    enum { N = 20000 };
    struct queue q;
    open_queue(&q);
    for (unsigned i = 0; i < N; i++)
        push_one(&q, key(i / 2, i % 2, 0));
    for (unsigned i = 0; i < N; i += 3)
        finish_one(&q, key(i / 2, i % 2, 0), GD__QUEUE_DONE);
    check_counts(&q, N, (N + 2) / 3, 0);
    for (unsigned i = 0; i < N; i++)
        CHECK_EQ(q.x.tasks[i].state, i % 3 ? 0 : GD__QUEUE_DONE);
    CHECK_EQ(q.x.skipped, 0);
    gd__read_index_free(&q.x);
}

/* --- a model ------------------------------------------------------------------------ */

/* A queue that works by the rules of its protocol, in any order: bundles, splits, repairs, retries. The model knows what
 * each task's state is. The index is fed now and then: first all new task messages, then the records that were there
 * before. */
enum { MODEL_TASKS = 40, MODEL_MESSAGES = 400, MODEL_STEPS = 120, BUNDLE = 5 };

struct model_message {
    struct gd__queue_key keys[BUNDLE];
    enum gd__queue_state states[BUNDLE]; /* of a record message */
    unsigned tasks[BUNDLE], n;
    uint32_t resend;
    bool open; /* of a task message: it has no record yet */
};

struct model {
    uint64_t random;
    struct queue q;
    struct model_message tasks[MODEL_MESSAGES], records[MODEL_MESSAGES];
    unsigned n_tasks, n_records, fed_tasks, fed_records;
    unsigned pushed;                          /* tasks 0 .. pushed - 1 are in the queue */
    enum gd__queue_state states[MODEL_TASKS]; /* 0: waiting */
    uint32_t again[MODEL_TASKS];
    unsigned record_of[MODEL_TASKS], item_of[MODEL_TASKS];
};

static unsigned choose(struct model *m, unsigned n)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(m->random >> 33) % n;
}

static struct gd__queue_key model_key(const struct model *m, unsigned task)
{
    return key(task / 3, task % 3, m->again[task]); /* some tasks have equal inputs */
}

static void model_push(struct model *m, const unsigned *tasks, unsigned n)
{
    struct model_message *g = &m->tasks[m->n_tasks++];
    *g = (struct model_message){ .n = n, .open = true };
    for (unsigned i = 0; i < n; i++) {
        g->tasks[i] = tasks[i];
        g->keys[i] = model_key(m, tasks[i]);
    }
}

static void push_some(struct model *m)
{
    unsigned tasks[BUNDLE], n = 1 + choose(m, BUNDLE);
    n = n > MODEL_TASKS - m->pushed ? MODEL_TASKS - m->pushed : n;
    for (unsigned i = 0; i < n; i++)
        tasks[i] = m->pushed + i;
    m->pushed += n;
    if (n > 0)
        model_push(m, tasks, n);
}

/* Ends a message: each task is done, has failed, or goes back. What went back is pushed again, in one message, or in one
 * for each if all went back. */
static void finish_one_message(struct model *m)
{
    const unsigned at = choose(m, m->n_tasks ? m->n_tasks : 1);
    unsigned moved[BUNDLE], n_moved = 0;
    if (m->n_tasks == 0 || !m->tasks[at].open)
        return;
    struct model_message *r = &m->records[m->n_records++];
    *r = m->tasks[at];
    for (unsigned i = 0; i < m->n_tasks; i++) /* also those that were sent again */
        if (m->tasks[i].n == r->n && gd__queue_key_same(&m->tasks[i].keys[0], &r->keys[0]))
            m->tasks[i].open = false;
    for (unsigned i = 0; i < r->n; i++) {
        r->states[i] = r->n > 1 && choose(m, 3) == 0 ? GD__QUEUE_MOVED
                       : choose(m, 2)                ? GD__QUEUE_DONE
                                                     : GD__QUEUE_FAILED;
        if (r->states[i] == GD__QUEUE_MOVED) {
            moved[n_moved++] = r->tasks[i];
            continue;
        }
        m->states[r->tasks[i]] = r->states[i];
        m->record_of[r->tasks[i]] = m->n_records - 1;
        m->item_of[r->tasks[i]] = i;
    }
    if (n_moved == r->n)
        for (unsigned i = 0; i < n_moved; i++)
            model_push(m, &moved[i], 1);
    else if (n_moved > 0)
        model_push(m, moved, n_moved);
}

static void send_again(struct model *m)
{
    const unsigned at = choose(m, m->n_tasks ? m->n_tasks : 1);
    if (m->n_tasks == 0 || !m->tasks[at].open)
        return;
    m->tasks[m->n_tasks] = m->tasks[at];
    m->tasks[m->n_tasks].resend = m->n_tasks + 1;
    m->n_tasks++;
}

static void retry_failed(struct model *m)
{
    for (unsigned i = 0; i < m->pushed; i++) {
        if (m->states[i] != GD__QUEUE_FAILED || choose(m, 2))
            continue;
        m->states[i] = 0;
        m->again[i]++;
        model_push(m, &i, 1);
    }
}

static void check_model(const struct model *m)
{
    unsigned done = 0, failed = 0;
    CHECK_EQ(m->q.x.n, m->pushed);
    for (unsigned i = 0; i < m->pushed; i++) {
        const struct gd__read_task *t = &m->q.x.tasks[i];
        const struct gd__queue_key k = model_key(m, i);
        CHECK_MEM(t->hash, k.hash, GD__HASH_SIZE);
        CHECK_EQ(t->repeat, k.repeat);
        CHECK_EQ(t->again, k.again);
        CHECK_EQ(t->state, m->states[i]);
        done += m->states[i] == GD__QUEUE_DONE;
        failed += m->states[i] == GD__QUEUE_FAILED;
        if (t->state) {
            CHECK_EQ(m->q.x.records_at.items[t->record_message].sequence, m->record_of[i] + 1);
            CHECK_EQ(t->record_item, m->item_of[i]);
        }
        const struct model_message *g = &m->tasks[m->q.x.tasks_at.items[t->task_message].sequence - 1];
        CHECK(t->task_item < g->n && gd__queue_key_same(&g->keys[t->task_item], &k));
    }
    CHECK_EQ(m->q.x.done, done);
    CHECK_EQ(m->q.x.failed, failed);
    CHECK_EQ(m->q.x.skipped, 0);
}

static void feed(struct model *m)
{
    for (; m->fed_tasks < m->n_tasks; m->fed_tasks++) {
        const struct model_message *g = &m->tasks[m->fed_tasks];
        push_again(&m->q, g->keys, g->n, g->resend);
    }
    for (; m->fed_records < m->n_records; m->fed_records++) {
        const struct model_message *r = &m->records[m->fed_records];
        finish(&m->q, r->keys, r->states, r->n);
    }
    check_model(m);
}

TEST(any_history_gives_the_state_of_each_task)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct model *m = calloc(1, sizeof *m);
        CHECK(m);
        m->random = seed;
        open_queue(&m->q);
        for (unsigned step = 0; step < MODEL_STEPS && m->n_tasks + BUNDLE + MODEL_TASKS < MODEL_MESSAGES; step++) {
            static void (*const steps[])(struct model *) = { push_some,          finish_one_message, finish_one_message,
                                                             finish_one_message, send_again,         feed };
            steps[choose(m, 6)](m);
            if (choose(m, 20) == 0)
                retry_failed(m);
        }
        feed(m);
        gd__read_index_free(&m->q.x);
        free(m);
    }
}

TEST_MAIN()
