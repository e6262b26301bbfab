/* SPDX-License-Identifier: MIT
 *
 * The live panel of `gpu-dispatch run` in a real terminal, and what is shown where there is none.
 */
#include <gpu_dispatch/journal.h>

#include "tmux.h"

/* One device, so that who runs what is certain: two tasks end, one of them badly, the third waits to be let go. */
static void start_run(const char *options)
{
    char line[512];
    make_task();
    snprintf(line, sizeof line, "gpu-dispatch run --gpus sim:1 %s ./task ::: good bad wait rest; echo status $?",
             options);
    type(line);
}

static void await_panel(void)
{
    await_screen("2 of 4 tasks");
    await_screen("wait ");
}

static void check_screen_at(unsigned width)
{
    char name[64];
    open_terminal(width, 24, "");
    start_run("");
    await_panel();
    await_screen("tasks/s now");
    snprintf(name, sizeof name, "run-%u.txt", width);
    check_screen("command", name, look_alike());
    let_go("go");
    await_screen("status 1");
    CHECK_EQ(count_on_screen("━"), 0);
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
    CHECK_CONTAINS(look(""), "out good\nout bad\nout wait\nout rest\n");
    check_clean();
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

/* Narrower: what was there is wrapped by the terminal, and none of it is left behind. */
TEST(resizing)
{
    open_terminal(200, 24, "");
    start_run("");
    await_panel();
    await_screen("Device"); /* a column for wide ones */
    resize(40, 24);
    await_no("Device");
    await_screen("tasks/s now");
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 1);
    CHECK_EQ(count_on_screen("elapsed"), 1);
    check_screen("command", "run-200-to-40.txt", look_alike());
    resize(80, 30);
    await_screen("Memory");
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 1);
    check_screen("command", "run-40-to-80.txt", look_alike());
    resize(80, 6);
    await_no("Memory");
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 1);
    let_go("go");
    await_screen("status 1");
    CHECK_EQ(count_on_screen("━"), 0);
}

/* More lines than the screen has, some of them while the panel is there: all arrive, in order, and the panel stays
 * below them. What a worker writes by itself (-u) goes the same way. */
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
    await_screen("0 of 1 task");
    char *screen = look("");
    CHECK_EQ(count_on_screen("0 of 1 task"), 1);
    CHECK(strstr(screen, "line 60") < strstr(screen, "0 of 1 task"));
    CHECK_EQ(sh("echo > end").status, 0); /* not the same again: its second reader might see the end of the first */
    await_screen("status 0");
    struct ran r =
        sh(TMUX "capture-pane -p -S -200 -t t | grep -x 'line [0-9]*' | uniq | md5sum; seq 60 | sed 's/^/line /' "
                "| md5sum");
    CHECK_EQ(strlen(r.out), 72);
    CHECK_EQ(memcmp(r.out, r.out + 36, 32), 0);
    CHECK_CONTAINS(look("-S -200"), "\nunended\n");
    CHECK_EQ(sh(TMUX "capture-pane -p -S -200 -t t | grep -c 'tasks*,'").out[0], '0');
}

/* What is echoed moves the cursor: none of the panel is left behind, and none of the output is wiped. */
TEST(enter_is_pressed)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    for (int i = 0; i < 3; i++) {
        press("Enter");
        while (strcmp(sh(TMUX "display -p -t t '#{cursor_y}'").out, "10\n") != 0)
            ; /* it has been drawn anew */
        CHECK_EQ(count_on_screen("of 4 tasks"), 1);
        CHECK_EQ(count_on_screen("elapsed"), 1);
        CHECK_EQ(count_on_screen("processing"), 1);
    }
    press("a b Enter c");
    let_go("go");
    await_screen("status 1");
    CHECK_CONTAINS(look(""), "out good\nout bad\nout wait\nout rest\n");
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
}

/* Until the terminal holds so many bytes of whole lines that nobody has read. */
static void await_typed(int bytes)
{
    const char *ask = "perl -MFcntl -e 'sysopen(F, shift, O_RDWR | O_NOCTTY | O_NONBLOCK) or die; $b = pack \"i\", 0; "
                      "ioctl(F, 0x541b, $b); print unpack \"i\", $b' $(" TMUX "display -p -t t '#{pane_tty}')";
    while (atoi(sh("%s", ask).out) < bytes)
        ;
}

