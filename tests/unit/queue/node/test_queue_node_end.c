/* SPDX-License-Identifier: MIT
 *
 * The rules of a node, one by one: when it leaves, repairs, and a server that is not there. The test is the server and the
 * scheduler.
 */
#include "queue/push/state.h"
#include "unit/queue/node/node_script.h"

static struct script *open_config(const struct gd__node_config *c)
{
    struct script *s = script_open(c);
    tick(s);
    return s;
}

/* The queue has nothing for this node: the pull at once is empty, the next one waits. */
static struct script *open_idle(const struct gd__node_config *c)
{
    struct script *s = open_config(c);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    CHECK_GT(must_ask(s, GD__ASK_PULL, NULL)->q.wait_ms, 0);
    return s;
}

static void answer_consumer(struct script *s, uint64_t pending, uint64_t held)
{
    struct gd__queue_answer c = { .kind = GD__ANSWER_OK };
    c.consumer.pending = pending;
    c.consumer.unacknowledged = held;
    answer_with(s, must_ask(s, GD__ASK_CONSUMER, NULL), c);
}

static void answer_stream(struct script *s, enum gd__queue_kind stream, uint64_t messages, uint64_t time_us)
{
    struct asked *a = must_ask(s, GD__ASK_STREAM, NULL);
    struct gd__queue_answer c = { .kind = GD__ANSWER_OK, .time_us = time_us };
    CHECK_EQ(a->q.stream, stream);
    c.stream.messages = messages;
    answer_with(s, a, c);
}

static void wait_for(struct script *s, enum gd__queue_ask ask)
{
    for (int i = 0; i < 100 && !find_asked(s, ask, NULL); i++) {
        struct asked *pull = find_asked(s, GD__ASK_PULL, NULL);
        CHECK(s->due != UINT64_MAX);
        s->now = s->due > s->now ? s->due : s->now + 1;
        tick(s);
        (void)pull;
    }
}

/* Nobody works. Up to the question for the lock of a push. */
static struct asked *nobody_works(struct script *s)
{
    wait_for(s, GD__ASK_CONSUMER);
    answer_consumer(s, 0, 0);
    return must_ask(s, GD__ASK_LAST, "gd.q.s.push");
}

static void answer_priorities(struct script *s, uint32_t more)
{
    answer_with(s, must_ask(s, GD__ASK_PRIORITIES, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .priorities = 1U << (0 - GD_PRIORITY_MIN) | more });
}

static void answer_counts(struct script *s, uint64_t tasks, uint64_t records)
{
    while (find_asked(s, GD__ASK_PRIORITIES, NULL))
        answer_priorities(s, 0);
    answer_consumer(s, 0, 0);
    answer_stream(s, GD__QUEUE_RECORD, records, 0);
    answer_stream(s, GD__QUEUE_TASK, tasks, 0);
}

/* --- completion --- */

TEST(done_if_there_are_as_many_records_as_tasks)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    answer(s, nobody_works(s), GD__ANSWER_NONE);
    CHECK_EQ(s->finishes, 0);
    answer_counts(s, 10, 10);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE);
    struct gd__node_figures f;
    gd__node_figures(s->node, &f);
    CHECK(f.tasks == 10 && f.records == 10);
    CHECK_EQ(gd__node_tick(s->node, s->now + 1), UINT64_MAX);
    script_close(s);
}

TEST(not_done_while_somebody_works)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    uint64_t last = s->now, longest = 0;
    for (int i = 0; i < 12; i++) {
        wait_for(s, GD__ASK_CONSUMER);
        longest = s->now - last;
        last = s->now;
        answer_consumer(s, i % 2, 1); /* unacknowledged: perhaps a bundle whose rest is not published yet */
        CHECK(!find_asked(s, GD__ASK_LAST, NULL) && !find_asked(s, GD__ASK_STREAM, NULL));
    }
    CHECK(longest >= 2000 * MS && longest <= 8000 * MS); /* not more often than needed */
    CHECK_EQ(s->finishes, 0);
    script_close(s);
}

