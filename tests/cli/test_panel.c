/* SPDX-License-Identifier: MIT
 *
 * The panel on a pseudo-terminal, with made-up snapshots: what is written, byte by byte. tests/command/test_panel.c
 * tests how it looks in a real terminal.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "cli/output/progress.h"
#include "cli/run/stop/suspend.h"
#include "snapshots.h"
#include "tui/panel.h"

static struct made_up *run;
static atomic_uint completed, reads;
static atomic_bool nothing;

static int read_run(void *user, const struct gd_snapshot **out)
{
    CHECK(user == run);
    reads++;
    run->stats.completed = completed;
    *out = &run->s;
    return nothing ? -1 : 0;
}

static void set_size(int fd, unsigned short width, unsigned short height)
{
    const struct winsize w = { .ws_col = width, .ws_row = height };
    CHECK_EQ(ioctl(fd, TIOCSWINSZ, &w), 0);
}

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
    set_size(*slave, 80, 24);
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C", 1);
    setenv("TERM", "tmux", 1);
    run = made_run("./job");
    made_worker(run, 0, GD_WORKER_BUSY, GD_IDLE_NOT, "a.wav", 1);
    completed = 446;
    return master;
}

/* Reads until the text has arrived, drops everything up to its end, and returns what was before it. If it never
 * arrives, the case's time limit ends the wait. */
static const char *await_text(int master, const char *text)
{
    static char got[65536], before[65536];
    static size_t n;
    for (;;) {
        got[n] = 0;
        char *at = strstr(got, text);
        if (at) {
            const size_t used = (size_t)(at - got) + strlen(text);
            memcpy(before, got, used);
            before[used] = 0;
            memmove(got, got + used, n - used);
            n -= used;
            return before;
        }
        CHECK_LT(n, sizeof got - 1024);
        const ssize_t more = read(master, got + n, 1024);
        CHECK_GT(more, 0);
        n += (size_t)more;
    }
}

#define FRAME_BEGIN "\033[?2026h\033[?25l\033[?7l\r"
#define FRAME_END   "\033[?7h\033[?25h\033[?2026l"

TEST(only_what_has_changed_is_written)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    const char *first = await_text(master, FRAME_END);
    CHECK_EQ(strncmp(first, FRAME_BEGIN "450 of 1,000", strlen(FRAME_BEGIN) + 12), 0);
    CHECK_CONTAINS(first, "a.wav");
    completed = 447;
    const char *second = await_text(master, FRAME_END);
    CHECK_EQ(strncmp(second, FRAME_BEGIN "\033[7A451 of 1,000", strlen(FRAME_BEGIN) + 16), 0);
    CHECK_CONTAINS(second, "447 done");
    CHECK(!strstr(second, "a.wav"));
    tui_panel_close(&p);
    CHECK(p == NULL);
    CHECK_EQ(write(slave, "end", 3), 3);
    CHECK_CONTAINS(await_text(master, "end"), "\r\033[7A\033[Jend");
}

TEST(nothing_is_written_if_nothing_has_changed)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    await_text(master, FRAME_END);
    const unsigned before = reads;
    while (reads < before + 2) /* the panel reads the same snapshot again and writes nothing */
        sched_yield();
    tui_panel_close(&p);
    CHECK_EQ(write(slave, "end", 3), 3);
    CHECK_STR(await_text(master, "end"), "\r\033[7A\033[Jend");
}

TEST(output_goes_between)
{
    int slave, master = open_terminal(&slave);
    struct cli_progress *p = NULL;
    CHECK_EQ(cli_progress_open_view(&p, slave, CLI_PROGRESS_PANEL, read_run, run), 0);
    await_text(master, FRAME_END);
    cli_progress_pause(p);
    CHECK_EQ(write(slave, "one\n", 4), 4);
    completed = 447;
    CHECK_EQ(write(slave, "two\n", 4), 4);
    cli_progress_resume(p);
    const char *text = await_text(master, FRAME_END);
    CHECK_EQ(strncmp(text, "\033[?2026h\r\033[7A\033[Jone\ntwo\n" FRAME_BEGIN, 23), 0);
    CHECK_CONTAINS(text, " of 1,000 tasks"); /* everything is drawn once more */
    CHECK_CONTAINS(text, "a.wav");
    cli_progress_close(&p);
}

/* The lines that were 79 columns wide take two rows each at 40. */
TEST(a_terminal_that_was_narrowed)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    await_text(master, FRAME_END);
    set_size(slave, 40, 24);
    CHECK_EQ(raise(SIGWINCH), 0);
    const char *text = await_text(master, FRAME_END);
    /* Rows of headline, bar, counts, times, empty line, heading and worker: 2 + 2 + 1 + 2 + 1 + 2 + 2. */
    CHECK_CONTAINS(text, FRAME_BEGIN "\033[12A\033[J450 of");
    tui_panel_close(&p);
}

TEST(nothing_is_drawn_before_there_are_figures)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    nothing = true;
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    while (reads < 2)
        sched_yield();
    tui_panel_pause(p);
    CHECK_EQ(write(slave, "one|", 4), 4);
    tui_panel_resume(p);
    tui_panel_close(&p);
    CHECK_EQ(write(slave, "end", 3), 3);
    CHECK_STR(await_text(master, "end"), "one|end");
}

TEST(signal_actions_are_restored)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    struct sigaction a;
    signal(SIGTSTP, SIG_IGN);
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    await_text(master, FRAME_END);
    CHECK_EQ(sigaction(SIGTSTP, NULL, &a), 0);
    CHECK(a.sa_handler == SIG_IGN); /* the signal was ignored, and stays ignored */
    CHECK_EQ(sigaction(SIGWINCH, NULL, &a), 0);
    CHECK(a.sa_handler != SIG_DFL);
    tui_panel_close(&p);
    CHECK_EQ(sigaction(SIGWINCH, NULL, &a), 0);
    CHECK(a.sa_handler == SIG_DFL);
}

static void *keep_writing(void *arg)
{
    struct tui_panel *p = arg;
    for (int i = 0; i < 500; i++) {
        tui_panel_pause(p);
        completed = completed + 1;
        tui_panel_resume(p);
    }
    return NULL;
}

static void *keep_reading(void *arg)
{
    char part[4096];
    ssize_t n;
    while ((n = read(*(const int *)arg, part, sizeof part)) > 0 && !memchr(part, '!', (size_t)n))
        ;
    return NULL;
}

TEST(several_threads_write)
{
    int slave, master = open_terminal(&slave);
    struct tui_panel *p = NULL;
    pthread_t writers[3], reader;
    CHECK_EQ(pthread_create(&reader, NULL, keep_reading, &master), 0);
    CHECK_EQ(tui_panel_open(&p, slave, read_run, run, cli_suspend), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&writers[i], NULL, keep_writing, p), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(writers[i], NULL);
    tui_panel_close(&p);
    CHECK_EQ(write(slave, "!", 1), 1);
    pthread_join(reader, NULL);
}

TEST(no_panel_is_fine)
{
    struct tui_panel *p = NULL;
    tui_panel_pause(p);
    tui_panel_resume(p);
    tui_panel_close(&p);
}

TEST_MAIN()
