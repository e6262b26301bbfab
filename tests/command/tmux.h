/* SPDX-License-Identifier: MIT
 *
 * A real terminal: a shell in tmux, used as a person would use it. Output passes through a terminal and a server in
 * pieces, so a test may see a half-drawn screen. Therefore tests wait until the screen shows what they expect. If it
 * never does, the failure shows the actual screen.
 */
#ifndef GD_TESTS_COMMAND_TMUX_H
#define GD_TESTS_COMMAND_TMUX_H

#include "common.h"
#include "support/screens.h"

/* The server and its socket belong to the case. */
#define TMUX "tmux -S $PWD/socket "

/* The limit of a wait. It is shorter than the time limit of a case, so that the failure can still be reported. */
enum { AWAIT_MS = 45000 };

#define AWAIT(is_so, what)                                                                      \
    do {                                                                                        \
        const int64_t await_end = ms_now() + (int64_t)AWAIT_MS * TEST_SLOWDOWN;                 \
        while (!(is_so)) {                                                                      \
            if (ms_now() > await_end)                                                           \
                FAIL("waited %d s for %s; the screen is\n%s", AWAIT_MS / 1000, what, look("")); \
        }                                                                                       \
    } while (0)

static void need_tmux(void)
{
    if (sh("command -v tmux perl").status != 0)
        SKIP("no tmux");
}

/* The text on the screen, without trailing spaces and without empty lines at the end. options: "-e" for colours. */
TEST_UNUSED static char *look(const char *options)
{
    return sh(TMUX "capture-pane -p %s -t t | sed -e 's/ *$//' | sed -e :a -e '/^\\n*$/{$d;N;ba' -e '}'", options).out;
}

/* Whether the shell waits for a line: its prompt is the last text on the screen. */
TEST_UNUSED static bool is_at_prompt(const char *screen)
{
    const size_t n = strlen(screen);
    return strcmp(screen, "$\n") == 0 || (n >= 3 && strcmp(screen + n - 3, "\n$\n") == 0);
}

/* Opens a terminal of this size with a shell in the case's directory. It shows "$ " and nothing else. more: NAME=value
 * for the shell. */
TEST_UNUSED static void open_terminal(unsigned width, unsigned height, const char *more)
{
    need_tmux();
    struct ran r =
        sh("export LC_ALL=C.UTF-8 GPU_DISPATCH_JOBS=$PWD/jobs %s; unset TMUX NO_COLOR MAIL PROMPT_COMMAND\n" TMUX
           "-f /dev/null new-session -d -s t -x %u -y %u env 'PS1=$ ' INPUTRC=/dev/null bash --norc",
           more, width, height);
    if (r.status != 0)
        FAIL("tmux: %s", r.err);
    AWAIT(is_at_prompt(look("")), "a prompt");
}

TEST_UNUSED static void await_screen(const char *text)
{
    AWAIT(strstr(look(""), text), text);
}

TEST_UNUSED static void await_no(const char *text)
{
    AWAIT(!strstr(look(""), text), "a text to disappear");
}

/* Waits until the cursor is visible, lines wrap, and the alternate screen is off. */
TEST_UNUSED static void await_clean(void)
{
    AWAIT(strcmp(sh(TMUX "display -p -t t '#{cursor_flag}#{wrap_flag}#{alternate_on}'").out, "110\n") == 0,
          "a clean terminal");
}

TEST_UNUSED static void press(const char *keys)
{
    CHECK_EQ(sh(TMUX "send-keys -t t %s", keys).status, 0);
}

/* Text typed before the prompt appears would be shown twice. */
TEST_UNUSED static void type(const char *line)
{
    AWAIT(is_at_prompt(look("")), "a prompt");
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

TEST_UNUSED static void await_count(const char *text, int n)
{
    AWAIT(count_on_screen(text) == n, text);
}

/* The screen. Figures that differ between runs are replaced by fixed figures of the same width. */
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

/* Waits until the screen equals the file of this name. */
TEST_UNUSED static void await_kept_screen(const char *name)
{
    AWAIT(is_screen("command", name, look_alike()), name);
}

/* Makes a script "task" that prints its input, fails for "bad", and waits to be released for inputs that begin with
 * "wait". */
TEST_UNUSED static void make_task(void)
{
    CHECK_EQ(sh("mkfifo go; cat > task <<'END'\n#!/bin/sh\n"
                "case $1 in wait*) read x < go ;; esac\necho \"out $1\"\n[ \"$1\" != bad ]\nEND\nchmod +x task")
                 .status,
             0);
}

/* Releases the task that waits at this FIFO. Only one task may wait there. A second task might see the end of file that
 * is meant for the first and continue too. Then the next writer would wait for ever. */
TEST_UNUSED static void let_go(const char *fifo)
{
    CHECK_EQ(sh("echo > %s", fifo).status, 0);
}

#endif
