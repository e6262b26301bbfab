/* SPDX-License-Identifier: MIT
 *
 * The messages of a queue: what is written is read again, and nothing else is accepted.
 */
#include "base/error.h"
#include "support/test.h"
#include "unit/queue/messages/queue_messages.h"

#define TEXT(text) ((struct gd__queue_text){ (text), sizeof(text) - 1 })

enum { MOST = 8 << 20, ITEMS = 12 };

static const unsigned char nonce[GD__QUEUE_NONCE_SIZE] = "node, boot, try";

static struct gd__queue_task small_task(void)
{
    return (struct gd__queue_task){ .key = gd__queue_task_key("a.wav", 5, 2),
                                    .number = 7,
                                    .weight = 300,
                                    .timeout_ms = 1500,
                                    .version = TEXT("v1"),
                                    .payload = { .form = GD__QUEUE_INLINE, .bytes = TEXT("a.wav") } };
}

static struct gd__queue_record small_record(void)
{
    return (struct gd__queue_record){ .key = gd__queue_task_key("a.wav", 5, 2),
                                      .state = GD__QUEUE_FAILED,
                                      .attempts = 3,
                                      .number = 7,
                                      .started_us = 1000,
                                      .run_us = 20,
                                      .exit_code = -1,
                                      .signal = 9,
                                      .gpu = TEXT("0+1"),
                                      .failure = TEXT("crash"),
                                      .error = TEXT("killed"),
                                      .stderr_end = TEXT("oops\n"),
                                      .output = { .form = GD__QUEUE_FILE, .file = TEXT("f"), .file_size = 70000 } };
}

static void write_task(struct gd__queue_writer *w, const struct gd__queue_task *t, struct gd__queue_key *key)
{
    gd__queue_tasks_begin(w, MOST);
    CHECK_EQ(gd__queue_tasks_add(w, t), 0);
    CHECK_EQ(gd__queue_message_end(w, key), 0);
}

static void write_record(struct gd__queue_writer *w, const struct gd__queue_record *e, struct gd__queue_key *key)
{
    gd__queue_records_begin(w, MOST, nonce, TEXT("host"));
    CHECK_EQ(gd__queue_records_add(w, e), 0);
    CHECK_EQ(gd__queue_message_end(w, key), 0);
}

/* Messages are stored on servers, and read by later versions: this must never change. */
TEST(bytes_of_a_message)
{
    static const char expected[] = "GDQt\1\0\0\0\1\0\0\0\114\0\0\0"
                                   "HHHHHHHHHHHHHHHH\2\0\0\0\1\0\0\0\xdc\5\0\0\7\0\0\0\0\0\0\0\x2c\1\0\0\0\0\0\0"
                                   "\2\0\0\0v1\1\5\0\0\0a.wav";
    struct gd__queue_task t = small_task();
    struct gd__queue_key key;
    struct gd__queue_writer w;
    memset(t.key.hash, 'H', GD__HASH_SIZE);
    t.key.again = 1;
    write_task(&w, &t, &key);
    CHECK_EQ(w.message.size, sizeof expected - 1);
    CHECK_MEM(w.message.data, expected, sizeof expected - 1);
    CHECK(gd__queue_key_same(&key, &t.key));
    gd__queue_writer_free(&w);
}

TEST(round_trip_of_tasks)
{
    static struct random r;
    static struct gd__queue_task tasks[ITEMS];
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct gd__queue_writer w;
        struct gd__queue_reader reader;
        struct gd__queue_key key, keys[ITEMS], expected;
        struct gd__queue_task back;
        seed_random(&r, seed);
        const size_t n = 1 + next_random(&r) % ITEMS;
        gd__queue_tasks_begin(&w, MOST);
        for (size_t i = 0; i < n; i++) {
            tasks[i] = random_task(&r);
            keys[i] = tasks[i].key;
            CHECK_EQ(gd__queue_tasks_add(&w, &tasks[i]), 0);
        }
        CHECK_EQ(gd__queue_message_end(&w, &key), 0);
        CHECK_EQ(gd__queue_bundle_key(&expected, keys, n), 0);
        CHECK(gd__queue_key_same(&key, &expected));
        CHECK_EQ(gd__queue_tasks_open(&reader, w.message.data, w.message.size, &key), 0);
        for (size_t i = 0; i < n; i++) {
            CHECK(gd__queue_tasks_next(&reader, &back));
            check_same_task(&tasks[i], &back);
        }
        CHECK(!gd__queue_tasks_next(&reader, &back));
        CHECK_EQ(gd__queue_records_open(&reader, w.message.data, w.message.size, NULL), GD_E_CORRUPT);
        gd__queue_writer_free(&w);
    }
}

