/* SPDX-License-Identifier: MIT
 *
 * Lines that were typed at a terminal and not read yet. Their echo moves the cursor by a number of rows.
 */
#include "tui/typed_lines.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "support/test.h"

struct pair {
    int master, slave;
    struct tui_typed_lines typed;
};

static void open_pair(struct pair *p)
{
    p->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(p->master >= 0 && grantpt(p->master) == 0 && unlockpt(p->master) == 0);
    p->slave = open(ptsname(p->master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_GE(p->slave, 0);
    tui_typed_lines_open(&p->typed, p->slave);
    CHECK_GE(p->typed.own, 0);
    tui_typed_lines_watch(&p->typed, true);
}

static void close_pair(struct pair *p)
{
    tui_typed_lines_close(&p->typed);
    close(p->slave);
    close(p->master);
}

/* Types a text and a tilde. When the tilde is echoed, the terminal has handled everything. */
static void type(struct pair *p, const char *text)
{
    char c = 0;
    CHECK_EQ(write(p->master, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_EQ(write(p->master, "~", 1), 1);
    while (c != '~')
        CHECK_EQ(read(p->master, &c, 1), 1);
}

TEST(each_line_is_a_row)
{
    struct pair p;
    open_pair(&p);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    type(&p, "half a line");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    type(&p, "\r");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 1);
    type(&p, "one\rtwo\r\r\rfive\rsix");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 5);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    close_pair(&p);
}

/* Lines that were typed before tui_typed_lines_open() are not counted, whether or not a shell has read them. */
TEST(earlier_lines_are_not_counted)
{
    struct pair p;
    char text[64];
    open_pair(&p);
    type(&p, "a\rb\r");
    tui_typed_lines_close(&p.typed);
    tui_typed_lines_open(&p.typed, p.slave);
    tui_typed_lines_watch(&p.typed, true);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    CHECK_EQ(read(p.slave, text, sizeof text), 2);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    type(&p, "c\r");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 1);
    close_pair(&p);
}

TEST(control_d_moves_nothing)
{
    struct pair p;
    open_pair(&p);
    struct pollfd f = { .fd = p.slave, .events = POLLIN };
    CHECK_EQ(write(p.master, "\004", 1), 1);
    CHECK_EQ(poll(&f, 1, -1), 1);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    type(&p, "\r");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 1);
    close_pair(&p);
}

static void set_mode(struct pair *p, tcflag_t off)
{
    struct termios t;
    CHECK_EQ(tcgetattr(p->slave, &t), 0);
    t.c_lflag &= ~off;
    CHECK_EQ(tcsetattr(p->slave, TCSANOW, &t), 0);
}

TEST(nothing_moves_without_echo)
{
    struct pair p;
    int bytes = 0;
    open_pair(&p);
    set_mode(&p, ECHO);
    CHECK_EQ(write(p.master, "a\rb\r", 4), 4);
    while (bytes < 4)
        CHECK_EQ(ioctl(p.slave, FIONREAD, &bytes), 0);
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    close_pair(&p);
}

TEST(a_program_that_reads_keys_by_itself)
{
    struct pair p;
    open_pair(&p);
    set_mode(&p, ICANON);
    type(&p, "jkjk");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 0);
    close_pair(&p);
}

/* If the terminal could not be opened again, there are no signals, and the number of new lines is not known. They count
 * as one row, because too few rows are better than too many. watch(false) stands for that case. */
TEST(without_signals_new_lines_count_as_one_row)
{
    struct pair p;
    open_pair(&p);
    tui_typed_lines_watch(&p.typed, false);
    type(&p, "a\rb\r");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 1);
    tui_typed_lines_watch(&p.typed, true);
    type(&p, "a\rb\r");
    CHECK_EQ(tui_typed_lines_rows(&p.typed), 2);
    close_pair(&p);
}

TEST(no_terminal)
{
    struct tui_typed_lines t;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    tui_typed_lines_open(&t, fd);
    tui_typed_lines_watch(&t, true);
    CHECK_EQ(tui_typed_lines_rows(&t), 0);
    tui_typed_lines_close(&t);
    close(fd);
}

TEST(the_previous_signal_action_is_restored)
{
    struct pair p;
    struct sigaction now;
    signal(SIGRTMIN + 3, SIG_IGN);
    open_pair(&p);
    CHECK_EQ(sigaction(SIGRTMIN + 3, NULL, &now), 0);
    CHECK(now.sa_handler != SIG_IGN);
    close_pair(&p);
    CHECK_EQ(sigaction(SIGRTMIN + 3, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_IGN);
}

TEST_MAIN()