static void answer_push(struct script *s, struct asked *a, uint64_t sequence, uint64_t time_us, bool open)
{
    struct gd__buffer b = { 0 };
    gd__push_state_write(&b, &(struct gd__push_state){
                                 .open = open, .host = "h", .pid = 1, .nonce = "00112233445566778899aabbccddeeff" });
    CHECK(!b.failed);
    answer_with(s, a,
                (struct gd__queue_answer){
                    .kind = GD__ANSWER_OK, .sequence = sequence, .data = b.data, .size = b.size, .time_us = time_us });
    gd__buffer_free(&b);
}

TEST(not_done_while_a_push_is_open)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    const uint64_t begin = s->now;
    uint64_t sequence = 1;
    while (s->now < begin + 60000 * MS) { /* its lock is written again and again */
        answer_push(s, nobody_works(s), ++sequence, 0, true);
        answer_counts(s, 10, 10);
        CHECK_EQ(s->finishes, 0);
    }
    const uint64_t died = s->now;
    while (s->finishes == 0) { /* no more */
        answer_push(s, nobody_works(s), sequence, 0, true);
        answer_counts(s, 10, 10);
    }
    CHECK(s->end == GD__NODE_DONE && s->now >= died + 20000 * MS && s->now <= died + 45000 * MS);
    script_close(s);
}

TEST(a_push_that_has_ended)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    answer_push(s, nobody_works(s), 5, 0, false);
    answer_counts(s, 10, 10);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE);
    script_close(s);
}

TEST(a_push_that_died_long_ago)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    answer_push(s, nobody_works(s), 5, 1000000, true);
    answer_priorities(s, 0);
    answer_consumer(s, 0, 0);
    answer_stream(s, GD__QUEUE_RECORD, 3, 40000000); /* the server's clock says so */
    answer_stream(s, GD__QUEUE_TASK, 3, 0);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE);
    script_close(s);
}

/* A push has added a priority: nobody of us has pulled its messages. */
TEST(not_done_if_there_is_a_priority_more)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    answer(s, nobody_works(s), GD__ANSWER_NONE);
    answer_priorities(s, 1U << (3 - GD_PRIORITY_MIN));
    struct asked *a = must_ask(s, GD__ASK_CONSUMER, NULL);
    CHECK_EQ(a->q.priority, 3);
    answer_consumer(s, 5, 0);
    CHECK(s->finishes == 0 && !find_asked(s, GD__ASK_STREAM, NULL));
    CHECK_EQ(count_open(s, GD__ASK_PULL), 2); /* not only the one that waits */
    CHECK(s->asked[s->asks - 1].q.ask == GD__ASK_PULL && s->asked[s->asks - 1].q.priority == 3);
    script_close(s);
}

TEST(a_node_that_works_learns_of_new_priorities)
{
    struct gd__node_config c = script_config();
    c.slots = 1;
    struct script *s = open_config(&c);
    struct message m = make_message(1, 2, 0);
    deliver_new(s, &m, 5);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    pass(s, 16000);
    answer_priorities(s, 1U << (3 - GD_PRIORITY_MIN));
    end_task(s, 0, 1000000);
    CHECK_EQ(must_ask(s, GD__ASK_PULL, NULL)->q.priority, 3);
    free_message(&m);
    script_close(s);
}

TEST(a_queue_without_priorities)
{
    struct gd__node_config c = script_config();
    c.priorities = 0;
    c.stay = true;
    struct script *s = open_config(&c);
    CHECK_EQ(count_open(s, GD__ASK_PULL), 0);
    answer_priorities(s, 0);
    CHECK_EQ(must_ask(s, GD__ASK_PULL, NULL)->q.priority, 0);
    script_close(s);
}

TEST(stay)
{
    struct gd__node_config c = script_config();
    c.stay = true;
    struct script *s = open_idle(&c);
    answer(s, nobody_works(s), GD__ANSWER_NONE);
    answer_counts(s, 10, 10);
    CHECK_EQ(s->finishes, 0);
    CHECK(s->due < UINT64_MAX);
    script_close(s);
}

