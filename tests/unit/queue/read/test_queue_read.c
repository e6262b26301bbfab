/* SPDX-License-Identifier: MIT
 *
 * Reading a queue: figures, records in push order, records as they appear, nodes, files, and a server that loses or
 * damages messages.
 */
#include "queue/read/reader.h"

#include <pthread.h>

#include "base/error.h"
#include "base/fault.h"
#include "queue/messages/node_status.h"
#include "queue/read/file.h"
#include "support/directory.h"
#include "support/queue_server.h"
#include "support/test.h"

enum { MOST = 1 << 20, SECOND = 1000000 };

static struct queue_server *server;
static struct gd_queue_reader *reader;

static void begin_server(void)
{
    server = queue_server_new("q", MOST);
}

static int open_reader(const char *spill_dir)
{
    struct gd__caller *c = NULL;
    const struct gd__caller_config config = { .server = "host:4222", .stop_fd = -1 };
    CHECK_EQ(gd__caller_open(&c, &config, queue_server_link, server), 0);
    return gd__reader_new(&reader, c, "q", spill_dir);
}

static void begin_reading(void)
{
    CHECK_EQ(open_reader(NULL), 0);
}

static void end(void)
{
    gd_queue_reader_close(&reader);
    CHECK(reader == NULL);
    queue_server_free(server);
}

/* --- what pushes and nodes do --- */

static struct gd__queue_text text(const char *s)
{
    return (struct gd__queue_text){ s, strlen(s) };
}

/* A task: its payload is its key. */
struct pushed {
    const char *payload;
    uint32_t repeat, again;
    enum gd__queue_state state; /* of its record */
    const char *output;         /* NULL: none */
};

static struct gd__queue_key key_of(const struct pushed *p)
{
    struct gd__queue_key k = gd__queue_task_key(p->payload, strlen(p->payload), p->repeat);
    k.again = p->again;
    return k;
}

static void publish(enum gd__queue_kind kind, int priority, struct gd__queue_writer *w)
{
    struct gd__queue_subject s = { .kind = kind, .priority = priority };
    char subject[GD__QUEUE_SUBJECT_ROOM];
    CHECK_EQ(gd__queue_message_end(w, &s.key), 0);
    queue_server_put(server, gd__queue_subject_text(subject, "q", &s), w->message.data, w->message.size);
    gd__queue_writer_free(w);
}

static void push(const struct pushed *tasks, size_t n)
{
    struct gd__queue_writer w;
    gd__queue_tasks_begin(&w, MOST);
    for (size_t i = 0; i < n; i++) {
        const struct gd__queue_task t = { .key = key_of(&tasks[i]),
                                          .number = i,
                                          .payload = { .form = GD__QUEUE_INLINE, .bytes = text(tasks[i].payload) } };
        CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    }
    publish(GD__QUEUE_TASK, 0, &w);
}

static void add_record(struct gd__queue_writer *w, const struct pushed *p, uint64_t number,
                       const struct gd__queue_data *output)
{
    struct gd__queue_record r = { .key = key_of(p), .state = p->state, .number = number };
    if (r.state != GD__QUEUE_MOVED) {
        r.attempts = 2;
        r.started_us = 7 * SECOND + 500000;
        r.run_us = 1500000;
        r.gpu = text("0+1");
        r.exit_code = r.state == GD__QUEUE_FAILED ? 3 : 0;
        r.output = *output;
    }
    if (r.state == GD__QUEUE_FAILED) {
        r.failure = text("timeout");
        r.error = text("too slow");
        r.stderr_end = text("last words");
    }
    CHECK_EQ(gd__queue_records_add(w, &r), 0);
}

static void begin_records(struct gd__queue_writer *w)
{
    static const unsigned char nonce[GD__QUEUE_NONCE_SIZE];
    gd__queue_records_begin(w, MOST, nonce, text("n17"));
}

static void finish(const struct pushed *tasks, size_t n)
{
    struct gd__queue_writer w;
    begin_records(&w);
    for (size_t i = 0; i < n; i++) {
        const char *output = tasks[i].output;
        const struct gd__queue_data d = { .form = output ? GD__QUEUE_INLINE : GD__QUEUE_NOTHING,
                                          .bytes = text(output ? output : "") };
        add_record(&w, &tasks[i], i, &d);
    }
    publish(GD__QUEUE_RECORD, 0, &w);
}

static void push_one(const char *payload)
{
    push(&(struct pushed){ .payload = payload }, 1);
}

