/* SPDX-License-Identifier: MIT
 *
 * A real terminal: a shell in tmux, typed at and looked at as a person would. Tests wait until what they expect is on
 * the screen; the time limit of the case is their deadline.
 */
#ifndef GD_TESTS_COMMAND_TMUX_H
#define GD_TESTS_COMMAND_TMUX_H

#include "common.h"
#include "support/screens.h"

/* The server and its socket belong to the case. */
#define TMUX "tmux -S $PWD/socket "

static void need_tmux(void)
{
    if (sh("command -v tmux perl").status != 0)
        SKIP("no tmux");
}

/* A terminal of this size with a shell in the case's folder, which shows "$ " and nothing else. more: NAME=value for
 * the shell. */
TEST_UNUSED static void open_terminal(unsigned width, unsigned height, const char *more)
{
    need_tmux();
    struct ran r =
        sh("echo \"PS1='\\$ '\" > rc; export LC_ALL=C.UTF-8 GPU_DISPATCH_JOBS=$PWD/jobs %s; unset TMUX NO_COLOR\n" TMUX
           "-f /dev/null new-session -d -s t -x %u -y %u \"exec bash --rcfile rc\"",
           more, width, height);
    if (r.status != 0)
        FAIL("tmux: %s", r.err);
    while (!strchr(sh(TMUX "capture-pane -p -t t").out, '$'))
        ; /* what is typed before the prompt is there is seen twice */
}

/* What is on the screen, lines without trailing spaces and none that is empty at the end. options: "-e" for colours. */
TEST_UNUSED static char *look(const char *options)
{
    return sh(TMUX "capture-pane -p %s -t t | sed -e 's/ *$//' | sed -e :a -e '/^\\n*$/{$d;N;ba' -e '}'", options).out;
}

TEST_UNUSED static void await_screen(const char *text)
{
    while (!strstr(look(""), text))
        ;
}

TEST_UNUSED static void await_no(const char *text)
{
    while (strstr(look(""), text))
        ;
}

TEST_UNUSED static void press(const char *keys)
{
    CHECK_EQ(sh(TMUX "send-keys -t t %s", keys).status, 0);
}

TEST_UNUSED static void type(const char *line)
{
    CHECK_EQ(sh(TMUX "send-keys -t t -l \"$(cat <<'END'\n%s\nEND\n)\"; " TMUX "send-keys -t t Enter", line).status, 0);
}

TEST_UNUSED static void resize(unsigned width, unsigned height)
{
    CHECK_EQ(sh(TMUX "resize-window -t t -x %u -y %u", width, height).status, 0);
}

/* How often a text is on the screen. */
TEST_UNUSED static int count_on_screen(const char *text)
{
    int n = 0;
    for (const char *at = look(""); (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* The cursor is seen, lines wrap, and the terminal is not the alternate screen. */
TEST_UNUSED static void check_clean(void)
{
    CHECK_STR(sh(TMUX "display -p -t t '#{cursor_flag}#{wrap_flag}#{alternate_on}'").out, "110\n");
}

/* The screen with figures that differ from run to run made alike, in the place and width that they have. */
TEST_UNUSED static char *look_alike(void)
{
    return sh("LC_ALL=C.UTF-8; cat > screen <<'END'\n%sEND\n"
              "perl -CSD -Mutf8 -pe '"
              "s/( *[0-9.]+ (?:s|ms|µs))(?![a-z])/\" \" x (length($1) - 1) . \"T\"/ge; "
              "s/(?:-|\\d:\\d\\d:\\d\\d) ETA/H:MM:SS ETA/; s/\\d:\\d\\d:\\d\\d/H:MM:SS/g; "
              "s/[\\d.,]+ tasks\\/s/R tasks\\/s/g; s/([0-9]{2,} +)H:MM:SS/sprintf(\"%%-*s\", length($1), \"JOB\") . "
              "\"H:MM:SS\"/e' screen",
              look(""))
        .out;
}

/* A script "task" that prints what it is given, fails for "bad", and waits to be let go for what begins with "wait". */
TEST_UNUSED static void make_task(void)
{
    CHECK_EQ(sh("mkfifo go; cat > task <<'END'\n#!/bin/sh\n"
                "case $1 in wait*) read x < go ;; esac\necho \"out $1\"\n[ \"$1\" != bad ]\nEND\nchmod +x task")
                 .status,
             0);
}

/* Lets the one go that waits at this fifo. One alone: of two that wait at the same, the second may see the end of what
 * was written for the first, go on too, and leave nobody for the next to be written to. */
TEST_UNUSED static void let_go(const char *fifo)
{
    CHECK_EQ(sh("echo > %s", fifo).status, 0);
}

#endif
