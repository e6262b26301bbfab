/* SPDX-License-Identifier: MIT
 *
 * The rules of a node, one by one: from the pull to the end of a message. The test is the server and the scheduler.
 */
#include "unit/queue/node/node_script.h"

#include "base/error.h"
#include "base/fault.h"

static struct script *open_script(void)
{
    const struct gd__node_config c = script_config();
    struct script *s = script_open(&c);
    tick(s);
    return s;
}

/* --- the life of a message --- */

TEST(pull_look_run_record_acknowledge)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 0);
    CHECK_EQ(s->gives, 0); /* look before run */
    answer(s, must_ask(s, GD__ASK_LAST, m.record), GD__ANSWER_NONE);
    CHECK_EQ(s->gives, 1);
    CHECK(gd__queue_key_same(&s->given[0]->task.key, &m.key));
    CHECK_MEM(s->given[0]->task.payload.bytes.at, "task 1", 6);
    CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL));
    end_task(s, 0, 1000000);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_EQ(p->q.condition, GD__IF_NONE);
    CHECK_EQ(s->keeps, 1); /* kept before it is published */
    CHECK_EQ(s->decisions + s->forgets + count_told(s, GD__TELL_ACK), 0);
    answer(s, p, GD__ANSWER_OK);
    CHECK_EQ(count_told(s, GD__TELL_ACK), 1);
    CHECK(s->decisions == 1 && s->won[0] && s->forgets == 1);
    struct gd__node_figures f;
    gd__node_figures(s->node, &f);
    CHECK(f.held == 0 && f.given == 0 && f.won == 1 && f.unpublished == 0);
    free_message(&m);
    script_close(s);
}

TEST(a_message_with_a_record_is_not_run)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    struct gd__queue_writer record = others_record(1, 1, 0);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), record.message.data, record.message.size);
    CHECK(s->gives == 0 && count_told(s, GD__TELL_ACK) == 1 && s->decisions == 0);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

TEST(answers_that_nobody_waits_for_change_nothing)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0), other = make_message(2, 1, 0);
    deliver_new(s, &m, 0);
    struct asked *look = &s->asked[1];
    CHECK_EQ(look->q.ask, GD__ASK_LAST);
    answer(s, look, GD__ANSWER_NONE); /* once more */
    answer(s, look, GD__ANSWER_LOST);
    CHECK_EQ(s->gives, 1);
    struct asked unknown = { .q = { .id = 12345 } };
    answer(s, &unknown, GD__ANSWER_OK);
    unknown.q.id = UINT64_MAX;
    answer(s, &unknown, GD__ANSWER_OK);
    CHECK(s->asks == 2 && s->tells == 0);
    deliver(s, &unknown, &other, 1, 0); /* a message must not wait for its lease to run out */
    CHECK(count_told(s, GD__TELL_NAK) == 1 && s->gives == 1);
    free_message(&m);
    free_message(&other);
    script_close(s);
}

TEST(requests_without_an_answer_are_sent_again_after_growing_delays)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 0);
    end_task(s, 0, 1000000);
    uint64_t first = 0, last = 0;
    for (int i = 0; i < 8; i++) {
        struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
        const uint64_t asked_ns = s->now;
        answer(s, p, i % 2 ? GD__ANSWER_LOST : GD__ANSWER_LATER);
        CHECK(!find_asked(s, GD__ASK_PUBLISH, NULL)); /* not at once */
        while (!find_asked(s, GD__ASK_PUBLISH, NULL)) {
            CHECK_GT(s->due, s->now);
            s->now = s->due;
            tick(s);
        }
        first = i == 0 ? s->now - asked_ns : first;
        last = s->now - asked_ns;
        CHECK_MEM(p->q.data, must_ask(s, GD__ASK_PUBLISH, m.record)->q.data, p->q.size); /* the same nonce */
    }
    CHECK(first >= 50 * MS && first <= 150 * MS);
    CHECK(last >= 5000 * MS && last <= 20000 * MS);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK(s->decisions == 1 && s->won[0]);
    free_message(&m);
    script_close(s);
}