TEST(round_trip_of_records)
{
    static struct random r;
    static struct gd__queue_record records[ITEMS];
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct gd__queue_writer w;
        struct gd__queue_reader reader;
        struct gd__queue_key key;
        struct gd__queue_record back;
        seed_random(&r, seed);
        const size_t n = 1 + next_random(&r) % ITEMS;
        const struct gd__queue_text host = random_text(&r, GD__QUEUE_HOST_TEXT_MOST);
        gd__queue_records_begin(&w, MOST, nonce, host);
        for (size_t i = 0; i < n; i++) {
            records[i] = random_record(&r);
            CHECK_EQ(gd__queue_records_add(&w, &records[i]), 0);
        }
        CHECK_EQ(gd__queue_message_end(&w, &key), 0);
        CHECK_EQ(gd__queue_records_open(&reader, w.message.data, w.message.size, &key), 0);
        CHECK_MEM(reader.nonce, nonce, sizeof nonce);
        CHECK(same_text(reader.host, host));
        for (size_t i = 0; i < n; i++) {
            CHECK(gd__queue_records_next(&reader, &back));
            check_same_record(&records[i], &back);
        }
        CHECK(!gd__queue_records_next(&reader, &back));
        CHECK_EQ(gd__queue_tasks_open(&reader, w.message.data, w.message.size, NULL), GD_E_CORRUPT);
        gd__queue_writer_free(&w);
    }
}

/* The record message of a bundle has the key of its task message. */
TEST(tasks_and_records_have_the_same_key)
{
    struct gd__queue_writer tasks, records;
    struct gd__queue_reader reader;
    struct gd__queue_key key, same, other = gd__queue_task_key("a.wav", 5, 2);
    gd__queue_tasks_begin(&tasks, MOST);
    gd__queue_records_begin(&records, MOST, nonce, TEXT("host"));
    for (uint32_t i = 0; i < 5; i++) {
        struct gd__queue_task t = small_task();
        struct gd__queue_record e = small_record();
        t.key.repeat = e.key.repeat = i;
        CHECK_EQ(gd__queue_tasks_add(&tasks, &t), 0);
        CHECK_EQ(gd__queue_records_add(&records, &e), 0);
    }
    CHECK_EQ(gd__queue_message_end(&tasks, &key), 0);
    CHECK_EQ(gd__queue_message_end(&records, &same), 0);
    CHECK(key.tasks == 5 && gd__queue_key_same(&key, &same));
    CHECK_EQ(gd__queue_records_open(&reader, records.message.data, records.message.size, &other), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "its tasks are not those of its subject");
    CHECK_EQ(gd__queue_tasks_open(&reader, tasks.message.data, tasks.message.size, &other), GD_E_CORRUPT);
    CHECK(!gd__queue_tasks_next(&reader, &(struct gd__queue_task){ 0 }));
    gd__queue_writer_free(&tasks);
    gd__queue_writer_free(&records);
}

/* If one byte is missing, is added or is changed, the message is refused, or it is a different valid message. */
static void damage(const struct gd__queue_writer *w,
                   int (*open)(struct gd__queue_reader *, const void *, size_t, const struct gd__queue_key *))
{
    struct gd__queue_reader r;
    const size_t size = w->message.size;
    char *copy = malloc(size + 1);
    CHECK(copy != NULL);
    for (size_t cut = 0; cut < size; cut++) {
        char *part = malloc(cut > 0 ? cut : 1); /* exactly as large, so that ASan detects a read past its end */
        CHECK(part != NULL);
        memcpy(part, w->message.data, cut);
        CHECK_EQ(open(&r, part, cut, NULL), GD_E_CORRUPT);
        free(part);
    }
    memcpy(copy, w->message.data, size);
    copy[size] = 0;
    CHECK_EQ(open(&r, copy, size + 1, NULL), GD_E_CORRUPT);
    copy[12]++; /* the size in the header */
    CHECK_EQ(open(&r, copy, size + 1, NULL), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "bytes follow its last item");
    copy[12]--;
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            copy[at] ^= (char)(1U << bit);
            const int rc = open(&r, copy, size, NULL);
            if (at == 6 && bit == 0 && w->kind == GD__QUEUE_TASK) /* the only flag */
                CHECK(rc == 0 && r.suspect);
            else if (at < 16) /* the header has no other bit that may change */
                CHECK(rc == GD_E_CORRUPT || rc == GD_E_VERSION);
            else
                CHECK(rc == 0 || rc == GD_E_CORRUPT);
            copy[at] ^= (char)(1U << bit);
        }
    }
    free(copy);
}

