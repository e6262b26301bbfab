/* SPDX-License-Identifier: MIT
 *
 * The model server of the simulation, by itself. What it does was measured with a real server, so these cases describe
 * the real server too. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sim/queue/server/server.h"
#include "support/test.h"

enum { MOST = 64, LEASE_MS = 30000 };
#define S GD__NS_PER_S

struct got {
    unsigned client;
    struct gd__queue_answer answer;
    char subject[GD__QUEUE_SUBJECT_ROOM], token[GD__QUEUE_TOKEN_ROOM], data[32];
};

static struct server server;
static struct got got[MOST];
static size_t n_got;
static uint64_t now;

static void on_answer(void *user, unsigned client, const struct gd__queue_answer *a)
{
    (void)user;
    CHECK_LT(n_got, MOST);
    struct got *g = &got[n_got++];
    g->client = client;
    g->answer = *a;
    snprintf(g->subject, sizeof g->subject, "%s", a->subject ? a->subject : "");
    snprintf(g->token, sizeof g->token, "%s", a->token ? a->token : "");
    snprintf(g->data, sizeof g->data, "%.*s", (int)a->size, a->data ? (const char *)a->data : "");
}

static void ask(unsigned client, const struct gd__queue_request *r)
{
    n_got = 0;
    server_ask(&server, now, client, r);
    server_tick(&server, now);
}

static void tell(enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    n_got = 0;
    server_tell(&server, now, notice, token, delay_ms);
    server_tick(&server, now);
}

/* Lets time pass, alarm by alarm. */
static void wait_until(uint64_t at)
{
    n_got = 0;
    for (uint64_t next; (next = server_tick(&server, now)) <= at;)
        now = next > now ? next : now + 1;
    now = at;
    server_tick(&server, now);
}

static void open_server(void)
{
    now = 1000 * S;
    server_open(&server, "q", &(struct server_effects){ .answer = on_answer });
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    for (int i = 0; i < 3; i++)
        ask(0, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = kinds[i] });
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .priority = 0, .lease_ms = LEASE_MS });
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_OK);
}

static char *subject(char out[GD__QUEUE_SUBJECT_ROOM], enum gd__queue_kind kind, int number, int priority)
{
    const struct gd__queue_subject s = { .kind = kind,
                                         .priority = kind == GD__QUEUE_TASK ? priority : 0,
                                         .key = gd__queue_task_key(&number, sizeof number, 0) };
    return gd__queue_subject_text(out, "q", &s);
}

static enum gd__queue_answer_kind publish(const char *to, const char *data, enum gd__queue_condition condition,
                                          uint64_t sequence)
{
    ask(9, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                        .subject = to,
                                        .data = data,
                                        .size = strlen(data),
                                        .condition = condition,
                                        .sequence = sequence });
    return got[n_got - 1].answer.kind;
}

static enum gd__queue_answer_kind publish_task(int number, int priority)
{
    char to[GD__QUEUE_SUBJECT_ROOM];
    return publish(subject(to, GD__QUEUE_TASK, number, priority), "task", GD__IF_NONE, 0);
}

static void pull(unsigned client, uint32_t most, uint32_t wait_ms)
{
    ask(client,
        &(struct gd__queue_request){ .ask = GD__ASK_PULL, .id = 100 + client, .most = most, .wait_ms = wait_ms });
}

TEST(a_subject_of_tasks_takes_one_message)
{
    char to[GD__QUEUE_SUBJECT_ROOM];
    open_server();
    CHECK_EQ(publish_task(1, 0), GD__ANSWER_OK);
    CHECK_EQ(got[0].answer.sequence, 1);
    CHECK_EQ(publish_task(1, 0), GD__ANSWER_REFUSED);
    subject(to, GD__QUEUE_TASK, 1, 0);
    CHECK_EQ(publish(to, "x", GD__IF_LAST, 1), GD__ANSWER_REFUSED);
    CHECK_EQ(publish_task(2, 0), GD__ANSWER_OK);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = to });
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_OK);
    CHECK(strcmp(got[0].data, "task") == 0);
    server_close(&server);
}