static void refused(bool ours)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 0);
    end_task(s, 0, 1000000);
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    answer(s, p, GD__ANSWER_REFUSED);
    CHECK(s->decisions == 0 && count_told(s, GD__TELL_ACK) == 0);
    struct gd__queue_writer record = others_record(1, 1, 0);
    struct asked *read = must_ask(s, GD__ASK_LAST, m.record);
    if (ours)
        answer_data(s, read, p->q.data, p->q.size);
    else
        answer_data(s, read, record.message.data, record.message.size);
    CHECK(s->decisions == 1 && s->won[0] == ours && s->forgets == 1 && count_told(s, GD__TELL_ACK) == 1);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

TEST(a_refused_record_that_is_ours)
{
    refused(true);
}

TEST(a_refused_record_that_is_anothers)
{
    refused(false);
}

TEST(a_message_that_is_delivered_again_to_the_same_node)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    deliver_new(s, &m, 0);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 2, 0);
    CHECK(s->gives == 1 && s->tells == 0 && !find_asked(s, GD__ASK_LAST, NULL));
    end_task(s, 0, 1000000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    CHECK(s->tells == 1 && s->told[0].notice == GD__TELL_ACK);
    CHECK_STR(s->told[0].token, "token 3"); /* the newest */
    free_message(&m);
    script_close(s);
}

/* A repair has sent a message again that is not lost: it runs once. */
TEST(a_message_with_the_key_of_one_that_is_held)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0), again = make_message(1, 1, 0);
    name_message(&again, 0, 1);
    deliver_new(s, &m, 1);
    answer_with(s, must_ask(s, GD__ASK_PULL, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_ITEM,
                                           .subject = again.subject,
                                           .sequence = 99999,
                                           .data = again.w.message.data,
                                           .size = again.w.message.size,
                                           .token = "again",
                                           .deliveries = 1 });
    CHECK(s->tells == 1 && s->told[0].notice == GD__TELL_NAK && s->told[0].delay_ms > 0);
    CHECK_STR(s->told[0].token, "again");
    CHECK(s->gives == 1 && !find_asked(s, GD__ASK_LAST, NULL));
    free_message(&m);
    free_message(&again);
    script_close(s);
}

TEST(notices_after_each_third_of_the_lease)
{
    struct script *s = open_script();
    struct message a = make_message(1, 1, 0), b = make_message(2, 1, 0);
    deliver_new(s, &a, 1);
    pass(s, 4000);
    deliver_new(s, &b, 1);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 0);
    pass(s, 26000); /* a: at 10, 20, 30 s; b: at 14, 24 s */
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 5);
    end_task(s, 0, 1000000); /* also while its record is not confirmed */
    pass(s, 10000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 7);
    free_message(&a);
    free_message(&b);
    script_close(s);
}

/* A node that extends leases of ten minutes has two messages, and runs one of them. */
static struct script *open_with_long_lease(void)
{
    struct gd__node_config c = script_config();
    c.slots = 1;
    c.lease_ms = 600000;
    struct script *s = script_open(&c);
    tick(s);
    for (unsigned i = 1; i <= 2; i++) {
        struct message m = make_message(i, 1, 0);
        deliver_new(s, &m, 2 - i);
        answer(s, must_ask(s, GD__ASK_PULL, NULL), GD__ANSWER_OK);
        free_message(&m);
    }
    return s;
}

static void answer_lease(struct script *s, struct asked *a, uint32_t lease_ms)
{
    struct gd__queue_answer c = { .kind = GD__ANSWER_OK };
    c.consumer.unacknowledged = 1;
    c.consumer.lease_ms = lease_ms;
    answer_with(s, a, c);
}

/* The question for the lease of this priority. */
static struct asked *asked_lease(struct script *s, int priority)
{
    for (size_t i = 0; i < s->asks; i++) {
        struct asked *a = &s->asked[i];
        if (!a->ended && a->q.ask == GD__ASK_CONSUMER && a->q.priority == priority)
            return a;
    }
    return NULL;
}

TEST(a_new_priority_brings_its_lease)
{
    struct script *s = open_with_long_lease();
    pass(s, 16000);
    answer_with(s, must_ask(s, GD__ASK_PRIORITIES, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .priorities = 3U << (0 - GD_PRIORITY_MIN) });
    CHECK(asked_lease(s, 1) != NULL);
    answer(s, asked_lease(s, 1), GD__ANSWER_LOST);
    CHECK(!asked_lease(s, 1));
    pass(s, 1000);
    CHECK(asked_lease(s, 1) != NULL); /* asked again */
    pass(s, 20000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 0);
    answer_lease(s, asked_lease(s, 1), 30000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 2); /* at once */
    pass(s, 10000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 4);
    CHECK(!asked_lease(s, 1));
    script_close(s);
}