TEST(damaged_messages)
{
    struct gd__queue_writer w;
    struct gd__queue_key key;
    const struct gd__queue_task t = small_task();
    const struct gd__queue_record e = small_record();
    write_task(&w, &t, &key);
    damage(&w, gd__queue_tasks_open);
    gd__queue_writer_free(&w);
    write_record(&w, &e, &key);
    damage(&w, gd__queue_records_open);
    gd__queue_writer_free(&w);
}

/* The record message of so many tasks fits, whatever the name of the host. */
TEST(as_many_tasks_as_their_records_fit)
{
    char host[GD__QUEUE_HOST_TEXT_MOST];
    struct gd__queue_writer w;
    const uint32_t most = gd__queue_bundle_most(1 << 20, GD__QUEUE_RECORD_LEAST);
    memset(host, 'h', sizeof host);
    gd__queue_records_begin(&w, (1 << 20) - GD__QUEUE_HEADERS_MOST, nonce,
                            (struct gd__queue_text){ host, sizeof host });
    CHECK_LE(w.message.size + (size_t)most * GD__QUEUE_RECORD_LEAST + GD__QUEUE_HEADERS_MOST, 1 << 20);
    CHECK_GT(most, 4000);
    CHECK_EQ(gd__queue_bundle_most(0, GD__QUEUE_RECORD_LEAST), 1);
    CHECK_EQ(gd__queue_bundle_most(1000, GD__QUEUE_RECORD_LEAST), 1);
    CHECK_EQ(gd__queue_bundle_most(UINT64_MAX, GD__QUEUE_RECORD_LEAST), GD__QUEUE_BUNDLE_MOST);
    gd__queue_writer_free(&w);
}

TEST(newer_version)
{
    struct gd__queue_writer w;
    struct gd__queue_reader r;
    struct gd__queue_key key;
    const struct gd__queue_task t = small_task();
    write_task(&w, &t, &key);
    w.message.data[4] = 2;
    CHECK_EQ(gd__queue_tasks_open(&r, w.message.data, w.message.size, NULL), GD_E_VERSION);
    CHECK_STR(gd_error_text(),
              "the queue has a task message of version 2, made by a newer gpu_dispatch. This one reads "
              "version 1: install the newer gpu_dispatch on this machine too");
    CHECK_EQ(gd__queue_tasks_open(&r, w.message.data, 8, NULL), GD_E_VERSION); /* the rest may be anything */
    w.message.data[4] = 0;
    CHECK_EQ(gd__queue_tasks_open(&r, w.message.data, w.message.size, NULL), GD_E_CORRUPT);
    gd__queue_writer_free(&w);
}

/* Items that no message can hold. The writer stays usable. */
TEST(limits_of_tasks)
{
    static char big[GD__QUEUE_INLINE_MOST + 1];
    struct gd__queue_task rows[12];
    const char *messages[12];
    size_t n = 0;
    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < 12; i++)
        rows[i] = small_task();
    rows[n].number = GD__QUEUE_NUMBER_MOST + 1, messages[n++] = "the number of a task";
    rows[n].weight = UINT64_MAX, messages[n++] = "the weight of a task";
    rows[n].version = (struct gd__queue_text){ big, GD__QUEUE_VERSION_MOST + 1 }, messages[n++] = "version of a task";
    rows[n].version = TEXT("a\0b"), messages[n++] = "contains a NUL";
    rows[n].payload.bytes = (struct gd__queue_text){ big, sizeof big }, messages[n++] = "larger than any message";
    rows[n].payload.bytes.size = SIZE_MAX, messages[n++] = "larger than any message";
    rows[n].payload.form = GD__QUEUE_NOTHING, messages[n++] = "no payload";
    rows[n].payload.form = 3, messages[n++] = "unknown form";
    rows[n].payload = (struct gd__queue_data){ .form = GD__QUEUE_FILE, .file = TEXT("") }, messages[n++] = "empty";
    rows[n].payload = (struct gd__queue_data){ .form = GD__QUEUE_FILE, .file = TEXT("..") }, messages[n++] = "'.'";
    rows[n].payload = (struct gd__queue_data){ .form = GD__QUEUE_FILE, .file = TEXT("a/b") }, messages[n++] = "'/'";
    rows[n].key.tasks = 2, messages[n++] = "cannot contain a bundle";
    CHECK_EQ(n, 12);

    struct gd__queue_writer w;
    struct gd__queue_key key;
    const struct gd__queue_task good = small_task();
    gd__queue_tasks_begin(&w, MOST);
    for (size_t i = 0; i < n; i++) {
        const int rc = gd__queue_tasks_add(&w, &rows[i]);
        if (rc != GD_E_INVALID || !strstr(gd_error_text(), messages[i]))
            FAIL("row %zu: %d, %s", i, rc, gd_error_text());
    }
    CHECK_EQ(gd__queue_message_end(&w, &key), GD_E_INVALID); /* no tasks */
    CHECK_EQ(gd__queue_tasks_add(&w, &good), 0);
    CHECK_EQ(gd__queue_message_end(&w, &key), 0);
    gd__queue_writer_free(&w);
}

