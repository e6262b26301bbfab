/* SPDX-License-Identifier: MIT
 *
 * The rules of a node for messages that were delivered before, one by one: markers, turns, signs of life, verdicts. The
 * test is the server and the scheduler.
 */
#include "unit/queue/node/node_script.h"

static struct script *open_with(unsigned slots)
{
    struct gd__node_config c = script_config();
    c.slots = slots;
    struct script *s = script_open(&c);
    tick(s);
    return s;
}

TEST(a_message_that_was_delivered_before_gets_a_marker_first)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    answer(s, deliver_suspect(s, &m, 2), GD__ANSWER_NONE);
    struct asked *mark = must_ask(s, GD__ASK_PUBLISH, m.marker);
    CHECK(mark->q.condition == GD__IF_NONE && marker_in(mark).together && marker_in(mark).alone == 0);
    CHECK_EQ(s->gives, 0);
    answer(s, mark, GD__ANSWER_OK);
    CHECK(s->gives == 1 && !s->given[0]->alone);
    free_message(&m);
    script_close(s);
}

TEST(one_suspect_that_was_begun_before_at_a_time)
{
    struct script *s = open_with(4);
    struct message m[3] = { make_message(1, 1, 0), make_message(2, 1, 0), make_message(3, 1, 0) };
    answer_marker(s, deliver_suspect(s, &m[0], 3), true, 0);
    struct asked *mark = must_ask(s, GD__ASK_PUBLISH, m[0].marker);
    CHECK(mark->q.condition == GD__IF_LAST && mark->q.sequence > 0 && marker_in(mark).alone == 1);
    answer(s, mark, GD__ANSWER_OK);
    CHECK(s->gives == 1 && s->given[0]->alone);
    answer_marker(s, deliver_suspect(s, &m[1], 3), true, 0);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL)); /* waits for its turn */
    answer_marker(s, deliver_suspect(s, &m[2], 3), true, 0);
    CHECK(count_told(s, GD__TELL_NAK) == 1 && s->told[0].delay_ms > 0); /* another node may have time */
    end_task(s, 0, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m[1].marker), GD__ANSWER_OK);
    CHECK(s->gives == 2 && s->given[1]->alone);
    for (int i = 0; i < 3; i++)
        free_message(&m[i]);
    script_close(s);
}

TEST(the_last_beginning_is_exclusive)
{
    struct script *s = open_with(4);
    struct message a = make_message(1, 1, 0), m = make_message(2, 1, 0), b = make_message(3, 1, 0);
    deliver_new(s, &a, 1);
    CHECK_EQ(s->gives, 1);
    answer_marker(s, deliver_suspect(s, &m, 4), true, 1);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, m.marker)); /* something runs */
    deliver_new(s, &b, 1);
    CHECK_EQ(s->gives, 1); /* nothing new is begun */
    end_task(s, 0, 1000);
    struct asked *mark = must_ask(s, GD__ASK_PUBLISH, m.marker);
    CHECK_EQ(marker_in(mark).alone, 2);
    answer(s, mark, GD__ANSWER_OK);
    CHECK(s->gives == 2 && s->given[1]->alone);
    free_message(&a);
    free_message(&b);
    free_message(&m);
    script_close(s);
}

