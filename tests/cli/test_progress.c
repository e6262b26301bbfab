/* SPDX-License-Identifier: MIT
 *
 * Progress: the figures, the layout, and the output to a terminal (here a pseudo-terminal).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/text/buffer.h"
#include "cli/output/progress.h"
#include "cli/output/streams.h"
#include "common.h"
#include "ends.h"

/* --- figures -------------------------------------------------------------------------- */

static void figures_of(struct cli_figures *f, const struct gd_stats *s, struct view_history *h)
{
    const struct gd_snapshot now = { .stats = s, .read_ns = s->now_ns };
    cli_figures_of(f, &now, h);
}

TEST(figures)
{
    struct gd_stats s = { .total = 100,
                          .taken = 60,
                          .completed = 40,
                          .failed = 2,
                          .timeouts = 3,
                          .running = 4,
                          .n_workers = 8,
                          .start_ns = 1000000000,
                          .now_ns = 3500000000 };
    struct cli_figures f;
    struct view_history h = { 0 };
    figures_of(&f, &s, &h);
    CHECK_EQ(f.total, 100);
    CHECK_EQ(f.done, 45);
    CHECK_EQ(f.failed, 5);
    CHECK_EQ(f.running, 4);
    CHECK(f.seconds == 2.5);
    s.total = 0;
    figures_of(&f, &s, &h);
    CHECK_EQ(f.total, 0);
    s.source_done = 1; /* at the end of the input, the total is the number of tasks taken */
    figures_of(&f, &s, &h);
    CHECK_EQ(f.total, 60);
    s.start_ns = 0;
    figures_of(&f, &s, &h);
    CHECK(f.seconds == 0);
}

static double time_left(struct gd_stats s)
{
    struct cli_figures f;
    struct view_history h = { 0 };
    s.start_ns = 1000000000;
    s.now_ns = 11000000000;
    figures_of(&f, &s, &h);
    return f.eta;
}

TEST(time_left_of_a_run)
{
    CHECK(time_left((struct gd_stats){ .total = 100, .completed = 25 }) == 30);
    CHECK(time_left((struct gd_stats){ .total = 100, .completed = 100 }) == 0);
    CHECK(time_left((struct gd_stats){ .total = 100 }) < 0);
    CHECK(time_left((struct gd_stats){ .completed = 5 }) < 0);
    CHECK(time_left((struct gd_stats){ .total = 100, .completed = 25, .cancelled = 75 }) <
          0); /* the run is being ended */
}

/* Nine minutes of set-up do not affect the estimate for the tasks. */
TEST(set_up_time_is_not_part_of_the_time_left)
{
    struct gd_stats s = { .total = 11, .completed = 1, .start_ns = 1000000000, .now_ns = 541000000000 };
    struct cli_figures f;
    struct view_history h = { 0 };
    figures_of(&f, &s, &h);
    CHECK(f.eta < 0);
    s.completed = 2;
    s.now_ns += 1000000000;
    figures_of(&f, &s, &h);
    CHECK(f.eta == 9);
}

/* Tasks of earlier runs count towards the progress, but not towards the speed. */
TEST(figures_of_a_resumed_run)
{
    struct gd_stats s = { .total = 100,
                          .taken = 20,
                          .completed = 10,
                          .skipped = 50,
                          .running = 2,
                          .start_ns = 1000000000,
                          .now_ns = 11000000000 };
    struct cli_figures f;
    struct view_history h = { 0 };
    char line[100];
    figures_of(&f, &s, &h);
    (void)cli_progress_layout(line, sizeof line, &f, CLI_PROGRESS_LINE, 80);
    CHECK_STR(line, "60/100 (60%), 2 running, 1.0/s, 40s left");
    (void)cli_progress_layout(line, sizeof line, &f, CLI_PROGRESS_ETA, 80);
    CHECK_STR(line, "ETA: 40s, 60/100, 2 running, 1.0s each");
    s.total = 0;
    s.source_done = 1;
    figures_of(&f, &s, &h);
    CHECK_EQ(f.total, 70);
}

