/* SPDX-License-Identifier: MIT
 *
 * The live panel of `gpu-dispatch run` in a real terminal, and what is shown without a terminal.
 */
#include <gpu_dispatch/journal.h>

#include "tmux.h"

/* There is one device, so that each task runs on a known worker. Two tasks end, one of them fails, and the third waits
 * to be released. */
static void start_run(const char *options)
{
    char line[512];
    make_task();
    snprintf(line, sizeof line, "gpu-dispatch run --gpus sim:1 %s ./task ::: good bad wait rest; echo status $?",
             options);
    type(line);
}

/* The command line on the screen contains "wait" too, but with one space after it. Only the panel has two. */
static void await_panel(void)
{
    await_screen("2 of 4 tasks");
    await_screen("processing");
    await_screen("wait  ");
}

static void check_screen_at(unsigned width)
{
    char name[64];
    open_terminal(width, 24, "");
    start_run("");
    await_panel();
    await_screen("tasks/s now");
    snprintf(name, sizeof name, "run-%u.txt", width);
    await_kept_screen(name);
    let_go("go");
    await_screen("status 1");
    CHECK_EQ(count_on_screen("━"), 0);
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
    CHECK_CONTAINS(look(""), "out good\nout bad\nout wait\nout rest\n");
    await_clean();
}

TEST(a_panel_of_40_columns)
{
    check_screen_at(40);
}

TEST(a_panel_of_80_columns)
{
    check_screen_at(80);
}

TEST(a_panel_of_200_columns)
{
    check_screen_at(200);
}

/* The terminal becomes narrower and wraps the panel. Nothing of the old panel is left behind. */
TEST(resizing)
{
    open_terminal(200, 24, "");
    start_run("");
    await_panel();
    await_screen("Device"); /* a column that only wide terminals show */
    resize(40, 24);
    await_no("Device");
    await_screen("tasks/s now");
    await_count("2 of 4 tasks", 1);
    await_count("elapsed", 1);
    await_kept_screen("run-200-to-40.txt");
    resize(80, 30);
    await_screen("Memory");
    await_count("2 of 4 tasks", 1);
    await_kept_screen("run-40-to-80.txt");
    resize(80, 6);
    await_no("Memory");
    await_count("2 of 4 tasks", 1);
    let_go("go");
    await_screen("status 1");
    CHECK_EQ(count_on_screen("━"), 0);
}

static bool is_below(const char *screen, const char *lower, const char *upper)
{
    const char *at = strstr(screen, upper);
    return at && strstr(at, lower);
}

/* More lines than the screen has, some of them while the panel is shown. All arrive in order, and the panel stays below
 * them. The same holds for output that a worker writes itself (-u). */
TEST(output_scrolls_above)
{
    open_terminal(80, 24, "");
    make_task();
    CHECK_EQ(sh("cat > talk <<'END'\n#!/bin/sh\nread x < go\nfor i in $(seq 60); do echo line $i; done\n"
                "echo err >&2\nprintf unended\nread x < end\nEND\nchmod +x talk; mkfifo end")
                 .status,
             0);
    type("gpu-dispatch run -u --gpus sim:1 ./talk ::: x; echo status $?");
    await_screen("0 of 1 task");
    let_go("go");
    await_screen("line 60");
    await_screen("err");
    AWAIT(is_below(look(""), "0 of 1 task", "line 60"), "the panel below the output");
    await_count("0 of 1 task", 1);
    CHECK_EQ(sh("echo > end").status,
             0); /* another FIFO: a second reader of the same one might see the end of file meant for the first */
    await_screen("status 0");
    struct ran r =
        sh(TMUX "capture-pane -p -S -200 -t t | grep -x 'line [0-9]*' | uniq | md5sum; seq 60 | sed 's/^/line /' "
                "| md5sum");
    CHECK_EQ(strlen(r.out), 72);
    CHECK_EQ(memcmp(r.out, r.out + 36, 32), 0);
    CHECK_CONTAINS(look("-S -200"), "\nunended\n");
    CHECK_EQ(sh(TMUX "capture-pane -p -S -200 -t t | grep -c 'tasks*,'").out[0], '0');
}

/* Waits until the terminal holds this many bytes of complete lines that were not read. */
static void await_typed(int bytes)
{
    const char *ask = "perl -MFcntl -e 'sysopen(F, shift, O_RDWR | O_NOCTTY | O_NONBLOCK) or die; $b = pack \"i\", 0; "
                      "ioctl(F, 0x541b, $b); print unpack \"i\", $b' $(" TMUX "display -p -t t '#{pane_tty}')";
    AWAIT(atoi(sh("%s", ask).out) >= bytes, "what was typed");
}

