/* SPDX-License-Identifier: MIT
 *
 * Blocking requests: answers, items, repetitions, windows of publications, stops, several threads on one link; and the
 * first requests of a node.
 */
#include "queue/call.h"

#include <gpu_dispatch/error.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "queue/run/queue_run.h"
#include "support/directory.h"
#include "support/queue_server.h"
#include "support/test.h"

enum { PAYLOAD_MOST = 1000 };

static struct queue_server *server;
static struct gd__caller *caller;

static void begin_with(struct gd__caller_config config)
{
    server = queue_server_new("q", PAYLOAD_MOST);
    CHECK_EQ(gd__caller_open(&caller, &config, queue_server_link, server), 0);
    CHECK_EQ(gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK },
                      NULL, NULL, NULL),
             0);
}

static void begin(void)
{
    begin_with((struct gd__caller_config){ .server = "host:4222", .stop_fd = -1 });
}

static void end(void)
{
    gd__caller_close(&caller);
    CHECK(caller == NULL);
    queue_server_free(server);
}

static struct gd__queue_request publication(const char *subject)
{
    return (struct gd__queue_request){ .ask = GD__ASK_PUBLISH, .subject = subject, .data = "x", .size = 1 };
}

/* --- fates --- */

/* The next `n` requests of this kind have this fate. */
struct fates {
    enum gd__queue_ask ask;
    enum queue_fate fate;
    unsigned n;
};

static enum queue_fate next_fate(void *user, const struct gd__queue_request *r)
{
    struct fates *f = user;
    if (f->n == 0 || r->ask != f->ask)
        return QUEUE_ANSWERED;
    f->n--;
    return f->fate;
}

/* --- one request --- */

TEST(an_answer_is_returned_with_its_data)
{
    struct gd__queue_answer a;
    begin();
    queue_server_put(server, "gd.q.t.0.a", "some bytes", 10);
    CHECK_EQ(
        gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = "gd.q.t.0.a" }, NULL, NULL, &a),
        0);
    CHECK_EQ(a.kind, GD__ANSWER_OK);
    CHECK_EQ(a.size, 10);
    CHECK_MEM(a.data, "some bytes", 10);
    CHECK_STR(a.subject, "gd.q.t.0.a");
    CHECK_EQ(a.sequence, 1);
    end();
}

TEST(nothing_and_refused_are_answers_if_the_caller_looks)
{
    struct gd__queue_request p = publication("gd.q.t.0.a");
    struct gd__queue_answer a;
    begin();
    CHECK_EQ(gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = p.subject }, NULL, NULL, &a),
             0);
    CHECK_EQ(a.kind, GD__ANSWER_NONE);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, &a), 0);
    CHECK_EQ(a.kind, GD__ANSWER_OK);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, &a), 0);
    CHECK_EQ(a.kind, GD__ANSWER_REFUSED);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "host:4222");
    end();
}

TEST(a_request_is_repeated_until_it_is_answered)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, 3 };
    struct gd__queue_request p = publication("gd.q.t.0.a");
    begin();
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), 0);
    CHECK_EQ(f.n, 0);
    f = (struct fates){ GD__ASK_PUBLISH, QUEUE_LATER, 2 };
    p.subject = "gd.q.t.0.b";
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), 0);
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), 2);
    end();
}

TEST(a_server_that_does_not_come_back_is_an_error)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, UINT32_MAX };
    struct gd__queue_request p = publication("gd.q.t.0.a");
    begin_with((struct gd__caller_config){ .server = "host:4222", .stop_fd = -1, .patience_ms = 200 });
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "host:4222 did not answer for 0.2 s");
    queue_server_connected(server, false, "connection refused");
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "could not be reached for 0.2 s: ");
    f.fate = QUEUE_LATER;
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "was not ready for 0.2 s: as the test wants");
    end();
}

TEST(an_error_of_the_server_is_returned_at_once)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_DENIED, 1 };
    struct gd__queue_request p = publication("gd.q.t.0.a");
    char large[PAYLOAD_MOST + 1] = "";
    begin();
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "credentials: as the test wants");
    f = (struct fates){ GD__ASK_PUBLISH, QUEUE_FAILED, 1 };
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "host:4222: as the test wants");
    p.data = large;
    p.size = sizeof large;
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "max_payload");
    end();
}