/* --- layout ------------------------------------------------------------------------------ */

static const char *laid(const struct cli_figures *f, enum cli_progress_style style, unsigned width)
{
    static char line[600];
    size_t length = cli_progress_layout(line, sizeof line, f, style, width);
    CHECK_EQ(length, strlen(line));
    CHECK_LE(length, width);
    return line;
}

static const struct cli_figures half = {
    .total = 1000, .done = 500, .ended = 500, .failed = 3, .running = 8, .workers = 8, .seconds = 125, .eta = 125
};

TEST(a_bar)
{
    CHECK_STR(laid(&half, CLI_PROGRESS_BAR, 60), " 50% [###########...........] 500/1000, 3 failed, 2m05s left");
    CHECK_STR(laid(&half, CLI_PROGRESS_BAR, 200) + 190, "2m05s left");
    CHECK_EQ(strlen(laid(&half, CLI_PROGRESS_BAR, 200)), 200);
}

TEST(a_narrow_bar_shows_only_figures)
{
    CHECK_STR(laid(&half, CLI_PROGRESS_BAR, 40), " 50% 500/1000, 3 failed, 2m05s left");
    CHECK_STR(laid(&half, CLI_PROGRESS_BAR, 10), " 50% 500/1");
    CHECK_STR(laid(&half, CLI_PROGRESS_BAR, 0), "");
}

TEST(a_bar_at_its_ends)
{
    struct cli_figures f = { .total = 4, .seconds = 1, .eta = -1 };
    CHECK_STR(laid(&f, CLI_PROGRESS_BAR, 30), "  0% [.............] 0/4, 1.0s");
    f.done = 4;
    CHECK_STR(laid(&f, CLI_PROGRESS_BAR, 30), "100% [#############] 4/4, 1.0s");
    f.done = 9; /* more than the announced total */
    CHECK_STR(laid(&f, CLI_PROGRESS_BAR, 30), "100% [#############] 9/4, 1.0s");
}

TEST(a_bar_without_a_total)
{
    struct cli_figures f = { .done = 7, .ended = 7, .failed = 1, .seconds = 12, .eta = -1 };
    CHECK_STR(laid(&f, CLI_PROGRESS_BAR, 80), "7 done, 1 failed, 12s");
}

TEST(an_eta)
{
    CHECK_STR(laid(&half, CLI_PROGRESS_ETA, 80), "ETA: 2m05s, 500/1000, 8 running, 3 failed, 0.2s each");
    struct cli_figures f = { .done = 7, .ended = 7, .running = 1, .seconds = 70, .eta = -1 };
    CHECK_STR(laid(&f, CLI_PROGRESS_ETA, 80), "ETA: unknown, 7 done, 1 running, 10s each");
}

TEST(a_line)
{
    CHECK_STR(laid(&half, CLI_PROGRESS_LINE, 80), "500/1000 (50%), 8 running, 3 failed, 4.0/s, 2m05s left");
    struct cli_figures f = { .done = 7000, .ended = 7000, .running = 1, .seconds = 70, .eta = -1 };
    CHECK_STR(laid(&f, CLI_PROGRESS_LINE, 80), "7000 done, 1 running, 100/s, 1m10s");
    f = (struct cli_figures){ .done = 2, .ended = 2, .running = 1, .seconds = 7200, .eta = -1 };
    CHECK_STR(laid(&f, CLI_PROGRESS_LINE, 80), "2 done, 1 running, 0.00028/s, 2h00m");
}

