/* SPDX-License-Identifier: MIT
 *
 * Pushes to a server in memory: keys, repeats, priorities, bundles, files, failed tasks, one push at a time, and pushes
 * that end anywhere.
 */
#include <gpu_dispatch/queue.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "queue/messages/message.h"
#include "queue/push/push.h"
#include "queue/push/state.h"
#include "support/directory.h"
#include "support/queue_server.h"
#include "support/test.h"

enum { PAYLOAD = 200000 };

static struct queue_server *server;
static const char *spill_dir;

static int try_open(struct gd_queue_push **p, const struct gd_queue_push_options *o)
{
    struct gd_queue_options q = GD_QUEUE_OPTIONS_INIT;
    q.url = "nats://host/q";
    q.spill_dir = spill_dir;
    return gd__push_open(p, &q, o, queue_server_link, server);
}

static struct gd_queue_push *open_with(struct gd_queue_push_options o)
{
    struct gd_queue_push *p;
    o.size = sizeof o;
    CHECK_EQ(try_open(&p, &o), 0);
    return p;
}

static struct gd_queue_push *begin(void)
{
    return open_with((struct gd_queue_push_options){ .bundle = 1 });
}

static void add(struct gd_queue_push *p, const char *text)
{
    struct gd_queue_item item = { .size = sizeof item, .data = text, .data_size = strlen(text) };
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
}

/* Adds "task0", "task1", ... */
static void add_many(struct gd_queue_push *p, unsigned from, unsigned n)
{
    char text[32];
    for (unsigned i = from; i < from + n; i++) {
        (void)snprintf(text, sizeof text, "task%u", i);
        add(p, text);
    }
}

static struct gd_queue_push_counts finish(struct gd_queue_push *p)
{
    struct gd_queue_push_counts c = { .size = sizeof c };
    CHECK_EQ(gd_queue_push_finish(&p, &c), 0);
    CHECK(p == NULL);
    return c;
}

#define CHECK_COUNTS(counts, a, k, m)                        \
    do {                                                     \
        const struct gd_queue_push_counts test_c = (counts); \
        CHECK_EQ(test_c.added, a);                           \
        CHECK_EQ(test_c.known, k);                           \
        CHECK_EQ(test_c.messages, m);                        \
    } while (0)

static void new_server(void)
{
    server = queue_server_new("q", PAYLOAD);
}

/* Calls fn for each task of each message. Returns the number of tasks. */
static size_t each_task(void (*fn)(const struct gd__queue_task *t, int priority, void *user), void *user)
{
    const void *data;
    size_t size, n = 0;
    for (size_t i = 0;; i++) {
        const char *subject = queue_server_message(server, GD__QUEUE_TASK, i, &data, &size);
        struct gd__queue_subject s;
        struct gd__queue_reader r;
        struct gd__queue_task t;
        if (!subject)
            return n;
        CHECK_EQ(gd__queue_subject_parse(&s, "q", subject), 0);
        CHECK_EQ(gd__queue_tasks_open(&r, data, size, &s.key), 0);
        while (gd__queue_tasks_next(&r, &t)) {
            if (fn)
                fn(&t, s.priority, user);
            n++;
        }
    }
}

/* Each payload "taskN" is there once, for N < n. */
static void check_once(const struct gd__queue_task *t, int priority, void *user)
{
    unsigned char *seen = user;
    char text[32] = "";
    (void)priority;
    CHECK(t->payload.form == GD__QUEUE_INLINE && t->payload.bytes.size < sizeof text);
    memcpy(text, t->payload.bytes.at, t->payload.bytes.size);
    const unsigned long i = strtoul(text + 4, NULL, 10);
    CHECK_LT(i, 10000);
    CHECK_EQ(seen[i]++, 0);
}

static void check_tasks(unsigned n)
{
    unsigned char seen[10000] = { 0 };
    CHECK_EQ(each_task(check_once, seen), n);
}