/* It may take long, or never end. */
TEST(an_exclusive_suspect_keeps_nothing_from_other_nodes)
{
    struct script *s = open_with(1);
    struct message a = make_message(1, 1, 0), b = make_message(2, 1, 0), m = make_message(3, 1, 0);
    struct message c = make_message(4, 1, 0), d = make_message(5, 1, 0);
    deliver_new(s, &a, 9);
    deliver_new(s, &b, 9);
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    answer_marker(s, deliver_suspect(s, &m, 4), true, 1);
    CHECK(s->gives == 1 && count_told(s, GD__TELL_NAK) == 1 && s->told[0].delay_ms == 0); /* b */
    deliver(s, pull, &c, 1, 9);                                                           /* was on its way */
    answer(s, must_ask(s, GD__ASK_LAST, c.record), GD__ANSWER_NONE);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 2);
    answer_marker(s, deliver_suspect(s, &d, 3), true, 0); /* another suspect does not wait for its turn here */
    CHECK_EQ(count_told(s, GD__TELL_NAK), 3);
    end_task(s, 0, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, a.record), GD__ANSWER_OK);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK(s->gives == 2 && s->given[1]->alone);
    answer(s, pull, GD__ANSWER_OK);
    pass(s, 60000);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL)); /* nothing is pulled */
    end_task(s, 1, 1000);
    CHECK(!find_asked(s, GD__ASK_PULL,
                      NULL)); /* another task could still kill the node before the server has the record */
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    CHECK(find_asked(s, GD__ASK_PULL, NULL) != NULL);
    free_message(&a);
    free_message(&b);
    free_message(&c);
    free_message(&d);
    free_message(&m);
    script_close(s);
}

TEST(an_exclusive_suspect_waits_for_a_bundle_that_has_begun)
{
    struct script *s = open_with(1);
    struct message a = make_message(1, 3, 0), m = make_message(9, 1, 0);
    deliver_new(s, &a, 9);
    answer_marker(s, deliver_suspect(s, &m, 4), true, 1);
    for (size_t i = 0; i < 3; i++) {
        CHECK(s->gives == i + 1 && !s->given[i]->alone && !find_asked(s, GD__ASK_PUBLISH, m.marker));
        end_task(s, i, 1000);
    }
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK(s->gives == 4 && s->given[3]->alone && count_told(s, GD__TELL_NAK) == 0);
    free_message(&a);
    free_message(&m);
    script_close(s);
}

/* A suspect cannot be begun without the server. The node goes on with what it has. */
TEST(a_suspect_whose_turn_comes_without_a_connection)
{
    struct script *s = open_with(1);
    struct message first = make_message(1, 1, 0), m = make_message(2, 1, 0), a = make_message(3, 1, 0);
    answer_marker(s, deliver_suspect(s, &first, 3), true, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, first.marker), GD__ANSWER_OK);
    answer_marker(s, deliver_suspect(s, &m, 4), true, 1); /* waits for its turn: it must be exclusive */
    deliver_new(s, &a, 1);
    CHECK(s->gives == 1 && s->given[0]->alone);
    gd__node_connected(s->node, s->now, false);
    end_task(s, 0, 1000);
    CHECK(s->gives == 2 && !s->given[1]->alone && count_told(s, GD__TELL_NAK) == 0);
    gd__node_connected(s->node, s->now, true);
    end_task(s, 1, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK(s->gives == 3 && s->given[2]->alone);
    free_message(&first);
    free_message(&a);
    free_message(&m);
    script_close(s);
}

TEST(a_task_that_has_killed_enough_nodes_is_recorded_as_a_crash)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    answer_marker(s, deliver_suspect(s, &m, 5), true, 2);
    CHECK_EQ(s->gives, 0);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_STR(states_of(p), "F");
    CHECK(memmem(p->q.data, p->q.size, "crash", 5) && s->lines == 1);
    answer(s, p, GD__ANSWER_OK);
    CHECK(count_told(s, GD__TELL_ACK) == 1 && s->decisions == 0);
    free_message(&m);
    script_close(s);
}

TEST(a_lost_answer_to_a_marker)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    answer(s, deliver_suspect(s, &m, 2), GD__ANSWER_NONE);
    struct asked *mark = must_ask(s, GD__ASK_PUBLISH, m.marker);
    answer(s, mark, GD__ANSWER_LOST);
    pass(s, 500);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_REFUSED);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.marker), mark->q.data, mark->q.size); /* it is ours */
    CHECK_EQ(s->gives, 1);
    free_message(&m);
    script_close(s);
}