TEST(leave_after_some_time_without_work)
{
    struct gd__node_config c = script_config();
    c.idle_ns = 5000 * MS;
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 0);
    pass(s, 20000); /* it has work */
    end_task(s, 0, 1000);
    pass(s, 6000); /* the record is not confirmed */
    CHECK_EQ(s->finishes, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    pass(s, 4900);
    CHECK_EQ(s->finishes, 0);
    pass(s, 200);
    CHECK(s->finishes == 1 && s->end == GD__NODE_IDLE);
    free_message(&m);
    script_close(s);
}

/* --- repair --- */

static void list_subjects(struct script *s, const char *const *subjects, size_t count)
{
    struct asked *a = must_ask(s, GD__ASK_SUBJECTS, NULL);
    for (size_t i = 0; i < count; i++)
        answer_with(s, a, (struct gd__queue_answer){ .kind = GD__ANSWER_ITEM, .subject = subjects[i] });
    answer(s, a, GD__ANSWER_OK);
}

/* Nobody works, and records are missing: for longer than the lease. */
static void wait_until_stuck(struct script *s, uint64_t tasks, uint64_t records, const char *const *resent,
                             size_t count)
{
    const uint64_t begin = s->now;
    for (;;) {
        answer(s, nobody_works(s), GD__ANSWER_NONE);
        answer_counts(s, tasks, records);
        CHECK_STR(must_ask(s, GD__ASK_SUBJECTS, NULL)->subject, "gd.q.t.*.*.*");
        list_subjects(s, resent, count);
        if (find_asked(s, GD__ASK_SUBJECTS, NULL))
            break;
        CHECK_LT(s->now, begin + 120000 * MS);
    }
    CHECK_GE(s->now, begin + 30000 * MS); /* not before all leases have run out */
}

TEST(messages_without_a_record_are_sent_again)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    struct message m[4] = { make_message(1, 1, 0), make_message(2, 5, 0), make_message(7, 1, 0),
                            make_message(8, 1, 0) },
                   again = m[1];
    name_message(&again, 0, 1);
    const char *const tasks[] = { m[0].subject, m[1].subject, m[2].subject, again.subject, "gd.q.t.x", m[3].subject };
    const char *const records[] = { m[0].record, "nonsense" };
    wait_until_stuck(s, 4, 1, &tasks[3], 1);
    CHECK_EQ(must_ask(s, GD__ASK_SUBJECTS, NULL)->q.stream, GD__QUEUE_RECORD);
    list_subjects(s, records, 2);
    CHECK_EQ(must_ask(s, GD__ASK_SUBJECTS, NULL)->q.stream, GD__QUEUE_TASK);
    list_subjects(s, tasks, 6);
    CHECK(!find_asked(s, GD__ASK_LAST, NULL)); /* they may have been pushed meanwhile */
    answer_consumer(s, 0, 0);
    for (int i = 0; i < 2; i++) { /* in any order */
        struct asked *look = must_ask(s, GD__ASK_LAST, ".r.");
        if (strcmp(look->subject, m[3].record) == 0) { /* it has a record by now */
            answer_data(s, look, "x", 1);
            look = must_ask(s, GD__ASK_LAST, ".r.");
        }
        answer(s, look, GD__ANSWER_NONE);
        struct asked *read = must_ask(s, GD__ASK_LAST, NULL);
        struct message *which = strcmp(read->subject, again.subject) == 0 ? &again : &m[2];
        CHECK_STR(read->subject, which->subject);
        answer_data(s, read, which->w.message.data, which->w.message.size);
        struct asked *p = must_ask(s, GD__ASK_PUBLISH, NULL);
        struct message next = *which;
        name_message(&next, 0, which == &again ? 2 : 1);
        CHECK_STR(p->subject, next.subject);
        CHECK(p->q.condition == GD__IF_NONE && p->q.size == which->w.message.size);
        answer(s, p, i == 0 ? GD__ANSWER_REFUSED : GD__ANSWER_OK); /* another node was faster */
    }
    struct asked *last = find_asked(s, GD__ASK_LAST, m[3].record);
    if (last)
        answer_data(s, last, "x", 1);
    CHECK(!find_asked(s, GD__ASK_LAST, NULL) && !find_asked(s, GD__ASK_PUBLISH, NULL));
    CHECK(s->lines == 1 && s->finishes == 0);
    CHECK_CONTAINS(s->line, "1 messages");
    for (int i = 0; i < 4; i++)
        free_message(&m[i]);
    script_close(s);
}