static void finish_one(const char *payload, enum gd__queue_state state)
{
    finish(&(struct pushed){ .payload = payload, .state = state }, 1);
}

static void open_push(bool is_open)
{
    struct gd__push_state s = { .open = is_open, .host = "n1", .pid = 1, .started = 1 };
    struct gd__buffer b = { 0 };
    memset(s.nonce, '0', sizeof s.nonce - 1);
    gd__push_state_write(&b, &s);
    queue_server_put(server, "gd.q.s.push", b.data, b.size);
    gd__buffer_free(&b);
}

static void show_node(char id, const struct gd__node_status *s)
{
    char ids[GD__QUEUE_NODE_ROOM] = "", subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__buffer b = { 0 };
    memset(ids, id, sizeof ids - 1);
    gd__node_status_write(&b, s);
    queue_server_put(server, gd__node_status_subject(subject, "q", ids), b.data, b.size);
    gd__buffer_free(&b);
}

/* --- what a reader sees --- */

/* The inputs of all records, each with a mark: "a+ b-". */
struct seen {
    char text[4096];
    size_t n;
    size_t stop_after; /* 0: never */
};

static int see(void *user, const struct gd_queue_record *r)
{
    struct seen *s = user;
    const size_t size = strlen(s->text);
    (void)snprintf(s->text + size, sizeof s->text - size, "%s%.*s%c", s->n ? " " : "", (int)r->input_size,
                   (const char *)r->input, r->done ? '+' : '-');
    s->n++;
    return s->n == s->stop_after ? 7 : 0;
}

static const char *all(void)
{
    static struct seen s;
    s = (struct seen){ 0 };
    CHECK_EQ(gd_queue_reader_each(reader, see, &s), 0);
    return s.text;
}

static struct gd_queue_figures figures(void)
{
    struct gd_queue_figures f = { .size = sizeof f };
    if (gd_queue_reader_figures(reader, &f) != 0)
        FAIL("%s", gd_error_text());
    return f;
}

static void check_counts(uint64_t tasks, uint64_t done, uint64_t failed, uint64_t waiting, uint64_t held)
{
    const struct gd_queue_figures f = figures();
    CHECK_EQ(f.tasks, tasks);
    CHECK_EQ(f.done, done);
    CHECK_EQ(f.failed, failed);
    CHECK_EQ(f.waiting, waiting);
    CHECK_EQ(f.held, held);
}

/* --- opening --- */

TEST(a_queue_that_does_not_exist)
{
    begin_server();
    CHECK_EQ(open_reader(NULL), GD_E_SOURCE);
    CHECK(reader == NULL);
    CHECK_CONTAINS(gd_error_text(), "no queue \"q\"");
    queue_server_free(server);
}

/* --- figures --- */

TEST(figures_count_each_task_once)
{
    const struct pushed bundle[] = { { "a", .state = GD__QUEUE_DONE },
                                     { "b", .state = GD__QUEUE_MOVED },
                                     { "c", .state = GD__QUEUE_MOVED } };
    const struct pushed rest[] = { { "b", .state = GD__QUEUE_DONE }, { "c", .state = GD__QUEUE_FAILED } };
    const struct pushed again[] = { { "c", .again = 1, .state = GD__QUEUE_DONE } };
    begin_server();
    push(bundle, 3);
    push_one("d");
    finish(bundle, 3);
    push(rest, 2);
    begin_reading();
    check_counts(4, 1, 0, 3, 0);
    finish(rest, 2);
    check_counts(4, 2, 1, 1, 0);
    push(again, 1);
    check_counts(4, 2, 0, 2, 0);
    finish(again, 1);
    finish_one("d", GD__QUEUE_DONE);
    check_counts(4, 4, 0, 0, 0);
    CHECK(figures().busy_seconds == 5 * 1.5);
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 0);
    end();
}

/* Later calls read only what is new. */
TEST(figures_do_not_read_everything_again)
{
    begin_server();
    for (char c = 'a'; c <= 'z'; c++)
        push_one((char[]){ c, '\0' });
    finish_one("a", GD__QUEUE_DONE);
    begin_reading();
    (void)figures();
    const size_t reads = queue_server_requests(server, GD__ASK_READ);
    (void)figures();
    /* Only the nodes. */
    CHECK_EQ(queue_server_requests(server, GD__ASK_READ), reads + 1);
    end();
}