TEST(a_marker_of_another_node_at_the_same_time)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    answer(s, deliver_suspect(s, &m, 2), GD__ANSWER_NONE);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_REFUSED);
    answer_marker(s, must_ask(s, GD__ASK_LAST, m.marker), true, 0);
    CHECK_EQ(marker_in(must_ask(s, GD__ASK_PUBLISH, m.marker)).alone, 1);
    free_message(&m);
    script_close(s);
}

/* The answer came so late that the lease may have run out, and another node may have the message and live. So neither is a
 * beginning counted nor a verdict given. */
TEST(a_marker_that_is_read_late_counts_for_nothing)
{
    for (uint32_t alone = 0; alone <= 2; alone++) {
        struct script *s = open_with(2);
        struct message m = make_message(1, 1, 0);
        struct asked *read = deliver_suspect(s, &m, 2);
        pass(s, 16000);
        const size_t told = s->tells;
        answer_marker(s, read, true, alone);
        CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL) && s->gives == 0 && s->tells == told + 1);
        CHECK(s->told[told].notice == GD__TELL_NAK && s->told[told].delay_ms >= 15000);
        free_message(&m);
        script_close(s);
    }
}

/* No other node has begun it. */
TEST(no_marker_is_read_late)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    struct asked *read = deliver_suspect(s, &m, 2);
    pass(s, 16000);
    answer(s, read, GD__ANSWER_NONE);
    CHECK(marker_in(must_ask(s, GD__ASK_PUBLISH, m.marker)).together);
    free_message(&m);
    script_close(s);
}

/* A node with a lease of 30 s finds a suspect that another node has begun alone, and given signs of life for. Times are in
 * seconds by the clock of the server; life is 0: there is no sign, only the marker. Returns the suspect. */
static struct message find_begun(struct script *s, uint32_t alone, uint64_t marked, uint64_t life, uint64_t now)
{
    const struct gd__queue_marker marker = { .together = true, .alone = alone, .nonce = "another node" };
    const uint64_t second_us = 1000000;
    unsigned char bytes[GD__QUEUE_MARKER_SIZE];
    struct message m = make_message(1, 1, 0);
    gd__queue_marker_write(bytes, &marker);
    answer_with(s, deliver_suspect(s, &m, 4),
                (struct gd__queue_answer){ .kind = GD__ANSWER_OK,
                                           .sequence = ++s->next_sequence,
                                           .data = bytes,
                                           .size = sizeof bytes,
                                           .time_us = marked * second_us });
    struct asked *sign = must_ask(s, GD__ASK_LAST, "gd.q.s.alive.616e6f74686572206e6f6465"); /* the nonce */
    if (life > 0)
        answer_with(s, sign, (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .time_us = life * second_us });
    else
        answer(s, sign, GD__ANSWER_NONE);
    struct asked *clock = must_ask(s, GD__ASK_STREAM, NULL);
    CHECK_EQ(clock->q.stream, GD__QUEUE_STATE);
    answer_with(s, clock, (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .time_us = now * second_us });
    return m;
}

/* It has not died: its connection was lost for a while. */
TEST(a_node_that_may_live_is_not_charged)
{
    for (uint32_t alone = 1; alone <= 2; alone++) {
        struct script *s = open_with(2);
        pass(s, 1000000);
        struct message m = find_begun(s, alone, 100, 1000, 1060);
        CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL) && s->gives == 0 && count_told(s, GD__TELL_NAK) == 1);
        CHECK(s->told[0].delay_ms >= 30000 &&
              s->told[0].delay_ms < 32000); /* then it has been silent for three leases */
        free_message(&m);
        script_close(s);
    }
}