/* Puts a lock that does not count, as if the push that died had been dead for long. */
static void forget_lock(void)
{
    struct gd__buffer b = { 0 };
    gd__push_state_write(&b, &(struct gd__push_state){ .nonce = "00112233445566778899aabbccddeeff" });
    queue_server_put(server, "gd.q.s.push", b.data, b.size);
    gd__buffer_free(&b);
}

/* --- what is added --- */

TEST(pushed_again_only_what_is_new_is_added)
{
    new_server();
    struct gd_queue_push *p = begin();
    add_many(p, 0, 100);
    CHECK_COUNTS(finish(p), 100, 0, 100);
    p = begin();
    add_many(p, 0, 150);
    CHECK_COUNTS(finish(p), 50, 100, 50);
    p = begin();
    add_many(p, 0, 150);
    CHECK_COUNTS(finish(p), 0, 150, 0);
    check_tasks(150);
    queue_server_free(server);
}

TEST(equal_inputs_are_as_many_tasks_as_they_are)
{
    new_server();
    struct gd_queue_push *p = begin();
    for (unsigned i = 0; i < 3; i++)
        add(p, "same");
    CHECK_COUNTS(finish(p), 3, 0, 3);
    p = begin();
    for (unsigned i = 0; i < 4; i++)
        add(p, "same");
    CHECK_COUNTS(finish(p), 1, 3, 1);
    queue_server_free(server);
}

TEST(key_and_version_identify_a_task)
{
    struct gd_queue_item item = { .size = sizeof item, .data = "one", .data_size = 3, .key = "k", .key_size = 1 };
    new_server();
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    item.data = "two"; /* another payload, the same key */
    p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 0, 1, 0);
    item.version = "2"; /* the file has changed */
    p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    item.version = "3";
    p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    queue_server_free(server);
}

static void check_setting(const struct gd__queue_task *t, int priority, void *user)
{
    (void)user;
    CHECK(t->weight == 77 && t->timeout_ms == 1234 && t->number == 2 && priority == 3);
    CHECK_EQ(t->version.size, 4);
    CHECK_MEM(t->version.at, "v1.0", 4);
}

TEST(settings_of_a_task_travel_with_it)
{
    struct gd_queue_item item = { .size = sizeof item,
                                  .data = "",
                                  .data_size = 0,
                                  .version = "v1.0",
                                  .weight = 77,
                                  .timeout_ms = 1234,
                                  .priority = 3 };
    new_server();
    struct gd_queue_push *p = begin();
    add_many(p, 0, 2);
    CHECK_COUNTS(finish(p), 2, 0, 2);
    queue_server_free(server);
    new_server();
    p = begin();
    for (unsigned i = 0; i < 2; i++) /* known, but they are counted in the numbers */
        CHECK_EQ(gd__known_add(&p->known, &(struct gd__queue_key){ .repeat = i, .tasks = 1 }, NULL), 0);
    p->number = 2;
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    CHECK_EQ(each_task(check_setting, NULL), 1);
    queue_server_free(server);
}

/* --- priorities and order --- */

TEST(a_priority_has_a_consumer_before_its_first_task)
{
    struct gd_queue_item item = { .size = sizeof item, .data = "a", .data_size = 1, .priority = 2 };
    new_server();
    struct gd_queue_push *p = begin();
    CHECK_EQ(queue_server_priorities(server), 0);
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_EQ(queue_server_priorities(server), 1U << (2 - GD_PRIORITY_MIN));
    item.data = "b";
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 2, 0, 2);
    CHECK_EQ(queue_server_requests(server, GD__ASK_CREATE_CONSUMER), 1);
    item.priority = 0; /* a known task keeps its priority */
    p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 0, 1, 0);
    CHECK_EQ(queue_server_requests(server, GD__ASK_CREATE_CONSUMER), 1);
    queue_server_free(server);
}

struct weights {
    uint64_t last, number;
};

static void check_heavier(const struct gd__queue_task *t, int priority, void *user)
{
    struct weights *w = user;
    (void)priority;
    CHECK_LE(t->weight, w->last);
    CHECK(t->weight < w->last || t->number > w->number);
    w->last = t->weight;
    w->number = t->number;
}

