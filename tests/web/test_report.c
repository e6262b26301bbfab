/* SPDX-License-Identifier: MIT
 *
 * Reports of made-up journals: what is counted, what is left out, and how much memory it takes. No text of a record may
 * escape from the data part of the page. */
#include "support/directory.h"

#include <math.h>
#include <sys/resource.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "web/report/reduce.h"

/* A journal whose records are made by a function of their number. */
struct made {
    uint64_t n;
    void (*make)(uint64_t i, struct gd_journal_record *r);
    int rc; /* the error of a journal that fails */
};

static int each(void *user, const struct gd_journal_query *q, int (*fn)(void *arg, const struct gd_journal_record *r),
                void *arg)
{
    const struct made *m = user;
    for (uint64_t i = 0; i < m->n && (q->limit == 0 || i < q->limit); i++) {
        struct gd_journal_record r = { .id = i + 1,
                                       .number = i,
                                       .run = 1,
                                       .done = true,
                                       .attempts = 1,
                                       .started = 1e9,
                                       .seconds = 1,
                                       .input = "in",
                                       .input_size = 2 };
        m->make(i, &r);
        int rc = fn(arg, &r);
        if (rc)
            return rc;
    }
    return m->rc;
}

static int summary(void *user, struct gd_journal_summary *out)
{
    (void)user;
    out->runs = 1;
    out->command = "infer.py \xe2\x80\xa9";
    out->end = "finished";
    return 0;
}

static void reduce(struct web_reduced *d, struct made *m)
{
    const struct web_records r = { .user = m, .each = each, .summary = summary };
    if (web_reduce(d, &r) < 0)
        FAIL("%s", gd__fail_text());
}

/* The page, and its data as JSON text. */
static char *write_report(struct made *m, char **json)
{
    const struct web_records r = { .user = m, .each = each, .summary = summary };
    directory_enter();
    if (web_report_write(&r, "run.db", "report.html", true) < 0)
        FAIL("%s", gd__fail_text());
    CHECK_EQ(access("report.html.part", F_OK), -1);
    FILE *f = fopen("report.html", "r");
    CHECK(f != NULL);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(f);
    char *page = calloc(1, size + 1);
    rewind(f);
    CHECK_EQ(fread(page, 1, size, f), size);
    fclose(f);
    char *start = strstr(page, "<script type=\"application/json\" id=\"data\">");
    CHECK(start != NULL);
    start = strchr(start, '>') + 1;
    char *end = strstr(start, "</script>");
    CHECK(end != NULL);
    *json = strndup(start, (size_t)(end - start));
    return page;
}

/* --- counting ------------------------------------------------------------------------- */

/* A task per second on each of four workers, two per GPU. */
static void steady(uint64_t i, struct gd_journal_record *r)
{
    r->worker_id = (int)(i % 4);
    r->gpu_id = r->worker_id / 2;
    r->started = 1e9 + floor((double)i / 4);
}

TEST(use_is_the_time_that_workers_were_busy)
{
    struct web_reduced d;
    struct made m = { .n = 4000, .make = steady };
    reduce(&d, &m);
    CHECK_EQ(d.n_gpus, 2);
    CHECK_EQ(d.n_lanes, 4);
    CHECK(fabs(d.seconds - 1000) < 1e-6);
    CHECK(fabs(d.busy_seconds - 4000) < 1e-6);
    for (size_t g = 0; g < 2; g++) {
        CHECK_EQ(d.gpus[g].workers, 2);
        CHECK_EQ(d.gpus[g].done, 2000);
        double sum = 0;
        for (size_t i = 0; i < WEB_REPORT_STEPS; i++) {
            CHECK(fabs(d.gpus[g].busy[i] - 2 * d.step) < 1e-6);
            sum += d.gpus[g].busy[i];
        }
        CHECK(fabs(sum - 2000) < 1e-3);
    }
    uint64_t ends = 0;
    for (size_t i = 0; i < WEB_REPORT_STEPS; i++)
        ends += d.ended_done[i] + d.ended_failed[i];
    CHECK_EQ(ends, 4000);
    web_reduced_free(&d);
}

static void long_one(uint64_t i, struct gd_journal_record *r)
{
    r->seconds = i == 0 ? 400 : 0.5;
    r->started = i == 0 ? 1e9 : 1e9 + (double)i - 1;
    r->worker_id = i != 0;
    r->gpu_id = i != 0;
}

TEST(a_long_task_fills_every_step)
{
    struct web_reduced d;
    struct made m = { .n = 2, .make = long_one };
    reduce(&d, &m);
    for (size_t i = 0; i < WEB_REPORT_STEPS; i++)
        CHECK(fabs(d.gpus[0].busy[i] - 1) < 1e-6);
    CHECK(fabs(d.gpus[1].busy[0] - 0.5) < 1e-6);
    web_reduced_free(&d);
}

