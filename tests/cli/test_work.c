/* SPDX-License-Identifier: MIT
 *
 * How runs of tasks of unequal size are shown: progress, time left and speed.
 */
#include <math.h>

#include "base/text/buffer.h"
#include "base/text/json.h"
#include "cli/output/progress.h"
#include "snapshots.h"
#include "view/json.h"

/* --- runs --------------------------------------------------------------------------------- */

/* 40 hours and 10 minutes of audio in 1,000 files, the longest first: 450 of them have ended. */
static struct made_up *of_audio(void)
{
    struct made_up *m = made_run("transcribe talks");
    made_worker(m, 0, GD_WORKER_BUSY, GD_IDLE_NOT, "talks/2026/one.wav", 12.34);
    made_worker(m, 1, GD_WORKER_BUSY, GD_IDLE_NOT, "talks/2026/two.wav", 3.21);
    made_device(m, 0);
    made_device(m, 1);
    m->s.work_total = 40 * 3600 + 600;
    m->s.work_done = 3 * 3600 + 12 * 60 + 5;
    m->h.first.work = 3600; /* seconds of audio in the first file */
    return m;
}

/* The shortest files came first: nine tenths of the files are done, but only a small part of the work. */
static struct made_up *long_ones_left(void)
{
    struct made_up *m = of_audio();
    m->stats.completed = 896;
    m->s.work_done = m->s.work_total / 100;
    m->h.first.work = 1;
    return m;
}

static struct made_up *ended(void)
{
    struct made_up *m = of_audio();
    made_ended(m);
    m->s.work_done = m->s.work_total;
    return m;
}

static struct made_up *just_begun(void)
{
    struct made_up *m = of_audio();
    m->stats.completed = m->stats.failed = m->stats.timeouts = 0;
    m->s.work_done = 0;
    memset(&m->h, 0, sizeof m->h);
    return m;
}

/* --- screens -------------------------------------------------------------------------------- */

static const struct made_screen screens[] = {
    { "audio-40.txt", of_audio, { .width = 40, .height = 24, .utf8 = true, .media = "audio" } },
    { "audio-80.txt", of_audio, { .width = 80, .height = 24, .utf8 = true, .media = "audio" } },
    { "audio-200.txt", of_audio, { .width = 200, .height = 24, .utf8 = true, .media = "audio" } },
    { "audio-80-low.txt", of_audio, { .width = 80, .height = 8, .utf8 = true, .media = "audio" } },
    { "audio-80-top.txt", of_audio, { .width = 80, .height = 24, .utf8 = true } },
    { "audio-left-80.txt", long_ones_left, { .width = 80, .height = 24, .utf8 = true, .media = "audio" } },
    { "audio-begun-80.txt", just_begun, { .width = 80, .height = 24, .utf8 = true, .media = "audio" } },
    { "audio-ended-80.txt", ended, { .width = 80, .height = 24, .utf8 = true, .media = "audio" } },
};

SCREENS(of_audio)
SCREENS(long_ones_left)
SCREENS(just_begun)
SCREENS(ended)

/* --- figures ---------------------------------------------------------------------------------- */

static struct view_figures figures_of(const struct made_up *m)
{
    struct view_figures f;
    view_figures_of(&f, &m->s, &m->h);
    return f;
}

TEST(the_time_left_is_that_of_the_work)
{
    const struct made_up *m = of_audio();
    const struct view_figures f = figures_of(m);
    /* 7,925 seconds of audio were done in the 120 seconds since the first file ended. 133,075 are left. */
    CHECK(fabs(f.work_rate - 7925.0 / 120) < 1e-6);
    CHECK(fabs(f.eta - 133075.0 * 120 / 7925) < 1e-6);
    CHECK(fabs(f.part - 11525.0 / 144600) < 1e-9);
    CHECK_EQ(f.passed, 450); /* counts stay counts */
    CHECK_EQ(f.total, 1000);
    CHECK(f.rate_mean == 3.6);
}