TEST(held_tasks_are_counted_from_messages)
{
    const struct pushed bundle[] = { { .payload = "a" }, { .payload = "b" }, { .payload = "c" } };
    begin_server();
    push(bundle, 3);
    push_one("d");
    begin_reading();
    check_counts(4, 0, 0, 4, 0);
    const struct gd__queue_request consumer = { .ask = GD__ASK_CREATE_CONSUMER, .priority = 0, .lease_ms = 1 };
    CHECK_EQ(gd__call(reader->caller, &consumer, NULL, NULL, NULL), 0);
    queue_server_unacknowledged(server, 1);
    check_counts(4, 0, 0, 1, 3);
    queue_server_unacknowledged(server, 9);
    check_counts(4, 0, 0, 0, 4);
    end();
}

TEST(a_queue_is_done_when_each_task_has_a_record_and_no_push_is_open)
{
    begin_server();
    push_one("a");
    begin_reading();
    CHECK(!figures().is_done);
    finish_one("a", GD__QUEUE_FAILED);
    CHECK(figures().is_done);
    open_push(true);
    CHECK(figures().push_is_open && !figures().is_done);
    open_push(false);
    CHECK(!figures().push_is_open && figures().is_done);
    end();
}

TEST(a_push_that_died_is_not_open)
{
    begin_server();
    push_one("a");
    queue_server_clock(server, 100 * (uint64_t)SECOND);
    open_push(true);
    begin_reading();
    queue_server_clock(server, 130 * (uint64_t)SECOND);
    CHECK(figures().push_is_open);
    queue_server_clock(server, 131 * (uint64_t)SECOND);
    CHECK(!figures().push_is_open);
    end();
}

TEST(figures_of_the_queue_and_its_server)
{
    begin_server();
    push_one("a");
    begin_reading();
    CHECK(figures().command == NULL);
    queue_server_put(server, "gd.q.s.command", "./cmd {}", 8);
    CHECK_STR(figures().command, "./cmd {}");
    CHECK_STR(figures().server_version, "2.15.1");
    CHECK_EQ(figures().durable, -1);
    end();
}

/* --- nodes --- */

struct listed {
    char text[2048];
    double oldest;
};

static int list_node(void *user, const struct gd_queue_node *n)
{
    struct listed *l = user;
    const size_t size = strlen(l->text);
    (void)snprintf(l->text + size, sizeof l->text - size,
                   "%s %c pid %llu %u/%u done %llu failed %llu held %llu%s%s %s %s;", n->host, n->id[0],
                   (unsigned long long)n->pid, n->busy, n->workers, (unsigned long long)n->done,
                   (unsigned long long)n->failed, (unsigned long long)n->held, n->draining ? " draining" : "",
                   n->left ? " left" : "", n->http ? n->http : "-", n->note ? n->note : "-");
    l->oldest = n->age_seconds > l->oldest ? n->age_seconds : l->oldest;
    return 0;
}

TEST(nodes_are_listed_by_host_with_their_last_status)
{
    struct gd__node_status s = { .state = GD__NODE_RUNNING, .host = "n2", .pid = 5, .workers = 8, .busy = 7 };
    struct listed l = { .text = "" };
    begin_server();
    push_one("a");
    show_node('a', &s);
    s.done = 3;
    show_node('a', &s);
    s = (struct gd__node_status){ .state = GD__NODE_LEFT, .host = "n1", .failed = 2, .held = 1, .note = "GPU lost" };
    strcpy(s.http, "http://n1/");
    show_node('b', &s);
    s.state = GD__NODE_DRAINING;
    show_node('c', &s);
    begin_reading();
    CHECK_EQ(gd_queue_reader_nodes(reader, list_node, &l), 0);
    CHECK_STR(l.text, "n1 b pid 0 0/0 done 0 failed 2 held 1 left http://n1/ GPU lost;"
                      "n1 c pid 0 0/0 done 0 failed 2 held 1 draining http://n1/ GPU lost;"
                      "n2 a pid 5 7/8 done 3 failed 0 held 0 - -;");
    CHECK_EQ(figures().nodes, 2);
    end();
}

TEST(the_age_of_a_node_is_by_the_clock_of_the_server)
{
    const struct gd__node_status s = { .state = GD__NODE_RUNNING, .host = "n1" };
    struct listed l = { .text = "" };
    begin_server();
    push_one("a");
    queue_server_clock(server, 50 * (uint64_t)SECOND);
    show_node('a', &s);
    begin_reading();
    queue_server_clock(server, 80 * (uint64_t)SECOND);
    CHECK_EQ(figures().nodes, 1);
    queue_server_clock(server, 81 * (uint64_t)SECOND);
    CHECK_EQ(figures().nodes, 0);
    CHECK_EQ(gd_queue_reader_nodes(reader, list_node, &l), 0);
    CHECK(l.oldest == 31);
    end();
}