TEST(the_heaviest_come_first)
{
    struct weights w = { .last = INT64_MAX };
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 7, .by_weight = true });
    for (unsigned i = 0; i < 200; i++) {
        struct gd_queue_item item = { .size = sizeof item, .data = &i, .data_size = sizeof i, .weight = i * 37 % 50 };
        CHECK_EQ(gd_queue_push_add(p, &item), 0);
    }
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), 0);
    CHECK_COUNTS(finish(p), 200, 0, 29);
    CHECK_EQ(each_task(check_heavier, &w), 200);
    queue_server_free(server);
}

/* --- bundles --- */

TEST(bundles_are_known_by_their_contents)
{
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 10 });
    add_many(p, 0, 95);
    CHECK_COUNTS(finish(p), 95, 0, 10);
    p = open_with((struct gd_queue_push_options){ .bundle = 7 });
    add_many(p, 0, 101);
    CHECK_COUNTS(finish(p), 6, 95, 1);
    p = begin();
    add_many(p, 0, 103);
    CHECK_COUNTS(finish(p), 2, 101, 2);
    check_tasks(103);
    queue_server_free(server);
}

/* The replica that answers has the first bundle only. */
TEST(bundles_that_a_replica_does_not_have_yet_are_known)
{
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 10 });
    add_many(p, 0, 30);
    CHECK_COUNTS(finish(p), 30, 0, 3);
    queue_server_replicas_have(server, GD__QUEUE_TASK, 1);
    p = open_with((struct gd_queue_push_options){ .bundle = 7 });
    add_many(p, 0, 30);
    CHECK_COUNTS(finish(p), 0, 30, 0);
    check_tasks(30);
    queue_server_free(server);
}

TEST(a_message_is_not_larger_than_the_server_accepts)
{
    char text[30000];
    memset(text, 'x', sizeof text);
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 100 });
    for (unsigned i = 0; i < 20; i++) {
        struct gd_queue_item item = { .size = sizeof item, .data = text, .data_size = sizeof text };
        memcpy(text, &i, sizeof i);
        CHECK_EQ(gd_queue_push_add(p, &item), 0);
    }
    CHECK_COUNTS(finish(p), 20, 0, 4);
    CHECK_EQ(each_task(NULL, NULL), 20);
    queue_server_free(server);
}

/* A record of one task, as a node writes it. */
static void put_record(const struct gd__queue_key *keys, const enum gd__queue_state *states, size_t n, uint64_t run_us)
{
    static const unsigned char nonce[GD__QUEUE_NONCE_SIZE];
    struct gd__queue_writer w;
    struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD };
    char subject[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_records_begin(&w, PAYLOAD, nonce, (struct gd__queue_text){ "host", 4 });
    for (size_t i = 0; i < n; i++) {
        struct gd__queue_record e = { .key = keys[i], .state = states[i] };
        e.attempts = states[i] != GD__QUEUE_MOVED;
        e.run_us = run_us;
        if (states[i] == GD__QUEUE_FAILED)
            e.failure = (struct gd__queue_text){ "error", 5 };
        CHECK_EQ(gd__queue_records_add(&w, &e), 0);
    }
    CHECK_EQ(gd__queue_message_end(&w, &s.key), 0);
    queue_server_put(server, gd__queue_subject_text(subject, "q", &s), w.message.data, w.message.size);
    gd__queue_writer_free(&w);
}

static struct gd__queue_key key_of(const char *text)
{
    return gd__queue_task_key(text, strlen(text), 0);
}

static void put_end(const char *text, uint32_t again, enum gd__queue_state state, uint64_t run_us)
{
    struct gd__queue_key key = key_of(text);
    key.again = again;
    put_record(&key, &state, 1, run_us);
}

