/* SPDX-License-Identifier: MIT
 *
 * --halt and the exit status, alone and compared with GNU parallel.
 */
#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/run/stop/exit_status.h"
#include "cli/run/stop/halt.h"
#include "common.h"

static struct gd_report task;

/* Counts a task that exits with code (-1: timeout, -2: cancelled, above 1000: a signal). */
static enum cli_halt_when add(struct cli_halt *h, int code)
{
    task = (struct gd_report){ .failure = code == 0    ? GD_FAILURE_NONE
                                          : code == -1 ? GD_FAILURE_TIMEOUT
                                          : code == -2 ? GD_FAILURE_CANCELLED
                                                       : GD_FAILURE_ERROR };
    struct cli_task_end e = { .report = &task, .ok = code == 0, .exit_code = code > 1000 ? 0 : code };
    e.signal = code > 1000 ? code - 1000 : 0;
    return cli_halt_add(h, &e);
}

/* Counts the codes one after the other until halted, as with one worker. Returns the exit status. *ran: how many were
 * counted. */
static int run(const char *halt, const int *codes, size_t n, size_t *ran)
{
    struct cli_halt h = { 0 };
    size_t i = 0;
    CHECK_EQ(cli_halt_parse(&h, halt), 0);
    h.total = n;
    while (i < n && add(&h, codes[i++]) == CLI_HALT_NEVER)
        ;
    if (ran)
        *ran = i;
    return cli_exit_status(&h, h.halted ? GD_E_SHUTDOWN : 0, false);
}

#define RUN(halt, ran, ...) run(halt, (const int[]){ __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), ran)

TEST(parses)
{
    struct cli_halt h = { 0 };
    CHECK_EQ(cli_halt_parse(&h, "now,fail=3"), 0);
    CHECK_EQ(h.when, CLI_HALT_NOW);
    CHECK_EQ(h.what, CLI_HALT_FAIL);
    CHECK_EQ(h.limit, 3);
    CHECK(!cli_halt_needs_total(&h));
    CHECK_EQ(cli_halt_parse(&h, "soon,success=20%"), 0);
    CHECK_EQ(h.when, CLI_HALT_SOON);
    CHECK_EQ(h.what, CLI_HALT_SUCCESS);
    CHECK_EQ(h.percent, 20);
    CHECK(cli_halt_needs_total(&h));
    CHECK_EQ(cli_halt_parse(&h, "soon,done,1"), 0);
    CHECK_EQ(h.what, CLI_HALT_DONE);
    CHECK_EQ(h.limit, 1);
    CHECK_EQ(h.percent, 0);
    CHECK_EQ(cli_halt_parse(&h, "2"), 0);
    CHECK_EQ(h.when, CLI_HALT_NOW);
    CHECK_EQ(cli_halt_parse(&h, "1"), 0);
    CHECK_EQ(h.when, CLI_HALT_SOON);
    CHECK_EQ(cli_halt_parse(&h, "10%"), 0);
    CHECK_EQ(h.percent, 10);
    CHECK_EQ(cli_halt_parse(&h, "never"), 0);
    CHECK_EQ(h.when, CLI_HALT_NEVER);
    CHECK_EQ(cli_halt_parse(&h, "0"), 0);
    CHECK_EQ(h.when, CLI_HALT_NEVER);
}

TEST(refuses_with_a_message)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "", "must start with" },
        { "bogus", "must start with" },
        { "fail=1", "must start with" },
        { "now", "now must be followed by" },
        { "soon,", "soon must be followed by" },
        { "now,fails=1", "now must be followed by" },
        { "now,fail", "a number" },
        { "now,fail=", "a number" },
        { "now,fail=x", "a number" },
        { "now,fail=0", "a number" },
        { "now,fail=1.5", "a number" },
        { "now,fail=1.5%", "percentage" },
        { "now,fail=0%", "percentage" },
        { "never,fail=1", "never has no limit" },
        { "3", "must start with" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cli_halt h = { 0 };
        if (cli_halt_parse(&h, bad[i].text) == 0)
            FAIL("\"%s\" was taken", bad[i].text);
        CHECK_CONTAINS(gd__fail_text(), bad[i].words);
    }
}