TEST(a_longer_lease_changes_nothing)
{
    struct script *s = open_with_long_lease();
    pass(s, 16000);
    answer_with(s, must_ask(s, GD__ASK_PRIORITIES, NULL),
                (struct gd__queue_answer){ .kind = GD__ANSWER_OK, .priorities = 3U << (0 - GD_PRIORITY_MIN) });
    answer_lease(s, asked_lease(s, 1), 24 * 3600000);
    pass(s, 200000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 2);
    script_close(s);
}

/* A consumer that was removed and made anew may have another lease. Nodes ask consumers for other reasons too. */
TEST(each_answer_of_a_consumer_tells_its_lease)
{
    struct script *s = open_with_long_lease();
    pass(s, 16000); /* asks whether others wait for its second task */
    answer_lease(s, must_ask(s, GD__ASK_CONSUMER, NULL), 30000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 2);
    script_close(s);

    s = open_with_long_lease();
    pass(s, 1000);
    answer(s, must_ask(s, GD__ASK_CONSUMER, NULL), GD__ANSWER_LOST);
    for (size_t i = 0; i < 2; i++) {
        end_task(s, i, 1000);
        answer(s, must_ask(s, GD__ASK_PUBLISH, NULL), GD__ANSWER_OK);
    }
    pass(s, 1000); /* asks whether the queue is done */
    answer_lease(s, must_ask(s, GD__ASK_CONSUMER, NULL), 30000);
    struct message m = make_message(3, 1, 0);
    deliver_new(s, &m, 0);
    pass(s, 10000);
    CHECK_EQ(count_told(s, GD__TELL_WORKING), 1);
    free_message(&m);
    script_close(s);
}

/* --- records --- */

TEST(outputs_that_do_not_fit_become_failures_that_say_so)
{
    struct gd__node_config c = script_config();
    c.max_payload = 100000;
    struct script *s = script_open(&c);
    struct message m = make_message(1, 4, 0);
    static const char output[60000];
    tick(s);
    deliver_new(s, &m, 1);
    for (size_t i = 0; i < 4; i++) {
        struct gd__queue_record r = a_record(1000000);
        r.output = (struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { output, sizeof output } };
        gd__node_ended(s->node, s->now, s->given[i], &r);
        tick(s);
    }
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_LE(p->q.size, c.max_payload);
    CHECK_STR(states_of(p), "DFFF");
    struct gd__queue_reader reader;
    struct gd__queue_record e;
    CHECK_EQ(gd__queue_records_open(&reader, p->q.data, p->q.size, &m.key), 0);
    for (int i = 0; i < 2; i++)
        CHECK(gd__queue_records_next(&reader, &e));
    CHECK_MEM(e.failure.at, "output_too_large", 16);
    CHECK(e.output.form == GD__QUEUE_NOTHING && e.error.size > 20);
    CHECK(memmem(e.error.at, e.error.size, "--spill-dir", 11));
    answer(s, p, GD__ANSWER_TOO_LARGE); /* the server accepts less than it said */
    p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_STR(states_of(p), "FFFF");
    answer(s, p, GD__ANSWER_OK);
    CHECK_EQ(s->decisions, 4);
    free_message(&m);
    script_close(s);
}

/* 30 tasks with a short output and 4096 bytes of stderr each: this does not fit. Those from first_failed on, so many, have
 * failed. Returns how many stderrs are in the record message; all outputs must be there. */
