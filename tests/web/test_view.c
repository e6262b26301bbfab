/* SPDX-License-Identifier: MIT
 *
 * The data that the server makes from snapshots. The parser of metrics here is as strict as that of Prometheus. Also
 * tests the history, which tasks are kept, and for which clients the server waits at the end of the run. */
#include "http.h"

#include <ctype.h>
#include <math.h>
#include <stdatomic.h>

#include "base/text/buffer.h"
#include "base/text/json.h"
#include "web/live/feed.h"
#include "web/live/history.h"
#include "web/live/last_snapshot.h"
#include "web/live/queue.h"
#include "web/live/view.h"

/* --- metrics --------------------------------------------------------------------- */

enum { MOST = 4000 };

struct parsed {
    char types[200][2][128]; /* name, type */
    size_t n_types;
    char helps[200][128];
    size_t n_helps;
    char *series[MOST];
    double values[MOST];
    size_t n;
};

static size_t name_length(const char *at)
{
    size_t n = isalpha((unsigned char)*at) || *at == '_' || *at == ':' ? 1 : 0;
    while (n > 0 && (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == ':'))
        n++;
    return n;
}

static const char *type_of(const struct parsed *p, const char *name, size_t length)
{
    for (size_t i = 0; i < p->n_types; i++) {
        if (strlen(p->types[i][0]) == length && memcmp(p->types[i][0], name, length) == 0)
            return p->types[i][1];
    }
    return NULL;
}

/* Checks labels such as {a="b",c="d"}, and returns their end. */
static const char *parse_labels(const char *at)
{
    CHECK_EQ(*at, '{');
    do {
        at++;
        size_t n = name_length(at);
        CHECK_GT(n, 0);
        CHECK(memchr(at, ':', n) == NULL);
        at += n;
        CHECK_EQ(strncmp(at, "=\"", 2), 0);
        for (at += 2; *at != '"'; at++) {
            CHECK(*at != '\n' && *at != '\0');
            if (*at == '\\') {
                at++;
                CHECK(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
    } while (*at == ',');
    CHECK_EQ(*at, '}');
    return at + 1;
}

static void parse_comment(struct parsed *p, const char *line)
{
    char kind[8], name[128], rest[256];
    CHECK_EQ(sscanf(line, "# %7s %127s %255[^\n]", kind, name, rest), 3);
    CHECK_EQ(name_length(name), strlen(name));
    if (strcmp(kind, "HELP") == 0) {
        for (size_t i = 0; i < p->n_helps; i++)
            CHECK(strcmp(p->helps[i], name) != 0);
        snprintf(p->helps[p->n_helps++], sizeof p->helps[0], "%s", name);
        return;
    }
    CHECK_STR(kind, "TYPE");
    CHECK(strcmp(rest, "counter") == 0 || strcmp(rest, "gauge") == 0);
    CHECK(type_of(p, name, strlen(name)) == NULL);
    CHECK_STR(p->helps[p->n_helps - 1], name); /* the HELP line comes just before */
    snprintf(p->types[p->n_types][0], sizeof p->types[0][0], "%s", name);
    snprintf(p->types[p->n_types++][1], sizeof p->types[0][0], "%.127s", rest);
}

static void parse_sample(struct parsed *p, const char *line)
{
    const size_t n = name_length(line);
    CHECK_GT(n, 0);
    const char *type = type_of(p, line, n);
    CHECK(type != NULL);
    /* a sample follows the TYPE line of its metric, without another metric in between */
    CHECK(strlen(p->types[p->n_types - 1][0]) == n && memcmp(p->types[p->n_types - 1][0], line, n) == 0);
    const bool total = n > 6 && memcmp(line + n - 6, "_total", 6) == 0;
    CHECK_EQ(total, strcmp(type, "counter") == 0);
    const char *at = line[n] == '{' ? parse_labels(line + n) : line + n;
    char *end;
    CHECK_EQ(*at, ' ');
    CHECK(!isspace((unsigned char)at[1]));
    p->values[p->n] = strtod(at + 1, &end);
    CHECK(end > at + 1 && *end == '\n');
    CHECK(!total || p->values[p->n] >= 0);
    p->series[p->n] = strndup(line, (size_t)(at - line));
    for (size_t i = 0; i < p->n; i++)
        CHECK(strcmp(p->series[i], p->series[p->n]) != 0);
    CHECK_LT(++p->n, MOST);
}

static void parse(struct parsed *p, const struct gd__buffer *b)
{
    CHECK(b->size > 0 && b->data[b->size - 1] == '\n');
    for (const char *at = b->data; at < b->data + b->size;) {
        const char *end = memchr(at, '\n', b->size - (size_t)(at - b->data));
        CHECK(end != NULL && end > at); /* no empty lines */
        if (*at == '#')
            parse_comment(p, at);
        else
            parse_sample(p, at);
        at = end + 1;
    }
}

static double value_of(const struct parsed *p, const char *series)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->series[i], series) == 0)
            return p->values[i];
    }
    FAIL("no %s", series);
}