TEST(a_limit_of_one_gives_the_task_s_status)
{
    size_t ran;
    CHECK_EQ(RUN("now,fail=1", &ran, 0, 3, 4, 0), 3);
    CHECK_EQ(ran, 2);
    CHECK_EQ(RUN("soon,done=1", &ran, 3, 4), 3);
    CHECK_EQ(ran, 1);
    CHECK_EQ(RUN("now,fail=1", NULL, 1009, 0), 137);
    CHECK_EQ(RUN("now,fail=1", NULL, -1, 0), 255);
}

TEST(other_limits_give_a_number)
{
    size_t ran;
    CHECK_EQ(RUN("soon,fail=2", &ran, 0, 3, 4, 5, 0), 2);
    CHECK_EQ(ran, 3);
    CHECK_EQ(RUN("now,fail=3", &ran, 3, 4, 0, 0), 2);
    CHECK_EQ(ran, 4);
    CHECK_EQ(RUN("now,done=2", &ran, 3, 4, 0, 5), 2);
    CHECK_EQ(ran, 2);
}

TEST(percentages)
{
    size_t ran;
    CHECK_EQ(RUN("soon,fail=50%", &ran, 0, 3, 4, 5, 0), 60);
    CHECK_EQ(ran, 4);
    CHECK_EQ(RUN("soon,fail=20%", &ran, 9, 0, 0, 0, 0, 0, 0), 15);
    CHECK_EQ(ran, 7);
    CHECK_EQ(RUN("now,done=50%", &ran, 3, 4, 0, 5, 0), 40);
    CHECK_EQ(ran, 3);
    CHECK_EQ(RUN("soon,fail=20%", &ran, 0, 3, 4, 5, 0), 3);
    CHECK_EQ(ran, 2);
}

TEST(a_halt_at_a_success_gives_status_0)
{
    size_t ran;
    CHECK_EQ(RUN("now,success=1", &ran, 3, 4, 0, 5), 0);
    CHECK_EQ(ran, 3);
    CHECK_EQ(RUN("soon,success=2", &ran, 3, 4, 5), 3);
    CHECK_EQ(RUN("now,success=50%", &ran, 3, 4, 0, 0, 5), 60);
}

TEST(tasks_that_end_after_the_halt_do_not_count)
{
    struct cli_halt h = { 0 };
    CHECK_EQ(cli_halt_parse(&h, "soon,fail=1"), 0);
    CHECK_EQ(add(&h, 3), CLI_HALT_SOON);
    CHECK_EQ(add(&h, 4), CLI_HALT_NEVER);
    CHECK_EQ(add(&h, -2), CLI_HALT_NEVER);
    CHECK_EQ(cli_exit_status(&h, GD_E_SHUTDOWN, false), 3);
    CHECK_EQ(h.failed, 2);
}

TEST(cancelled_tasks_count_as_nothing)
{
    struct cli_halt h = { 0 };
    CHECK_EQ(cli_halt_parse(&h, "now,done=1"), 0);
    CHECK_EQ(add(&h, -2), CLI_HALT_NEVER);
    CHECK_EQ(h.failed + h.succeeded, 0);
}

TEST(reasons_as_text)
{
    char text[CLI_HALT_ROOM];
    struct cli_halt h = { .when = CLI_HALT_NOW, .limit = 1 };
    struct gd_report one = { .input = "a\tb.wav", .input_size = 8, .failure = GD_FAILURE_ERROR, .error = "no\nmodel" };
    struct cli_task_end e = { .report = &one };
    CHECK_EQ(cli_halt_add(&h, &e), CLI_HALT_NOW);
    CHECK_STR(cli_halt_reason(&h, text, sizeof text), "task \"a b.wav\" failed (no)");
    h = (struct cli_halt){ .when = CLI_HALT_SOON, .limit = 3, .failed = 2 };
    one = (struct gd_report){ .task_id = 6, .input = "x\0y", .input_size = 4, .failure = GD_FAILURE_TIMEOUT };
    CHECK_EQ(cli_halt_add(&h, &e), CLI_HALT_SOON);
    CHECK_STR(cli_halt_reason(&h, text, sizeof text), "3 tasks failed, the last one is 7");
    h = (struct cli_halt){ .percent = 20, .what = CLI_HALT_DONE, .total = 50, .failed = 4, .succeeded = 6 };
    CHECK_STR(cli_halt_reason(&h, text, sizeof text), "10 of 50 tasks ended, the limit is 20%");
}

