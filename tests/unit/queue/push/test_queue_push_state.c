/* SPDX-License-Identifier: MIT
 *
 * The lock of a push: its contents, and when it counts.
 */
#include <gpu_dispatch/error.h>

#include "base/clock.h"
#include "queue/push/state.h"
#include "support/test.h"

static const struct gd__push_state sample = { true,       "n17",      4711,
                                              1763312345, "boot 1 2", "00112233445566778899aabbccddeeff" };

static int parse(struct gd__push_state *out, const char *text)
{
    return gd__push_state_parse(out, text, strlen(text));
}

TEST(a_state_is_read_back)
{
    struct gd__buffer b = { 0 };
    struct gd__push_state s;
    gd__push_state_write(&b, &sample);
    CHECK_EQ(gd__push_state_parse(&s, b.data, b.size), 0);
    CHECK(s.open && s.pid == sample.pid && s.started == sample.started);
    CHECK_STR(s.host, sample.host);
    CHECK_STR(s.nonce, sample.nonce);
    CHECK_STR(s.process, sample.process);
    gd__buffer_free(&b);
}

#define NONCE "\"process\":\"x\",\"nonce\":\"00112233445566778899aabbccddeeff\""

TEST(bad_states_are_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "{\"version\":0,\"open\":true,\"host\":\"a\",\"pid\":1,\"started\":1," NONCE "}",
        "{\"version\":1,\"open\":1,\"host\":\"a\",\"pid\":1,\"started\":1," NONCE "}",
        "{\"version\":1,\"open\":true,\"host\":7,\"pid\":1,\"started\":1," NONCE "}",
        "{\"version\":1,\"open\":true,\"host\":\"a\",\"pid\":-1,\"started\":1," NONCE "}",
        "{\"version\":1,\"open\":true,\"host\":\"a\",\"pid\":1," NONCE "}",
        "{\"version\":1,\"open\":true,\"host\":\"a\",\"pid\":1,\"started\":1,\"process\":\"x\",\"nonce\":\"00\"}",
        "{\"version\":1,\"open\":true,\"host\":\"a\",\"pid\":1,\"started\":1,\"process\":\"x\",\"nonce\":"
        "\"0011223344556677889_"
        "aabbccddeeff\"}",
    };
    struct gd__push_state s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(parse(&s, bad[i]), GD_E_CORRUPT);
    CHECK_EQ(parse(&s, "{\"version\":2}"), GD_E_VERSION);
}

TEST(the_host_is_printable)
{
    struct gd__push_state s;
    CHECK_EQ(parse(&s, "{\"version\":1,\"open\":true,\"host\":\"a\\u001b[2J\",\"pid\":1,\"started\":1," NONCE "}"), 0);
    CHECK_STR(s.host, "a\\x1b[2J");
}

static struct gd__queue_answer answer(uint64_t sequence, const char *text)
{
    return (struct gd__queue_answer){
        .kind = sequence ? GD__ANSWER_OK : GD__ANSWER_NONE, .sequence = sequence, .data = text, .size = strlen(text)
    };
}

#define OPEN   "{\"version\":1,\"open\":true,\"host\":\"a\",\"pid\":1,\"started\":1," NONCE "}"
#define CLOSED "{\"version\":1,\"open\":false,\"host\":\"a\",\"pid\":1,\"started\":1," NONCE "}"

/* Looks once a second. Returns after how many seconds the push counts as dead. */
static unsigned seconds_until_dead(struct gd__push_watch *w, uint64_t now, const struct gd__queue_answer *a)
{
    unsigned n = 0;
    for (; gd__push_is_open(w, now, a, NULL); now += GD__NS_PER_S)
        CHECK_LT(n++, 1000);
    return n;
}

TEST(a_push_that_does_not_move_has_died)
{
    struct gd__push_watch w = { 0 };
    struct gd__push_state s;
    struct gd__queue_answer a = answer(7, OPEN);
    CHECK(gd__push_is_open(&w, 1000, &a, &s));
    CHECK_STR(s.host, "a");
    CHECK_EQ(seconds_until_dead(&w, 1000, &a), GD__PUSH_DEAD_MS / 1000);
    CHECK(!gd__push_is_open(&w, 100 * GD__NS_PER_S, &a, NULL));
    a = answer(8, OPEN); /* it moves again */
    CHECK_EQ(seconds_until_dead(&w, 200 * GD__NS_PER_S, &a), GD__PUSH_DEAD_MS / 1000);
    a = answer(9, CLOSED);
    CHECK(!gd__push_is_open(&w, 300 * GD__NS_PER_S, &a, NULL));
    a = answer(0, "");
    CHECK(!gd__push_is_open(&w, 300 * GD__NS_PER_S, &a, NULL));
}

/* The server was down: its push could not give a sign of life either. */
TEST(a_long_time_between_two_looks_counts_little)
{
    struct gd__push_watch w = { 0 };
    struct gd__queue_answer a = answer(7, OPEN);
    CHECK(gd__push_is_open(&w, 1000, &a, NULL));
    CHECK(gd__push_is_open(&w, 3600 * GD__NS_PER_S, &a, NULL));
    CHECK(gd__push_is_open(&w, 7200 * GD__NS_PER_S, &a, NULL));
    CHECK(!gd__push_is_open(&w, 10800 * GD__NS_PER_S, &a, NULL));
}

TEST(a_state_that_cannot_be_read_is_open_until_it_has_died)
{
    struct gd__push_watch w = { 0 };
    struct gd__push_state s = sample;
    struct gd__queue_answer a = answer(7, "rubbish");
    CHECK(gd__push_is_open(&w, 1000, &a, &s));
    CHECK_STR(s.host, "");
    CHECK_EQ(seconds_until_dead(&w, 1000, &a), GD__PUSH_DEAD_MS / 1000);
}

TEST_MAIN()