TEST(the_size_of_bundles_follows_from_recorded_durations)
{
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 0 });
    add_many(p, 0, 3);
    CHECK_COUNTS(finish(p), 3, 0, 3); /* nothing is recorded */
    put_end("task0", 0, GD__QUEUE_DONE, 100000);
    put_end("task1", 0, GD__QUEUE_FAILED, 1); /* failures do not count */
    p = open_with((struct gd_queue_push_options){ .bundle = 0 });
    CHECK_EQ(p->bundling.target, 100);
    add_many(p, 0, 5003);
    const struct gd_queue_push_counts c = finish(p);
    CHECK_EQ(c.added, 5000);
    CHECK_GT(c.messages, 50);
    CHECK_LT(c.messages, 500);
    check_tasks(5003);
    put_end("task2", 0, GD__QUEUE_DONE, 100000000);
    p = open_with((struct gd_queue_push_options){ .bundle = 0 });
    CHECK_EQ(p->bundling.target, 1);
    gd_queue_push_abandon(&p);
    queue_server_free(server);
}

/* --- large payloads --- */

static void check_file(const struct gd__queue_task *t, int priority, void *user)
{
    unsigned *files = user;
    (void)priority;
    *files += t->payload.form == GD__QUEUE_FILE;
}

TEST(large_payloads_are_files)
{
    static char large[PAYLOAD]; /* and a message has more than its payload */
    struct gd_queue_item item = { .size = sizeof item, .data = large, .data_size = sizeof large };
    unsigned files = 0;
    directory_enter();
    new_server();
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "--spill-dir");
    item.data_size = sizeof large / 2;
    CHECK_EQ(gd_queue_push_add(p, &item), 0); /* the push goes on */
    CHECK_COUNTS(finish(p), 1, 0, 1);
    item.data_size = sizeof large;
    spill_dir = ".";
    for (unsigned i = 0; i < 2; i++) { /* the second time it is known, and no file is written */
        p = begin();
        CHECK_EQ(gd_queue_push_add(p, &item), 0);
        const struct gd_queue_push_counts c = finish(p);
        CHECK_EQ(c.added, i == 0);
        CHECK_EQ(c.files, i == 0);
    }
    each_task(check_file, &files);
    CHECK_EQ(files, 1);
    spill_dir = "missing";
    CHECK_EQ(try_open(&p, NULL), GD_E_SYSTEM);
    CHECK(p == NULL);
    CHECK_CONTAINS(gd_error_text(), "missing");
    queue_server_free(server);
}

TEST(a_small_max_payload_is_the_limit)
{
    char text[1500] = "";
    struct gd_queue_item item = { .size = sizeof item, .data = text, .data_size = sizeof text };
    server = queue_server_new("q", 2000);
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_TOO_LARGE);
    item.data_size = 1000;
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    queue_server_free(server);
    server = queue_server_new("q", 100);
    CHECK_EQ(try_open(&p, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "max_payload");
    queue_server_free(server);
}

/* --- failed tasks --- */

static struct gd_queue_push_counts retry(void)
{
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_retry_failed(p), 0);
    return finish(p);
}

static bool has_task(const char *text, uint32_t again, int priority)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = priority, .key = key_of(text) };
    s.key.again = again;
    return queue_server_has(server, gd__queue_subject_text(subject, "q", &s));
}

TEST(failed_tasks_are_added_again_alone)
{
    const struct gd__queue_key keys[] = { key_of("task1"), key_of("task2"), key_of("task3") };
    const enum gd__queue_state states[] = { GD__QUEUE_DONE, GD__QUEUE_FAILED, GD__QUEUE_MOVED };
    new_server();
    struct gd_queue_push *p = begin();
    add(p, "task0");
    (void)finish(p);
    p = open_with((struct gd_queue_push_options){ .bundle = 3 });
    add_many(p, 0, 4);
    CHECK_COUNTS(finish(p), 3, 1, 1);
    CHECK_COUNTS(retry(), 0, 0, 0);
    put_end("task0", 0, GD__QUEUE_FAILED, 1);
    put_record(keys, states, 3, 1);
    const struct gd_queue_push_counts c = retry();
    CHECK_COUNTS(c, 2, 0, 2);
    CHECK_EQ(c.again, 2);
    CHECK(has_task("task0", 1, 0) && has_task("task2", 1, 0));
    CHECK_COUNTS(retry(), 0, 0, 0); /* they have not ended yet */
    queue_server_free(server);
}