TEST(a_status_that_is_damaged_hides_no_other_node)
{
    const struct gd__node_status s = { .state = GD__NODE_RUNNING, .host = "n1" };
    struct listed l = { .text = "" };
    const char *first = NULL;
    begin_server();
    push_one("a");
    queue_server_put(server, "gd.q.s.node.0123456789abcdef0123456789abcdef", "{", 1);
    show_node('a', &s);
    begin_reading();
    CHECK_EQ(gd_queue_reader_nodes(reader, list_node, &l), 0);
    CHECK_CONTAINS(l.text, "n1 a");
    CHECK_EQ(gd_queue_reader_skipped(reader, &first), 1);
    CHECK_CONTAINS(first, "message 1 of the stream gd_q_s: the status of a node");
    end();
}

/* --- records --- */

TEST(records_come_in_push_order)
{
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    push_one("d");
    finish_one("d", GD__QUEUE_DONE);
    finish_one("a", GD__QUEUE_FAILED);
    finish_one("c", GD__QUEUE_DONE);
    begin_reading();
    CHECK_STR(all(), "a- c+ d+");
    finish_one("b", GD__QUEUE_DONE);
    CHECK_STR(all(), "a- b+ c+ d+");
    end();
}

TEST(a_record_that_moved_is_read_from_its_last_message)
{
    const struct pushed bundle[] = { { "a", .state = GD__QUEUE_DONE },
                                     { "b", .state = GD__QUEUE_MOVED },
                                     { "c", .state = GD__QUEUE_MOVED } };
    const struct pushed rest[] = { { "b", .state = GD__QUEUE_DONE }, { "c", .state = GD__QUEUE_FAILED } };
    const struct pushed again[] = { { "c", .again = 1, .state = GD__QUEUE_DONE } };
    begin_server();
    push(bundle, 3);
    push_one("d");
    finish(bundle, 3);
    finish_one("d", GD__QUEUE_DONE);
    push(rest, 2);
    finish(rest, 2);
    begin_reading();
    CHECK_STR(all(), "a+ b+ c- d+");
    push(again, 1);
    CHECK_STR(all(), "a+ b+ d+");
    finish(again, 1);
    CHECK_STR(all(), "a+ b+ c+ d+");
    end();
}

struct expected {
    const char *failure, *error, *stderr_end, *output;
};

static int check_record(void *user, const struct gd_queue_record *r)
{
    const struct expected *e = user;
    const struct gd__queue_key k = gd__queue_task_key("a", 1, 2);
    CHECK_MEM(r->key, k.hash, GD__HASH_SIZE);
    CHECK_EQ(r->repeat, 2);
    CHECK_EQ(r->again, 1);
    CHECK_EQ(r->attempts, 2);
    CHECK_EQ(r->exit_code, e->failure ? 3 : 0);
    CHECK_STR(r->host, "n17");
    CHECK_STR(r->gpu, "0+1");
    CHECK(r->started == 7.5 && r->seconds == 1.5);
    CHECK_EQ(r->done, e->failure == NULL);
    CHECK(!r->input_file && !r->output_file && !r->output_error);
    CHECK_EQ(r->output != NULL, e->output != NULL);
    if (e->output) {
        CHECK_EQ(r->output_size, strlen(e->output));
        CHECK_MEM(r->output, e->output, r->output_size);
    }
    const struct {
        const char *is, *should_be;
    } texts[] = { { r->failure, e->failure }, { r->error, e->error }, { r->stderr_end, e->stderr_end } };
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(texts[i].is != NULL, texts[i].should_be != NULL);
        if (texts[i].is)
            CHECK_STR(texts[i].is, texts[i].should_be);
    }
    return 5;
}

TEST(the_members_of_a_record)
{
    static const struct expected expected[] = { { NULL, NULL, NULL, "out" },
                                                { NULL, NULL, NULL, NULL },
                                                { NULL, NULL, NULL, "" },
                                                { "timeout", "too slow", "last words", NULL } };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct pushed p = { "a", 2, 1, expected[i].failure ? GD__QUEUE_FAILED : GD__QUEUE_DONE,
                                  expected[i].output };
        begin_server();
        push(&p, 1);
        finish(&p, 1);
        begin_reading();
        CHECK_EQ(gd_queue_reader_each(reader, check_record, (void *)(uintptr_t)&expected[i]), 5);
        end();
    }
}

