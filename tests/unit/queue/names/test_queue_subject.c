/* SPDX-License-Identifier: MIT
 *
 * The names that a queue has on its server.
 */
#include <gpu_dispatch/dispatcher.h>

#include "base/error.h"
#include "queue/names/subject.h"
#include "support/test.h"

#define HASH     "000102030405060708090a0b0c0d0e0f"
#define HASH_FF  "ffffffffffffffffffffffffffffffff"
#define HASH_B   "b0000000000000000000000000000000"
#define LONGEST  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define UINT32_N "4294967295"

/* xorshift64*: the same numbers on every machine. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static struct gd__queue_key counted_key(uint32_t repeat, uint32_t tasks)
{
    struct gd__queue_key key = { .repeat = repeat, .tasks = tasks };
    for (unsigned i = 0; i < GD__HASH_SIZE; i++)
        key.hash[i] = (unsigned char)i;
    return key;
}

TEST(texts)
{
    char out[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__queue_key first = counted_key(0, 1), third = counted_key(2, 1), bundle = counted_key(0, 200);
    CHECK_STR(gd__queue_key_text(out, &first), HASH);
    CHECK_STR(gd__queue_key_text(out, &third), HASH "-2");
    CHECK_STR(gd__queue_key_text(out, &bundle), "bundle-" HASH "-200");
    CHECK_STR(gd__queue_subject_text(out, "q", &(struct gd__queue_subject){ GD__QUEUE_TASK, -4, first, 0 }),
              "gd.q.t.-4." HASH);
    CHECK_STR(gd__queue_subject_text(out, "q", &(struct gd__queue_subject){ GD__QUEUE_TASK, 3, bundle, 2 }),
              "gd.q.t.3.bundle-" HASH "-200.2");
    CHECK_STR(gd__queue_subject_text(out, "q", &(struct gd__queue_subject){ GD__QUEUE_RECORD, 0, third, 0 }),
              "gd.q.r." HASH "-2");
    CHECK_STR(gd__queue_subject_text(out, "q", &(struct gd__queue_subject){ GD__QUEUE_STATE, 0, first, 0 }),
              "gd.q.s.marker." HASH);
    CHECK_STR(gd__queue_state_text(out, "q", "push"), "gd.q.s.push");
    CHECK_STR(gd__queue_resend_filter(out, "q"), "gd.q.t.*.*.*");
    CHECK_STR(gd__queue_stream_text(out, "q", GD__QUEUE_RECORD), "gd_q_r");
    CHECK_STR(gd__queue_stream_filter(out, "q", GD__QUEUE_TASK), "gd.q.t.>");
    CHECK_STR(gd__queue_priority_filter(out, "q", -1), "gd.q.t.-1.>");
    CHECK_STR(gd__queue_consumer_text(out, -1), "priority_-1");
}

/* The longest names are not cut. */
TEST(longest_texts)
{
    char out[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_subject s = { GD__QUEUE_TASK, GD_PRIORITY_MIN, counted_key(0, GD__QUEUE_BUNDLE_MOST), UINT32_MAX },
                             back;
    CHECK_EQ(strlen(LONGEST), GD__QUEUE_NAME_MOST);
    CHECK_STR(gd__queue_subject_text(out, LONGEST, &s), "gd." LONGEST ".t.-4.bundle-" HASH "-65536." UINT32_N);
    CHECK_EQ(gd__queue_subject_parse(&back, LONGEST, out), 0);
    s.key = counted_key(UINT32_MAX, 1);
    s.key.again = UINT32_MAX;
    CHECK_STR(gd__queue_subject_text(out, LONGEST, &s),
              "gd." LONGEST ".t.-4." HASH "-" UINT32_N "_" UINT32_N "." UINT32_N);
    CHECK_EQ(gd__queue_subject_parse(&back, LONGEST, out), 0);
    CHECK(gd__queue_key_same(&s.key, &back.key));
}

TEST(valid_keys)
{
    static const char *const texts[] = {
        HASH,
        HASH "_1",
        HASH "-3_12",
        HASH "-1",
        HASH "-10",
        HASH "-" UINT32_N,
        HASH_FF,
        HASH_B,
        HASH_B "-2",
        HASH_B "-7",
        "bundle-" HASH_B "-65536",
        "bundle-" HASH "-2",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gd__queue_key key;
        char out[GD__QUEUE_KEY_ROOM];
        if (gd__queue_key_parse(&key, texts[i]) != 0)
            FAIL("%s: %s", texts[i], gd_error_text());
        CHECK_STR(gd__queue_key_text(out, &key), texts[i]);
    }
}

TEST(invalid_keys)
{
    static const char *const texts[] = {
        "",
        "-",
        "-1",
        "bundle-",
        "bundle--2",
        HASH "0",
        HASH "-",
        HASH "-0",
        HASH "-01",
        HASH "--1",
        HASH "-+1",
        HASH "-1 ",
        HASH "-1-1",
        HASH ".1",
        HASH "-4294967296",
        HASH "-18446744073709551617",
        "bundle-" HASH,
        "bundle-" HASH "-",
        "bundle-" HASH "-0",
        "bundle-" HASH "-1",
        "bundle-" HASH "-65537",
        "bundle-" HASH "-2-1",
        "Bundle-" HASH "-2",
        "b" HASH "-2",
        "000102030405060708090a0b0c0d0e0",
        "000102030405060708090A0B0C0D0E0F",
        "g00102030405060708090a0b0c0d0e0f",
        " 00102030405060708090a0b0c0d0e0f",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gd__queue_key key;
        if (gd__queue_key_parse(&key, texts[i]) != GD_E_CORRUPT)
            FAIL("\"%s\" was accepted", texts[i]);
        CHECK_CONTAINS(gd_error_text(), "is not the key of a task");
    }
}

TEST(invalid_subjects)
{
    static const char *const texts[] = {
        "",
        "gd",
        "gd.q",
        "gd.q.",
        "gd.q.t",
        "gd.q.t.",
        "gd.q.t." HASH,
        "gd.q.t.4." HASH,
        "gd.q.t.-5." HASH,
        "gd.q.t.-0." HASH,
        "gd.q.t.00." HASH,
        "gd.q.t.+1." HASH,
        "gd.q.t.0",
        "gd.q.t.0.",
        "gd.q.t.0." HASH ".x",
        "gd.q.r.0." HASH,
        "gd.q.r.",
        "gd.q.x." HASH,
        "gd.q.r" HASH,
        "gd.q.rr." HASH,
        "gd.q2.r." HASH,
        "gd.Q.r." HASH,
        "gd..r." HASH,
        "GD.q.r." HASH,
        "x.q.r." HASH,
        "gd.q.r." HASH "\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gd__queue_subject s;
        if (gd__queue_subject_parse(&s, "q", texts[i]) != GD_E_CORRUPT)
            FAIL("\"%s\" was accepted", texts[i]);
        CHECK_CONTAINS(gd_error_text(), "for the queue \"q\"");
    }
}

/* A random subject is parsed to what it was written from, and one changed byte never parses to the same subject. */
TEST(round_trip)
{
    static const char kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    uint64_t state = 7;
    for (unsigned round = 0; round < 20000; round++) {
        struct gd__queue_subject s = { (enum gd__queue_kind)kinds[next_random(&state) % 3], 0, { .tasks = 1 }, 0 },
                                 back;
        char out[GD__QUEUE_SUBJECT_ROOM], again[GD__QUEUE_SUBJECT_ROOM];
        for (unsigned i = 0; i < GD__HASH_SIZE; i++)
            s.key.hash[i] = (unsigned char)(next_random(&state) >> 32);
        if (s.kind == GD__QUEUE_TASK)
            s.priority = GD_PRIORITY_MIN + (int)(next_random(&state) % (GD_PRIORITY_MAX - GD_PRIORITY_MIN + 1));
        if (next_random(&state) % 2)
            s.key.repeat = (uint32_t)(next_random(&state) >> (32 + next_random(&state) % 32));
        else if (next_random(&state) % 2)
            s.key.again = (uint32_t)(next_random(&state) >> (32 + next_random(&state) % 32));
        else
            s.key.tasks = 1 + (uint32_t)(next_random(&state) % GD__QUEUE_BUNDLE_MOST);
        if (s.kind == GD__QUEUE_TASK && next_random(&state) % 2)
            s.resend = (uint32_t)(next_random(&state) >> (32 + next_random(&state) % 32));
        CHECK_LT(strlen(gd__queue_subject_text(out, LONGEST, &s)), GD__QUEUE_SUBJECT_ROOM - 1);
        CHECK_EQ(gd__queue_subject_parse(&back, LONGEST, out), 0);
        CHECK(back.kind == s.kind && back.priority == s.priority && back.resend == s.resend &&
              gd__queue_key_same(&back.key, &s.key));
        CHECK_EQ(gd__queue_subject_parse(&back, "other", out), GD_E_CORRUPT);
        out[next_random(&state) % strlen(out)] ^= (char)(1 + next_random(&state) % 255);
        if (gd__queue_subject_parse(&back, LONGEST, out) == 0) {
            CHECK(back.kind != s.kind || back.priority != s.priority || back.resend != s.resend ||
                  !gd__queue_key_same(&back.key, &s.key));
            CHECK_STR(gd__queue_subject_text(again, LONGEST, &back), out);
        }
    }
}

/* Journals and queues find the same task by the same hash. */
TEST(key_of_a_task)
{
    unsigned char hash[GD__HASH_SIZE];
    const struct gd__queue_key key = gd__queue_task_key("a.wav", 5, 3), other = gd__queue_task_key("a.wav", 5, 4);
    gd__key_hash("a.wav", 5, hash);
    CHECK_MEM(key.hash, hash, GD__HASH_SIZE);
    CHECK(key.repeat == 3 && key.tasks == 1 && !gd__queue_key_same(&key, &other));
}

TEST(key_of_a_bundle)
{
    struct gd__queue_key tasks[] = { gd__queue_task_key("a", 1, 0), gd__queue_task_key("b", 1, 0),
                                     gd__queue_task_key("c", 1, 0) };
    struct gd__queue_key all, some, same, text_key;
    char text[GD__QUEUE_KEY_ROOM];
    CHECK_EQ(gd__queue_bundle_key(&all, tasks, 3), 0);
    CHECK(all.tasks == 3 && all.repeat == 0);
    /* Stored on servers: this must never change. */
    CHECK_STR(gd__queue_key_text(text, &all), "bundle-18c9f7a4cce4195be0af7a6bffdaafb9-3");
    CHECK_EQ(gd__queue_key_parse(&text_key, text), 0);
    CHECK_EQ(gd__queue_bundle_key(&same, tasks, 3), 0);
    CHECK(gd__queue_key_same(&all, &same) && gd__queue_key_same(&all, &text_key));
    CHECK_EQ(gd__queue_bundle_key(&some, tasks + 1, 2), 0);
    CHECK(memcmp(some.hash, all.hash, GD__HASH_SIZE) != 0);
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 1), 0);
    CHECK(gd__queue_key_same(&some, &tasks[0]));

    tasks[2].repeat = 1;
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 3), 0);
    CHECK(!gd__queue_key_same(&all, &some));
    tasks[2].repeat = 0;
    tasks[2].again = 1;
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 3), 0);
    CHECK(!gd__queue_key_same(&all, &some));
    tasks[2] = tasks[1];
    tasks[1] = gd__queue_task_key("c", 1, 0);
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 3), 0);
    CHECK(!gd__queue_key_same(&all, &some));

    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 0), GD_E_INVALID);
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, GD__QUEUE_BUNDLE_MOST + 1), GD_E_INVALID);
    tasks[1] = all;
    CHECK_EQ(gd__queue_bundle_key(&some, tasks, 3), GD_E_INVALID);
}

TEST_MAIN()