static unsigned count_stderrs(size_t first_failed, size_t failed)
{
    struct gd__node_config c = script_config();
    c.max_payload = 100000;
    c.slots = 30;
    struct script *s = script_open(&c);
    struct message m = make_message(1, 30, 0);
    static const char warnings[4096], output[200];
    tick(s);
    deliver_new(s, &m, 1);
    for (size_t i = 0; i < 30; i++) {
        struct gd__queue_record r = a_record(1000000);
        r.stderr_end = (struct gd__queue_text){ warnings, sizeof warnings };
        r.output = (struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { output, sizeof output } };
        if (i >= first_failed && i < first_failed + failed) {
            r.state = GD__QUEUE_FAILED;
            r.failure = (struct gd__queue_text){ "error", 5 };
        }
        gd__node_ended(s->node, s->now, s->given[i], &r);
        tick(s);
    }
    struct asked *p = must_ask(s, GD__ASK_PUBLISH, m.record);
    CHECK_LE(p->q.size, c.max_payload);
    struct gd__queue_reader reader;
    struct gd__queue_record e;
    unsigned stderrs = 0, failures = 0;
    CHECK_EQ(gd__queue_records_open(&reader, p->q.data, p->q.size, &m.key), 0);
    for (; gd__queue_records_next(&reader, &e); stderrs += e.stderr_end.size > 0) {
        CHECK_EQ(e.output.bytes.size, sizeof output);
        CHECK(e.stderr_end.size == 0 || e.state == GD__QUEUE_FAILED);
        failures += e.state == GD__QUEUE_FAILED;
    }
    CHECK_EQ(failures, failed);
    free_message(&m);
    script_close(s);
    return stderrs;
}

TEST(stderr_is_left_out_before_an_output)
{
    CHECK_EQ(count_stderrs(0, 0), 0);
    CHECK_EQ(count_stderrs(20, 2), 2);
    CHECK_EQ(count_stderrs(1, 29), 0); /* not even the stderr of failures fits */
}

/* The first outputs must not take the room that the records of the other tasks need. */
TEST(room_is_left_for_every_record)
{
    struct gd__node_config c = script_config();
    c.max_payload = 100000;
    struct script *s = script_open(&c);
    struct message m = make_message(1, 4, 0);
    static const char output[33200];
    tick(s);
    deliver_new(s, &m, 1);
    for (size_t i = 0; i < 4; i++) {
        struct gd__queue_record r = a_record(1000000);
        r.output = (struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { output, sizeof output } };
        gd__node_ended(s->node, s->now, s->given[i], &r);
        tick(s);
    }
    CHECK_STR(states_of(must_ask(s, GD__ASK_PUBLISH, m.record)), "DDFF");
    CHECK_EQ(s->lines, 0);
    free_message(&m);
    script_close(s);
}

TEST(kept_records_are_published_before_anything_is_pulled)
{
    const struct gd__node_config c = script_config();
    struct script *s = script_open(&c);
    struct message m = make_message(1, 1, 0);
    struct gd__queue_writer record = others_record(1, 1, 0);
    CHECK_EQ(gd__node_publish_kept(s->node, &m.key, "GDQ", 3), GD_E_CORRUPT);
    CHECK_EQ(gd__node_publish_kept(s->node, &m.key, record.message.data, record.message.size), 0);
    CHECK_EQ(s->asks, 0);
    tick(s);
    CHECK(!find_asked(s, GD__ASK_PULL, NULL));
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_LATER);
    CHECK(find_asked(s, GD__ASK_PULL, NULL)); /* a server that cannot store it now does not stop the work */
    pass(s, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m.record), GD__ANSWER_OK);
    CHECK(s->forgets == 1 && s->decisions == 0 && s->tells == 0);
    gd__queue_writer_free(&record);
    free_message(&m);
    script_close(s);
}

/* The node got the message of a kept record before the server had that record: it is not run. */
TEST(a_message_whose_kept_record_is_accepted_is_looked_at_again)
{
    const struct gd__node_config c = script_config();
    struct script *s = script_open(&c);
    struct message m[3] = { make_message(1, 1, 0), make_message(2, 1, 0), make_message(3, 1, 0) };
    struct gd__queue_writer record = others_record(3, 1, 0);
    CHECK_EQ(gd__node_publish_kept(s->node, &m[2].key, record.message.data, record.message.size), 0);
    tick(s);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m[2].record), GD__ANSWER_LATER);
    for (unsigned i = 0; i < 3; i++)
        deliver_new(s, &m[i], 1);
    CHECK_EQ(s->gives, 2); /* the third one waits for a slot */
    pass(s, 1000);
    answer(s, must_ask(s, GD__ASK_PUBLISH, m[2].record), GD__ANSWER_OK);
    answer_data(s, must_ask(s, GD__ASK_LAST, m[2].record), record.message.data, record.message.size);
    CHECK(s->tells == 1 && s->told[0].notice == GD__TELL_ACK && s->gives == 2);
    gd__queue_writer_free(&record);
    for (unsigned i = 0; i < 3; i++)
        free_message(&m[i]);
    script_close(s);
}