TEST(a_function_can_stop)
{
    struct seen s = { .stop_after = 2 };
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    finish_one("c", GD__QUEUE_DONE);
    begin_reading();
    CHECK_EQ(gd_queue_reader_each(reader, see, &s), 7);
    CHECK_STR(s.text, "a+ b+");
    end();
}

/* --- many records --- */

enum { MANY = 9000 };

struct order {
    unsigned next;
};

static int check_order(void *user, const struct gd_queue_record *r)
{
    struct order *o = user;
    char expected[32];
    const int size = snprintf(expected, sizeof expected, "%u", o->next++);
    CHECK_EQ(r->input_size, size);
    CHECK_MEM(r->input, expected, (size_t)size);
    return 0;
}

/* Bundles of different sizes that ended in another order: several windows, and messages that are read in one request. */
TEST(many_records_in_bundles)
{
    enum { BUNDLE = 100 };
    static char payloads[MANY][8];
    static struct pushed tasks[MANY];
    struct order o = { 0 };
    begin_server();
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(payloads[i], sizeof payloads[i], "%u", i);
        tasks[i] = (struct pushed){ payloads[i], .state = i % 7 ? GD__QUEUE_DONE : GD__QUEUE_FAILED };
    }
    for (unsigned i = 0; i < MANY; i += BUNDLE)
        push(tasks + i, BUNDLE);
    for (unsigned i = MANY; i > 0; i -= BUNDLE)
        finish(tasks + i - BUNDLE, BUNDLE);
    begin_reading();
    CHECK_EQ(gd_queue_reader_each(reader, check_order, &o), 0);
    CHECK_EQ(o.next, MANY);
    CHECK_LT(queue_server_requests(server, GD__ASK_READ), 20);
    end();
}

static int see_first_bytes(void *user, const struct gd_queue_record *r)
{
    struct seen *s = user;
    s->text[s->n++] = *(const char *)r->input;
    return 0;
}

/* Large messages: a server sends fewer than it was asked for, and a window ends earlier. */
TEST(large_records_come_in_several_windows)
{
    enum { N = 40, LARGE = 60000 };
    static char payloads[N][LARGE + 1];
    struct seen s = { .text = "" };
    begin_server();
    for (unsigned i = 0; i < N; i++) {
        memset(payloads[i], 'a' + (int)(i % 26), LARGE);
        payloads[i][0] = (char)('0' + i);
        push(&(struct pushed){ .payload = payloads[i] }, 1);
    }
    for (unsigned i = N; i-- > 0;)
        finish(&(struct pushed){ payloads[i], .state = GD__QUEUE_DONE, .output = payloads[N - 1 - i] }, 1);
    begin_reading();
    (void)figures();
    const size_t reads = queue_server_requests(server, GD__ASK_READ);
    CHECK_EQ(gd_queue_reader_each(reader, see_first_bytes, &s), 0);
    CHECK_STR(s.text, "0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVW");
    CHECK_GE(queue_server_requests(server, GD__ASK_READ), reads + 8);
    end();
}

static enum queue_fate send_one(void *user, const struct gd__queue_request *r)
{
    (void)user;
    ((struct gd__queue_request *)(uintptr_t)r)->most = 1;
    return QUEUE_ANSWERED;
}