/* Resent messages count once. */
TEST(done_after_a_repair)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    static const char *const resent[] = { "gd.q.t.0.x.1", "gd.q.t.0.x.2" };
    answer(s, nobody_works(s), GD__ANSWER_NONE);
    answer_counts(s, 12, 10);
    list_subjects(s, resent, 2);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE);
    script_close(s);
}

/* A key with two priorities: the counts differ for ever, but nothing is missing. */
TEST(done_if_the_lists_say_so)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    struct message a = make_message(1, 1, 0), b = make_message(1, 1, 2);
    const char *const tasks[] = { a.subject, b.subject };
    const char *const records[] = { a.record };
    wait_until_stuck(s, 2, 1, NULL, 0);
    list_subjects(s, records, 1);
    list_subjects(s, tasks, 2);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE && s->lines == 0);
    free_message(&a);
    free_message(&b);
    script_close(s);
}

/* --- messages that cannot be read --- */

static void deliver_damaged(struct script *s, const char *subject, uint64_t sequence)
{
    answer_with(s, must_ask(s, GD__ASK_PULL, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_ITEM,
                                           .subject = subject,
                                           .sequence = sequence,
                                           .data = "x",
                                           .size = 1,
                                           .token = "damaged",
                                           .deliveries = 1 });
}

static void finish_damaged(struct script *s, uint64_t held, uint64_t tasks, uint64_t records)
{
    wait_for(s, GD__ASK_CONSUMER);
    answer_consumer(s, 0, held);
    answer(s, must_ask(s, GD__ASK_LAST, "gd.q.s.push"), GD__ANSWER_NONE);
    while (find_asked(s, GD__ASK_PRIORITIES, NULL))
        answer_priorities(s, 0);
    answer_consumer(s, 0, held);
    answer_stream(s, GD__QUEUE_RECORD, records, 0);
    answer_stream(s, GD__QUEUE_TASK, tasks, 0);
}

/* Three messages: one has a record, one is damaged, the subject of one is foreign. */
TEST(only_messages_that_cannot_be_read_are_left)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    struct message good = make_message(1, 1, 0), bad = make_message(2, 1, 0);
    const char *const tasks[] = { good.subject, bad.subject, "gd.q.t.0.foreign" }, *const records[] = { good.record };
    deliver_damaged(s, bad.subject, 7);
    deliver_damaged(s, bad.subject, 7); /* counts once */
    deliver_damaged(s, tasks[2], 8);
    wait_for(s, GD__ASK_CONSUMER);
    answer_consumer(s, 0, 3); /* somebody works */
    CHECK(!find_asked(s, GD__ASK_LAST, NULL));
    const size_t told = s->tells;
    finish_damaged(s, 2, 3, 1);
    list_subjects(s, NULL, 0); /* nothing was sent again */
    list_subjects(s, records, 1);
    list_subjects(s, tasks, 3);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    CHECK_CONTAINS(s->text, "2 messages of the queue cannot be read");
    CHECK_CONTAINS(s->text, bad.subject);
    CHECK_CONTAINS(s->text, "damaged");
    CHECK_CONTAINS(s->text, "newer version");
    CHECK_CONTAINS(s->text, "nats stream rmm gd_q_t 7");
    CHECK_EQ(s->tells, told + 2); /* other nodes shall find them too, soon */
    CHECK(s->told[told].notice == GD__TELL_NAK && s->told[told].delay_ms <= 1000);
    free_message(&good);
    free_message(&bad);
    script_close(s);
}