TEST(a_run_that_is_paused_or_draining)
{
    struct cli_figures f = half;
    f.eta = -1;
    f.state = "paused";
    CHECK_STR(laid(&f, CLI_PROGRESS_BAR, 60), " 50% [#########..........] 500/1000, paused, 3 failed, 2m05s");
    CHECK_STR(laid(&f, CLI_PROGRESS_LINE, 80), "500/1000 (50%), 8 running, paused, 3 failed, 4.0/s, 2m05s");
    f.state = "draining";
    CHECK_STR(laid(&f, CLI_PROGRESS_ETA, 80), "ETA: unknown, 500/1000, 8 running, draining, 3 failed, 0.2s each");
    struct gd_stats s = { .total = 100, .completed = 25, .start_ns = 1000000000, .now_ns = 11000000000 };
    struct view_history h = { 0 };
    figures_of(&f, &s, &h);
    CHECK(!f.state);
    s.paused = 1;
    figures_of(&f, &s, &h);
    CHECK_STR(f.state, "paused");
    CHECK(f.eta < 0); /* nobody knows when it goes on */
    s.draining = 1;
    s.paused = 0;
    figures_of(&f, &s, &h);
    CHECK_STR(f.state, "draining");
    CHECK(f.eta < 0);
}

TEST(a_small_buffer)
{
    char line[8];
    CHECK_EQ(cli_progress_layout(line, sizeof line, &half, CLI_PROGRESS_LINE, 80), 7);
    CHECK_STR(line, "500/100");
    CHECK_EQ(cli_progress_layout(line, 0, &half, CLI_PROGRESS_LINE, 80), 0);
}

/* --- on a terminal ----------------------------------------------------------------------- */

static atomic_uint_fast64_t completed;
static atomic_bool no_figures;

static int stats(void *user, struct gd_snapshot *out, struct gd_stats *s)
{
    CHECK_STR(user, "user");
    if (no_figures)
        return -1;
    (void)out;
    *s = (struct gd_stats){ .total = 10, .completed = completed, .start_ns = 1, .now_ns = 2 };
    return 0;
}

static char user_text[] = "user";

/* A pseudo-terminal of 60 columns that passes on what is written unchanged. */
static int open_terminal(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_GE(*slave, 0);
    struct termios t;
    CHECK_EQ(tcgetattr(*slave, &t), 0);
    cfmakeraw(&t);
    CHECK_EQ(tcsetattr(*slave, TCSANOW, &t), 0);
    struct winsize w = { .ws_col = 60, .ws_row = 24 };
    CHECK_EQ(ioctl(*slave, TIOCSWINSZ, &w), 0);
    return master;
}

/* Reads until the text has arrived and adds everything to b. If it never arrives, the case's time limit ends the wait.
 */
static void await_text(int master, struct gd__buffer *b, const char *text)
{
    for (;;) {
        char part[256];
        gd__buffer_add(b, "", 1);
        b->size--;
        if (strstr(b->data, text))
            return;
        ssize_t n = read(master, part, sizeof part);
        CHECK_GT(n, 0);
        gd__buffer_add(b, part, (size_t)n);
    }
}

TEST(a_terminal_sees_the_bar_move)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct gd__buffer seen = { 0 };
    completed = 2;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    await_text(master, &seen, "\r 20% [######.");
    await_text(master, &seen, "2/10, 0.0s left\033[K");
    completed = 5;
    await_text(master, &seen, "\r 50% [");
    cli_progress_close(&p);
    /* The last state stays, with a newline. */
    await_text(master, &seen, "\r\033[K\r 50% [");
    await_text(master, &seen, "left\n");
    gd__buffer_free(&seen);
}

TEST(an_eta_is_erased_at_the_end)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct gd__buffer seen = { 0 };
    completed = 10;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_ETA, stats, user_text), 0);
    await_text(master, &seen, "10/10");
    cli_progress_close(&p);
    CHECK_EQ(write(slave, "end", 3), 3);
    await_text(master, &seen, "end");
    CHECK_STR(strstr(seen.data, "\r\033[Kend"), "\r\033[Kend");
    gd__buffer_free(&seen);
}

/* Nothing is drawn between pause and resume. The line is erased first and drawn again afterwards. */
TEST(output_goes_between)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct gd__buffer seen = { 0 };
    completed = 1;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    await_text(master, &seen, "1/10, 0.0s\033[K");
    cli_progress_pause(p);
    CHECK_EQ(write(slave, "one|", 4), 4);
    completed = 2;
    CHECK_EQ(write(slave, "two|", 4), 4);
    cli_progress_resume(p);
    await_text(master, &seen, "\r\033[Kone|two|\r 20%");
    cli_progress_close(&p);
    gd__buffer_free(&seen);
}