TEST(states_of_records)
{
    struct gd__queue_record rows[5];
    struct gd__queue_writer w;
    for (size_t i = 0; i < 5; i++)
        rows[i] = small_record();
    rows[0].state = GD__QUEUE_DONE;  /* and a class of failure */
    rows[1].failure = TEXT("");      /* failed, without a class */
    rows[2].state = GD__QUEUE_MOVED; /* and an output */
    rows[3].state = 4;
    rows[4].output.bytes = TEXT("a");
    rows[4].output.form = 9;
    gd__queue_records_begin(&w, MOST, nonce, TEXT("host"));
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ(gd__queue_records_add(&w, &rows[i]), GD_E_INVALID);
    gd__queue_writer_free(&w);
}

/* A record is never refused because of a long text: the text is cut. */
TEST(long_texts_are_cut)
{
    static char big[100000];
    struct gd__queue_writer w;
    struct gd__queue_reader r;
    struct gd__queue_record e = small_record(), back;
    struct gd__queue_key key;
    for (size_t i = 0; i + 1 < sizeof big; i += 2)
        memcpy(big + i, "\xc3\xa9", 2);
    const struct gd__queue_text all = { big, sizeof big };
    e.gpu = e.failure = e.error = e.stderr_end = all;
    gd__queue_records_begin(&w, MOST, nonce, all);
    CHECK_EQ(gd__queue_records_add(&w, &e), 0);
    CHECK_EQ(gd__queue_message_end(&w, &key), 0);
    CHECK_EQ(gd__queue_records_open(&r, w.message.data, w.message.size, &key), 0);
    CHECK(gd__queue_records_next(&r, &back));
    CHECK_EQ(r.host.size, 254); /* 255 would cut a character */
    CHECK(back.gpu.size == 254 && back.failure.size == 254);
    CHECK(back.error.size == GD__QUEUE_ERROR_MOST && back.stderr_end.size == GD__QUEUE_STDERR_MOST);
    CHECK_MEM(back.stderr_end.at, big + sizeof big - GD__QUEUE_STDERR_MOST, GD__QUEUE_STDERR_MOST);
    gd__queue_writer_free(&w);

    e = small_record();
    e.error = TEXT("one\0two");
    write_record(&w, &e, &key);
    CHECK_EQ(gd__queue_records_open(&r, w.message.data, w.message.size, &key), 0);
    CHECK(gd__queue_records_next(&r, &back));
    CHECK(same_text(back.error, TEXT("one")));
    gd__queue_writer_free(&w);
}

/* A message that is full stays as it was. */
TEST(full_messages)
{
    struct gd__queue_writer w;
    struct gd__queue_reader r;
    struct gd__queue_key key;
    const struct gd__queue_task t = small_task();
    gd__queue_tasks_begin(&w, 200);
    size_t n = 0;
    while (gd__queue_tasks_add(&w, &t) == 0)
        n++;
    CHECK_EQ(n, (200 - 16) / 56);
    CHECK_EQ(gd__queue_tasks_add(&w, &t), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "room for 200 bytes");
    CHECK_EQ(gd__queue_message_end(&w, &key), 0);
    CHECK_EQ(key.tasks, n);
    CHECK_LE(w.message.size, 200);
    CHECK_EQ(gd__queue_tasks_open(&r, w.message.data, w.message.size, &key), 0);
    gd__queue_writer_free(&w);

    gd__queue_tasks_begin(&w, SIZE_MAX);
    for (n = 0; gd__queue_tasks_add(&w, &t) == 0; n++)
        ;
    CHECK_EQ(n, GD__QUEUE_BUNDLE_MOST);
    CHECK_EQ(gd__queue_message_end(&w, &key), 0);
    CHECK_EQ(gd__queue_tasks_open(&r, w.message.data, w.message.size, &key), 0);
    gd__queue_writer_free(&w);
}

/* A buffer that could not grow drops what is added. Such a message is never completed. */
TEST(no_memory)
{
    struct gd__queue_writer w;
    struct gd__queue_key key;
    const struct gd__queue_record e = small_record();
    gd__queue_records_begin(&w, MOST, nonce, TEXT("host"));
    CHECK_EQ(gd__queue_records_add(&w, &e), 0);
    w.message.failed = true;
    CHECK_EQ(gd__queue_records_add(&w, &e), GD_E_NO_MEMORY);
    CHECK_EQ(gd__queue_message_end(&w, &key), GD_E_NO_MEMORY);
    gd__queue_writer_free(&w);
}

TEST_MAIN()