TEST(a_stop_ends_a_call_that_waits)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, UINT32_MAX };
    struct gd__queue_request p = publication("gd.q.t.0.a");
    const int stop = eventfd(1, EFD_CLOEXEC);
    begin();
    queue_server_fate(server, next_fate, &f);
    gd__caller_set(caller, 0, stop);
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), GD_E_INTERRUPTED);
    CHECK_EQ(gd__call_pause(caller, 1000000), GD_E_INTERRUPTED);
    queue_server_fate(server, NULL, NULL);
    gd__caller_set(caller, 0, -1);
    p.subject = "gd.q.t.0.b";
    CHECK_EQ(gd__call(caller, &p, NULL, NULL, NULL), 0);
    CHECK_EQ(gd__call_pause(caller, 1), 0);
    close(stop);
    end();
}

static int refuse(void *user, const struct gd__queue_listener *l, struct gd__queue_link **out)
{
    (void)user;
    (void)l;
    (void)out;
    return GD_E_UNSUPPORTED;
}

TEST(a_link_that_cannot_be_opened_is_reported)
{
    struct gd__caller *c;
    server = queue_server_new("q", PAYLOAD_MOST);
    CHECK_EQ(gd__caller_open(&c, &(struct gd__caller_config){ .stop_fd = -1 }, refuse, NULL), GD_E_UNSUPPORTED);
    CHECK(c == NULL);
    queue_server_free(server);
}

/* --- items --- */

struct seen {
    uint64_t n, last, stop_at;
};

static int see(void *user, const struct gd__queue_answer *item)
{
    struct seen *s = user;
    CHECK_EQ(item->kind, GD__ANSWER_ITEM);
    CHECK_GT(item->sequence, s->last);
    s->last = item->sequence;
    return ++s->n == s->stop_at ? 7 : 0;
}

static void fill(unsigned n)
{
    char subject[64];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(subject, sizeof subject, "gd.q.t.%u.k%u", i % 2, i);
        queue_server_put(server, subject, "x", 1);
    }
}

TEST(a_whole_stream_is_read)
{
    struct seen s = { 0 };
    begin();
    fill(GD__CALL_READ_MESSAGES * 2 + 3);
    CHECK_EQ(gd__call_read(caller, GD__QUEUE_TASK, NULL, 1, see, &s), 0);
    CHECK_EQ(s.n, GD__CALL_READ_MESSAGES * 2 + 3);
    s = (struct seen){ 0 };
    CHECK_EQ(gd__call_read(caller, GD__QUEUE_TASK, "gd.q.t.1.>", 10, see, &s), 0);
    CHECK_EQ(s.n, GD__CALL_READ_MESSAGES + 1 - 4);
    s = (struct seen){ .stop_at = 5 };
    CHECK_EQ(gd__call_read(caller, GD__QUEUE_TASK, NULL, 1, see, &s), 7);
    CHECK_EQ(s.n, 5);
    s = (struct seen){ 0 }; /* what was left of the last request is not taken for this one */
    CHECK_EQ(gd__call_read(caller, GD__QUEUE_TASK, NULL, 1, see, &s), 0);
    CHECK_EQ(s.n, GD__CALL_READ_MESSAGES * 2 + 3);
    end();
}

TEST(a_read_that_was_cut_off_continues)
{
    struct fates f = { GD__ASK_READ, QUEUE_ANSWER_LOST, 2 }; /* the items come, the end does not */
    struct seen s = { 0 };
    begin();
    fill(GD__CALL_READ_MESSAGES + 10);
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(gd__call_read(caller, GD__QUEUE_TASK, NULL, 1, see, &s), 0);
    CHECK_EQ(s.n, GD__CALL_READ_MESSAGES + 10);
    end();
}

/* --- windows --- */

struct counts {
    uint64_t accepted, refused, repeated, tags;
};

static int count_published(void *user, const struct gd__published *p)
{
    struct counts *c = user;
    c->accepted += p->accepted;
    c->refused += !p->accepted;
    c->repeated += p->repeated;
    c->tags += p->tag;
    return 0;
}

static int publish(struct gd__caller *c, unsigned i)
{
    char subject[64];
    (void)snprintf(subject, sizeof subject, "gd.q.t.0.k%u", i);
    return gd__call_publish(c, &(struct gd__publication){ .subject = subject, .data = &i, .size = sizeof i, .tag = i });
}

/* Three of eight. With more, the growing pauses between repetitions make a case take long. */
static enum queue_fate some_get_lost(void *user, const struct gd__queue_request *r)
{
    static const enum queue_fate fates[] = { QUEUE_LOST, QUEUE_ANSWER_LOST, QUEUE_LATER };
    unsigned *n = user;
    const unsigned i = (*n)++;
    return r->ask == GD__ASK_PUBLISH && i % 8 < 3 ? fates[i % 8] : QUEUE_ANSWERED;
}