TEST(without_a_total_tasks_are_counted)
{
    struct made_up *m = of_audio();
    m->s.work_total = 0;
    const struct view_figures f = figures_of(m);
    CHECK(f.eta > 146.9 && f.eta < 147.1);
    CHECK(f.part == 0.45);
    CHECK(f.work_rate < 0 && f.work_done == 0 && f.work_total == 0);
}

/* No work is done yet, or none was reported yet: tasks are counted instead. */
TEST(work_that_has_not_begun)
{
    struct made_up *m = of_audio();
    m->s.work_done = 0;
    m->h.first.work = 0;
    const struct view_figures f = figures_of(m);
    CHECK(f.eta > 146.9 && f.eta < 147.1);
    CHECK(f.part == 0);
}

TEST(work_without_a_number_of_tasks)
{
    const struct tui_view v = { .width = 60, .height = 24 };
    struct made_up *m = of_audio();
    m->stats.total = 0;
    const struct view_figures f = figures_of(m);
    CHECK(fabs(f.eta - 133075.0 * 120 / 7925) < 1e-6);
    CHECK(fabs(f.part - 11525.0 / 144600) < 1e-9);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "450 tasks, 7.9 % of the work");
    CHECK_CONTAINS(text, "\n####...");
    CHECK_CONTAINS(text, "0:33:35 ETA");
    free(text);
}

/* All of the work is done, but a file of size 0 is left. */
TEST(a_file_of_size_0_is_still_to_be_done)
{
    const struct tui_view v = { .width = 20, .height = 24 };
    struct made_up *m = of_audio();
    m->s.work_done = m->s.work_total;
    m->stats.completed = 995;
    struct view_figures f = figures_of(m);
    CHECK(f.part < 1 && f.part > 0.999);
    CHECK(f.eta == 0);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "\n##################.\n");
    free(text);
    m->stats.completed = 996;
    f = figures_of(m);
    CHECK(f.part == 1);
    m->s.work_done = m->s.work_total / 2; /* all tasks have ended: this overrides the amount of work */
    CHECK(figures_of(m).part == 1);
    CHECK(figures_of(m).eta == 0);
    text = laid_out(m, &v);
    CHECK_CONTAINS(text, "\n###################\n");
    free(text);
}

/* The page reports more work done than the total. */
TEST(more_work_done_than_the_total)
{
    struct made_up *m = of_audio();
    m->s.work_done = 2 * m->s.work_total;
    const struct view_figures f = figures_of(m);
    CHECK(f.part < 1 && f.eta == 0 && f.work_done == f.work_total);
}

TEST(a_late_observer_uses_the_mean)
{
    struct made_up *m = of_audio();
    memset(&m->h, 0, sizeof m->h);
    view_history_add(&m->h, &m->s);
    CHECK(m->h.first.work == m->s.work_done);
    const struct view_figures f = figures_of(m);
    CHECK(fabs(f.eta - 133075.0 * 125 / 11525) < 1e-6);
}

/* The end of a task is published before the callback has reported its work. */
TEST(the_first_task_counts_with_its_work)
{
    struct view_history h = { 0 };
    struct made_up *m = of_audio();
    m->stats.completed = 1;
    m->stats.failed = m->stats.timeouts = 0;
    m->s.work_done = 0;
    view_history_add(&h, &m->s);
    CHECK_EQ(h.first.ns, 0);
    m->s.work_done = 100;
    view_history_add(&h, &m->s);
    CHECK_EQ(h.first.ns, m->s.read_ns);
    CHECK(h.first.work == 100);
    m->s.work_total = 0; /* this run reports no work, so the first task counts without it */
    m->s.work_done = 0;
    h = (struct view_history){ 0 };
    view_history_add(&h, &m->s);
    CHECK_EQ(h.first.ended, 1);
}

