/* SPDX-License-Identifier: MIT
 *
 * The rules of a node, one by one: how much it pulls and gives, splits, giving back. The test is the server and
 * the scheduler.
 */
#include "unit/queue/node/node_script.h"

static struct script *open_with(unsigned slots, uint32_t priorities)
{
    struct gd__node_config c = script_config();
    c.slots = slots;
    if (priorities)
        c.priorities = priorities;
    struct script *s = script_open(&c);
    tick(s);
    return s;
}

/* Messages first, first + 1, ... of one task each arrive, and the pull has found all that it asked for. */
static void deliver_many(struct script *s, unsigned first, unsigned count)
{
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    for (unsigned i = 0; i < count; i++) {
        struct message m = make_message(first + i, 1, 0);
        deliver(s, pull, &m, 1, 1000);
        answer(s, must_ask(s, GD__ASK_LAST, m.record), GD__ANSWER_NONE);
        free_message(&m);
    }
    answer(s, pull, GD__ANSWER_OK);
}

/* --- pulls --- */

TEST(one_message_ahead_for_each_slot)
{
    struct script *s = open_with(4, 0);
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    CHECK_EQ(pull->q.most, 1); /* it may be a large bundle */
    CHECK_EQ(pull->q.wait_ms, 0);
    deliver_many(s, 1, 1);
    CHECK_EQ(must_ask(s, GD__ASK_PULL, NULL)->q.most, 7);
    deliver_many(s, 2, 7);
    CHECK(s->gives == 4 && !find_asked(s, GD__ASK_PULL, NULL));
    end_task(s, 0, 60000000);
    CHECK_EQ(s->gives, 5);
    CHECK_EQ(must_ask(s, GD__ASK_PULL, NULL)->q.most, 1);
    script_close(s);
}

TEST(short_tasks_are_pulled_and_given_in_larger_numbers)
{
    struct script *s = open_with(2, 0);
    deliver_many(s, 1, 1);
    deliver_many(s, 2, 3);
    CHECK_EQ(s->gives, 2);
    s->now += 10 * MS;
    end_task(s, 0, 10000); /* 10 ms: 20 more for each slot */
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    CHECK(pull->q.most >= 35 && pull->q.most <= 45);
    deliver_many(s, 5, pull->q.most);
    CHECK_EQ(s->gives, 3); /* so far two tasks at once: the next ones may be long */
    for (unsigned i = 1; i < 32; i++) {
        s->now += 5 * MS;
        end_task(s, i, 10000);
    }
    CHECK_GT(s->gives, 34); /* 32 have ended, and two can run */
    script_close(s);
}

TEST(not_more_than_4096_tasks_are_held)
{
    struct script *s = open_with(2, 0);
    unsigned held = 0;
    for (unsigned messages = 0; find_asked(s, GD__ASK_PULL, NULL);) {
        struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
        for (uint32_t i = 0; i < pull->q.most; i++, messages++, held += 400) {
            struct message m = make_message(messages * 400, 400, 0);
            deliver_new(s, &m, 1000);
            free_message(&m);
        }
        if (s->decisions + held == 400) { /* no longer than a microsecond */
            end_task(s, 0, 1);
            held--;
        }
        answer(s, pull, GD__ANSWER_OK);
        CHECK_LE(held, 4096 + 400);
    }
    CHECK_GT(held, 3000);
    script_close(s);
}

TEST(nothing_is_pulled_ahead_at_the_end_of_the_list)
{
    struct script *s = open_with(1, 0);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 0);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    CHECK(s->gives == 1 && !find_asked(s, GD__ASK_PULL, NULL));
    end_task(s, 0, 60000000);
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    CHECK(pull->q.most == 1 && pull->q.wait_ms > 0);
    free_message(&m);
    script_close(s);
}

TEST(a_bundle_counts_with_all_its_tasks)
{
    struct script *s = open_with(4, 0);
    struct message m = make_message(1, 50, 0);
    deliver_new(s, &m, 10);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL));
    for (size_t i = 0; i < 42; i++)
        end_task(s, i, 60000000);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL));
    end_task(s, 42, 60000000);
    CHECK_EQ(must_ask(s, GD__ASK_PULL, NULL)->q.most, 1);
    free_message(&m);
    script_close(s);
}

TEST(the_highest_priority_is_asked_first)
{
    struct script *s = open_with(1, 1U << (3 - GD_PRIORITY_MIN) | 1U << (0 - GD_PRIORITY_MIN) | 1U << 0);
    static const int order[] = { 3, 0, GD_PRIORITY_MIN };
    for (int i = 0; i < 3; i++) {
        struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
        CHECK(pull->q.priority == order[i] && pull->q.wait_ms == 0 && count_open(s, GD__ASK_PULL) == 1);
        answer(s, pull, GD__ANSWER_OK);
    }
    CHECK_EQ(count_open(s, GD__ASK_PULL), 3); /* all are empty: a pull waits for each of them */
    CHECK_GT(must_ask(s, GD__ASK_PULL, NULL)->q.wait_ms, 0);
    script_close(s);
}