/* A line that a task leaves without a newline is not overwritten. */
TEST(an_open_line_is_ended)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct cli_streams *o = NULL;
    struct gd__buffer seen = { 0 };
    completed = 1;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    await_text(master, &seen, "1/10, 0.0s\033[K");
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = slave, .err = slave, .progress = p }), 0);
    struct made *m = command("part", 4, "", 0, 0);
    completed = 2; /* after the check, because the line may be drawn again at any time from here on */
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    drop(m);
    await_text(master, &seen, "part\n\r 20% [");
    cli_progress_close(&p);
    cli_streams_close(&o);
    gd__buffer_free(&seen);
}

TEST(an_open_line_is_ended_before_our_messages)
{
    int slave, master = open_terminal(&slave);
    struct cli_streams *o = NULL;
    struct gd__buffer seen = { 0 };
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = slave, .err = slave }), 0);
    cli_streams_end_line(o); /* no line is open */
    struct made *m = command("one", 3, "", 0, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    drop(m);
    cli_streams_end_line(o);
    cli_streams_end_line(o);
    CHECK_EQ(write(slave, "end", 3), 3);
    await_text(master, &seen, "end");
    CHECK_STR(seen.data, "oneone\nend");
    cli_streams_close(&o);
    gd__buffer_free(&seen);
}

/* Two columns are left free for the "^C" that the terminal shows, and also the last column. */
TEST(a_bar_leaves_room_for_the_echo_of_ctrl_c)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct gd__buffer seen = { 0 };
    completed = 1;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    await_text(master, &seen, "\033[K");
    CHECK_EQ(strcspn(seen.data + 1, "\033"), 57);
    cli_progress_close(&p);
    gd__buffer_free(&seen);
}

TEST(results_clear_the_line_first)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct cli_streams *o = NULL;
    struct gd__buffer seen = { 0 };
    completed = 1;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    await_text(master, &seen, "1/10, 0.0s\033[K");
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = slave, .err = slave, .progress = p }), 0);
    struct gd_report r = { .data = "result", .size = 6, .input = "x", .input_size = 1 };
    struct cli_task_end e;
    cli_task_end_read(&e, &r, CLI_RESULT_BYTES);
    CHECK_EQ(cli_streams_add(o, &e), 0);
    await_text(master, &seen, "\r\033[Kresult\n");
    cli_progress_close(&p);
    cli_streams_close(&o);
    gd__buffer_free(&seen);
}

TEST(nothing_is_drawn_before_there_are_figures)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    struct gd__buffer seen = { 0 };
    no_figures = true;
    CHECK_EQ(cli_progress_open(&p, slave, CLI_PROGRESS_BAR, stats, user_text), 0);
    cli_progress_close(&p);
    CHECK_EQ(write(slave, "end", 3), 3);
    await_text(master, &seen, "end");
    CHECK_STR(seen.data, "end");
    gd__buffer_free(&seen);
}

TEST(a_file_gets_a_plain_line)
{
    struct cli_progress *p = NULL;
    enter_directory();
    int fd = open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    completed = 10;
    CHECK_EQ(cli_progress_open(&p, fd, CLI_PROGRESS_ETA, stats, user_text), 0);
    cli_progress_pause(p);
    cli_progress_resume(p);
    cli_progress_close(&p);
    struct gd__buffer b = bytes_of("f");
    CHECK_STR(b.data, "gpu-dispatch: ETA: 0.0s, 10/10, 0 running, 0.0s each\n");
    gd__buffer_free(&b);
}

TEST(no_progress_is_fine)
{
    struct cli_progress *p = NULL;
    cli_progress_pause(p);
    cli_progress_resume(p);
    cli_progress_close(&p);
}

TEST_MAIN()