TEST(failures_that_a_replica_does_not_have_yet_are_found)
{
    new_server();
    struct gd_queue_push *p = begin();
    add_many(p, 0, 3);
    (void)finish(p);
    put_end("task0", 0, GD__QUEUE_FAILED, 1);
    put_end("task2", 0, GD__QUEUE_FAILED, 1);
    queue_server_replicas_have(server, GD__QUEUE_RECORD, 1);
    queue_server_replicas_have(server, GD__QUEUE_TASK, 1);
    CHECK_COUNTS(retry(), 2, 0, 2);
    CHECK(has_task("task0", 1, 0) && has_task("task2", 1, 0));
    queue_server_free(server);
}

TEST(the_last_record_counts)
{
    new_server();
    struct gd_queue_push *p = begin();
    add_many(p, 0, 2);
    (void)finish(p);
    put_end("task0", 0, GD__QUEUE_FAILED, 1);
    put_end("task1", 0, GD__QUEUE_FAILED, 1);
    CHECK_COUNTS(retry(), 2, 0, 2);
    put_end("task0", 1, GD__QUEUE_DONE, 1);
    put_end("task1", 1, GD__QUEUE_FAILED, 1);
    CHECK_COUNTS(retry(), 1, 0, 1);
    CHECK(has_task("task1", 2, 0) && !has_task("task0", 2, 0));
    p = begin(); /* tasks that were added again are known */
    add_many(p, 0, 2);
    CHECK_COUNTS(finish(p), 0, 2, 0);
    queue_server_free(server);
}

TEST(a_failed_task_keeps_its_priority)
{
    struct gd_queue_item item = { .size = sizeof item, .data = "a", .data_size = 1, .priority = -3 };
    new_server();
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    (void)finish(p);
    put_end("a", 0, GD__QUEUE_FAILED, 1);
    CHECK_COUNTS(retry(), 1, 0, 1);
    CHECK(has_task("a", 1, -3));
    queue_server_free(server);
}

/* --- damage --- */

TEST(messages_of_others_are_ignored)
{
    const struct gd__queue_key bundle = { .tasks = 5 };
    char subject[GD__QUEUE_SUBJECT_ROOM];
    new_server();
    queue_server_put(server, "gd.q.t.0.rubbish", "x", 1);
    queue_server_put(server, "gd.q.t.9.00112233445566778899aabbccddeeff", "x", 1);
    queue_server_put(
        server,
        gd__queue_subject_text(subject, "q", &(struct gd__queue_subject){ .kind = GD__QUEUE_TASK, .key = bundle }),
        "damaged", 7);
    queue_server_put(server, "gd.q.r.rubbish", "x", 1);
    queue_server_put(server, "gd.q.r.00112233445566778899aabbccddeeff", "x", 1);
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 0 });
    add_many(p, 0, 3);
    CHECK_EQ(gd_queue_push_retry_failed(p), 0);
    CHECK_COUNTS(finish(p), 3, 0, 3);
    queue_server_free(server);
}

/* --- bad items --- */

TEST(bad_items_are_refused)
{
    struct gd_queue_item item = { .size = sizeof item, .data = "a", .data_size = 1, .priority = 4 };
    char version[GD__QUEUE_VERSION_MOST + 2];
    memset(version, 'v', sizeof version - 1);
    version[sizeof version - 1] = '\0';
    new_server();
    struct gd_queue_push *p = begin();
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "priority 4");
    item.priority = 0;
    item.version = version;
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_INVALID);
    item.version = NULL;
    item.weight = UINT64_MAX;
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_INVALID);
    item.weight = 0;
    item.data = NULL;
    CHECK_EQ(gd_queue_push_add(p, &item), GD_E_INVALID);
    CHECK_EQ(gd_queue_push_add(p, NULL), GD_E_INVALID);
    CHECK_EQ(gd_queue_push_add(NULL, &item), GD_E_INVALID);
    CHECK_EQ(gd_queue_push_retry_failed(NULL), GD_E_INVALID);
    item.data = "a";
    CHECK_EQ(gd_queue_push_add(p, &item), 0);
    CHECK_COUNTS(finish(p), 1, 0, 1);
    queue_server_free(server);
}