/* Waits until the panel has been drawn again once, and the cursor is below it. */
static void await_drawn_anew(void)
{
    AWAIT(strcmp(sh(TMUX "display -p -t t '#{cursor_y}'").out, "10\n") == 0, "the cursor in row 10");
    await_count("of 4 tasks", 1);
    await_count("elapsed", 1);
    await_count("processing", 1);
}

/* The terminal echoes the Enter key, which moves the cursor. No part of the old panel is left behind, and no output is
 * erased. */
TEST(enter_is_pressed)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    for (int i = 0; i < 3; i++) {
        press("Enter");
        await_typed(i + 1);
        await_drawn_anew();
    }
    press("a b Enter c");
    await_typed(6); /* and echoed, before there is more output */
    let_go("go");
    await_screen("status 1");
    CHECK_CONTAINS(look(""), "out good\nout bad\nout wait\nout rest\n");
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
}

/* Several lines at once, some of them empty: each takes a row. The shell still gets all of them. */
TEST(lines_are_pasted)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    CHECK_EQ(sh(TMUX "set-buffer \"$(printf 'echo $((6 * 7))\\n\\n\\n# two\\n#')\"; " TMUX "paste-buffer -t t").status,
             0);
    await_typed(20);
    await_drawn_anew();
    await_screen("\nout good\nout bad\n");
    press("Enter");
    let_go("go");
    await_screen("\n42\n");
    CHECK_CONTAINS(look(""), "\nout good\nout bad\nout wait\nout rest\n");
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
    await_clean();
}

TEST(ctrl_c)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    press("C-c");
    await_screen("interrupted: 1 running task may finish");
    await_panel();
    await_count("2 of 4 tasks", 1);
    await_count("^C", 0);
    let_go("go");
    await_screen("status 130");
    CHECK_EQ(count_on_screen("━"), 0);
    await_clean();
}

TEST(ctrl_z_and_fg)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    press("C-z");
    await_screen("Stopped");
    CHECK_EQ(count_on_screen("━"), 0); /* the panel was erased */
    await_clean();
    type("echo between");
    await_screen("\nbetween");
    type("fg");
    await_panel();
    await_count("2 of 4 tasks", 1);
    await_screen("\nbetween\n$ fg\ngpu-dispatch run");
    let_go("go");
    await_screen("out rest");
    await_no("━");
    await_clean();
}

/* A stop that cannot be caught: the old panel stays, and a new one begins below it. */
TEST(stopped_without_warning)
{
    open_terminal(80, 40, "");
    start_run("");
    await_panel();
    CHECK_EQ(sh("export GPU_DISPATCH_JOBS=$PWD/jobs; kill -STOP $(gpu-dispatch top --list --json | sed "
                "'s/.*\"pid\":\\([0-9]*\\).*/\\1/')")
                 .status,
             0);
    await_screen("Stopped");
    type("fg");
    await_count("2 of 4 tasks", 2);
    await_count("Stopped", 1);
    await_count("$ fg", 1);
    let_go("go");
    await_screen("out rest");
    await_clean();
}

/* The shell uses the terminal, so the run draws nothing over what is typed there. */
TEST(in_the_background)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    press("C-z");
    await_screen("Stopped");
    type("bg");
    type("echo $((40 + 2))");
    await_screen("\n42");
    CHECK_EQ(count_on_screen("━"), 0);
    let_go("go");
    await_screen("out rest");
    CHECK_EQ(count_on_screen("━"), 0);
    await_clean();
}

TEST(killed)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    CHECK_EQ(sh("export GPU_DISPATCH_JOBS=$PWD/jobs; kill -9 $(gpu-dispatch top --list --json | sed "
                "'s/.*\"pid\":\\([0-9]*\\).*/\\1/')")
                 .status,
             0);
    await_screen("status 137");
    type("echo plain");
    await_screen("\nplain");
    await_clean();
    CHECK_CONTAINS(look("-e"), "\nplain");
}

TEST(colours)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    AWAIT(strstr(look("-e"), "\033[33m") && strstr(look("-e"), "\033[31m"), "yellow and red");
    let_go("go");
    await_screen("status 1");
}

TEST(no_colours)
{
    open_terminal(80, 24, "NO_COLOR=1");
    type("export NO_COLOR=1; clear");
    start_run("");
    await_panel();
    CHECK(!strstr(look("-e"), "\033["));
    let_go("go");
    await_screen("status 1");
}