/* A second run, a day later. */
static void resumed(uint64_t i, struct gd_journal_record *r)
{
    r->run = i < 10 ? 1 : 3;
    r->started = 1e9 + (double)(i % 10) + (i < 10 ? 0 : 86400);
    r->worker_id = r->gpu_id = 0;
}

TEST(runs_follow_each_other_without_the_time_between)
{
    struct web_reduced d;
    struct made m = { .n = 20, .make = resumed };
    reduce(&d, &m);
    CHECK(fabs(d.seconds - 20) < 1e-6);
    CHECK(fabs(d.runs[2].offset - 10) < 1e-6);
    CHECK(fabs(d.gpus[0].busy[300] - d.step) < 1e-6);
    web_reduced_free(&d);
}

/* Invalid times, one kind after the other. */
static void endless(uint64_t i, struct gd_journal_record *r)
{
    static const double figures[] = { INFINITY, -INFINITY, NAN, 1e308, -1e308, 0, 5 };
    enum { N = sizeof figures / sizeof *figures };
    r->started = figures[i % N];
    r->seconds = figures[i / N % N];
    r->run = i / N / N;
    r->worker_id = r->gpu_id = (int)(i % 3);
}

TEST(times_that_never_end)
{
    struct web_reduced d;
    struct made m = { .n = 3 * 49, .make = endless };
    char *json;
    reduce(&d, &m);
    CHECK(isfinite(d.seconds) && isfinite(d.step) && isfinite(d.busy_seconds));
    web_reduced_free(&d);
    char *page = write_report(&m, &json);
    CHECK(gd__json_valid(json, strlen(json)));
    free(json);
    free(page);
}

static void failing(uint64_t i, struct gd_journal_record *r)
{
    static const char *const classes[] = { "error", "timeout", "crash" };
    r->worker_id = r->gpu_id = 0;
    r->started = 1e9 + (double)i;
    r->done = i % 2;
    r->failure = r->done ? NULL : classes[i / 2 % 3];
    r->error = r->done ? NULL : "words";
}

TEST(failures_by_class)
{
    struct web_reduced d;
    struct made m = { .n = 600, .make = failing };
    reduce(&d, &m);
    CHECK_EQ(d.failed, 300);
    CHECK_EQ(d.n_classes, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(d.classes[i].count, 100);
        CHECK_EQ(d.classes[i].shown, WEB_SHOWN_FAILURES);
    }
    web_reduced_free(&d);
}

static void many_classes(uint64_t i, struct gd_journal_record *r)
{
    static char name[32];
    failing(2 * i, r);
    snprintf(name, sizeof name, "class %llu", (unsigned long long)i % 100);
    r->failure = name;
}

TEST(too_many_classes_are_others)
{
    struct web_reduced d;
    struct made m = { .n = 1000, .make = many_classes };
    reduce(&d, &m);
    CHECK_EQ(d.n_classes, WEB_MOST_CLASSES);
    CHECK_STR(d.classes[WEB_MOST_CLASSES - 1].name, "other");
    CHECK_EQ(d.classes[WEB_MOST_CLASSES - 1].count, 10 * (100 - WEB_MOST_CLASSES + 1));
    web_reduced_free(&d);
}

static void never_ran(uint64_t i, struct gd_journal_record *r)
{
    (void)i;
    r->done = false;
    r->failure = "error";
    r->started = 0;
    r->worker_id = r->gpu_id = -1;
}

TEST(records_that_never_ran)
{
    struct web_reduced d;
    struct made m = { .n = 3, .make = never_ran };
    reduce(&d, &m);
    CHECK_EQ(d.failed, 3);
    CHECK_EQ(d.n_lanes, 0);
    web_reduced_free(&d);
}

/* --- bounds ----------------------------------------------------------------------------- */

/* Every hundredth millisecond has long tasks, the others have short ones. So each step has some long tasks. */
static void bursts(uint64_t i, struct gd_journal_record *r)
{
    r->worker_id = (int)(i % 64);
    r->gpu_id = r->worker_id;
    r->started = 1e9 + floor((double)i / 64) * 1e-3;
    r->seconds = i % 6400 < 64 ? 9e-4 : 1e-4;
    r->done = i % 1000 != 0;
    r->failure = r->done ? NULL : "error";
}

TEST(the_longest_of_each_step_are_drawn)
{
    struct web_reduced d;
    struct made m = { .n = 640000, .make = bursts };
    uint64_t drawn = 0, longest = 0;
    reduce(&d, &m);
    for (size_t i = 0; i < d.n_drawn; i++) {
        for (size_t k = 0; k < WEB_REPORT_STEPS * d.bars_per_step; k++) {
            drawn += d.lanes[i].bars[k].seconds >= 0;
            longest += d.lanes[i].bars[k].seconds > 5e-4;
        }
    }
    CHECK_EQ(drawn + d.bars_left_out, 640000);
    CHECK_LE(drawn, 64 * WEB_REPORT_STEPS);
    CHECK_EQ(longest, 6400);
    web_reduced_free(&d);
}