TEST(a_state_is_replaced_by_whoever_names_its_sequence)
{
    const char *to = "gd.q.s.push";
    open_server();
    CHECK_EQ(publish(to, "1", GD__IF_LAST, 1), GD__ANSWER_REFUSED);
    CHECK_EQ(publish(to, "1", GD__IF_NONE, 0), GD__ANSWER_OK);
    CHECK_EQ(publish(to, "2", GD__IF_NONE, 0), GD__ANSWER_REFUSED);
    CHECK_EQ(publish(to, "2", GD__IF_LAST, 1), GD__ANSWER_OK);
    CHECK_EQ(publish(to, "3", GD__IF_LAST, 1), GD__ANSWER_REFUSED);
    CHECK_EQ(publish(to, "4", GD__IF_ANY, 0), GD__ANSWER_OK);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = to });
    CHECK(strcmp(got[0].data, "4") == 0);
    CHECK_EQ(server.states.messages, 1);
    server_close(&server);
}

TEST(a_pull_waits_until_it_is_full_or_its_time_is_over)
{
    open_server();
    CHECK_EQ(publish_task(1, 0), GD__ANSWER_OK);
    pull(1, 2, 5000);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_ITEM);
    CHECK_EQ(got[0].answer.deliveries, 1);
    n_got = 0;
    publish_task(2, 0);
    CHECK_EQ(n_got, 3); /* the answer to the push, the item, the end of the pull */
    CHECK_EQ(got[2].answer.kind, GD__ANSWER_OK);
    pull(1, 2, 5000);
    CHECK_EQ(n_got, 0);
    wait_until(now + 5 * S);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_OK);
    CHECK_EQ(got[0].client, 1);
    server_close(&server);
}

TEST(waiting_pulls_are_served_in_turn)
{
    open_server();
    for (unsigned client = 1; client <= 3; client++)
        pull(client, 4, 5000);
    for (int i = 0; i < 6; i++) {
        publish_task(i, 0);
        CHECK_EQ(got[1].client, 1 + (unsigned)i % 3);
    }
    server_forget_client(&server, 2);
    publish_task(6, 0);
    CHECK_EQ(got[1].client, 1);
    publish_task(7, 0);
    CHECK_EQ(got[1].client, 3);
    publish_task(8, 0);
    CHECK_EQ(got[1].client, 1);
    server_close(&server);
}

TEST(a_lease_that_runs_out_is_delivered_again_first)
{
    open_server();
    publish_task(1, 0);
    publish_task(2, 0);
    pull(1, 1, 1000);
    pull(2, 5, 60000);
    CHECK_EQ(n_got, 1);
    wait_until(now + 29 * S);
    CHECK_EQ(n_got, 0);
    tell(GD__TELL_WORKING, "1.1", 0);
    wait_until(now + 29 * S);
    for (size_t i = 0; i < n_got; i++) /* the other message: nobody has extended its lease */
        CHECK_EQ(got[i].answer.sequence, 2);
    wait_until(now + 1 * S);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].answer.sequence, 1);
    CHECK_EQ(got[0].answer.deliveries, 2);
    server_close(&server);
}

TEST(giving_back_works_at_once_or_after_a_delay)
{
    open_server();
    publish_task(1, 0);
    pull(1, 1, 1000);
    pull(2, 5, 60000);
    tell(GD__TELL_NAK, "1.1", 0);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].client, 2);
    tell(GD__TELL_NAK, "1.1", 0); /* of an old delivery */
    CHECK_EQ(n_got, 0);
    tell(GD__TELL_NAK, "1.2", 3000);
    CHECK_EQ(n_got, 0);
    wait_until(now + 3 * S);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].answer.deliveries, 3);
    server_close(&server);
}