TEST(status_by_number)
{
    struct cli_halt h = { 0 };
    CHECK_EQ(cli_exit_status(&h, 0, false), 0);
    CHECK_EQ(cli_exit_status(&h, 0, true), 255);
    h.failed = 1;
    CHECK_EQ(cli_exit_status(&h, 0, false), 1);
    h.failed = 100;
    CHECK_EQ(cli_exit_status(&h, 0, false), 100);
    h.failed = 101;
    CHECK_EQ(cli_exit_status(&h, 0, false), 101);
    h.failed = 100000;
    CHECK_EQ(cli_exit_status(&h, 0, false), 101);
    CHECK_EQ(cli_exit_status(&h, GD_E_INTERRUPTED, false), 130);
    CHECK_EQ(cli_exit_status(&h, GD_E_SETUP, false), 255);
    CHECK_EQ(cli_exit_status(&h, GD_E_SOURCE, false), 255);
    CHECK_EQ(cli_exit_status(&h, GD_E_SHUTDOWN, false), 101);
}

/* The exit status must show that the log is incomplete, although the run was halted. */
TEST(status_of_a_halt_that_lost_a_log)
{
    struct cli_halt h = { .when = CLI_HALT_NOW, .limit = 1, .failed = 1, .halted = true, .status = 3 };
    CHECK_EQ(cli_exit_status(&h, GD_E_SHUTDOWN, false), 3);
    CHECK_EQ(cli_exit_status(&h, GD_E_SHUTDOWN, true), 255);
    CHECK_EQ(cli_exit_status(&h, GD_E_INTERRUPTED, true), 130);
}

/* The same lists of exit codes in both programs. */
TEST_WITHIN(300, as_gnu_parallel)
{
    static const char *const halts[] = { "never",         "now,fail=1",    "soon,fail=2",
                                         "soon,fail=50%", "soon,fail=20%", "now,done=2",
                                         "now,done=50%",  "now,success=1", "soon,success=50%",
                                         "now,success=3", "10%",           "1" };
    static const struct {
        const char *text;
        int codes[7];
        size_t n;
    } lists[] = { { "0 3 4 5 0", { 0, 3, 4, 5, 0 }, 5 }, { "9 0 0 0 0 0 0", { 9, 0, 0, 0, 0, 0, 0 }, 7 } };
    need_parallel();
    for (size_t i = 0; i < sizeof halts / sizeof *halts; i++) {
        for (size_t j = 0; j < sizeof lists / sizeof *lists; j++) {
            char command[300], ours[32];
            int status;
            size_t ran;
            snprintf(command, sizeof command,
                     "parallel -j1 -k --halt %s 'echo; exit {}' ::: %s 2>/dev/null | wc -l; "
                     "parallel -j1 --halt %s 'exit {}' ::: %s >/dev/null 2>&1",
                     halts[i], lists[j].text, halts[i], lists[j].text);
            struct gd__buffer theirs = shell(command, &status);
            int mine = run(halts[i], lists[j].codes, lists[j].n, &ran);
            snprintf(ours, sizeof ours, "%zu\n", ran);
            if (strcmp(ours, theirs.data) != 0 || mine != status)
                FAIL("%s on %s: status %d after %s tasks, but parallel has %d after %s", halts[i], lists[j].text, mine,
                     ours, status, theirs.data);
            gd__buffer_free(&theirs);
        }
    }
}

TEST_MAIN()