static void crowd(uint64_t i, struct gd_journal_record *r)
{
    r->worker_id = (int)(i % 6000);
    r->gpu_id = r->worker_id / 4;
}

TEST(more_workers_than_are_shown_separately)
{
    struct web_reduced d;
    struct made m = { .n = 12000, .make = crowd };
    reduce(&d, &m);
    CHECK_EQ(d.n_lanes, WEB_MOST_LANES);
    CHECK_EQ(d.n_drawn, WEB_DRAWN_LANES);
    CHECK_EQ(d.done, 12000);
    web_reduced_free(&d);
}

TEST_WITHIN(300, ten_million_records_need_no_more_memory_than_a_thousand)
{
    struct made m = { .n = TEST_SLOWDOWN > 1 ? 1000000 : 10000000, .make = bursts };
    struct rusage use;
    char *json;
    char *page = write_report(&m, &json);
    CHECK(gd__json_valid(json, strlen(json)));
    CHECK_LT(strlen(page), 8 << 20);
    getrusage(RUSAGE_SELF, &use);
    if (TEST_SLOWDOWN == 1)
        CHECK_LT(use.ru_maxrss, 100 << 10);
    char counts[64];
    snprintf(counts, sizeof counts, "\"done\":%llu,\"failed\":%llu", (unsigned long long)(m.n - m.n / 1000),
             (unsigned long long)m.n / 1000);
    CHECK_CONTAINS(json, counts);
    free(page);
    free(json);
}

/* --- the page -------------------------------------------------------------------------------- */

static void hostile(uint64_t i, struct gd_journal_record *r)
{
    static char long_text[100000];
    memset(long_text, 'x', sizeof long_text - 1);
    for (size_t k = 0; k < 4; k++) /* across the cut */
        long_text[298 + k] = "\xf0\x9f\x98\x80"[k];
    r->worker_id = r->gpu_id = 0;
    r->done = false;
    r->failure = i == 1 ? "</script><b>" : "error";
    r->error = "</script><script>alert(1)</script>\xe2\x80\xa8 <!--<script> \xff\xe2\x80";
    r->stderr_end = "a\0b";
    r->stderr_size = 3;
    r->input = i ? long_text : "<img src=x onerror=alert(1)>&amp;";
    r->input_size = strlen(r->input);
}

TEST(no_text_escapes_from_the_data)
{
    struct made m = { .n = 3, .make = hostile };
    char *json;
    char *page = write_report(&m, &json);
    CHECK(gd__json_valid(json, strlen(json)));
    CHECK(strpbrk(json, "<>&") == NULL);
    CHECK(strstr(json, "\xe2\x80\xa8") == NULL && strstr(json, "\xe2\x80\xa9") == NULL);
    CHECK_CONTAINS(json, "\\u003c/script\\u003e\\u003cscript\\u003ealert(1)");
    CHECK_CONTAINS(json, "\\u2028");
    CHECK_CONTAINS(json, "\"command\":\"infer.py \\u2029\"");
    CHECK_CONTAINS(json, "\"stderr\":\"a\\u0000b\"");
    CHECK_CONTAINS(json, "xx ...\"");
    CHECK(strstr(json, "\\udcf0") == NULL); /* cut between two characters */
    CHECK_CONTAINS(json, "\\udcff");
    /* there are only two script elements */
    CHECK(strstr(strstr(strstr(page, "<script") + 1, "<script") + 1, "<script") == NULL);
    CHECK(strstr(page, "http://") == NULL ||
          strstr(strstr(page, "http://") + 1, "http://") == NULL); /* only that of SVG */
    CHECK(strstr(page, "https://") == NULL);
    free(page);
    free(json);
}

TEST(an_empty_journal)
{
    struct made m = { .n = 0, .make = steady };
    char *json;
    char *page = write_report(&m, &json);
    CHECK(gd__json_valid(json, strlen(json)));
    free(page);
    free(json);
}

TEST(a_failed_write_leaves_nothing)
{
    struct made m = { .n = 1, .make = steady };
    const struct web_records r = { .user = &m, .each = each, .summary = summary };
    directory_enter();
    CHECK_EQ(web_report_write(&r, "run.db", "no/such/folder/report.html", true), -1);
    CHECK_CONTAINS(gd__fail_text(),
                   "cannot write no/such/folder/report.html: the directory no/such/folder does not exist");
    make_directories("taken");
    CHECK_EQ(web_report_write(&r, "run.db", "taken", true), -1);
    CHECK_EQ(access("taken.part", F_OK), -1);
}

TEST(a_journal_that_cannot_be_read)
{
    struct made m = { .n = 1, .make = steady, .rc = GD_E_CORRUPT };
    const struct web_records r = { .user = &m, .each = each, .summary = summary };
    directory_enter();
    CHECK_EQ(web_report_write(&r, "run.db", "report.html", true), -1);
    CHECK_EQ(access("report.html", F_OK), -1);
}

TEST_MAIN()