TEST(an_acknowledgement_of_an_old_delivery_counts)
{
    open_server();
    publish_task(1, 0);
    pull(1, 1, 1000);
    tell(GD__TELL_NAK, "1.1", 0);
    pull(2, 1, 1000);
    tell(GD__TELL_ACK, "1.1", 0);
    wait_until(now + 100 * S);
    pull(3, 1, 0);
    CHECK_EQ(n_got, 1);
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_OK);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_CONSUMER });
    CHECK_EQ(got[0].answer.consumer.unacknowledged, 0);
    CHECK_EQ(got[0].answer.consumer.pending, 0);
    server_close(&server);
}

TEST(no_more_than_max_unacknowledged_are_out)
{
    open_server();
    server.max_unacknowledged = 2;
    for (int i = 0; i < 4; i++)
        publish_task(i, 0);
    pull(1, 4, 1000);
    CHECK_EQ(n_got, 2);
    tell(GD__TELL_ACK, got[0].token, 0);
    CHECK_EQ(n_got, 1);
    server_close(&server);
}

TEST(a_priority_has_its_own_consumer)
{
    open_server();
    publish_task(1, 2);
    pull(1, 1, 0);
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_OK);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_PULL, .priority = 2, .most = 1 });
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_NONE);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .priority = 2, .lease_ms = LEASE_MS });
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_PRIORITIES });
    CHECK_EQ(got[0].answer.priorities, UINT32_C(1) << (0 - GD_PRIORITY_MIN) | UINT32_C(1) << (2 - GD_PRIORITY_MIN));
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_PULL, .priority = 2, .most = 1 });
    CHECK_EQ(got[0].answer.kind, GD__ANSWER_ITEM);
    server_close(&server);
}

TEST(streams_are_read_in_order_and_in_parts)
{
    open_server();
    for (int i = 0; i < 5; i++)
        publish_task(i, 0);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 2, .most = 3 });
    CHECK_EQ(n_got, 4);
    CHECK_EQ(got[0].answer.sequence, 2);
    CHECK_EQ(got[2].answer.sequence, 4);
    CHECK_EQ(got[3].answer.kind, GD__ANSWER_OK);
    char filter[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_stream_filter(filter, "q", GD__QUEUE_TASK);
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK, .subject = filter });
    CHECK_EQ(n_got, 6);
    gd__queue_resend_filter(filter, "q");
    ask(0, &(struct gd__queue_request){ .ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK, .subject = filter });
    CHECK_EQ(n_got, 1);
    server_close(&server);
}

TEST(a_server_that_died_delivers_again_with_the_count_1)
{
    open_server();
    publish_task(1, 0);
    publish_task(2, 0);
    pull(1, 2, 1000);
    tell(GD__TELL_ACK, "2.1", 0);
    now += S / 2;
    server_die(&server, now, &(struct server_loss){ .counts = true, .deliveries_ns = S });
    pull(1, 2, 1000);
    CHECK_EQ(n_got, 3);
    CHECK_EQ(got[0].answer.deliveries, 1);
    CHECK_EQ(got[1].answer.sequence, 2); /* even what was acknowledged */
    server_close(&server);
}

TEST(a_server_that_lost_its_last_second_uses_its_sequences_again)
{
    open_server();
    publish_task(1, 0);
    now += 2 * S;
    publish_task(2, 0);
    publish("gd.q.s.push", "1", GD__IF_NONE, 0);
    pull(1, 2, 1000);
    server_die(&server, now + 1, &(struct server_loss){ .tasks_ns = S, .records_ns = S, .states_ns = S });
    CHECK_EQ(server.tasks.messages, 1);
    CHECK_EQ(server.states.messages, 0);
    CHECK_EQ(publish_task(3, 0), GD__ANSWER_OK);
    CHECK_EQ(got[0].answer.sequence, 2);
    CHECK_EQ(publish_task(2, 0), GD__ANSWER_OK);
    server_close(&server);
}

TEST_MAIN()