/* A task without a record, and a message that cannot be read: the node does not leave, and what is stuck is sent again after
 * the usual time. */
TEST(a_message_that_cannot_be_read_hides_no_other)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    struct message stuck = make_message(1, 1, 0), bad = make_message(2, 1, 0);
    const char *const tasks[] = { stuck.subject, bad.subject };
    const uint64_t begin = s->now;
    deliver_damaged(s, bad.subject, 7);
    deliver_damaged(s, "gd.q.t.0.removed", 8); /* by somebody, later */
    do {
        finish_damaged(s, 1, 2, 0);
        list_subjects(s, NULL, 0);
        list_subjects(s, NULL, 0);
        list_subjects(s, tasks, 2);
        CHECK_EQ(s->finishes, 0);
    } while (!find_asked(s, GD__ASK_CONSUMER, NULL));
    CHECK_GT(s->now, begin + c.lease_ms / 2 * MS);
    answer_consumer(s, 0, 1);
    answer(s, must_ask(s, GD__ASK_LAST, stuck.record), GD__ANSWER_NONE);
    answer_data(s, must_ask(s, GD__ASK_LAST, stuck.subject), stuck.w.message.data, stuck.w.message.size);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK(!find_asked(s, GD__ASK_LAST, NULL) && !find_asked(s, GD__ASK_PUBLISH, NULL)); /* not the damaged one */
    CHECK_EQ(s->finishes, 0);
    free_message(&stuck);
    free_message(&bad);
    script_close(s);
}

/* The task has an end that this node cannot read. */
TEST(a_record_that_cannot_be_read)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    const char *const tasks[] = { m.subject }, *const records[] = { m.record };
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), "x", 1);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    finish_damaged(s, 1, 1, 1);
    list_subjects(s, NULL, 0);
    list_subjects(s, records, 1);
    list_subjects(s, tasks, 1);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    CHECK_CONTAINS(s->text, "1 message of the queue cannot be read");
    CHECK_CONTAINS(s->text, m.record);
    CHECK_CONTAINS(s->text, "nats stream rmm gd_q_r ");
    free_message(&m);
    script_close(s);
}

/* Another node has read the message: everything is as usual. */
TEST(done_if_another_node_could_read_it)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_idle(&c);
    deliver_damaged(s, "gd.q.t.0.foreign", 7);
    answer(s, nobody_works(s), GD__ANSWER_NONE);
    answer_counts(s, 10, 10);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DONE);
    script_close(s);
}

TEST(messages_that_cannot_be_read_and_stay)
{
    struct gd__node_config c = script_config();
    c.stay = true;
    struct script *s = open_idle(&c);
    const char *const tasks[] = { "gd.q.t.0.foreign" };
    deliver_damaged(s, tasks[0], 7);
    finish_damaged(s, 1, 1, 0);
    list_subjects(s, NULL, 0);
    list_subjects(s, NULL, 0);
    list_subjects(s, tasks, 1);
    CHECK(s->finishes == 0 && s->due < UINT64_MAX);
    script_close(s);
}

/* --- the connection --- */

TEST(work_goes_on_without_the_server)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 3, 0);
    deliver_new(s, &m, 1);
    CHECK_EQ(s->gives, 2);
    gd__node_connected(s->node, s->now, false);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_LOST);
    const size_t asks = s->asks;
    end_task(s, 0, 1000000);
    CHECK_EQ(s->gives, 3);
    end_task(s, 1, 1000000);
    end_task(s, 2, 1000000);
    pass(s, 60000);
    CHECK(s->asks == asks && s->tells == 0 && s->keeps == 1); /* nothing is pulled or sent, the record is kept */
    gd__node_connected(s->node, s->now, true);
    CHECK_EQ(s->asks, asks);
    pass(s, 1000); /* all within a second, but not all nodes at once */
    CHECK(find_asked(s, GD__ASK_PULL, NULL));
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    CHECK_EQ(s->decisions, 3);
    CHECK_GT(count_told(s, GD__TELL_WORKING), 0);
    free_message(&m);
    script_close(s);
}