/* --- hostile messages --- */

static void leave_message(const char *subject, const void *data, size_t size, const char *line)
{
    struct script *s = open_script();
    struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
    for (int i = 0; i < 3; i++)
        answer_with(s, pull,
                    (struct gd__queue_answer){ .kind = GD__ANSWER_ITEM,
                                               .subject = subject,
                                               .sequence = 7,
                                               .data = data,
                                               .size = size,
                                               .token = "t",
                                               .deliveries = 1 });
    CHECK(s->lines == 1 && s->gives == 0); /* said once */
    CHECK_CONTAINS(s->line, line);
    CHECK(s->tells == 3 && s->told[0].notice == GD__TELL_NAK && s->told[0].delay_ms >= 60000);
    CHECK(!find_asked(s, GD__ASK_LAST, NULL));
    script_close(s);
}

TEST(messages_that_cannot_be_read_are_left_in_the_queue)
{
    struct message m = make_message(1, 2, 0), other = make_message(3, 2, 0);
    leave_message("gd.other.t.0.x", "x", 1, "gd.other.t.0.x");
    leave_message(m.record, "x", 1, "its subject is not that of a task");
    leave_message(m.subject, "x", 1, "damaged");
    leave_message(m.subject, NULL, 0, "damaged");
    leave_message(m.subject, other.w.message.data, other.w.message.size, "its tasks are not those of its subject");
    m.w.message.data[4] = 9;
    leave_message(m.subject, m.w.message.data, m.w.message.size, "newer gpu_dispatch");
    free_message(&m);
    free_message(&other);
}

TEST(a_bundle_whose_records_would_not_fit_is_left_in_the_queue)
{
    struct gd__node_config c = script_config();
    c.max_payload = 1000;
    struct script *s = script_open(&c);
    struct message m = make_message(1, 8, 0);
    tick(s);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 0);
    CHECK(s->lines == 1 && s->tells == 1 && s->told[0].notice == GD__TELL_NAK);
    CHECK_CONTAINS(s->line, "max_payload");
    free_message(&m);
    script_close(s);
}

TEST(a_record_that_cannot_be_read)
{
    struct script *s = open_script();
    struct message m = make_message(1, 1, 0);
    deliver(s, must_ask(s, GD__ASK_PULL, NULL), &m, 1, 0);
    answer_data(s, must_ask(s, GD__ASK_LAST, m.record), "x", 1);
    CHECK(s->gives == 0 && s->lines == 1 && s->tells == 1 && s->told[0].notice == GD__TELL_NAK);
    free_message(&m);
    script_close(s);
}

/* --- no memory --- */

/* Each allocation fails once: the message is given back or recorded, and nothing is lost. */
TEST(no_memory)
{
    struct message m = make_message(1, 3, 0);
    unsigned long failures = 0;
    for (unsigned long nth = 1;; nth++) {
        struct script *s = open_script();
        struct asked *pull = must_ask(s, GD__ASK_PULL, NULL);
        gd__fault_begin(nth);
        deliver(s, pull, &m, 1, 1);
        struct asked *look = find_asked(s, GD__ASK_LAST, NULL);
        if (look)
            answer(s, look, GD__ANSWER_NONE);
        for (size_t i = 0; i < s->gives; i++)
            end_task(s, i, 1000000);
        gd__fault_begin(0);
        pass(s, 1000);
        struct asked *p = find_asked(s, GD__ASK_PUBLISH, m.record);
        if (p)
            answer(s, p, GD__ANSWER_OK);
        const size_t acks = count_told(s, GD__TELL_ACK), naks = count_told(s, GD__TELL_NAK);
        CHECK(acks + naks == 1 || find_asked(s, GD__ASK_PUBLISH, ".t.")); /* the rest of a part is on its way */
        failures += s->lines > 0;
        const bool all = s->lines == 0 && acks == 1;
        script_close(s);
        if (all)
            break;
    }
    CHECK_GT(failures, 4);
    free_message(&m);
}

TEST_MAIN()