static void parsed_free(struct parsed *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->series[i]);
    free(p);
}

static struct parsed *metrics_of(const struct gd_snapshot *s)
{
    struct parsed *p = calloc(1, sizeof *p);
    struct gd__buffer b = { 0 };
    web_metrics(&b, s);
    gd__buffer_add(&b, "", 1);
    b.size--;
    parse(p, &b);
    gd__buffer_free(&b);
    return p;
}

TEST(metrics_are_what_prometheus_reads)
{
    struct made_up *m = made_up_new(64);
    struct parsed *p = metrics_of(&m->s);
    CHECK_GT(p->n, 64 * 10);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks_total{state=\"completed\"}"), 100);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks_total{state=\"failed\"}"), 8);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks_total{state=\"timeout\"}"), 3);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks{state=\"pending\"}"), 7);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks{state=\"running\"}"), 2);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks_skipped_total"), 11);
    CHECK_EQ(value_of(p, "gpu_dispatch_tasks_total{state=\"cancelled\"}"), 4);
    CHECK_EQ(value_of(p, "gpu_dispatch_workers{state=\"busy\"}"), 32);
    CHECK_EQ(value_of(p, "gpu_dispatch_workers{state=\"lost\"}"), 0);
    CHECK_EQ(value_of(p, "gpu_dispatch_worker_busy{worker=\"2\",gpu=\"2\"}"), 1);
    CHECK(value_of(p, "gpu_dispatch_worker_busy_seconds_total{worker=\"3\",gpu=\"3\"}") == 1.5);
    CHECK(value_of(p, "gpu_dispatch_gpu_utilization_ratio{gpu=\"63\"}") == 0.4);
    CHECK(value_of(p, "gpu_dispatch_gpu_power_watts{gpu=\"0\"}") == 70.5);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_memory_used_bytes{gpu=\"0\"}"), 1 << 29);
    parsed_free(p);
    free(m);
}

TEST(work_if_it_is_known)
{
    struct made_up *m = made_up_new(1);
    struct view_history h = { 0 };
    struct parsed *p = metrics_of(&m->s);
    for (size_t i = 0; i < p->n; i++)
        CHECK(strstr(p->series[i], "work_") == NULL);
    parsed_free(p);
    m->s.work_done = 12.5;
    m->s.work_total = 100;
    p = metrics_of(&m->s);
    CHECK(value_of(p, "gpu_dispatch_work_done") == 12.5);
    CHECK(value_of(p, "gpu_dispatch_work_expected") == 100);
    parsed_free(p);
    struct gd__buffer b = { 0 };
    web_view_json(&b, &m->s, &h, 1);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"part\":0.125,\"work_done\":12.5,\"work_total\":100}");
    gd__buffer_free(&b);
    m->s.work_total = 0;
    web_view_json(&b, &m->s, &h, 1);
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"part\":0.122}");
    CHECK(strstr(b.data, "work_") == NULL);
    gd__buffer_free(&b);
    free(m);
}

/* Pages get this change even if nothing else has changed. */
TEST(more_work_is_a_change)
{
    struct made_up *m = made_up_new(1);
    struct web_last k = { 0 };
    struct gd_snapshot news;
    m->s.n_tasks = m->s.n_failures = 0;
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK(!web_last_differs(&k, &m->s));
    m->s.work_total = 5;
    CHECK(web_last_differs(&k, &m->s));
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK(!web_last_differs(&k, &m->s));
    m->s.work_done = 1;
    CHECK(web_last_differs(&k, &m->s));
    web_last_free(&k);
    free(m);
}

TEST(labels_are_escaped)
{
    struct made_up *m = made_up_new(1);
    struct gd__buffer b = { 0 };
    web_metrics(&b, &m->s);
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "name=\"GPU \\\"0\\\" \\\\ of\\nmany\"");
    gd__buffer_free(&b);
    free(m);
}