TEST(each_publication_of_a_window_is_answered_once)
{
    enum { N = 300 };
    unsigned lost = 0;
    struct counts c = { 0 };
    begin_with((struct gd__caller_config){ .stop_fd = -1, .window = 50 });
    queue_server_fate(server, some_get_lost, &lost);
    gd__call_when_published(caller, count_published, &c);
    for (unsigned i = 0; i < N; i++)
        CHECK_EQ(publish(caller, i), 0);
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK_EQ(c.accepted + c.refused, N);
    CHECK_GT(c.refused, 0);
    CHECK_GE(c.repeated, c.refused);
    CHECK_EQ(c.tags, N * (N - 1) / 2);
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), N);
    end();
}

TEST(other_requests_may_be_made_while_publications_are_on_their_way)
{
    enum { N = 100 };
    unsigned lost = 0;
    struct counts c = { 0 };
    begin();
    queue_server_fate(server, some_get_lost, &lost);
    gd__call_when_published(caller, count_published, &c);
    for (unsigned i = 0; i < N; i++) {
        struct gd__queue_answer a;
        CHECK_EQ(publish(caller, i), 0);
        CHECK_EQ(gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_SERVER }, NULL, NULL, &a), 0);
        CHECK_EQ(a.server.max_payload, PAYLOAD_MOST);
    }
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK_EQ(c.accepted + c.refused, N);
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), N);
    end();
}

TEST(publications_end_with_an_error_if_the_server_does_not_come_back)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, UINT32_MAX };
    begin_with((struct gd__caller_config){ .stop_fd = -1, .window = 2, .patience_ms = 100 });
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(publish(caller, 1), 0);
    CHECK_EQ(publish(caller, 2), 0);
    CHECK_EQ(publish(caller, 3), GD_E_FAILED);
    CHECK_EQ(gd__call_flush(caller), 0); /* they are forgotten */
    queue_server_fate(server, NULL, NULL);
    CHECK_EQ(publish(caller, 4), 0);
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK(queue_server_has(server, "gd.q.t.0.k4")); /* and perhaps one that was repeated at the last moment */
    end();
}

/* The second caller's answer comes after that of the publication, so that one has arrived before the pause. */
TEST(an_answer_that_comes_before_a_pause_is_not_lost)
{
    struct gd__caller *other;
    struct counts c = { 0 };
    begin();
    gd__call_when_published(caller, count_published, &c);
    CHECK_EQ(gd__caller_share(&other, caller), 0);
    CHECK_EQ(publish(caller, 1), 0);
    CHECK_EQ(gd__call(other, &(struct gd__queue_request){ .ask = GD__ASK_SERVER }, NULL, NULL, NULL), 0);
    CHECK_EQ(gd__call_pause(caller, 1), 0);
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK_EQ(c.accepted, 1);
    gd__caller_close(&other);
    end();
}

static int always_stop(void *user, const struct gd__published *p)
{
    (void)user;
    (void)p;
    return -99;
}

TEST(the_function_for_publications_can_stop)
{
    begin();
    gd__call_when_published(caller, always_stop, NULL);
    CHECK_EQ(publish(caller, 1), 0);
    CHECK_EQ(gd__call_flush(caller), -99);
    end();
}

/* --- before a repetition --- */

/* What is asked before a repetition, and answered. */
struct asked_first {
    unsigned times;
    int rc;
};

static int ask_first(void *user)
{
    struct asked_first *a = user;
    a->times++;
    CHECK_EQ(gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_SERVER }, NULL, NULL, NULL), 0);
    return a->rc;
}

TEST(a_function_is_called_before_a_repetition_only)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, 1 };
    struct asked_first first = { 0 };
    struct counts c = { 0 };
    begin();
    gd__call_when_published(caller, count_published, &c);
    gd__call_before_repetitions(caller, ask_first, &first);
    CHECK_EQ(publish(caller, 1), 0);
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK_EQ(first.times, 0);
    queue_server_fate(server, next_fate, &f);
    CHECK_EQ(publish(caller, 2), 0);
    CHECK_EQ(gd__call_flush(caller), 0);
    CHECK(first.times == 1 && c.accepted == 2 && c.repeated == 1);
    end();
}

