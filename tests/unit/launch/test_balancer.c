/* The balancer: counts, figures, stored errors, progress, and the exact text of the summary. */
#include <gpu_dispatch/launch.h>

#include "base/fault.h"
#include "support/test.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define CHECK_NEAR(a, b)                                         \
    do {                                                         \
        const double near_a = (a), near_b = (b);                 \
        if (!(near_a - near_b < 1e-9 && near_b - near_a < 1e-9)) \
            FAIL("%s is %.12g, not %.12g", #a, near_a, near_b);  \
    } while (0)

static struct gd_balancer *b;
static uint64_t next_id;

static void open_for(size_t n_gpus, uint64_t total)
{
    static const int ids[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    CHECK_EQ(gd_balancer_open(&b, ids, n_gpus, 1, total), 0);
}

static struct gd_report report(int gpu, uint64_t start_ns, uint64_t end_ns)
{
    return (
        struct gd_report){ .task_id = next_id++, .gpu_id = gpu, .attempt = 1, .start_ns = start_ns, .end_ns = end_ns };
}

static void done(int gpu, uint64_t start_ns, uint64_t end_ns)
{
    const struct gd_report r = report(gpu, start_ns, end_ns);
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
}

static void failed(int gpu, uint64_t start_ns, uint64_t end_ns, enum gd_failure failure, const char *input,
                   const char *error)
{
    struct gd_report r = report(gpu, start_ns, end_ns);
    r.failure = failure;
    r.input = input;
    r.input_size = input ? strlen(input) : 0;
    r.error = error;
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
}

static struct gd_balance overall(void)
{
    struct gd_balance o = { .size = sizeof o };
    CHECK_EQ(gd_balancer_overall(b, &o), 0);
    return o;
}

static struct gd_gpu_figures gpu(size_t i)
{
    struct gd_gpu_figures f = { .size = sizeof f };
    CHECK_EQ(gd_balancer_gpu(b, i, &f), 0);
    return f;
}

static char *printed(const char *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    CHECK(to);
    CHECK_EQ(gd_balancer_print(b, to, what), 0);
    fclose(to);
    return text;
}

static void check_printed(const char *what, const char *expected)
{
    char *text = printed(what);
    CHECK_STR(text, expected);
    free(text);
    gd_balancer_close(&b);
    CHECK(!b);
}

/* --- figures --- */

TEST(at_the_start_everything_is_unknown)
{
    open_for(2, 10);
    CHECK_NEAR(gd_balancer_rtf(b), 0);
    CHECK_NEAR(gd_balancer_speedup(b), 0);
    CHECK_EQ(gd_balancer_gpus(b), 2);
    CHECK(!gd_balancer_error(b, 0));
    const struct gd_balance o = overall();
    CHECK_EQ(o.total, 10);
    CHECK_EQ(o.done + o.failed + o.cancelled + o.restarts + o.retried + o.errors_kept, 0);
    CHECK_NEAR(o.seconds, 0);
    CHECK(o.eta_seconds < 0);
    CHECK_EQ(gpu(1).gpu_id, 1);
    CHECK_NEAR(gpu(1).mean_seconds, 0);
    CHECK_NEAR(gpu(1).busy_percent, 0);
    gd_balancer_close(&b);
}

TEST(figures_of_each_gpu_and_of_all)
{
    open_for(2, 8);
    done(0, 10 * S, 11 * S);
    done(0, 11 * S, 13 * S);
    done(1, 10 * S, 12 * S);
    failed(1, 12 * S, 14 * S, GD_FAILURE_ERROR, "a", "x");
    const struct gd_gpu_figures f0 = gpu(0), f1 = gpu(1);
    CHECK_EQ(f0.done, 2);
    CHECK_EQ(f0.failed, 0);
    CHECK_NEAR(f0.busy_seconds, 3);
    CHECK_NEAR(f0.mean_seconds, 1.5);
    CHECK_NEAR(f0.busy_percent, 75);
    CHECK_EQ(f1.done, 1);
    CHECK_EQ(f1.failed, 1);
    CHECK_NEAR(f1.busy_percent, 100);
    const struct gd_balance o = overall();
    CHECK_EQ(o.done, 3);
    CHECK_EQ(o.failed, 1);
    CHECK_NEAR(o.seconds, 4);
    CHECK_NEAR(o.busy_seconds, 7);
    CHECK_NEAR(o.speedup, 1.75);
    CHECK_NEAR(gd_balancer_speedup(b), 1.75);
    CHECK_NEAR(o.tasks_per_second, 1);
    CHECK_NEAR(o.eta_seconds, 4);
    CHECK_NEAR(o.rtf, 0);
    gd_balancer_close(&b);
}

TEST(the_order_of_reports_does_not_matter)
{
    open_for(1, 0);
    done(0, 20 * S, 21 * S);
    done(0, 10 * S, 11 * S);
    done(0, 15 * S, 16 * S);
    CHECK_NEAR(overall().seconds, 11);
    gd_balancer_close(&b);
}

TEST(the_time_counts_from_the_first_attempt)
{
    open_for(1, 0);
    struct gd_report r = report(0, 14 * S, 16 * S);
    r.attempt = 2;
    r.first_start_ns = 6 * S;
    CHECK_EQ(gd_balancer_add(b, &r, 5), 0);
    done(0, 10 * S, 12 * S);
    CHECK_NEAR(overall().seconds, 10);
    CHECK_NEAR(overall().busy_seconds, 4); /* an attempt without a result is not counted as work */
    CHECK_NEAR(overall().rtf, 2);
    gd_balancer_close(&b);
}

TEST(media_gives_real_time_factors)
{
    open_for(2, 0);
    struct gd_report r = report(0, 10 * S, 12 * S);
    CHECK_EQ(gd_balancer_add(b, &r, 40), 0);
    r = report(1, 10 * S, 14 * S);
    CHECK_EQ(gd_balancer_add(b, &r, 60), 0);
    r = report(1, 10 * S, 14 * S);
    CHECK_EQ(gd_balancer_add(b, &r, -5), 0);
    r.failure = GD_FAILURE_ERROR; /* a failed task does not count */
    CHECK_EQ(gd_balancer_add(b, &r, 1000), 0);
    CHECK_NEAR(gpu(0).rtf, 0.05);
    CHECK_NEAR(gpu(0).media_seconds, 40);
    CHECK_NEAR(overall().media_seconds, 100);
    CHECK_NEAR(overall().rtf, 0.04);
    CHECK_NEAR(gd_balancer_rtf(b), 0.04);
    gd_balancer_close(&b);
}

TEST(busy_is_a_share_of_all_workers)
{
    const int ids[] = { 4 };
    CHECK_EQ(gd_balancer_open(&b, ids, 1, 4, 0), 0);
    done(4, 1 * S, 3 * S);
    done(4, 1 * S, 3 * S);
    CHECK_NEAR(gpu(0).busy_percent, 50);
    gd_balancer_set_workers(b, 4, 8);
    CHECK_NEAR(gpu(0).busy_percent, 25);
    gd_balancer_set_workers(b, 4, 0); /* ignored */
    CHECK_NEAR(gpu(0).busy_percent, 25);
    gd_balancer_set_workers(b, 4, 1); /* two tasks at once on one worker, as in a batch */
    CHECK_NEAR(gpu(0).busy_percent, 100);
    gd_balancer_close(&b);
}

TEST(a_gpu_that_was_not_listed_is_added)
{
    open_for(1, 0);
    for (int id = 100; id < 150; id++)
        done(id, 1 * S, 2 * S);
    gd_balancer_restarted(b, 200);
    CHECK_EQ(gd_balancer_gpus(b), 52);
    CHECK_EQ(gpu(1).gpu_id, 100);
    CHECK_EQ(gpu(50).gpu_id, 149);
    CHECK_EQ(gpu(50).done, 1);
    CHECK_EQ(gpu(51).restarts, 1);
    CHECK_EQ(overall().done, 50);
    CHECK_EQ(overall().restarts, 1);
    gd_balancer_close(&b);
}

TEST(ids_are_not_positions)
{
    const int ids[] = { 1, 0 };
    CHECK_EQ(gd_balancer_open(&b, ids, 2, 1, 0), 0);
    done(0, 1 * S, 2 * S);
    CHECK_EQ(gpu(0).gpu_id, 1);
    CHECK_EQ(gpu(0).done, 0);
    CHECK_EQ(gpu(1).done, 1);
    gd_balancer_close(&b);
}

TEST(a_gpu_listed_twice_counts_once)
{
    const int ids[] = { 3, 3, 5 };
    CHECK_EQ(gd_balancer_open(&b, ids, 3, 1, 0), 0);
    CHECK_EQ(gd_balancer_gpus(b), 2);
    gd_balancer_close(&b);
}

TEST(tasks_without_a_gpu_count_only_in_the_total)
{
    open_for(2, 0);
    failed(-1, 0, 0, GD_FAILURE_NO_WORKER, "a", "x");
    CHECK_EQ(gd_balancer_gpus(b), 2);
    CHECK_EQ(gpu(0).failed + gpu(1).failed, 0);
    CHECK_EQ(overall().failed, 1);
    CHECK_NEAR(overall().seconds, 0);
    CHECK_NEAR(overall().tasks_per_second, 0);
    gd_balancer_close(&b);
}

TEST(invalid_times_are_not_counted)
{
    open_for(1, 0);
    done(0, 10 * S, 12 * S);
    done(0, 20 * S, 9 * S); /* ends before it begins */
    done(0, 0, 50 * S);     /* never started */
    CHECK_EQ(gpu(0).done, 3);
    CHECK_NEAR(gpu(0).busy_seconds, 2);
    CHECK_NEAR(gpu(0).mean_seconds, 2);
    CHECK_NEAR(overall().seconds, 2);
    gd_balancer_close(&b);
}

TEST(tasks_that_take_no_time_cause_no_division_by_zero)
{
    open_for(1, 5);
    done(0, 10 * S, 10 * S);
    const struct gd_balance o = overall();
    CHECK_EQ(o.done, 1);
    CHECK_NEAR(o.seconds, 0);
    CHECK_NEAR(o.speedup, 0);
    CHECK_NEAR(o.tasks_per_second, 0);
    CHECK(o.eta_seconds < 0);
    gd_balancer_close(&b);
}

TEST(cancelled_tasks_do_not_count_as_failed)
{
    open_for(1, 4);
    done(0, 1 * S, 2 * S);
    failed(-1, 0, 0, GD_FAILURE_CANCELLED, "a", "not done");
    failed(0, 2 * S, 3 * S, GD_FAILURE_CANCELLED, "b", "not done");
    const struct gd_balance o = overall();
    CHECK_EQ(o.cancelled, 2);
    CHECK_EQ(o.failed, 0);
    CHECK_EQ(o.errors_kept, 0);
    CHECK_EQ(gpu(0).failed, 0);
    CHECK_NEAR(o.busy_seconds, 2); /* one of the cancelled tasks did run */
    CHECK_NEAR(o.eta_seconds, 2);  /* one task is left, and a task takes two seconds */
    gd_balancer_close(&b);
}

TEST(timeouts_restarts_and_retries)
{
    open_for(2, 0);
    failed(1, 1 * S, 2 * S, GD_FAILURE_TIMEOUT, "a", "x");
    failed(1, 1 * S, 2 * S, GD_FAILURE_CRASH, "a", "x");
    gd_balancer_restarted(b, 1);
    gd_balancer_restarted(b, 1);
    gd_balancer_restarted(b, -1);
    struct gd_report r = report(0, 1 * S, 2 * S);
    r.attempt = 4;
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    r.attempt = 0; /* never started */
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    CHECK_EQ(gpu(1).timeouts, 1);
    CHECK_EQ(gpu(1).failed, 2);
    CHECK_EQ(gpu(1).restarts, 2);
    CHECK_EQ(overall().timeouts, 1);
    CHECK_EQ(overall().restarts, 3);
    CHECK_EQ(overall().retried, 3);
    gd_balancer_close(&b);
}

TEST(the_estimate_follows_the_total)
{
    open_for(1, 0);
    done(0, 1 * S, 2 * S);
    CHECK(overall().eta_seconds < 0);
    gd_balancer_set_total(b, 11);
    CHECK_NEAR(overall().eta_seconds, 10);
    gd_balancer_set_total(b, 1);
    CHECK_NEAR(overall().eta_seconds, 0);
    done(0, 2 * S, 3 * S); /* more tasks than the total */
    CHECK_NEAR(overall().eta_seconds, 0);
    gd_balancer_close(&b);
}

/* --- errors --- */

TEST(errors_are_kept_with_their_task)
{
    open_for(1, 0);
    failed(0, 1, 2, GD_FAILURE_ERROR, "a.wav", "\nno samples\nTraceback");
    failed(0, 1, 2, GD_FAILURE_TIMEOUT, NULL, "timed out");
    failed(0, 1, 2, GD_FAILURE_OUT_OF_MEMORY, "b.wav\n", NULL);
    CHECK_STR(gd_balancer_error(b, 0), "a.wav: no samples");
    CHECK_STR(gd_balancer_error(b, 1), "task 1: timed out");
    CHECK_STR(gd_balancer_error(b, 2), "b.wav: out_of_memory");
    CHECK(!gd_balancer_error(b, 3));
    CHECK(!gd_balancer_error(b, SIZE_MAX));
    gd_balancer_close(&b);
}

TEST(an_input_that_is_not_text_is_named_by_its_number)
{
    open_for(1, 0);
    struct gd_report r = report(0, 1, 2);
    r.failure = GD_FAILURE_ERROR;
    r.error = "bad";
    r.input = "ab\0cd";
    r.input_size = 5;
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    r.input_size = 3; /* a string with its NUL */
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    r.input = "na\xffme\x1b";
    r.input_size = 6;
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    r.input = " \n";
    r.input_size = 2;
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    CHECK_STR(gd_balancer_error(b, 0), "task 0: bad");
    CHECK_STR(gd_balancer_error(b, 1), "ab: bad");
    CHECK_STR(gd_balancer_error(b, 2), "na\\xffme\\x1b: bad");
    CHECK_STR(gd_balancer_error(b, 3), "task 0: bad");
    gd_balancer_close(&b);
}

TEST(long_names_and_messages_are_cut)
{
    static char input[5000], error[5000];
    memset(input, 'i', sizeof input - 1);
    memset(error, 'w', sizeof error - 1);
    open_for(1, 0);
    failed(0, 1, 2, GD_FAILURE_ERROR, input, error);
    const char *text = gd_balancer_error(b, 0);
    CHECK_EQ(strlen(text), 319);
    CHECK_EQ(strncmp(text, "...iii", 6), 0);
    CHECK_EQ(strstr(text, ": ") - text, 63);
    CHECK_STR(text + 319 - 6, "www...");
    gd_balancer_close(&b);
}

TEST(the_first_hundred_errors_are_kept)
{
    open_for(1, 0);
    char name[16];
    for (int i = 0; i < 250; i++) {
        snprintf(name, sizeof name, "f%d", i);
        failed(0, 1, 2, GD_FAILURE_ERROR, name, "x");
    }
    CHECK_EQ(overall().errors_kept, 100);
    CHECK_EQ(overall().failed, 250);
    CHECK_STR(gd_balancer_error(b, 99), "f99: x");
    CHECK(!gd_balancer_error(b, 100));
    gd_balancer_close(&b);
}

TEST(a_failure_of_an_unknown_kind_is_an_error)
{
    open_for(1, 0);
    failed(0, 1 * S, 2 * S, (enum gd_failure)77, "a", "x");
    CHECK_EQ(overall().failed, 1);
    char *text = printed("files");
    CHECK_CONTAINS(text, "1 failed: 1 error\n");
    free(text);
    gd_balancer_close(&b);
}

/* --- progress --- */

struct progress_calls {
    unsigned calls;
    struct gd_balance last;
};

static void on_progress(void *user, const struct gd_balance *now)
{
    struct progress_calls *t = user;
    t->calls++;
    t->last = *now;
}

TEST(progress_at_every_result)
{
    struct progress_calls t = { 0 };
    open_for(1, 3);
    gd_balancer_on_progress(b, on_progress, &t, 0);
    done(0, 1 * S, 2 * S);
    CHECK_EQ(t.calls, 1);
    CHECK_EQ(t.last.size, sizeof t.last);
    CHECK_EQ(t.last.done, 1);
    CHECK_EQ(t.last.total, 3);
    CHECK_NEAR(t.last.eta_seconds, 2);
    failed(0, 2 * S, 3 * S, GD_FAILURE_ERROR, "a", "x");
    CHECK_EQ(t.calls, 2);
    CHECK_EQ(t.last.failed, 1);
    gd_balancer_on_progress(b, NULL, NULL, 0);
    done(0, 1 * S, 2 * S);
    CHECK_EQ(t.calls, 2);
    gd_balancer_close(&b);
}

TEST(progress_has_a_minimum_interval_except_at_the_end)
{
    struct progress_calls t = { 0 };
    open_for(1, 10);
    gd_balancer_on_progress(b, on_progress, &t, 3600 * 1000);
    for (int i = 0; i < 8; i++)
        done(0, 1 * S, 2 * S);
    CHECK_EQ(t.calls, 1);
    failed(-1, 0, 0, GD_FAILURE_CANCELLED, "a", "x");
    CHECK_EQ(t.calls, 1);
    done(0, 1 * S, 2 * S);
    CHECK_EQ(t.calls, 2);
    CHECK_EQ(t.last.done, 9);
    gd_balancer_close(&b);
}

/* --- the summary --- */

TEST(summary_of_a_good_run)
{
    open_for(2, 3);
    done(0, 10 * S, 10 * S + 1200 * MS);
    done(0, 10 * S + 1200 * MS, 12 * S);
    done(1, 10 * S, 11 * S);
    check_printed("files", "GPU  files  failed  busy  restarts  mean\n"
                           "  0      2       0  100%         0  1.0s\n"
                           "  1      1       0   50%         0  1.0s\n"
                           "all      3       0   75%         0  1.0s\n"
                           "3 files in 2.0s, 1.5 files/s, speed-up 1.5\n");
}

TEST(summary_of_one_task)
{
    open_for(1, 1);
    done(0, 10 * S, 10 * S + 12 * MS);
    gd_balancer_restarted(b, 0);
    check_printed("tasks", "GPU  tasks  failed  busy  restarts    mean\n"
                           "  0      1       0  100%         1  12.0ms\n"
                           "all      1       0  100%         1  12.0ms\n"
                           "1 task in 12.0ms, 83 tasks/s, speed-up 1.0\n");
}

TEST(summary_of_no_tasks)
{
    open_for(1, 0);
    check_printed("files", "GPU  files  failed  busy  restarts  mean\n"
                           "  0      0       0    0%         0    0s\n"
                           "all      0       0    0%         0    0s\n"
                           "no files processed\n");
}

TEST(summary_without_gpus)
{
    open_for(0, 0);
    check_printed(NULL, "GPU  tasks  failed  busy  restarts  mean\n"
                        "all      0       0    0%         0    0s\n"
                        "no tasks processed\n");
}

TEST(summary_of_failures)
{
    open_for(1, 30);
    done(0, 10 * S, 11 * S);
    for (int i = 0; i < 20; i++)
        failed(0, 11 * S, 12 * S,
               i < 3    ? GD_FAILURE_TIMEOUT
               : i == 3 ? GD_FAILURE_CRASH
                        : GD_FAILURE_ERROR,
               i == 0 ? "dir/a.wav" : "b.wav", i < 3 ? "timed out after 1.000 s" : "went wrong\nat line 3");
    failed(0, 12 * S, 13 * S, GD_FAILURE_OUT_OF_MEMORY, "c", "x");
    failed(0, 12 * S, 13 * S, GD_FAILURE_DEVICE_LOST, "c", "x");
    failed(-1, 0, 0, GD_FAILURE_NO_WORKER, "d", "x");
    check_printed("files",
                  " GPU  files  failed  busy  restarts  mean\n"
                  "   0     23      22  100%         0  1.0s\n"
                  "none      1       1     -         0     -\n"
                  " all     24      23  100%         0  1.0s\n"
                  "24 of 30 files, 23 failed, in 3.0s, 8.0 files/s, speed-up 7.7\n"
                  "23 failed: 16 errors, 3 timeouts, 1 crash, 1 out of memory, 1 lost device, 1 without a worker\n"
                  "  dir/a.wav: timed out after 1.000 s\n"
                  "  b.wav: timed out after 1.000 s\n"
                  "  b.wav: timed out after 1.000 s\n"
                  "  b.wav: went wrong\n"
                  "  b.wav: went wrong\n"
                  "  ... and 18 more\n"
                  "6 files not started\n");
}

TEST(five_failures_are_all_shown)
{
    open_for(1, 0);
    for (int i = 0; i < 5; i++)
        failed(0, 1 * S, 2 * S, GD_FAILURE_ERROR, "a", "x");
    char *text = printed("files");
    CHECK_CONTAINS(text, "5 failed: 5 errors\n  a: x\n  a: x\n  a: x\n  a: x\n  a: x\n");
    CHECK(!strstr(text, "more"));
    free(text);
    gd_balancer_close(&b);
}

/* The summary must not look like the summary of a successful run. */
TEST(summary_of_a_run_in_which_all_failed)
{
    open_for(1, 2);
    failed(0, 10 * S, 11 * S, GD_FAILURE_ERROR, "a.wav", "x");
    failed(0, 11 * S, 12 * S, GD_FAILURE_ERROR, "b.wav", "y");
    check_printed("files", "GPU  files  failed  busy  restarts  mean\n"
                           "  0      2       2  100%         0  1.0s\n"
                           "all      2       2  100%         0  1.0s\n"
                           "0 of 2 files done in 2.0s\n"
                           "2 failed: 2 errors\n"
                           "  a.wav: x\n"
                           "  b.wav: y\n");
    open_for(1, 3);
    failed(0, 10 * S, 11 * S, GD_FAILURE_ERROR, "a.wav", "x");
    char *text = printed("files");
    CHECK_CONTAINS(text, "\n0 of 3 files done in 1.0s\n1 failed: 1 error\n  a.wav: x\n2 files not started\n");
    free(text);
    gd_balancer_close(&b);
}

TEST(summary_of_a_run_that_was_stopped)
{
    open_for(1, 5);
    done(0, 10 * S, 195 * S);
    failed(-1, 0, 0, GD_FAILURE_CANCELLED, "a", "x");
    failed(-1, 0, 0, GD_FAILURE_CANCELLED, "b", "x");
    check_printed("files", "GPU  files  failed  busy  restarts   mean\n"
                           "  0      1       0  100%         0  3m05s\n"
                           "all      1       0  100%         0  3m05s\n"
                           "1 of 5 files in 3m05s, 19 files/h, speed-up 1.0\n"
                           "2 files cancelled, 2 files not started\n");
}

TEST(summary_of_a_run_in_which_all_was_cancelled)
{
    open_for(1, 1);
    failed(-1, 0, 0, GD_FAILURE_CANCELLED, "a", "x");
    char *text = printed("files");
    CHECK_CONTAINS(text, "no files processed\n1 file cancelled\n");
    free(text);
    gd_balancer_close(&b);
}

TEST(summary_with_media_and_retries)
{
    open_for(2, 0);
    struct gd_report r = report(0, 10 * S, 12 * S);
    r.attempt = 2;
    CHECK_EQ(gd_balancer_add(b, &r, 7380), 0);
    r = report(1, 10 * S, 11 * S);
    CHECK_EQ(gd_balancer_add(b, &r, 0), 0);
    check_printed("files", "GPU  files  failed  busy  restarts  mean  audio  time      RTF\n"
                           "  0      1       0  100%         0  2.0s  2h03m  2.0s  0.00027\n"
                           "  1      1       0   50%         0  1.0s     0s  1.0s        -\n"
                           "all      2       0   75%         0  1.5s  2h03m  2.0s  0.00027\n"
                           "2 files in 2.0s, 1.0 files/s, speed-up 1.5, 1 retry\n"
                           "2h03m of audio in 2.0s: RTF 0.00027, 3690 times real time\n");
}

/* Two GPUs with two workers each. In every row, time divided by audio is the RTF. The time of a GPU is the time in which it
 * worked, and the time of all GPUs is the elapsed time, as in the line below. */
TEST(rows_of_media_divide)
{
    open_for(2, 0);
    gd_balancer_set_workers(b, 0, 2);
    gd_balancer_set_workers(b, 1, 2);
    for (int i = 0; i < 4; i++) {
        struct gd_report r = report(i / 2, 10 * S, 20 * S);
        CHECK_EQ(gd_balancer_add(b, &r, i < 2 ? 40 : 10), 0);
    }
    check_printed("files", "GPU  files  failed  busy  restarts   mean  audio   time   RTF\n"
                           "  0      2       0  100%         0  10.0s  1m20s  10.0s  0.12\n"
                           "  1      2       0  100%         0  10.0s  20.0s  10.0s  0.50\n"
                           "all      4       0  100%         0  10.0s  1m40s  10.0s  0.10\n"
                           "4 files in 10.0s, 24 files/min, speed-up 4.0\n"
                           "1m40s of audio in 10.0s: RTF 0.10, 10 times real time\n");
}

/* A worker on each of two GPUs, with four files in flight, which end one after the other. The second GPU has nothing to
 * do for half of the time. */
TEST(rows_of_media_divide_with_files_in_flight)
{
    open_for(2, 0);
    for (int i = 0; i < 16; i++) {
        const uint64_t begin = (10 + (uint64_t)i) * S;
        const struct gd_report r = report(0, begin, begin + 4 * S);
        CHECK_EQ(gd_balancer_add(b, &r, 10), 0);
    }
    for (int i = 0; i < 4; i++) {
        const struct gd_report r = report(1, 12 * S, (13 + (uint64_t)i) * S + 500 * MS);
        CHECK_EQ(gd_balancer_add(b, &r, 5), 0);
    }
    const struct gd_report late = report(1, 24 * S, 29 * S);
    CHECK_EQ(gd_balancer_add(b, &late, 5), 0);
    CHECK_NEAR(gpu(0).rtf, 19.0 / 160);
    CHECK_NEAR(gpu(0).busy_percent, 100);
    CHECK_NEAR(gpu(1).rtf, 9.5 / 25);
    CHECK_NEAR(gpu(1).busy_percent, 50);
    CHECK_NEAR(gpu(1).mean_seconds, 3.4);
    check_printed("files", "GPU  files  failed  busy  restarts  mean  audio   time   RTF\n"
                           "  0     16       0  100%         0  4.0s  2m40s  19.0s  0.12\n"
                           "  1      5       0   50%         0  3.4s  25.0s   9.5s  0.38\n"
                           "all     21       0   75%         0  3.9s  3m05s  19.0s  0.10\n"
                           "21 files in 19.0s, 1.1 files/s, speed-up 4.3\n"
                           "3m05s of audio in 19.0s: RTF 0.10, 9.7 times real time\n");
}

TEST(columns_are_as_wide_as_their_content)
{
    const int ids[] = { 1234567 };
    CHECK_EQ(gd_balancer_open(&b, ids, 1, 1, 0), 0);
    done(1234567, 10 * S, 11 * S);
    check_printed("recordings", "    GPU  recordings  failed  busy  restarts  mean\n"
                                "1234567           1       0  100%         0  1.0s\n"
                                "    all           1       0  100%         0  1.0s\n"
                                "1 recording in 1.0s, 1.0 recordings/s, speed-up 1.0\n");
}

TEST(a_long_word_for_tasks_is_allowed)
{
    char what[500];
    memset(what, 'w', sizeof what - 1);
    what[sizeof what - 1] = '\0';
    open_for(1, 0);
    done(0, 10 * S, 11 * S);
    char *text = printed(what);
    CHECK_CONTAINS(text, "speed-up 1.0\n");
    free(text);
    gd_balancer_close(&b);
}

TEST(many_gpus)
{
    static int ids[4096];
    for (int i = 0; i < 4096; i++)
        ids[i] = i;
    CHECK_EQ(gd_balancer_open(&b, ids, 4096, 1, 0), 0);
    for (int i = 0; i < 4096; i++)
        done(i, 10 * S, 11 * S);
    char *text = printed("files");
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    CHECK_EQ(lines, 4096 + 3);
    CHECK_CONTAINS(text, "speed-up 4096.0");
    free(text);
    gd_balancer_close(&b);
}

/* --- wrong use, and no memory --- */

TEST(bad_use_is_reported)
{
    const int id = 0;
    CHECK_EQ(gd_balancer_open(NULL, &id, 1, 1, 0), GD_E_INVALID);
    CHECK_EQ(gd_balancer_open(&b, NULL, 1, 1, 0), GD_E_INVALID);
    CHECK(!b);
    open_for(1, 0);
    const struct gd_report r = report(0, 1, 2);
    CHECK_EQ(gd_balancer_add(b, NULL, 0), GD_E_INVALID);
    CHECK_EQ(gd_balancer_add(NULL, &r, 0), GD_E_INVALID);
    struct gd_gpu_figures f = { .size = sizeof f };
    CHECK_EQ(gd_balancer_gpu(b, 1, &f), GD_E_INVALID);
    f.size = 0;
    CHECK_EQ(gd_balancer_gpu(b, 0, &f), GD_E_INVALID);
    struct gd_balance o = { 0 };
    CHECK_EQ(gd_balancer_overall(b, &o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "size");
    CHECK_EQ(gd_balancer_print(b, NULL, "files"), GD_E_INVALID);
    CHECK_EQ(gd_balancer_print(NULL, stderr, "files"), GD_E_INVALID);
    gd_balancer_close(&b);
    gd_balancer_close(&b);
    gd_balancer_close(NULL);
}

TEST(a_shorter_struct_is_filled_up_to_its_size)
{
    open_for(1, 7);
    done(0, 1 * S, 2 * S);
    struct gd_balance o;
    memset(&o, 0xee, sizeof o);
    o.size = offsetof(struct gd_balance, failed);
    CHECK_EQ(gd_balancer_overall(b, &o), 0);
    CHECK_EQ(o.total, 7);
    CHECK_EQ(o.done, 1);
    CHECK_EQ(o.failed, 0xeeeeeeeeeeeeeeee);
    CHECK_EQ(o.size, offsetof(struct gd_balance, failed));
    gd_balancer_close(&b);
}

TEST(a_full_disk_is_reported)
{
    FILE *full = fopen("/dev/full", "we");
    if (!full)
        SKIP("no /dev/full");
    open_for(1, 0);
    CHECK_EQ(gd_balancer_print(b, full, "files"), GD_E_SYSTEM);
    fclose(full);
    full = fopen("/dev/full", "we");
    CHECK(full && setvbuf(full, NULL, _IONBF, 0) == 0); /* unbuffered, so that the error occurs before the flush */
    CHECK_EQ(gd_balancer_print(b, full, "files"), GD_E_SYSTEM);
    fclose(full);
    gd_balancer_close(&b);
}

TEST(without_memory_the_total_still_counts_every_task)
{
    const int ids[] = { 0, 1 };
    for (unsigned long nth = 1; nth <= 2; nth++) {
        gd__fault_begin(nth);
        CHECK_EQ(gd_balancer_open(&b, ids, 2, 1, 0), GD_E_NO_MEMORY);
        CHECK(!b);
    }
    gd__fault_begin(0);
    open_for(8, 0);
    const struct gd_report r = report(50, 1 * S, 2 * S);
    gd__fault_begin(1);
    CHECK_EQ(gd_balancer_add(b, &r, 0), GD_E_NO_MEMORY);
    gd__fault_begin(0);
    CHECK_EQ(gd_balancer_gpus(b), 8);
    CHECK_EQ(overall().done, 1);
    gd_balancer_close(&b);
}

TEST(a_success_needs_no_memory)
{
    open_for(2, 0);
    gd__fault_begin(1);
    for (int i = 0; i < 1000; i++)
        done(i % 2, 1 * S, 2 * S);
    CHECK_EQ(gd__fault_count(), 0);
    gd__fault_begin(0);
    gd_balancer_close(&b);
}

TEST_MAIN()