TEST(a_server_may_send_fewer_messages_than_asked_for)
{
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    finish_one("c", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    finish_one("a", GD__QUEUE_DONE);
    begin_reading();
    queue_server_fate(server, send_one, NULL);
    CHECK_STR(all(), "a+ b+ c+");
    end();
}

/* --- damage --- */

TEST(damaged_messages_are_skipped_and_the_rest_is_read)
{
    const char *first = NULL;
    begin_server();
    push_one("a");
    queue_server_put(server, "gd.q.t.0.nonsense", "x", 1);
    push_one("b");
    queue_server_put(server, "gd.q.r.other", "y", 1);
    finish_one("a", GD__QUEUE_DONE);
    finish_one("unknown", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    begin_reading();
    CHECK_EQ(gd_queue_reader_skipped(reader, &first), 0);
    CHECK(first == NULL);
    CHECK_STR(all(), "a+ b+");
    CHECK_EQ(gd_queue_reader_skipped(reader, &first), 3);
    CHECK_CONTAINS(first, "message 2 of the stream gd_q_t");
    CHECK_STR(all(), "a+ b+");
    CHECK_EQ(gd_queue_reader_skipped(reader, &first), 3);
    end();
}

/* --- replicas that are behind --- */

TEST(tasks_that_a_replica_does_not_have_yet_are_counted)
{
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    queue_server_replicas_have(server, GD__QUEUE_TASK, 1);
    begin_reading();
    check_counts(3, 2, 0, 1, 0);
    CHECK(!figures().is_done);
    queue_server_replicas_have(server, GD__QUEUE_TASK, UINT64_MAX);
    CHECK_STR(all(), "a+ b+");
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 0);
    end();
}

TEST(records_that_a_replica_does_not_have_yet_are_read)
{
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("c", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    queue_server_replicas_have(server, GD__QUEUE_TASK, 2);
    queue_server_replicas_have(server, GD__QUEUE_RECORD, 1);
    begin_reading();
    CHECK(figures().is_done);
    CHECK_STR(all(), "a+ b+ c+");
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 0);
    end();
}

/* A push has begun after all tasks of the queue had ended. */
TEST(a_push_that_a_replica_does_not_know_yet_is_open)
{
    begin_server();
    push_one("a");
    finish_one("a", GD__QUEUE_DONE);
    open_push(true);
    queue_server_replicas_have(server, GD__QUEUE_STATE, 0);
    begin_reading();
    CHECK(figures().push_is_open && !figures().is_done);
    end();
}

/* Somebody has removed the last message by hand. */
static enum queue_fate last_is_gone(void *user, const struct gd__queue_request *r)
{
    (void)user;
    if (r->ask == GD__ASK_READ && r->stream == GD__QUEUE_TASK && r->from > 1)
        ((struct gd__queue_request *)(uintptr_t)r)->from = UINT64_MAX;
    return QUEUE_ANSWERED;
}

TEST(a_last_message_that_was_removed_is_not_waited_for)
{
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_DONE);
    queue_server_replicas_have(server, GD__QUEUE_TASK, 1);
    begin_reading();
    queue_server_fate(server, last_is_gone, NULL);
    check_counts(1, 1, 0, 0, 0);
    end();
}

static enum queue_fate forget_then_read(void *user, const struct gd__queue_request *r)
{
    unsigned *reads = user;
    /* The first read of records fills the index. */
    if (r->ask == GD__ASK_READ && r->stream == GD__QUEUE_RECORD && (*reads)++ >= 1)
        ((struct gd__queue_request *)(uintptr_t)r)->from += 1; /* as if the first message was gone */
    return QUEUE_ANSWERED;
}

TEST(a_message_that_is_gone_is_skipped)
{
    unsigned reads = 0;
    const char *first = NULL;
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    begin_reading();
    queue_server_fate(server, forget_then_read, &reads);
    CHECK_STR(all(), "b+");
    CHECK_EQ(gd_queue_reader_skipped(reader, &first), 1);
    CHECK_CONTAINS(first, "message 1 of the stream gd_q_r: the server does not have it any more");
    end();
}

/* At the second read of records, which is not for the index any more, the server has other messages. */
static enum queue_fate exchange_messages(void *user, const struct gd__queue_request *r)
{
    unsigned *reads = user;
    if (r->ask == GD__ASK_READ && r->stream == GD__QUEUE_RECORD && (*reads)++ == 1) {
        queue_server_forget(server, GD__QUEUE_RECORD, 0);
        finish_one("b", GD__QUEUE_DONE);
        finish_one("a", GD__QUEUE_DONE);
        finish_one("c", GD__QUEUE_FAILED);
    }
    return QUEUE_ANSWERED;
}

TEST(a_message_that_was_exchanged_is_skipped)
{
    unsigned reads = 0;
    begin_server();
    push_one("a");
    push_one("b");
    push_one("c");
    push_one("d");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    finish_one("c", GD__QUEUE_DONE);
    begin_reading();
    queue_server_fate(server, exchange_messages, &reads);
    CHECK_STR(all(), "");
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 3);
    end();
}

/* When the records are read for the first time, another task is pushed and ends. */
static enum queue_fate push_meanwhile(void *user, const struct gd__queue_request *r)
{
    unsigned *reads = user;
    if (r->ask == GD__ASK_READ && r->stream == GD__QUEUE_RECORD && (*reads)++ == 0) {
        push_one("late");
        finish_one("late", GD__QUEUE_DONE);
    }
    return QUEUE_ANSWERED;
}