TEST(a_node_that_is_silent_for_three_leases_is_charged)
{
    struct script *s = open_with(2);
    pass(s, 1000000);
    struct message m = find_begun(s, 1, 100, 1000, 1090);
    CHECK_EQ(marker_in(must_ask(s, GD__ASK_PUBLISH, m.marker)).alone, 2);
    free_message(&m);
    script_close(s);

    s = open_with(2);
    pass(s, 1000000);
    m = find_begun(s, 2, 100, 0, 190); /* only the marker */
    CHECK_STR(states_of(must_ask(s, GD__ASK_PUBLISH, m.record)), "F");
    free_message(&m);
    script_close(s);
}

/* The server was down, or this node was cut off. The other one may not have been able to give signs of life either. */
TEST(silence_counts_while_a_node_is_connected_itself)
{
    struct script *s = open_with(2);
    pass(s, 1000000);
    gd__node_connected(s->node, s->now, false);
    pass(s, 200000);
    gd__node_connected(s->node, s->now, true);
    pass(s, 20000);
    struct message m = find_begun(s, 2, 100, 1000, 1220);
    CHECK(s->gives == 0 && !find_asked(s, GD__ASK_PUBLISH, NULL) && count_told(s, GD__TELL_NAK) == 1);
    CHECK(s->told[0].delay_ms >= 70000 && s->told[0].delay_ms < 72000);
    free_message(&m);
    script_close(s);
}

TEST(a_suspect_that_runs_alone_gets_signs_of_life)
{
    struct script *s = open_with(2);
    struct message a = make_message(1, 1, 0), m = make_message(2, 1, 0);
    answer(s, deliver_suspect(s, &a, 2), GD__ANSWER_NONE);
    answer(s, must_ask(s, GD__ASK_PUBLISH, a.marker), GD__ANSWER_OK);
    pass(s, 10000);
    CHECK(s->gives == 1 && !find_asked(s, GD__ASK_PUBLISH, NULL)); /* it was begun together with others */
    answer_marker(s, deliver_suspect(s, &m, 3), true, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK(s->gives == 2 && !find_asked(s, GD__ASK_PUBLISH, NULL)); /* the marker is the first sign */
    for (int i = 0; i < 3; i++) {
        pass(s, 10000);
        struct asked *sign = must_ask(s, GD__ASK_PUBLISH, "gd.q.s.alive.");
        CHECK(sign->q.condition == GD__IF_ANY && sign->q.stream == GD__QUEUE_STATE);
        answer(s, sign, i == 0 ? GD__ANSWER_LOST : GD__ANSWER_OK);
    }
    gd__node_connected(s->node, s->now, false);
    pass(s, 100000);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, "gd.q.s.alive."));
    gd__node_connected(s->node, s->now, true);
    tick(s);
    answer(s, must_ask(s, GD__ASK_PUBLISH, "gd.q.s.alive."), GD__ANSWER_OK); /* at once */
    end_task(s, 1, 1000);
    pass(s, 30000);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, "gd.q.s.alive."));
    free_message(&a);
    free_message(&m);
    script_close(s);
}

TEST(a_drain_takes_the_marker_back)
{
    struct script *s = open_with(1);
    struct message a = make_message(1, 1, 0), m = make_message(2, 1, 0);
    deliver_new(s, &a, 1);
    answer_marker(s, deliver_suspect(s, &m, 3), true, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK_EQ(s->gives, 1); /* the slot is in use */
    gd__node_drain(s->node, s->now);
    tick(s);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 0); /* the marker first */
    struct asked *unmark = must_ask(s, GD__ASK_PUBLISH, m.marker);
    CHECK(unmark->q.condition == GD__IF_LAST && unmark->q.sequence == s->next_sequence);
    CHECK(marker_in(unmark).together && marker_in(unmark).alone == 0);
    answer(s, unmark, GD__ANSWER_OK);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 1);
    free_message(&a);
    free_message(&m);
    script_close(s);
}