TEST(tasks_of_a_higher_priority_are_given_first)
{
    struct script *s = open_with(1, 1U << (3 - GD_PRIORITY_MIN) | 1U << (0 - GD_PRIORITY_MIN));
    struct message low = make_message(1, 2, 0), high = make_message(3, 1, 3);
    struct asked *first = must_ask(s, GD__ASK_PULL, NULL);
    answer(s, first, GD__ANSWER_OK);
    deliver_new(s, &low, 1);
    CHECK_EQ(s->gives, 1);
    struct asked unrelated = *must_ask(s, GD__ASK_PULL, NULL);
    deliver(s, &unrelated, &high, 1, 0);
    answer(s, must_ask(s, GD__ASK_LAST, high.record), GD__ANSWER_NONE);
    end_task(s, 0, 60000000);
    CHECK(s->gives == 2 && s->given[1]->priority == 3);
    free_message(&low);
    free_message(&high);
    script_close(s);
}

/* --- giving back --- */

TEST(a_drain_gives_back_what_has_not_begun_at_once)
{
    struct script *s = open_with(1, 0);
    struct message a = make_message(1, 1, 0), b = make_message(2, 1, 0), c = make_message(3, 1, 0),
                   late = make_message(4, 1, 0);
    deliver_new(s, &a, 1);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    deliver_new(s, &b, 1);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &c, 1, 1);
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    gd__node_drain(s->node, s->now);
    tick(s);
    CHECK(count_told(s, GD__TELL_NAK) == 2 && s->told[0].delay_ms == 0 && s->told[1].delay_ms == 0);
    deliver(s, pull, &late, 1, 0);
    CHECK(count_told(s, GD__TELL_NAK) == 3 && s->finishes == 0);
    answer(s, pull, GD__ANSWER_OK);
    end_task(s, 0, 1000);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL));
    answer(s, must_ask(s, GD__ASK_PUBLISH, a.record), GD__ANSWER_OK);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DRAINED);
    free_message(&a);
    free_message(&b);
    free_message(&c);
    free_message(&late);
    script_close(s);
}

/* The rest of the tasks 1 to 4 after 1 and 3 have ended. */
static struct gd__queue_key rest_key(void)
{
    const struct gd__queue_key rest[] = { a_task(2).key, a_task(4).key };
    struct gd__queue_key key;
    CHECK_EQ(gd__queue_bundle_key(&key, rest, 2), 0);
    return key;
}

static void check_rest(struct script *s, const struct message *m, const void *record, size_t size)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__queue_key key = rest_key();
    struct gd__queue_reader r;
    gd__queue_subject_text(subject, "q", &(struct gd__queue_subject){ GD__QUEUE_TASK, 0, key, 0 });
    struct asked *move = must_ask(s, GD__ASK_PUBLISH, subject);
    CHECK(gd__queue_tasks_open(&r, move->q.data, move->q.size, &key) == 0 && !r.suspect);
    CHECK(move->q.condition == GD__IF_NONE && count_told(s, GD__TELL_ACK) == 0);
    answer(s, move, GD__ANSWER_LOST);
    pass(s, 500);
    answer(s, must_ask(s, GD__ASK_PUBLISH, subject), GD__ANSWER_REFUSED);
    answer_data(s, must_ask(s, GD__ASK_LAST, m->record), record, size);
    CHECK_EQ(count_told(s, GD__TELL_ACK), 1);
}

TEST(a_drained_bundle_is_split)
{
    struct script *s = open_with(3, 0);
    struct message m = make_message(1, 4, 0);
    deliver_new(s, &m, 1);
    CHECK_EQ(s->gives, 3);
    gd__node_drain(s->node, s->now);
    tick(s);
    CHECK_EQ(s->tells, 0);
    end_task(s, 0, 1000);
    gd__node_returned(s->node, s->now, s->given[1]);
    tick(s);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL));
    end_task(s, 2, 1000);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_STR(states_of(p), "DMDM");
    answer(s, p, GD__ANSWER_OK);
    CHECK(s->decisions == 2 && s->won[0]);
    check_rest(s, &m, p->q.data, p->q.size);
    CHECK(s->finishes == 1 && s->end == GD__NODE_DRAINED);
    free_message(&m);
    script_close(s);
}

TEST(the_rest_of_a_bundle_that_another_node_has_split)
{
    struct script *s = open_with(2, 0);
    struct message m = make_message(1, 4, 0);
    struct gd__queue_writer record = others_record(1, 4, 2 | 8);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 1);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    check_rest(s, &m, record.message.data, record.message.size);
    CHECK_EQ(s->gives, 0);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

