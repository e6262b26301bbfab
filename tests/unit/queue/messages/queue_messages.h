/* SPDX-License-Identifier: MIT
 *
 * Random items of queue messages, for tests: parts of every form and size, within the limits.
 */
#ifndef GD_TESTS_UNIT_QUEUE_MESSAGES_QUEUE_MESSAGES_H
#define GD_TESTS_UNIT_QUEUE_MESSAGES_QUEUE_MESSAGES_H

#include "queue/messages/message.h"
#include "support/test.h"

enum { POOL_SIZE = GD__QUEUE_FILES_FROM + 1 };

struct random {
    uint64_t state;
    char pool[POOL_SIZE]; /* bytes from 1 to 255: texts are parts of it */
};

/* xorshift64*: the same numbers on every machine. */
TEST_UNUSED static uint64_t next_random(struct random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return (r->state * UINT64_C(2685821657736338717)) >> 16;
}

TEST_UNUSED static void seed_random(struct random *r, uint64_t seed)
{
    r->state = seed * 2 + 1;
    for (size_t i = 0; i < POOL_SIZE; i++)
        r->pool[i] = (char)(1 + next_random(r) % 255);
}

/* Mostly short, sometimes the longest. */
TEST_UNUSED static struct gd__queue_text random_text(struct random *r, size_t most)
{
    const uint64_t choice = next_random(r) % 8;
    const size_t size = choice == 0 ? most : choice == 1 ? 0 : next_random(r) % (most < 40 ? most : 40);
    return (struct gd__queue_text){ r->pool + next_random(r) % (POOL_SIZE - size), size };
}

/* A number of any length. */
TEST_UNUSED static uint64_t random_number(struct random *r)
{
    return (next_random(r) * next_random(r) >> (11 + next_random(r) % 53)) % (GD__QUEUE_NUMBER_MOST + 1);
}

TEST_UNUSED static struct gd__queue_key random_key(struct random *r)
{
    const struct gd__queue_text t = random_text(r, 20);
    return gd__queue_task_key(t.at, t.size, (uint32_t)random_number(r));
}

TEST_UNUSED static struct gd__queue_data random_data(struct random *r, bool nothing)
{
    struct gd__queue_data d = { .form = nothing ? next_random(r) % 3 : 1 + next_random(r) % 2 };
    if (d.form == GD__QUEUE_INLINE)
        d.bytes = random_text(r, next_random(r) % 16 ? 1000 : GD__QUEUE_FILES_FROM);
    if (d.form == GD__QUEUE_FILE) {
        d.file = (struct gd__queue_text){ "output-12.bin", 1 + next_random(r) % 13 };
        d.file_size = random_number(r);
        gd__key_hash("x", 1, d.file_hash);
    }
    return d;
}

TEST_UNUSED static struct gd__queue_task random_task(struct random *r)
{
    return (struct gd__queue_task){ .key = random_key(r),
                                    .number = random_number(r),
                                    .weight = random_number(r),
                                    .timeout_ms = (uint32_t)random_number(r),
                                    .version = random_text(r, GD__QUEUE_VERSION_MOST),
                                    .payload = random_data(r, false) };
}

TEST_UNUSED static struct gd__queue_record random_record(struct random *r)
{
    struct gd__queue_record e = { .key = random_key(r),
                                  .state = 1 + next_random(r) % 3,
                                  .number = random_number(r),
                                  .started_us = random_number(r),
                                  .run_us = random_number(r),
                                  .exit_code = (int32_t)next_random(r),
                                  .signal = (int32_t)(next_random(r) % 65),
                                  .gpu = random_text(r, GD__QUEUE_GPU_MOST),
                                  .error = random_text(r, GD__QUEUE_ERROR_MOST),
                                  .stderr_end = random_text(r, GD__QUEUE_STDERR_MOST) };
    if (e.state != GD__QUEUE_MOVED) {
        e.attempts = (uint32_t)next_random(r);
        e.output = random_data(r, true);
    }
    if (e.state == GD__QUEUE_FAILED)
        e.failure = (struct gd__queue_text){ "timeout", 7 };
    return e;
}

TEST_UNUSED static bool same_text(struct gd__queue_text a, struct gd__queue_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

TEST_UNUSED static void check_same_data(const struct gd__queue_data *a, const struct gd__queue_data *b)
{
    CHECK(a->form == b->form && a->file_size == b->file_size);
    CHECK(same_text(a->bytes, b->bytes) && same_text(a->file, b->file));
    CHECK_MEM(a->file_hash, b->file_hash, GD__HASH_SIZE);
}

TEST_UNUSED static void check_same_task(const struct gd__queue_task *a, const struct gd__queue_task *b)
{
    CHECK(gd__queue_key_same(&a->key, &b->key));
    CHECK(a->number == b->number && a->weight == b->weight && a->timeout_ms == b->timeout_ms);
    CHECK(same_text(a->version, b->version));
    check_same_data(&a->payload, &b->payload);
}

TEST_UNUSED static void check_same_record(const struct gd__queue_record *a, const struct gd__queue_record *b)
{
    CHECK(gd__queue_key_same(&a->key, &b->key));
    CHECK(a->state == b->state && a->attempts == b->attempts && a->number == b->number);
    CHECK(a->started_us == b->started_us && a->run_us == b->run_us);
    CHECK(a->exit_code == b->exit_code && a->signal == b->signal);
    CHECK(same_text(a->gpu, b->gpu) && same_text(a->failure, b->failure));
    CHECK(same_text(a->error, b->error) && same_text(a->stderr_end, b->stderr_end));
    check_same_data(&a->output, &b->output);
}

#endif