TEST(a_terminal_without_utf8)
{
    open_terminal(80, 24, "");
    type("export LC_ALL=C; clear");
    start_run("");
    await_panel();
    CHECK_EQ(count_on_screen("━"), 0);
    await_screen("\n#######################################......");
    let_go("go");
    await_screen("status 1");
}

TEST(a_dumb_terminal)
{
    open_terminal(80, 24, "");
    type("export TERM=dumb; clear");
    start_run("");
    await_screen("out bad");
    let_go("go");
    await_screen("status 1");
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
    CHECK_EQ(count_on_screen("\033"), 0);
}

TEST(no_panel_if_quiet)
{
    open_terminal(80, 24, "");
    start_run("--quiet");
    await_screen("out bad");
    let_go("go");
    await_screen("status 1");
    CHECK_CONTAINS(look(""), "\nout good\nout bad\nout wait\nout rest\nstatus 1\n");
}

/* --- without a terminal --------------------------------------------------------------------------- */

/* A run of less than five seconds prints only its summary, and nothing with --quiet. How long a run takes depends on
 * the machine. */
TEST(a_short_run_prints_no_progress)
{
    static const char *const styles[] = { "line --quiet", "panel --quiet", "none --quiet", "line" };
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        const int64_t begun = ms_now();
        struct ran r = sh("gpu-dispatch run --gpus sim:1 --progress %s true ::: 1 2", styles[i]);
        const bool is_short = ms_now() - begun < 5000;
        if (strstr(styles[i], "--quiet") && (is_short || strstr(styles[i], "none")))
            CHECK_STR(r.err, "");
        else if (is_short)
            CHECK_EQ(strncmp(r.err, "GPU  tasks", 10), 0);
        CHECK_EQ(r.status, 0);
    }
}

/* The first line may come before the worker is ready, and there may be another line before the summary. */
TEST(a_long_run_prints_its_progress)
{
    CHECK_EQ(sh("mkfifo go said").status, 0);
    struct ran r = sh("gpu-dispatch run --gpus sim:1 'read x < go #' ::: 1 2 2> said & exec 3< said 4<> go; "
                      "grep -m1 '^gpu-dispatch: 0/2 (0%%), 1 running, ' <&3; echo >&4; echo >&4; cat <&3 > rest; wait");
    CHECK_EQ(count_lines(r.out), 1);
    CHECK_STR(sh("grep -v '^gpu-dispatch: ' rest | head -n 1 | cut -c 1-10").out, "GPU  tasks\n");
}

/* The last line. Each line is a JSON object. Usually there is one line, but a run may take longer than a second. */
static const char *last_object(const char *text)
{
    const char *line = text, *end;
    for (;;) {
        CHECK_EQ(strncmp(line, "{\"pid\":", 7), 0);
        end = strchr(line, '\n');
        CHECK(end != NULL);
        if (end[1] == '\0')
            return line;
        line = end + 1;
    }
}

TEST(as_json)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --quiet --progress json 'exit {}' ::: 0 1 0");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(last_object(r.err),
                   "\"ended\":true,\"total\":3,\"taken\":3,\"waiting\":0,\"running\":0,\"completed\":2,\"failed\":1");
    CHECK_CONTAINS(r.err, "\"workers\":[{\"worker\":0,\"gpu\":0,\"gpus\":[0],\"status\":\"finished\"");
}

/* The last line has the totals. No table and no line about the journal comes after it. */
TEST(as_json_and_nothing_else)
{
    const char *journal = gd_journal_available() ? "--journal run.db" : "";
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --progress json %s 'exit {}' ::: 0 1 0", journal);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(last_object(r.err), "\"ended\":true,\"total\":3,");
}

/* A line comes once a second, even before the worker is ready. Waits for two lines that show the task. */
TEST(as_json_every_second)
{
    CHECK_EQ(sh("mkfifo go said").status, 0);
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --quiet --progress json 'read x < go #' ::: waits 2> said & exec 3< said; "
           "grep -m2 '\"ended\":false,\"total\":1,\"taken\":1,\"waiting\":0,\"running\":1,.*\"input\":\"waits\"' <&3; "
           "echo > go; cat <&3 > rest; wait; tail -n 1 rest");
    CHECK_EQ(count_lines(r.out), 3);
    CHECK_CONTAINS(last_object(r.out), "\"ended\":true");
}

TEST_MAIN()