TEST(a_task_that_comes_meanwhile_is_seen_at_the_next_call)
{
    unsigned reads = 0;
    begin_server();
    push_one("a");
    finish_one("a", GD__QUEUE_DONE);
    begin_reading();
    queue_server_fate(server, push_meanwhile, &reads);
    check_counts(1, 1, 0, 0, 0);
    check_counts(2, 2, 0, 0, 0);
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 0);
    end();
}

TEST(a_server_that_has_lost_messages_is_read_again)
{
    begin_server();
    queue_server_put(server, "gd.q.t.0.nonsense", "x", 1);
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_DONE);
    finish_one("b", GD__QUEUE_DONE);
    begin_reading();
    check_counts(2, 2, 0, 0, 0);
    queue_server_forget(server, GD__QUEUE_RECORD, 1);
    check_counts(2, 1, 0, 1, 0);
    queue_server_forget(server, GD__QUEUE_TASK, 2);
    check_counts(1, 1, 0, 0, 0);
    CHECK_STR(all(), "a+");
    CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 3); /* the same message, three times */
    end();
}

/* --- no memory --- */

/* Whatever call fails: nothing is lost or wrong afterwards. */
TEST_WITHIN(100, a_reader_without_memory)
{
    const struct pushed bundle[] = { { "a", .state = GD__QUEUE_DONE }, { "b", .state = GD__QUEUE_FAILED } };
    const struct gd__node_status status = { .state = GD__NODE_RUNNING, .host = "n1" };
    bool failed = true;
    begin_server();
    push(bundle, 2);
    push_one("c");
    finish(bundle, 2);
    show_node('a', &status);
    for (unsigned long nth = 1; failed; nth++) {
        struct gd_queue_figures f = { .size = sizeof f };
        struct seen s = { .text = "" };
        begin_reading();
        gd__fault_begin(nth);
        const int figures_rc = gd_queue_reader_figures(reader, &f);
        const int each_rc = gd_queue_reader_each(reader, see, &s);
        failed = gd__fault_count() >= nth;
        gd__fault_begin(0);
        CHECK(figures_rc == 0 || figures_rc == GD_E_NO_MEMORY);
        CHECK(each_rc == 0 || each_rc == GD_E_NO_MEMORY);
        check_counts(3, 1, 1, 1, 0);
        CHECK_STR(all(), "a+ b-");
        CHECK_EQ(gd_queue_reader_skipped(reader, NULL), 0);
        gd_queue_reader_close(&reader);
    }
    queue_server_free(server);
}

/* --- lost answers --- */

struct lossy {
    unsigned n;
};

static enum queue_fate lose_some(void *user, const struct gd__queue_request *r)
{
    struct lossy *l = user;
    (void)r;
    return l->n++ % 3 == 1 ? QUEUE_ANSWER_LOST : QUEUE_ANSWERED;
}

TEST(lost_answers_change_nothing)
{
    struct lossy l = { 0 };
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("b", GD__QUEUE_DONE);
    queue_server_fate(server, lose_some, &l);
    begin_reading();
    CHECK_STR(all(), "b+");
    check_counts(2, 1, 0, 1, 0);
    end();
}

/* --- files --- */

static struct gd__queue_data file_of(const char *name, const char *contents)
{
    struct gd__queue_data d = { .form = GD__QUEUE_FILE, .file = text(name), .file_size = strlen(contents) };
    gd__key_hash(contents, strlen(contents), d.file_hash);
    return d;
}

static void write_text(const char *path, const char *contents)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(contents, f) >= 0 && fclose(f) == 0);
}

TEST(files_are_checked)
{
    const struct gd__queue_data d = file_of("f", "contents");
    directory_enter();
    CHECK_EQ(gd__read_file_check(NULL, &d), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "spill directory");
    CHECK_EQ(gd__read_file_check("nowhere", &d), GD_E_SYSTEM);
    CHECK_EQ(gd__read_file_check(".", &d), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "f in the spill directory");
    write_text("f", "contents");
    CHECK_EQ(gd__read_file_check(".", &d), 0);
    write_text("f", "Contents");
    CHECK_EQ(gd__read_file_check(".", &d), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "its contents are not those");
    write_text("f", "content");
    CHECK_EQ(gd__read_file_check(".", &d), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "it has 7 bytes, but 8 were recorded");
    write_text("g", "contents");
    CHECK_EQ(unlink("f"), 0);
    CHECK_EQ(symlink("g", "f"), 0);
    CHECK_EQ(gd__read_file_check(".", &d), GD_E_SYSTEM);
    CHECK_EQ(unlink("f"), 0);
    CHECK_EQ(mkfifo("f", 0600), 0);
    CHECK_EQ(gd__read_file_check(".", &d), GD_E_CORRUPT);
}