/* A long file reports how much of it is done. */
TEST(the_time_left_is_known_before_a_task_has_ended)
{
    struct made_up *m = just_begun();
    m->s.work_total = 1000;
    m->s.work_done = 100;
    view_history_add(&m->h, &m->s);
    CHECK(figures_of(m).eta < 0); /* nothing is known about the pace yet */
    m->s.read_ns += UINT64_C(10) * 1000000000;
    m->s.work_done = 300;
    view_history_add(&m->h, &m->s);
    const struct view_figures f = figures_of(m);
    CHECK_EQ(f.ended, 0);
    CHECK(fabs(f.eta - 700 * 10.0 / 200) < 1e-6);
    CHECK(fabs(f.part - 0.3) < 1e-9);
}

/* Cancelled work is not done, and it is unknown when the rest will be done. */
TEST(a_run_that_is_being_ended)
{
    struct made_up *m = of_audio();
    m->stats.cancelled = 10;
    CHECK(figures_of(m).eta < 0);
    m->stats.cancelled = 0;
    m->s.ended = true;
    CHECK(figures_of(m).eta < 0);
}

/* The red part of a bar belongs to the part that is done. */
TEST(failures_in_a_bar_of_work)
{
    const struct tui_view v = { .width = 101, .height = 24, .utf8 = true, .colour = true };
    struct made_up *m = of_audio();
    m->s.work_done = m->s.work_total / 2;
    m->stats.completed = 225;
    m->stats.failed = 225;
    m->stats.timeouts = 0;
    char *text = laid_out(m, &v), *bar = strchr(text, '\n');
    size_t dashes[3] = { 0 };
    for (size_t i = 0; i < 3; i++) { /* green, red, dim */
        bar = strchr(bar, 'm') + 1;
        const size_t length = strcspn(bar, "\033");
        dashes[i] = length / strlen("━");
        bar = strchr(bar + length, 'm') + 1;
    }
    CHECK_EQ(dashes[0], 25);
    CHECK_EQ(dashes[1], 25);
    CHECK_EQ(dashes[2], 50);
    free(text);
}

TEST(json_has_the_work_if_it_is_known)
{
    struct gd__buffer b = { 0 };
    struct made_up *m = of_audio();
    view_json(&b, &m->s, &m->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"work_done\":11525.000,\"work_total\":144600.000");
    CHECK_CONTAINS(b.data, "\"eta\":2015.016,"); /* from the work, not the tasks */
    gd__buffer_free(&b);
    m->s.work_total = 0;
    view_json(&b, &m->s, &m->h);
    gd__buffer_add(&b, "", 1);
    CHECK(strstr(b.data, "work_") == NULL);
    gd__buffer_free(&b);
}

/* --- lines ---------------------------------------------------------------------------------------- */

static const char *line_of(const struct made_up *m, enum cli_progress_style style, unsigned width)
{
    static char line[512];
    struct cli_figures f;
    struct view_history h = m->h;
    cli_figures_of(&f, &m->s, &h);
    (void)cli_progress_layout(line, sizeof line, &f, style, width);
    return line;
}

TEST(bars_and_lines_follow_the_work)
{
    struct made_up *m = long_ones_left();
    CHECK_STR(line_of(m, CLI_PROGRESS_BAR, 60), "  1% [......................] 900/1000, 4 failed, 3h18m left");
    CHECK_STR(line_of(m, CLI_PROGRESS_ETA, 80), "ETA: 3h18m, 900/1000, 2 running, 4 failed, 0.1s each");
    CHECK_STR(line_of(m, CLI_PROGRESS_LINE, 80), "900/1000 (1% of the work), 2 running, 4 failed, 7.2/s, 3h18m left");
    m->s.work_done = m->s.work_total * 0.6;
    CHECK_STR(line_of(m, CLI_PROGRESS_BAR, 60), " 60% [#############.........] 900/1000, 4 failed, 1m20s left");
    m->stats.total = 0;
    CHECK_STR(line_of(m, CLI_PROGRESS_BAR, 60), " 60% [#############.........] 900 done, 4 failed, 1m20s left");
}

TEST_MAIN()