TEST(a_function_can_forbid_repetitions)
{
    struct fates f = { GD__ASK_PUBLISH, QUEUE_LOST, 2 };
    struct asked_first first = { .rc = GD_E_BUSY };
    begin();
    queue_server_fate(server, next_fate, &f);
    gd__call_before_repetitions(caller, ask_first, &first);
    CHECK_EQ(publish(caller, 1), 0);
    CHECK_EQ(publish(caller, 2), 0);
    CHECK_EQ(gd__call_flush(caller), GD_E_BUSY);
    CHECK_EQ(gd__call_flush(caller), 0); /* they are forgotten */
    CHECK(first.times == 1 && queue_server_count(server, GD__QUEUE_TASK) == 0);
    end();
}

/* --- threads --- */

struct worker {
    struct gd__caller *caller;
    unsigned first;
    struct counts counts;
};

static void *work(void *user)
{
    enum { N = 200 };
    struct worker *w = user;
    gd__call_when_published(w->caller, count_published, &w->counts);
    for (unsigned i = 0; i < N; i++) {
        CHECK_EQ(publish(w->caller, w->first + i), 0);
        CHECK_EQ(gd__call(w->caller, &(struct gd__queue_request){ .ask = GD__ASK_SERVER }, NULL, NULL, NULL), 0);
    }
    CHECK_EQ(gd__call_flush(w->caller), 0);
    CHECK_EQ(w->counts.accepted, N);
    return NULL;
}

TEST(threads_share_a_link)
{
    struct worker a = { .first = 0 }, b = { .first = 1000 };
    pthread_t thread;
    begin();
    a.caller = caller;
    CHECK_EQ(gd__caller_share(&b.caller, caller), 0);
    CHECK_EQ(pthread_create(&thread, NULL, work, &b), 0);
    work(&a);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(queue_server_count(server, GD__QUEUE_TASK), 400);
    gd__caller_close(&b.caller);
    end();
}

TEST(there_is_a_limit_of_callers)
{
    struct gd__caller *more[8] = { 0 };
    int rc = 0;
    unsigned n = 0;
    begin();
    while (n < 8 && rc == 0)
        rc = gd__caller_share(&more[n++], caller);
    CHECK_EQ(rc, GD_E_BUSY);
    for (unsigned i = 0; i < n; i++)
        gd__caller_close(&more[i]);
    CHECK_EQ(gd__caller_share(&more[0], caller), 0);
    gd__caller_close(&more[0]);
    gd__caller_close(&more[0]);
    gd__caller_close(NULL);
    end();
}

/* --- the first requests of a node --- */

static int connect_node(struct gd__queue_link **out, const struct gd_queue_options *queue,
                        const struct gd__queue_listener *listener, const struct gd__queue_patience *patience)
{
    (void)queue;
    (void)patience;
    return queue_server_link(server, listener, out);
}

/* Another node stores its command after this one has seen that there is none. There are no tasks for this node. */
struct other_node {
    const char *command;
    bool stored;
};

static enum queue_fate store_first(void *user, const struct gd__queue_request *r)
{
    struct other_node *other = user;
    if (r->ask == GD__ASK_PUBLISH && strcmp(r->subject, "gd.q.s.command") == 0 && !other->stored) {
        queue_server_put(server, r->subject, other->command, strlen(other->command));
        other->stored = true;
    }
    return r->ask == GD__ASK_PULL ? QUEUE_LATER : QUEUE_ANSWERED;
}

/* Replicas do not have the command of the other node. */
static int open_node(const char *command_of_other)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    struct other_node other = { .command = command_of_other };
    struct gd_queue_options q = GD_QUEUE_OPTIONS_INIT;
    const struct gd__queue_run_spec spec = {
        .queue = &q, .connect = connect_node, .workers = 1, .slots = 1, .crash_limit = 3, .http = ""
    };
    struct gd__queue_run *node = NULL;
    q.url = "nats://host/q";
    q.spool = "spool";
    q.command = "./a {}";
    begin();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        CHECK_EQ(gd__call(caller, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = kinds[i] }, NULL,
                          NULL, NULL),
                 0);
    queue_server_replicas_have(server, GD__QUEUE_STATE, 0);
    queue_server_fate(server, store_first, &other);
    const int rc = gd__queue_run_open(&node, &spec);
    CHECK(other.stored);
    gd__queue_run_close(&node);
    end();
    return rc;
}

TEST(two_nodes_with_one_command_begin_at_the_same_time)
{
    directory_enter();
    CHECK_EQ(open_node("./a {}"), 0);
    CHECK_EQ(open_node("./b {}"), GD_E_MISMATCH);
    CHECK_CONTAINS(gd_error_text(), "run another command: ./b {}.");
}

TEST_MAIN()