TEST(two_workers_of_a_gpu_are_summed)
{
    struct made_up *m = made_up_new(2);
    m->workers[1].gpu_id = 0;
    struct parsed *p = metrics_of(&m->s);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_tasks_total{gpu=\"0\",state=\"completed\"}"), 100);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_tasks_total{gpu=\"1\",state=\"completed\"}"), 0);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_busy_seconds_total{gpu=\"0\"}"), 3);
    parsed_free(p);
    free(m);
}

TEST(metrics_of_a_run_without_workers)
{
    const struct gd_stats none = { .size = sizeof none };
    struct gd_snapshot s = { .size = sizeof s, .stats = &none };
    struct parsed *p = metrics_of(&s);
    CHECK_EQ(value_of(p, "gpu_dispatch_run_seconds"), 0);
    parsed_free(p);
}

/* --- the queue -------------------------------------------------------------------------- */

static const struct gd_queue_node hostile_node = { .host = "n1\"},</script>\n",
                                                   .id = "0123",
                                                   .pid = 42,
                                                   .age_seconds = 2.5,
                                                   .workers = 8,
                                                   .busy = 7,
                                                   .done = 120,
                                                   .failed = 1,
                                                   .held = 9,
                                                   .tasks_per_second = 0.25,
                                                   .http = "http://n1:8080/" };

static struct parsed *queue_metrics_of(const struct web_queue *q)
{
    struct parsed *p = calloc(1, sizeof *p);
    struct gd__buffer b = { 0 };
    web_queue_metrics(&b, q);
    gd__buffer_add(&b, "", 1);
    b.size--;
    parse(p, &b);
    gd__buffer_free(&b);
    return p;
}

TEST(nodes_of_a_queue_are_escaped)
{
    struct web_queue q = { .connected = true, .tasks = 10, .records = 4, .unpublished = 2, .nodes_known = true };
    struct gd_queue_node lost = { .host = "n2", .id = "1", .age_seconds = 31, .note = "GPU 3 was lost" };
    struct gd__buffer b = { 0 };
    CHECK_EQ(web_queue_add(&q, &hostile_node), 0);
    CHECK_EQ(web_queue_add(&q, &lost), 0);
    web_queue_json(&b, &q);
    CHECK(gd__json_valid(b.data, b.size - 1));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data,
                   "{\"connected\":true,\"tasks\":10,\"records\":4,\"unpublished\":2,\"nodes\":[{\"host\":\"n1\\\"}");
    CHECK_CONTAINS(b.data,
                   "\"id\":\"0123\",\"pid\":42,\"state\":\"running\",\"age_seconds\":2.500,\"workers\":8,\"busy\":7,"
                   "\"tasks_per_second\":0.250,\"done\":120,\"failed\":1,\"held\":9,\"http\":\"http://n1:8080/\","
                   "\"note\":null},{\"host\":\"n2\"");
    CHECK_CONTAINS(b.data, "\"state\":\"lost\"");
    CHECK_CONTAINS(b.data, "\"http\":null,\"note\":\"GPU 3 was lost\"}]}\n");
    CHECK_EQ(strcspn(b.data, "\n"), b.size - 2);
    gd__buffer_free(&b);
    struct parsed *p = queue_metrics_of(&q);
    CHECK_EQ(p->n, 5);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_connected"), 1);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_nodes"), 1);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_task_messages"), 10);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_record_messages"), 4);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_unpublished_record_messages"), 2);
    parsed_free(p);
    web_queue_free(&q);
}

TEST(a_queue_of_which_nothing_is_known)
{
    struct web_queue q = { 0 };
    struct gd__buffer b = { 0 };
    web_queue_json(&b, &q);
    gd__buffer_add(&b, "", 1);
    CHECK_STR(b.data, "{\"connected\":false,\"tasks\":null,\"records\":null,\"unpublished\":0,\"nodes\":null}\n");
    gd__buffer_free(&b);
    struct parsed *p = queue_metrics_of(&q);
    CHECK_EQ(p->n, 2);
    CHECK_EQ(value_of(p, "gpu_dispatch_queue_connected"), 0);
    parsed_free(p);
    q.nodes_known = true;
    web_queue_json(&b, &q);
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"nodes\":[]}");
    gd__buffer_free(&b);
}

/* --- history --------------------------------------------------------------------------- */

