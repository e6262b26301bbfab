/* SPDX-License-Identifier: MIT
 *
 * Records of a queue for a report: read back as records of a journal, with workers that are found from times.
 */
#include "cli/commands/queue/report/report_rows.h"
#include "support/test.h"

static struct report_rows rows;

static void add(uint64_t number, const char *host, const char *gpu, double started, double seconds)
{
    const struct gd_queue_record r = { .number = number,
                                       .input = "in\0put",
                                       .input_size = 6,
                                       .done = true,
                                       .attempts = 2,
                                       .host = host,
                                       .gpu = gpu,
                                       .started = started,
                                       .seconds = seconds };
    CHECK_EQ(report_rows_add(&rows, &r), 0);
}

struct seen {
    char text[1024];
};

static int see(void *user, const struct gd_journal_record *r)
{
    struct seen *s = user;
    const size_t size = strlen(s->text);
    (void)snprintf(s->text + size, sizeof s->text - size, "%s%d:run%d,gpu%d,worker%d", size ? " " : "", (int)r->number,
                   (int)r->run, r->gpu_id, r->worker_id);
    return 0;
}

static const char *all(struct gd_journal_query q)
{
    static struct seen s;
    s = (struct seen){ "" };
    CHECK_EQ(report_rows_each(&rows, &q, see, &s), 0);
    return s.text;
}

TEST(workers_are_found_from_times)
{
    CHECK_EQ(report_rows_open(&rows), 0);
    add(0, "b", "0", 20, 5); /* after 1 */
    add(1, "b", "0", 10, 5);
    add(2, "b", "0", 12, 5); /* while 1 runs */
    add(3, "b", "1+2", 12, 5);
    add(4, "a", "0", 12, 5);
    add(5, "b", "0", 17, 1); /* when 2 ends: the first worker is free */
    add(7, "a", "0", 17, 5); /* when 4 ends, on the same worker */
    add(6, "b", "", 0, 0);   /* never ran */
    CHECK_EQ(report_rows_complete(&rows), 0);
    const char *text = "0:run1,gpu0,worker0 1:run1,gpu0,worker0 2:run1,gpu0,worker1 3:run1,gpu1,worker0 "
                       "4:run2,gpu0,worker0 5:run1,gpu0,worker0 7:run2,gpu0,worker0 6:run1,gpu-1,worker-1";
    CHECK_STR(all((struct gd_journal_query){ 0 }), text);
    CHECK_STR(all((struct gd_journal_query){ 0 }), text); /* once more */
    CHECK_EQ(rows.n_hosts, 2);
    CHECK_STR(rows.hosts[0].name, "b");
    CHECK_EQ(rows.hosts[0].done, 6);
    CHECK(rows.first == 10 && rows.last == 25);
    report_rows_free(&rows);
}

TEST(the_slowest_come_first)
{
    const struct gd_journal_query two = { .order = GD_JOURNAL_SLOWEST, .limit = 2 };
    const struct gd_journal_query many = { .order = GD_JOURNAL_SLOWEST, .limit = 50 };
    CHECK_EQ(report_rows_open(&rows), 0);
    CHECK_STR(all(two), "");
    add(0, "a", "0", 10, 1);
    add(1, "a", "0", 20, 3);
    add(2, "a", "0", 30, 2);
    add(3, "a", "0", 40, 3);
    CHECK_EQ(report_rows_complete(&rows), 0);
    CHECK_STR(all(two), "1:run1,gpu0,worker0 3:run1,gpu0,worker0");
    CHECK_STR(all(many), "1:run1,gpu0,worker0 3:run1,gpu0,worker0 2:run1,gpu0,worker0 0:run1,gpu0,worker0");
    report_rows_free(&rows);
}

static int check_texts(void *user, const struct gd_journal_record *r)
{
    unsigned *n = user;
    if ((*n)++ == 0)
        return 0;
    if (*n == 2) {
        CHECK(r->done && !r->failure && !r->error && !r->stderr_end);
        CHECK_EQ(r->input_size, 6);
        CHECK_MEM(r->input, "in\0put", 6);
        CHECK_EQ(r->attempts, 2);
        return 0;
    }
    CHECK(!r->done);
    CHECK_STR(r->failure, "timeout");
    CHECK_STR(r->error, "too slow");
    CHECK_STR(r->stderr_end, "last words");
    CHECK_EQ(r->stderr_size, 10);
    CHECK_EQ(r->exit_code, -1);
    CHECK_EQ(r->signal, 15);
    CHECK_EQ(r->input_full_size, 5000);
    CHECK_EQ(r->input_size, 1024);
    return 3;
}

TEST(texts_and_figures_are_kept)
{
    static char input[5000];
    unsigned n = 0;
    const struct gd_queue_record failed = { .input = input,
                                            .input_size = sizeof input,
                                            .host = "a",
                                            .gpu = "0",
                                            .failure = "timeout",
                                            .error = "too slow",
                                            .stderr_end = "last words",
                                            .exit_code = -1,
                                            .signal = 15 };
    struct gd_queue_record longer = failed; /* its texts are overwritten by those of the others */
    longer.failure = longer.error = longer.stderr_end = "a text that is longer than those of the records after it";
    CHECK_EQ(report_rows_open(&rows), 0);
    CHECK_EQ(report_rows_add(&rows, &longer), 0);
    add(0, "a", "0", 10, 1);
    CHECK_EQ(report_rows_add(&rows, &failed), 0);
    CHECK_EQ(report_rows_complete(&rows), 0);
    CHECK_EQ(report_rows_each(&rows, &(struct gd_journal_query){ 0 }, check_texts, &n), 3);
    CHECK_EQ(rows.hosts[0].failed, 2);
    report_rows_free(&rows);
}

TEST_MAIN()