/* A server that lost its last second has another record now: other tasks have moved. */
TEST(a_record_that_changes_while_tasks_move)
{
    struct script *s = open_with(2, 0);
    struct message m = make_message(1, 4, 0);
    struct gd__queue_writer first = others_record(1, 4, 1), second = others_record(1, 4, 2 | 8);
    second.message.data[16] ^= 1; /* another nonce */
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 1);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), first.message.data, first.message.size);
    answer(s, must_ask(s, GD__ASK_PUBLISH, ".t."), GD__ANSWER_OK);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), second.message.data, second.message.size);
    check_rest(s, &m, second.message.data, second.message.size);
    gd__queue_writer_free(&first);
    gd__queue_writer_free(&second);
    free_message(&m);
    script_close(s);
}

TEST(a_task_that_was_not_run_goes_back_later)
{
    struct script *s = open_with(1, 0);
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    gd__node_returned(s->node, s->now, s->given[0]);
    tick(s);
    CHECK(s->tells == 1 && s->told[0].notice == GD__TELL_NAK && s->told[0].delay_ms >= 500);
    CHECK(s->keeps == 0 && !find_asked(s, GD__ASK_PUBLISH, NULL));
    free_message(&m);
    script_close(s);
}

/* The node holds one running message and two that have not begun, and the list has come to its end. */
static void at_the_end(struct script *s, struct message m[3])
{
    for (unsigned i = 0; i < 3; i++)
        m[i] = make_message(i + 1, 1, 0);
    deliver_new(s, &m[0], 2);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    deliver_new(s, &m[1], 1);
    deliver_new(s, &m[2], 0);
    answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL)); /* nothing is pulled ahead any more */
}

static void answer_consumer(struct script *s, struct asked *a, uint64_t pending, uint64_t held, uint64_t waiting)
{
    struct gd__queue_answer c = { .kind = GD__ANSWER_OK };
    c.consumer.pending = pending;
    c.consumer.unacknowledged = held;
    c.consumer.waiting = waiting;
    answer_with(s, a, c);
}

TEST(at_the_end_of_the_list_messages_go_to_nodes_that_wait)
{
    struct script *s = open_with(1, 0);
    struct message m[3];
    at_the_end(s, m);
    pass(s, 500);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 3, 0);
    CHECK_EQ(s->tells, 0); /* nobody waits */
    pass(s, 2000);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 5, 3, 4);
    CHECK_EQ(s->tells, 0); /* there is enough */
    pass(s, 5000);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 3, 1);
    CHECK(count_told(s, GD__TELL_NAK) == 1 && s->told[0].delay_ms == 0);
    pass(s, 7000);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 2, 7);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 2); /* the one that runs stays */
    for (int i = 0; i < 3; i++)
        free_message(&m[i]);
    script_close(s);
}

/* Tasks that have ended were short, but the one that runs now is long. */
TEST(what_waits_behind_a_long_task_goes_to_nodes_that_wait)
{
    struct script *s = open_with(1, 0);
    struct message m[3];
    at_the_end(s, m);
    s->now += MS;
    end_task(s, 0, 1000);
    CHECK_EQ(s->gives, 2);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 2, 1); /* asked when nothing was known about the tasks */
    CHECK_EQ(count_told(s, GD__TELL_NAK), 0);                         /* the third begins after 1 ms, as it seems */
    pass(s, 3000);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 2, 1);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 1);
    for (int i = 0; i < 3; i++)
        free_message(&m[i]);
    script_close(s);
}

/* The pull that waits is this node's own. */
TEST(messages_do_not_go_back_to_the_node_that_has_them)
{
    struct script *s = open_with(4, 1U << (2 - GD_PRIORITY_MIN) | 1U << (0 - GD_PRIORITY_MIN));
    struct message a = make_message(1, 1, 2), b = make_message(2, 6, 0), c = make_message(10, 6, 2);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &a, 1, 0); /* from now on a pull is for more than one message */
    struct gd__queue_writer record = others_record(1, 1, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, a.record), record.message.data, record.message.size);
    while (must_ask(s, GD__ASK_PULL, NULL)->q.wait_ms == 0)
        answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
    struct asked *high = must_ask(s, GD__ASK_PULL, NULL), *low = high + 1;
    CHECK(high->q.priority == 2 && low->q.priority == 0 && high->q.most == 2 && low->q.most == 2);
    deliver(s, low, &b, 1, 0);
    answer(s, must_ask(s, GD__ASK_LAST, b.record), GD__ANSWER_NONE);
    CHECK_EQ(s->gives, 4);
    deliver(s, high, &c, 1, 0);
    answer(s, must_ask(s, GD__ASK_LAST, c.record), GD__ANSWER_NONE);
    pass(s, 1000);
    answer_consumer(s, must_ask(s, GD__ASK_CONSUMER, NULL), 0, 2, 1);
    CHECK_EQ(s->tells, 1); /* the acknowledgement of a */
    gd__queue_writer_free(&record);
    free_message(&a);
    free_message(&b);
    free_message(&c);
    script_close(s);
}

TEST_MAIN()