TEST(history_is_bounded_and_loses_no_count)
{
    static struct web_history h;
    for (unsigned i = 1; i <= 100000; i++) {
        const struct web_sample s = { .seconds = i, .completed = 3 * i, .failed = i };
        web_history_add(&h, &s);
        CHECK_LE(h.n, WEB_HISTORY_ROOM);
    }
    CHECK_GE(h.n, WEB_HISTORY_ROOM / 2 - 1);
    CHECK_GT(h.samples[h.n - 1].seconds, 100000 - 2 * h.step);
    CHECK(h.samples[0].seconds == 0);
    for (size_t i = 1; i < h.n; i++) {
        const struct web_sample *a = &h.samples[i - 1], *b = &h.samples[i];
        CHECK(b->seconds > a->seconds);
        CHECK(b->seconds - a->seconds < 3 * h.step && b->seconds - a->seconds > h.step / 2); /* evenly */
        CHECK_EQ(b->completed, 3 * (uint64_t)b->seconds);
    }
    struct gd__buffer b = { 0 };
    web_history_json(&h, &b);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_free(&b);
}

TEST(samples_that_come_too_soon_are_left_out)
{
    static struct web_history h;
    for (unsigned i = 1; i <= 100; i++)
        web_history_add(&h, &(struct web_sample){ .seconds = i / 10.0 });
    CHECK_GE(h.n, 10);
    CHECK_LE(h.n, 12);
}

/* --- what is kept ----------------------------------------------------------------------- */

TEST(the_last_tasks_are_kept_and_the_rest_counted)
{
    static struct web_last k;
    struct made_up *m = made_up_new(1);
    struct gd_snapshot news;
    uint64_t next = 0, shown = 0;
    for (int round = 0; round < 100; round++) {
        m->s.tasks = m->tasks;
        m->s.n_tasks = 100;
        for (size_t i = 0; i < 100; i++)
            m->tasks[i] = (struct gd_task_view){ .task_id = next++ };
        CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
        CHECK_EQ(news.n_tasks, 100);
        CHECK_EQ(gd_snapshot_task(&news, 0)->task_id, next - 100);
        shown += news.n_tasks;
    }
    CHECK_EQ(shown, 10000);
    CHECK_EQ(k.s.n_tasks, WEB_LAST_TASKS);
    CHECK_EQ(gd_snapshot_task(&k.s, WEB_LAST_TASKS - 1)->task_id, 9999);
    CHECK_EQ(gd_snapshot_task(&k.s, 0)->task_id, 10000 - WEB_LAST_TASKS);
    CHECK_EQ(k.s.tasks_missed, 10000 - WEB_LAST_TASKS);
    web_last_free(&k);
    free(m);
}

TEST(too_many_tasks_at_once_keep_the_failed_and_some)
{
    static struct web_last k;
    struct made_up *m = made_up_new(1);
    struct gd_snapshot news;
    size_t failed = 0;
    m->s.tasks = m->tasks;
    m->s.n_tasks = 1000;
    m->s.tasks_missed = 5;
    for (size_t i = 0; i < 1000; i++)
        m->tasks[i] = (struct gd_task_view){ .task_id = i, .failure = i % 20 == 7 ? GD_FAILURE_ERROR : 0 };
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_LE(news.n_tasks, WEB_TASKS_AT_ONCE);
    for (size_t i = 0; i < news.n_tasks; i++)
        failed += gd_snapshot_task(&news, i)->failure != 0;
    CHECK_EQ(failed, 50);
    CHECK_GT(gd_snapshot_task(&news, news.n_tasks - 1)->task_id, 980); /* evenly, to the end */
    CHECK_EQ(news.tasks_missed, 1005 - news.n_tasks);
    web_last_free(&k);
    free(m);
}

TEST(the_last_failures_are_kept)
{
    static struct web_last k;
    struct made_up *m = made_up_new(1);
    struct gd_snapshot news;
    for (uint64_t i = 0; i < 250; i++)
        made_up_fail(m, i, "in", "words");
    m->s.failures = m->failures;
    m->s.tasks = m->tasks;
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_EQ(k.s.n_failures, WEB_LAST_FAILURES);
    CHECK_EQ(gd_snapshot_failure(&k.s, WEB_LAST_FAILURES - 1)->task_id, 249);
    CHECK_EQ(k.s.failures_missed, 250 - WEB_LAST_FAILURES);
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_EQ(k.s.failures_missed, 500 - WEB_LAST_FAILURES);
    web_last_free(&k);
    free(m);
}