TEST(a_suspect_bundle_is_split)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 3, 0);
    answer_marker(s, deliver_suspect(s, &m, 3), true, 0);
    CHECK_EQ(s->gives, 0);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_STR(states_of(p), "MMM");
    answer(s, p, GD__ANSWER_OK);
    for (unsigned i = 1; i <= 3; i++) {
        struct message part = make_message(i, 1, 0);
        struct gd__queue_reader r;
        struct asked *move = must_ask(s, GD__ASK_PUBLISH, part.subject);
        CHECK(gd__queue_tasks_open(&r, move->q.data, move->q.size, &part.key) == 0 && r.suspect);
        CHECK_EQ(count_told(s, GD__TELL_ACK), 0);
        answer(s, move, i == 2 ? GD__ANSWER_REFUSED : GD__ANSWER_OK); /* another node was faster */
        free_message(&part);
    }
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), p->q.data, p->q.size);
    CHECK_EQ(count_told(s, GD__TELL_ACK), 1);
    free_message(&m);
    script_close(s);
}

TEST(a_task_of_a_split_bundle_is_a_suspect_at_its_first_delivery)
{
    struct script *s = open_with(2);
    struct message m;
    const struct gd__queue_task t = a_task(1);
    gd__queue_tasks_begin(&m.w, 1 << 20);
    CHECK_EQ(gd__queue_tasks_add(&m.w, &t), 0);
    m.w.suspect = true;
    CHECK_EQ(gd__queue_message_end(&m.w, &m.key), 0);
    name_message(&m, 0, 0);
    answer(s, deliver_suspect(s, &m, 1), GD__ANSWER_NONE);
    CHECK_EQ(marker_in(must_ask(s, GD__ASK_PUBLISH, m.marker)).alone, 1);
    free_message(&m);
    script_close(s);
}

/* --- delivered again before it is begun --- */

/* Another node may have run it meanwhile. What was asked about the marker before that says nothing any more. */
TEST(a_suspect_that_is_delivered_again_is_looked_at_again)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    struct asked *read = deliver_suspect(s, &m, 2);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 3, 1);
    struct asked *look = must_ask(s, GD__ASK_LAST, m.record);
    answer(s, read, GD__ANSWER_NONE);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, m.marker) && s->gives == 0);
    answer(s, look, GD__ANSWER_NONE);
    answer(s, must_ask(s, GD__ASK_LAST, m.marker), GD__ANSWER_NONE);
    CHECK(find_asked(s, GD__ASK_PUBLISH, m.marker) != NULL);
    free_message(&m);
    script_close(s);
}

TEST(a_suspect_that_is_delivered_again_and_has_a_record)
{
    struct script *s = open_with(2);
    struct message m = make_message(1, 1, 0);
    (void)deliver_suspect(s, &m, 2);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 3, 1);
    struct gd__queue_writer record = others_record(1, 1, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    CHECK(count_told(s, GD__TELL_ACK) == 1 && s->gives == 0);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

/* It was no suspect when it came first. It is one now: another node has had it, and may have died. */
TEST(a_message_that_waits_and_is_delivered_again_is_a_suspect)
{
    struct script *s = open_with(2);
    struct message m[3];
    for (unsigned i = 0; i < 3; i++) {
        m[i] = make_message(1 + i, 1, 0);
        deliver_new(s, &m[i], 1);
    }
    CHECK_EQ(s->gives, 2); /* the third one waits for a slot */
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m[2], 3, 1);
    answer(s, must_ask(s, GD__ASK_LAST, m[2].record), GD__ANSWER_NONE);
    answer_marker(s, must_ask(s, GD__ASK_LAST, m[2].marker), true, 0);
    const struct gd__queue_marker marker = marker_in(must_ask(s, GD__ASK_PUBLISH, m[2].marker));
    CHECK(marker.alone == 1 && marker.together);
    for (unsigned i = 0; i < 3; i++)
        free_message(&m[i]);
    script_close(s);
}

TEST_MAIN()