/* --- trouble --- */

/* From a given publication on, nothing reaches the server. */
struct death {
    unsigned publications, at;
};

static enum queue_fate die(void *user, const struct gd__queue_request *r)
{
    struct death *d = user;
    if (r->ask == GD__ASK_PUBLISH)
        d->publications++;
    return d->publications > d->at ? QUEUE_DENIED : QUEUE_ANSWERED;
}

/* The first push ends at any of its publications, including those of the lock. */
static void push_dies_everywhere(unsigned bundle, unsigned again)
{
    unsigned at = 0;
    for (bool ended = false; !ended; at++) {
        struct death d = { .at = at };
        struct gd_queue_push *p;
        struct gd_queue_push_options o = GD_QUEUE_PUSH_OPTIONS_INIT;
        o.bundle = bundle;
        new_server();
        queue_server_fate(server, die, &d);
        int rc = try_open(&p, &o);
        char text[32];
        for (unsigned i = 0; i < 30 && rc == 0; i++) {
            struct gd_queue_item item = { .size = sizeof item, .data = text };
            item.data_size = (size_t)snprintf(text, sizeof text, "task%u", i);
            rc = gd_queue_push_add(p, &item);
        }
        if (p)
            rc = gd_queue_push_finish(&p, NULL);
        ended = rc == 0;
        queue_server_fate(server, NULL, NULL);
        if (!ended && at > 0)
            forget_lock();
        p = open_with((struct gd_queue_push_options){ .bundle = again });
        add_many(p, 0, 30);
        const struct gd_queue_push_counts c = finish(p);
        CHECK_EQ(c.added + c.known, 30);
        check_tasks(30);
        queue_server_free(server);
    }
    CHECK_GE(at, 30 / bundle);
}

TEST_WITHIN(120, a_push_that_ended_anywhere_is_repeated)
{
    push_dies_everywhere(1, 1);
    push_dies_everywhere(4, 3);
    push_dies_everywhere(1, 10);
}

static enum queue_fate lose_some(void *user, const struct gd__queue_request *r)
{
    static const enum queue_fate fates[] = { QUEUE_LOST, QUEUE_ANSWER_LOST, QUEUE_LATER };
    unsigned *n = user;
    (void)r;
    const unsigned i = (*n)++;
    return i % 5 < 3 ? fates[i % 5] : QUEUE_ANSWERED;
}

TEST_WITHIN(120, answers_that_get_lost_change_nothing)
{
    unsigned n = 0;
    new_server();
    queue_server_fate(server, lose_some, &n);
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 3, .wait_ms = 1000 });
    add_many(p, 0, 300);
    CHECK_COUNTS(finish(p), 300, 0, 100);
    check_tasks(300);
    p = open_with((struct gd_queue_push_options){ .bundle = 3, .wait_ms = 1000 }); /* the lock was released */
    add_many(p, 0, 300);
    CHECK_COUNTS(finish(p), 0, 300, 0);
    queue_server_free(server);
}

TEST(a_stop_ends_a_push_cleanly)
{
    struct gd_queue_push_options o = GD_QUEUE_PUSH_OPTIONS_INIT;
    struct gd_queue_push_counts c = { .size = sizeof c };
    struct gd_queue_push *p;
    new_server();
    o.stop_fd = eventfd(0, EFD_CLOEXEC);
    o.bundle = 1000;
    CHECK_EQ(try_open(&p, &o), 0);
    add_many(p, 0, 10);
    const uint64_t one = 1;
    CHECK_EQ(write(o.stop_fd, &one, sizeof one), 8);
    CHECK_EQ(gd_queue_push_finish(&p, &c), GD_E_INTERRUPTED);
    CHECK_CONTAINS(gd_error_text(), "interrupted");
    CHECK(p == NULL);
    p = begin(); /* the lock was released */
    add_many(p, 0, 10);
    CHECK_EQ(finish(p).added + c.added, 10);
    check_tasks(10);
    close(o.stop_fd);
    queue_server_free(server);
}