/* The end of a run may cancel thousands of tasks. They must not replace the failures. */
TEST(cancelled_tasks_are_not_failures)
{
    static struct web_last k;
    struct made_up *m = made_up_new(1);
    struct gd_snapshot news;
    for (uint64_t i = 0; i < 250; i++)
        made_up_fail(m, i, "in", "words");
    for (uint64_t i = 0; i < 250; i++)
        m->failures[i].failure = i == 3 || i == 5 ? GD_FAILURE_ERROR : GD_FAILURE_CANCELLED;
    m->s.failures = m->failures;
    m->s.tasks = m->tasks;
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_EQ(k.s.n_failures, 2);
    CHECK_EQ(news.n_failures, 2);
    CHECK_EQ(gd_snapshot_failure(&news, 0)->task_id, 3);
    CHECK_EQ(gd_snapshot_failure(&k.s, 1)->task_id, 5);
    CHECK_EQ(k.s.failures_missed, 0);
    web_last_free(&k);
    free(m);
}

TEST(the_last_requests_are_kept)
{
    static struct web_last k;
    static struct gd_request_view requests[50];
    struct made_up *m = made_up_new(1);
    struct gd_snapshot news;
    struct view_history h = { 0 };
    struct gd__buffer b = { 0 };
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK(!web_last_differs(&k, &m->s));
    for (uint64_t i = 0; i < 50; i++)
        requests[i] = (struct gd_request_view){ .at_ns = 1000000000 + i * 500000000,
                                                .code = i % 2 ? -2 : 0,
                                                .what = "to \"do\"" };
    m->s.requests = requests;
    m->s.n_requests = 50;
    m->s.requests_missed = 1;
    CHECK(web_last_differs(&k, &m->s));
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_EQ(web_last_add(&k, &m->s, &news), 0);
    CHECK_EQ(news.n_requests, 50);
    CHECK_EQ(news.requests_missed, 1);
    CHECK_EQ(k.s.n_requests, WEB_LAST_REQUESTS);
    CHECK_EQ(k.s.requests_missed, 2 + 100 - WEB_LAST_REQUESTS);
    news.n_requests = 2;
    web_view_json(&b, &news, &h, 1);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"requests\":[{\"at\":0.0000,\"ok\":true,\"message\":\"to \\\"do\\\"\"},"
                           "{\"at\":0.5000,\"ok\":false,\"message\":\"to \\\"do\\\"\"}],\"requests_missed\":1");
    gd__buffer_free(&b);
    web_last_free(&k);
    free(m);
}

TEST(the_state_of_a_run)
{
    struct made_up *m = made_up_new(1);
    struct view_history h = { 0 };
    static const char *const states[] = { "running", "paused", "draining", "draining", "ended" };
    for (unsigned i = 0; i < 5; i++) {
        struct gd__buffer b = { 0 };
        char expected[64];
        m->stats.paused = i & 1;
        m->stats.draining = i >> 1 & 1;
        m->stats.task_timeout_ms = 1500 * i;
        m->s.ended = i == 4;
        web_view_json(&b, &m->s, &h, 1);
        CHECK(gd__json_valid(b.data, b.size));
        gd__buffer_add(&b, "", 1);
        snprintf(expected, sizeof expected, "\"state\":\"%s\",", states[i]);
        CHECK_CONTAINS(b.data, expected);
        snprintf(expected, sizeof expected, "\"paused\":%u,\"draining\":%u,\"task_timeout_ms\":%u}", i & 1, i >> 1 & 1,
                 1500 * i);
        CHECK_CONTAINS(b.data, expected);
        gd__buffer_free(&b);
        struct parsed *p = metrics_of(&m->s);
        CHECK_EQ(value_of(p, "gpu_dispatch_run_paused"), i & 1);
        CHECK_EQ(value_of(p, "gpu_dispatch_run_draining"), i >> 1 & 1);
        CHECK(value_of(p, "gpu_dispatch_task_timeout_seconds") == 1.5 * i);
        parsed_free(p);
    }
    free(m);
}

