/* SPDX-License-Identifier: MIT
 *
 * Tasks that have killed workers, and that a node cannot run any more: what it counts before it gives them back, and what
 * the next node does. The test is the server and the scheduler.
 */
#include "unit/queue/node/node_script.h"

static struct script *open_node(void)
{
    struct gd__node_config c = script_config();
    c.slots = 3;
    struct script *s = script_open(&c);
    tick(s);
    return s;
}

/* The node cannot run the task any more: it was returned after so many deaths of workers in all. */
static struct asked *charge(struct script *s, const struct message *m, uint32_t crashes)
{
    gd__node_charged(s->node, s->now, s->given[0], crashes);
    tick(s);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 0); /* the marker first */
    return must_ask(s, GD__ASK_PUBLISH, m->marker);
}

TEST(deaths_of_workers_are_counted_before_a_task_goes_back)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    CHECK_EQ(s->given[0]->crashes, 0);
    struct asked *mark = charge(s, &m, 2);
    CHECK(mark->q.condition == GD__IF_NONE && marker_in(mark).alone == 2 && !marker_in(mark).together);
    answer(s, mark, GD__ANSWER_OK);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 1);
    free_message(&m);
    script_close(s);
}

/* It was begun together with others before: that was not a death. */
TEST(deaths_of_workers_replace_the_marker_of_this_beginning)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    answer(s, deliver_suspect(s, &m, 2), GD__ANSWER_NONE);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    struct asked *mark = charge(s, &m, 1);
    CHECK(mark->q.condition == GD__IF_LAST && marker_in(mark).alone == 1 && !marker_in(mark).together);
    answer(s, mark, GD__ANSWER_OK);
    CHECK_EQ(count_told(s, GD__TELL_NAK), 1);
    free_message(&m);
    script_close(s);
}

/* The next node begins it alone, with the attempts that are left. If the device of the first node was the cause, it ends
 * well. */
TEST(a_task_that_has_killed_workers_gets_the_attempts_that_are_left)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    answer_marker(s, deliver_suspect(s, &m, 2), false, 2);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    CHECK(s->gives == 1 && s->given[0]->alone && s->given[0]->crashes == 2);
    end_task(s, 0, 1000);
    CHECK_STR(states_of(must_ask(s, GD__ASK_PUBLISH, m.record)), "D");
    free_message(&m);
    script_close(s);
}

TEST(a_task_that_was_returned_without_a_death_is_not_charged_again)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    answer_marker(s, deliver_suspect(s, &m, 2), false, 1);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.marker), GD__ANSWER_OK);
    struct asked *mark = charge(s, &m, 1);
    CHECK(marker_in(mark).alone == 1 && !marker_in(mark).together);
    free_message(&m);
    script_close(s);
}

/* The crash_limit is 3: all attempts are used up. */
TEST(a_task_that_has_killed_too_many_workers_is_not_run)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    answer_marker(s, deliver_suspect(s, &m, 2), false, 3);
    CHECK_EQ(s->gives, 0);
    CHECK_STR(states_of(must_ask(s, GD__ASK_PUBLISH, m.record)), "F");
    free_message(&m);
    script_close(s);
}

/* The rest of a bundle that has killed workers is split by the next node, and each of its tasks is begun alone. */
TEST(the_rest_of_a_bundle_that_has_killed_workers_is_a_suspect)
{
    struct script *s = open_node();
    struct message m = make_message(1, 3, 0);
    struct gd__queue_reader r;
    deliver_new(s, &m, 1);
    gd__node_drain(s->node, s->now);
    gd__node_charged(s->node, s->now, s->given[0], 2);
    gd__node_returned(s->node, s->now, s->given[1]);
    end_task(s, 2, 1000);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_STR(states_of(p), "MMD");
    answer(s, p, GD__ANSWER_OK);
    struct asked *move = must_ask(s, GD__ASK_PUBLISH, ".t.");
    CHECK(gd__queue_tasks_open(&r, move->q.data, move->q.size, NULL) == 0 && r.suspect && r.items == 2);
    free_message(&m);
    script_close(s);
}

TEST(a_suspect_rest_of_a_bundle_is_split)
{
    struct script *s = open_node();
    struct message m = make_message(1, 2, 0);
    m.w.suspect = true;
    CHECK_EQ(gd__queue_message_end(&m.w, &m.key), 0);
    answer(s, deliver_suspect(s, &m, 1), GD__ANSWER_NONE);
    CHECK_EQ(s->gives, 0);
    CHECK_STR(states_of(must_ask(s, GD__ASK_PUBLISH, m.record)), "MM");
    free_message(&m);
    script_close(s);
}

TEST_MAIN()