TEST(a_node_that_is_cut_off_gives_up_when_nothing_runs)
{
    struct gd__node_config c = script_config();
    c.slots = 1;
    c.lost_ns = 60000 * MS;
    struct script *s = open_config(&c);
    struct message m = make_message(1, 3, 0);
    deliver_new(s, &m, 1);
    gd__node_connected(s->node, s->now, false);
    pass(s, 100000);
    CHECK(s->finishes == 0 && s->gives == 1); /* it still runs */
    end_task(s, 0, 1000000);
    CHECK_EQ(s->gives, 1);
    CHECK(s->finishes == 1 && s->end == GD__NODE_CUT_OFF);
    free_message(&m);
    script_close(s);
}

TEST(a_drain_without_the_server_ends_soon)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    gd__node_connected(s->node, s->now, false);
    end_task(s, 0, 1000000);
    gd__node_drain(s->node, s->now);
    pass(s, 10000);
    CHECK(s->finishes == 1 && s->end == GD__NODE_CUT_OFF && s->keeps == 1 && s->forgets == 0);
    free_message(&m);
    script_close(s);
}

TEST(a_server_that_denies)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    answer_with(s, must_ask(s, GD__ASK_PULL, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_DENIED, .text = "permissions violation" });
    CHECK_EQ(s->finishes, 0); /* the task ends first */
    end_task(s, 0, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    CHECK_STR(s->text, "permissions violation");
    free_message(&m);
    script_close(s);
}

/* The time for the last records begins when the last task has ended. Until then there is nothing to do. */
TEST(a_server_that_denies_while_a_long_task_runs)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    answer_with(s, must_ask(s, GD__ASK_PULL, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_DENIED, .text = "permissions violation" });
    for (unsigned i = 0; i < 100; i++) { /* minutes */
        pass(s, 1000);
        CHECK_GT(s->due, s->now);
    }
    end_task(s, 0, 1000);
    CHECK_EQ(s->finishes, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    free_message(&m);
    script_close(s);
}

/* For example because its credentials are not accepted any more. */
TEST(a_link_that_has_given_up)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    gd__node_connected(s->node, s->now, false);
    gd__node_closed(s->node, s->now, "authorization violation");
    tick(s);
    CHECK_EQ(s->finishes, 0); /* the task ends first; its record is kept */
    end_task(s, 0, 1000);
    CHECK_EQ(s->keeps, 1);
    pass(s, 6000);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    CHECK_STR(s->text, "authorization violation");
    free_message(&m);
    script_close(s);
}

/* Its disk is full, say. Nothing is lost, but somebody must do something. */
TEST(a_server_that_is_not_ready_for_long_is_reported)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    end_task(s, 0, 1000);
    for (unsigned i = 0; i < 7; i++) {
        wait_for(s, GD__ASK_PUBLISH);
        answer_with(s, must_ask(s, GD__ASK_PUBLISH, NULL),
                    (struct gd__queue_answer){ .kind = GD__ANSWER_LATER, .text = "insufficient resources" });
    }
    CHECK_CONTAINS(s->line, "not ready for records, and is asked again: insufficient resources");
    wait_for(s, GD__ASK_PUBLISH);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK_EQ(s->forgets, 1);
    free_message(&m);
    script_close(s);
}

TEST(a_queue_that_was_removed)
{
    const struct gd__node_config c = script_config();
    struct script *s = open_config(&c);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_NONE);
    CHECK(s->finishes == 1 && s->end == GD__NODE_FAILED);
    CHECK_CONTAINS(s->text, "removed");
    script_close(s);
}

TEST_MAIN()