/* Three devices: a group of two, with four tasks in flight, and one alone. */
TEST(workers_with_a_group_of_devices)
{
    struct made_up *m = made_up_new(3);
    struct view_history h = { 0 };
    struct gd__buffer b = { 0 };
    m->devices[1].group = 0;
    m->workers[1] = m->workers[2];
    m->s.n_workers = 2;
    m->workers[0].in_flight = 4;
    web_view_json(&b, &m->s, &h, 1);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "{\"worker_id\":0,\"gpu_id\":0,\"state\":\"busy\",\"gpus\":[0,1],");
    CHECK_CONTAINS(b.data, "{\"worker_id\":2,\"gpu_id\":2,\"state\":\"busy\",\"gpus\":[2],");
    CHECK_CONTAINS(b.data, "\"in_flight\":4,");
    CHECK_CONTAINS(b.data, "{\"gpu_id\":1,\"group\":0,");
    gd__buffer_free(&b);
    struct parsed *p = metrics_of(&m->s);
    CHECK_EQ(value_of(p, "gpu_dispatch_worker_tasks_in_flight{worker=\"0\",gpu=\"0+1\"}"), 4);
    CHECK_EQ(value_of(p, "gpu_dispatch_worker_busy{worker=\"2\",gpu=\"2\"}"), 1);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_tasks_total{gpu=\"0\",state=\"completed\"}"), 50);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_tasks_total{gpu=\"1\",state=\"completed\"}"), 50);
    CHECK_EQ(value_of(p, "gpu_dispatch_gpu_tasks_total{gpu=\"2\",state=\"completed\"}"), 50);
    parsed_free(p);
    free(m);
}

TEST(time_alone_is_not_a_change)
{
    static struct web_last k;
    struct made_up *m = made_up_new(2);
    struct gd_snapshot news, s = m->s;
    CHECK_EQ(web_last_add(&k, &s, &news), 0);
    s.read_ns += 5;
    m->stats.now_ns += 5;
    CHECK(!web_last_differs(&k, &s));
    m->stats.completed++;
    CHECK(web_last_differs(&k, &s));
    m->stats.completed--;
    m->workers[1].idle = GD_IDLE_LOADING;
    CHECK(web_last_differs(&k, &s));
    web_last_free(&k);
    free(m);
}

/* --- the end --------------------------------------------------------------------------------- */

/* A client that waits for events and is not served until another thread removes it. */
struct unserved {
    struct made_up *run;
    struct web_feed *feed;
    struct web_watcher *watcher;
    atomic_bool full, left;
    atomic_uint asked;
};

static void do_nothing(void *arg)
{
    (void)arg;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static bool is_full(void *arg)
{
    struct unserved *u = arg;
    u->asked++;
    return u->full;
}

static void unserved_begin(struct unserved *u)
{
    static const struct web_watch_ops ops = { do_nothing, do_nothing, never, is_full };
    u->run = made_up_new(1);
    CHECK_EQ(web_feed_open(&u->feed, made_up_read, u->run), 0);
    u->watcher = web_feed_watch(u->feed, &ops, u);
    CHECK(u->watcher != NULL);
}

static void unserved_leave(struct unserved *u)
{
    u->left = true;
    web_watcher_leave(u->watcher);
}

static void unserved_end(struct unserved *u)
{
    web_feed_close(&u->feed);
    free(u->run);
}

enum { AN_HOUR_MS = 3600000 };

TEST(the_end_stops_waiting_for_a_client_that_does_not_read)
{
    struct unserved u = { .full = true };
    unserved_begin(&u);
    web_feed_finish(u.feed, 1, AN_HOUR_MS);
    CHECK_EQ(u.asked, 1);
    unserved_leave(&u);
    unserved_end(&u);
}

static void *leave_when_asked_again(void *arg)
{
    struct unserved *u = arg;
    while (u->asked < 3)
        sched_yield();
    unserved_leave(u);
    return NULL;
}

TEST(the_end_waits_for_a_client_that_is_being_served)
{
    struct unserved u = { .full = false };
    pthread_t thread;
    unserved_begin(&u);
    CHECK_EQ(pthread_create(&thread, NULL, leave_when_asked_again, &u), 0);
    web_feed_finish(u.feed, 1, AN_HOUR_MS);
    CHECK(u.left);
    pthread_join(thread, NULL);
    unserved_end(&u);
}

TEST(the_end_waits_for_no_client_for_ever)
{
    struct unserved u = { .full = false };
    unserved_begin(&u);
    web_feed_finish(u.feed, 1, 5);
    CHECK(!u.left);
    unserved_leave(&u);
    unserved_end(&u);
}

TEST_MAIN()