static int check_file(void *user, const struct gd_queue_record *r)
{
    const char **error = user;
    CHECK(r->input == NULL && r->output == NULL);
    CHECK_CONTAINS(r->input_file, "in");
    CHECK_CONTAINS(r->output_file, "out");
    static char text[512];
    (void)snprintf(text, sizeof text, "%s", r->output_error ? r->output_error : "");
    *error = r->output_error ? text : NULL;
    return 0;
}

static const char *file_error(const char *spill_dir)
{
    const char *error = NULL;
    CHECK_EQ(open_reader(spill_dir), 0);
    CHECK_EQ(gd_queue_reader_each(reader, check_file, &error), 0);
    gd_queue_reader_close(&reader);
    return error;
}

TEST(payloads_and_outputs_in_files)
{
    const struct pushed p = { "a", .state = GD__QUEUE_DONE };
    const struct gd__queue_task t = { .key = key_of(&p), .payload = file_of("in", "input") };
    const struct gd__queue_data out = file_of("out", "output");
    struct gd__queue_writer w;
    directory_enter();
    begin_server();
    gd__queue_tasks_begin(&w, MOST);
    CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    publish(GD__QUEUE_TASK, 0, &w);
    begin_records(&w);
    add_record(&w, &p, 0, &out);
    publish(GD__QUEUE_RECORD, 0, &w);
    CHECK_CONTAINS(file_error(NULL), "the spill directory was not given");
    CHECK_CONTAINS(file_error("."), "cannot open it");
    write_text("out", "output");
    CHECK(file_error(".") == NULL);
    queue_server_free(server);
}

/* --- following --- */

/* While it follows, the function that waits does the next step of the others. */
struct story {
    struct seen seen;
    unsigned step;
};

static int next_step(void *user)
{
    struct story *s = user;
    const struct pushed again = { "a", .again = 1, .state = GD__QUEUE_DONE };
    switch (s->step++) {
    case 0:
        finish_one("b", GD__QUEUE_DONE);
        return 0;
    case 1:
        push_one("c");
        open_push(false);
        return 0;
    case 2:
        push(&again, 1);
        finish_one("c", GD__QUEUE_DONE);
        return 0;
    case 3:
        finish(&again, 1);
        return 0;
    default:
        FAIL("the queue is done, but it is followed");
        return 0;
    }
}

TEST(following_ends_when_the_queue_is_done)
{
    struct story s = { .step = 0 };
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_FAILED);
    open_push(true);
    begin_reading();
    gd_queue_reader_on_wait(reader, next_step, &s);
    CHECK_EQ(gd_queue_reader_follow(reader, see, &s.seen), 0);
    CHECK_STR(s.seen.text, "a- b+ c+ a+");
    CHECK_EQ(s.step, 4);
    s.seen = (struct seen){ 0 };
    CHECK_EQ(gd_queue_reader_follow(reader, see, &s.seen), 0);
    CHECK_STR(s.seen.text, "a+ b+ c+");
    end();
}

static int stop_waiting(void *user)
{
    (void)user;
    return 9;
}

TEST(following_can_be_stopped)
{
    struct seen s = { .stop_after = 1 };
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_DONE);
    begin_reading();
    CHECK_EQ(gd_queue_reader_follow(reader, see, &s), 7);
    gd_queue_reader_on_wait(reader, stop_waiting, NULL);
    s = (struct seen){ 0 };
    CHECK_EQ(gd_queue_reader_follow(reader, see, &s), 9);
    CHECK_STR(s.text, "a+");
    end();
}

static int lose_messages(void *user)
{
    (void)user;
    queue_server_forget(server, GD__QUEUE_RECORD, 0);
    return 0;
}

TEST(following_reports_that_messages_were_lost)
{
    struct seen s = { .text = "" };
    begin_server();
    push_one("a");
    push_one("b");
    finish_one("a", GD__QUEUE_DONE);
    begin_reading();
    gd_queue_reader_on_wait(reader, lose_messages, NULL);
    CHECK_EQ(gd_queue_reader_follow(reader, see, &s), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "has lost messages");
    end();
}

TEST_MAIN()