/* Several at once, some of them empty: as many rows. Nothing of it is taken from the shell. */
TEST(lines_are_pasted)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    CHECK_EQ(sh(TMUX "set-buffer \"$(printf 'echo $((6 * 7))\\n\\n\\n# two\\n#')\"; " TMUX "paste-buffer -t t").status,
             0);
    await_typed(20);
    while (strcmp(sh(TMUX "display -p -t t '#{cursor_y}'").out, "10\n") != 0)
        ; /* it has been drawn anew */
    CHECK_EQ(count_on_screen("of 4 tasks"), 1);
    CHECK_EQ(count_on_screen("elapsed"), 1);
    CHECK_EQ(count_on_screen("processing"), 1);
    CHECK_CONTAINS(look(""), "\nout good\nout bad\n");
    press("Enter");
    let_go("go");
    await_screen("\n42\n");
    CHECK_CONTAINS(look(""), "\nout good\nout bad\nout wait\nout rest\n");
    CHECK_EQ(count_on_screen("of 4 tasks"), 0);
    check_clean();
}

TEST(ctrl_c)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    press("C-c");
    await_screen("interrupted: 1 running task may finish");
    await_panel();
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 1);
    CHECK_EQ(count_on_screen("^C"), 0);
    let_go("go");
    await_screen("status 130");
    CHECK_EQ(count_on_screen("━"), 0);
    check_clean();
}

TEST(ctrl_z_and_fg)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    press("C-z");
    await_screen("Stopped");
    CHECK_EQ(count_on_screen("━"), 0); /* it was taken off */
    check_clean();
    type("echo between");
    await_screen("\nbetween");
    type("fg");
    await_panel();
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 1);
    CHECK_CONTAINS(look(""), "\nbetween\n$ fg\ngpu-dispatch run");
    let_go("go");
    await_screen("out rest");
    await_no("━");
    check_clean();
}

/* A stop that cannot be seen coming: what is there is left, the panel begins anew below it. */
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
    while (count_on_screen("2 of 4 tasks") != 2)
        ;
    CHECK_EQ(count_on_screen("Stopped"), 1);
    CHECK_EQ(count_on_screen("$ fg"), 1);
    let_go("go");
    await_screen("out rest");
    check_clean();
}

/* The shell has the terminal: nothing is drawn over what is typed there. */
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
    check_clean();
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
    check_clean();
    CHECK_CONTAINS(look("-e"), "\nplain");
}

TEST(colours)
{
    open_terminal(80, 24, "");
    start_run("");
    await_panel();
    char *screen = look("-e");
    CHECK_CONTAINS(screen, "\033[33m");
    CHECK_CONTAINS(screen, "processing");
    CHECK_CONTAINS(screen, "\033[31m");
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
    CHECK_CONTAINS(look(""), "\n#######################################......");
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

/* --- where there is no terminal ------------------------------------------------------------------ */

TEST(a_short_run_says_nothing_more)
{
    CHECK_STR(sh("gpu-dispatch run --gpus sim:1 --progress line --quiet true ::: 1 2").err, "");
    CHECK_STR(sh("gpu-dispatch run --gpus sim:1 --progress panel --quiet true ::: 1 2").err, "");
    CHECK_STR(sh("gpu-dispatch run --gpus sim:1 --progress none --quiet true ::: 1 2").err, "");
    struct ran r = sh("gpu-dispatch run --gpus sim:1 true ::: 1 2");
    CHECK_EQ(strncmp(r.err, "GPU  tasks", 10), 0);
}

TEST(a_long_run_says_how_far_it_is)
{
    CHECK_EQ(sh("mkfifo go said").status, 0);
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 'read x < go #' ::: 1 2 2> said & exec 3< said 4<> go; head -n 1 <&3; "
           "echo >&4; echo >&4; cat <&3 > rest; wait");
    CHECK_EQ(strncmp(r.out, "gpu-dispatch: 0/2 (0%), 1 running, ", 35), 0);
    CHECK_EQ(sh("head -c 10 rest").out[0], 'G'); /* the summary */
}

/* Each line is an object; usually there is one, but a run may take longer than a second. */
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
    CHECK_CONTAINS(r.err, "\"workers\":[{\"worker\":0,\"gpu\":0,\"status\":\"finished\"");
}

/* The last line has the totals: no table comes after it, and no line on the journal. */
TEST(as_json_and_nothing_else)
{
    const char *journal = gd_journal_available() ? "--journal run.db" : "";
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --progress json %s 'exit {}' ::: 0 1 0", journal);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(last_object(r.err), "\"ended\":true,\"total\":3,");
}

TEST(as_json_every_second)
{
    CHECK_EQ(sh("mkfifo go said").status, 0);
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --quiet --progress json 'read x < go #' ::: waits 2> said & exec 3< "
           "said; head -n 2 <&3; echo > go; cat <&3; wait");
    CHECK_CONTAINS(r.out, "\"ended\":false,\"total\":1,\"taken\":1,\"waiting\":0,\"running\":1,");
    CHECK_CONTAINS(r.out, "\"input\":\"waits\"");
    CHECK_CONTAINS(r.out, "\"ended\":true");
}

TEST_MAIN()