/* --- one push at a time --- */

static void note(void *user, const char *message)
{
    char *to = user;
    (void)snprintf(to, 400, "%s", message);
}

TEST(a_second_push_is_refused_and_told_who_is_first)
{
    struct gd_queue_push_options o = GD_QUEUE_PUSH_OPTIONS_INIT;
    struct gd_queue_push *second, *p;
    char pid[64];
    new_server();
    p = begin();
    o.wait_ms = 0;
    CHECK_EQ(try_open(&second, &o), GD_E_BUSY);
    CHECK(second == NULL);
    (void)snprintf(pid, sizeof pid, "(process %d", (int)getpid());
    CHECK_CONTAINS(gd_error_text(), pid);
    gd_queue_push_abandon(&p);
    CHECK_EQ(try_open(&second, &o), 0);
    gd_queue_push_abandon(&second);
    gd_queue_push_abandon(&second);
    gd_queue_push_abandon(NULL);
    queue_server_free(server);
}

struct second {
    char message[400];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

static void note_wait(void *user, const char *message)
{
    struct second *s = user;
    pthread_mutex_lock(&s->mutex);
    note(s->message, message);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void *push_second(void *user)
{
    struct gd_queue_push *p = open_with(
        (struct gd_queue_push_options){ .bundle = 5, .wait_ms = 1000000, .on_wait = note_wait, .user = user });
    add_many(p, 10, 20);
    CHECK_COUNTS(finish(p), 10, 10, 2);
    return NULL;
}

TEST(a_second_push_waits_and_sees_what_the_first_has_added)
{
    struct second s = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    pthread_t thread;
    new_server();
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 4 });
    CHECK_EQ(pthread_create(&thread, NULL, push_second, &s), 0);
    pthread_mutex_lock(&s.mutex);
    while (!*s.message)
        pthread_cond_wait(&s.changed, &s.mutex);
    pthread_mutex_unlock(&s.mutex);
    CHECK_CONTAINS(s.message, "waiting for another push");
    add_many(p, 0, 20);
    CHECK_COUNTS(finish(p), 20, 0, 5);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_tasks(30);
    queue_server_free(server);
}

/* Another process has the lock; it is a child of this one. */
static void lock_of(pid_t pid)
{
    struct gd_queue_push *p;
    const void *data = NULL;
    size_t size = 0;
    struct gd__push_state s;
    struct gd__buffer b = { 0 };
    p = begin();
    CHECK(queue_server_message(server, GD__QUEUE_STATE, 0, &data, &size));
    CHECK_EQ(gd__push_state_parse(&s, data, size), 0);
    gd_queue_push_abandon(&p);
    s.pid = (uint64_t)pid;
    s.nonce[0] = s.nonce[0] == '0' ? '1' : '0';
    gd__push_state_write(&b, &s);
    queue_server_put(server, "gd.q.s.push", b.data, b.size);
    gd__buffer_free(&b);
}

TEST(the_lock_of_a_process_that_is_gone_is_taken_over)
{
    new_server();
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    lock_of(pid);
    struct gd_queue_push *p = open_with((struct gd_queue_push_options){ .bundle = 1 }); /* it does not wait */
    add_many(p, 0, 3);
    CHECK_COUNTS(finish(p), 3, 0, 3);
    queue_server_free(server);
}

