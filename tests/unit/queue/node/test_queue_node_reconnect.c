/* SPDX-License-Identifier: MIT
 *
 * Messages that a node holds while the connection is lost. A server that has lost data may give the sequence of such a
 * message to another one, so the old token must not acknowledge anything. The test is the server and the scheduler.
 */
#include "unit/queue/node/node_script.h"

static struct script *open_node(void)
{
    const struct gd__node_config c = script_config();
    struct script *s = script_open(&c);
    tick(s);
    return s;
}

/* The connection is lost, and comes back. All requests have been asked again after that. */
static void reconnect(struct script *s)
{
    gd__node_connected(s->node, s->now, false);
    for (size_t i = 0; i < s->asks; i++)
        if (!s->asked[i].ended)
            answer(s, &s->asked[i], GD__ANSWER_LOST);
    gd__node_connected(s->node, s->now, true);
    pass(s, 1000);
}

static const struct told *last_told(const struct script *s)
{
    CHECK_GT(s->tells, 0);
    return &s->told[s->tells - 1];
}

/* It is not acknowledged, but delivered again later. */
static void must_be_given_back(const struct script *s, const char *token)
{
    CHECK_EQ(count_told(s, GD__TELL_ACK), 0);
    CHECK_EQ(last_told(s)->notice, GD__TELL_NAK);
    CHECK_GT(last_told(s)->delay_ms, 0); /* a replica that is behind must not say that there is no record */
    CHECK_STR(last_told(s)->token, token);
}

static struct gd__node_figures figures_of(const struct script *s)
{
    struct gd__node_figures f;
    gd__node_figures(s->node, &f);
    return f;
}

TEST(a_message_that_was_held_without_a_connection_is_given_back_after_its_record)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    reconnect(s);
    end_task(s, 0, 1000000);
    CHECK_EQ(s->tells, 0);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    must_be_given_back(s, "token 1");
    CHECK(s->decisions == 1 && s->won[0] && s->forgets == 1); /* the record counts all the same */
    const struct gd__node_figures f = figures_of(s);
    CHECK(f.held == 0 && f.unpublished == 0 && f.won == 1 && f.returned == 0);
    free_message(&m);
    script_close(s);
}

/* Also if the record was published before, and only its confirmation was lost. */
TEST(a_message_whose_record_is_found_after_a_lost_connection_is_given_back)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    end_task(s, 0, 1000000);
    const struct asked *first = must_ask(s, GD__ASK_PUBLISH, m.record);
    reconnect(s);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_REFUSED);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), first->q.data, first->q.size);
    must_be_given_back(s, "token 1");
    CHECK(s->decisions == 1 && s->won[0]);
    free_message(&m);
    script_close(s);
}

TEST(a_message_that_was_looked_for_without_a_connection_is_given_back)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    struct gd__queue_writer record = others_record(1, 1, 0);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 1);
    reconnect(s);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    must_be_given_back(s, "token 1");
    CHECK_EQ(s->gives, 0);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

TEST(a_bundle_whose_rest_has_moved_is_given_back_after_a_lost_connection)
{
    struct script *s = open_node();
    struct message m = make_message(1, 2, 0), rest = make_message(2, 1, 0);
    struct gd__queue_writer record = others_record(1, 2, 2);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 1);
    reconnect(s);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    answer(s, must_ask(s, GD__ASK_PUBLISH, rest.subject), GD__ANSWER_OK);
    CHECK_EQ(s->tells, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    must_be_given_back(s, "token 1");
    gd__queue_writer_free(&record);
    free_message(&rest);
    free_message(&m);
    script_close(s);
}

/* The next delivery has a token of this connection. */
TEST(the_next_delivery_is_acknowledged_and_not_run)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 1);
    reconnect(s);
    end_task(s, 0, 1000000);
    struct asked *record = must_ask(s, GD__ASK_PUBLISH, m.record);
    answer(s, record, GD__ANSWER_OK);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 0);
    const size_t tells = s->tells;
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record->q.data, record->q.size);
    CHECK(s->tells == tells + 1 && last_told(s)->notice == GD__TELL_ACK && strcmp(last_told(s)->token, "token 1") != 0);
    CHECK(s->gives == 1 && s->decisions == 1 && figures_of(s).held == 0);
    free_message(&m);
    script_close(s);
}

TEST(a_message_that_is_delivered_again_while_it_runs_is_acknowledged_by_its_new_token)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    char token[64];
    deliver_new(s, &m, 1);
    reconnect(s);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 1);
    snprintf(token, sizeof token, "token %" PRIu64, s->next_sequence);
    end_task(s, 0, 1000000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    CHECK(s->gives == 1 && s->tells == 1 && last_told(s)->notice == GD__TELL_ACK);
    CHECK_STR(last_told(s)->token, token);
    free_message(&m);
    script_close(s);
}

/* Another node has published a record and given the message back, while this node has it and has not begun it. */
TEST(a_message_that_is_delivered_again_before_it_has_begun_is_looked_for_again)
{
    struct script *s = open_node();
    struct message running = make_message(1, 2, 0), m = make_message(3, 1, 0);
    struct gd__queue_writer record = others_record(3, 1, 0);
    deliver_new(s, &running, 1);
    deliver_new(s, &m, 1);
    CHECK_EQ(s->gives, 2); /* m waits */
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 1);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    CHECK(s->gives == 2 && s->tells == 1 && last_told(s)->notice == GD__TELL_ACK);
    end_task(s, 0, 1000000);
    CHECK_EQ(s->gives, 2);
    gd__queue_writer_free(&record);
    free_message(&running);
    free_message(&m);
    script_close(s);
}

TEST(a_message_that_comes_after_the_lost_connection_is_acknowledged)
{
    struct script *s = open_node();
    struct message m = make_message(1, 1, 0);
    reconnect(s);
    deliver_new(s, &m, 1);
    end_task(s, 0, 1000000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    CHECK(s->tells == 1 && last_told(s)->notice == GD__TELL_ACK);
    free_message(&m);
    script_close(s);
}

TEST_MAIN()