/* Pushes until it is noticed that the lock is not ours. */
static void check_lock_lost(void (*take)(void))
{
    new_server();
    struct gd_queue_push *p = begin();
    struct gd__push_lock *lock = p->lock;
    const struct gd__push_lock_config quick = { .name = "q", .beat_ms = 1 };
    CHECK_EQ(gd__push_lock_release(&lock), 0);
    CHECK_EQ(gd__push_lock_take(&p->lock, p->caller, &quick), 0);
    add_many(p, 0, 3);
    take();
    int rc = 0;
    for (unsigned i = 3; rc == 0; i++) {
        struct gd_queue_item item = { .size = sizeof item, .data = &i, .data_size = sizeof i };
        rc = gd_queue_push_add(p, &item);
    }
    CHECK_EQ(rc, GD_E_BUSY);
    CHECK_CONTAINS(gd_error_text(), "another push has begun");
    CHECK_EQ(gd_queue_push_finish(&p, NULL), GD_E_BUSY);
    queue_server_free(server);
}

static void put_empty_lock(void)
{
    queue_server_put(server, "gd.q.s.push", "", 0);
}

TEST(a_push_whose_lock_was_taken_stops)
{
    check_lock_lost(forget_lock);    /* another push has taken it, and has ended */
    check_lock_lost(put_empty_lock); /* another program has written it */
}

/* The first task message gets lost, and then another push takes the lock and ends. */
static enum queue_fate lose_lock(void *user, const struct gd__queue_request *r)
{
    bool *lost = user;
    if (r->ask != GD__ASK_PUBLISH || strncmp(r->subject, "gd.q.t.", 7) != 0 || *lost)
        return QUEUE_ANSWERED;
    *lost = true;
    forget_lock();
    return QUEUE_LOST;
}

/* The other push may have put the task into a bundle. */
TEST(a_push_whose_lock_was_taken_repeats_nothing)
{
    bool lost = false;
    new_server();
    struct gd_queue_push *p = begin();
    struct gd__push_lock *lock = p->lock;
    const struct gd__push_lock_config quick = { .name = "q", .beat_ms = 1 };
    CHECK_EQ(gd__push_lock_release(&lock), 0);
    CHECK_EQ(gd__push_lock_take(&p->lock, p->caller, &quick), 0);
    queue_server_fate(server, lose_lock, &lost);
    add(p, "task0");
    CHECK_EQ(gd_queue_push_finish(&p, NULL), GD_E_BUSY);
    CHECK_CONTAINS(gd_error_text(), "another push has begun");
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), 0);
    queue_server_free(server);
}

/* The answer to the lock is lost, and replicas do not have it. */
static enum queue_fate lose_answer(void *user, const struct gd__queue_request *r)
{
    bool *lost = user;
    if (r->ask != GD__ASK_PUBLISH || *lost)
        return QUEUE_ANSWERED;
    *lost = true;
    return QUEUE_ANSWER_LOST;
}

TEST(the_lock_is_read_from_the_leader)
{
    bool lost = false;
    new_server();
    queue_server_replicas_have(server, GD__QUEUE_STATE, 0);
    queue_server_fate(server, lose_answer, &lost);
    struct gd_queue_push *p = begin();
    add_many(p, 0, 3);
    CHECK_COUNTS(finish(p), 3, 0, 3);
    CHECK(lost);
    queue_server_free(server);
}

TEST(a_sign_of_life_changes_the_sequence)
{
    struct gd__caller *c;
    struct gd__push_lock *lock;
    struct gd__queue_answer a = { 0 };
    new_server();
    CHECK_EQ(gd__caller_open(&c, &(struct gd__caller_config){ .stop_fd = -1 }, queue_server_link, server), 0);
    CHECK_EQ(gd__call(c, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_STATE }, NULL,
                      NULL, NULL),
             0);
    CHECK_EQ(gd__push_lock_take(&lock, c, &(struct gd__push_lock_config){ .name = "q", .beat_ms = 1 }), 0);
    while (a.sequence < 5) /* ends when there were five */
        CHECK_EQ(
            gd__call(c, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = "gd.q.s.push" }, NULL, NULL, &a),
            0);
    CHECK_EQ(gd__push_lock_check(lock), 0);
    CHECK_EQ(gd__push_lock_release(&lock), 0);
    CHECK_EQ(gd__push_lock_release(&lock), 0);
    gd__caller_close(&c);
    queue_server_free(server);
}

TEST_MAIN()
