/* SPDX-License-Identifier: MIT
 *
 * Counts the rows by which typed lines move the cursor. The echo of Enter moves the cursor down a row. The echo is not
 * switched off, because a killed run would then leave a terminal that does not show typed text. The typed text is not
 * read either, because the shell will read it. So the rows must be counted. The kernel reports how many bytes of whole
 * lines are waiting, but not how many lines. However, it can send a signal for each line. A real-time signal is used,
 * because such signals are not merged. The signal is sent to one thread. It is set up on a separate descriptor of the
 * terminal, whose flags no other process shares.
 *
 * Ctrl-D ends a line too, but adds no bytes and does not move the cursor. So a single Ctrl-D is not counted, but within
 * a paste it counts as Enter. A line whose echo wraps counts as one row. If the count is too low, a line of the panel
 * stays on the terminal. If it were too high, a line of other output would be erased.
 */
#include "tui/typed_lines.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static atomic_uint counted;

static int line_signal(void)
{
    return SIGRTMIN + 3;
}

static void on_line(int number)
{
    (void)number;
    atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
}

void tui_typed_lines_open(struct tui_typed_lines *t, int fd)
{
    const struct sigaction ours = { .sa_handler = on_line, .sa_flags = SA_RESTART };
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *t = (struct tui_typed_lines){ .fd = fd, .own = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) };
    sigaction(line_signal(), &ours, &t->before);
    (void)tui_typed_lines_rows(t);
}

void tui_typed_lines_close(struct tui_typed_lines *t)
{
    if (t->own >= 0)
        close(t->own);
    t->own = -1;
    sigaction(line_signal(), &t->before, NULL);
}

void tui_typed_lines_watch(struct tui_typed_lines *t, bool on)
{
    const struct f_owner_ex us = { .type = F_OWNER_TID, .pid = gettid() };
    const int flags = t->own >= 0 ? fcntl(t->own, F_GETFL) : -1;
    sigset_t only;
    if (flags < 0 || !!(flags & O_ASYNC) == on)
        return;
    sigemptyset(&only);
    sigaddset(&only, line_signal());
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    /* Without F_SETSIG the signal would be SIGIO, which ends the process. */
    if (on && (fcntl(t->own, F_SETSIG, line_signal()) < 0 || fcntl(t->own, F_SETOWN_EX, &us) < 0))
        return;
    (void)fcntl(t->own, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC);
}

size_t tui_typed_lines_rows(struct tui_typed_lines *t)
{
    struct termios mode;
    int bytes = 0;
    if (ioctl(t->fd, FIONREAD, &bytes) < 0)
        return 0;
    const int more = bytes - t->bytes;
    const unsigned now = atomic_load_explicit(&counted, memory_order_relaxed), lines = now - t->lines;
    t->bytes = bytes;
    t->lines = now;
    if (more <= 0 || tcgetattr(t->fd, &mode) < 0 || !(mode.c_lflag & ICANON) || !(mode.c_lflag & ECHO))
        return 0;
    return lines == 0 ? 1 : lines < (unsigned)more ? lines : (unsigned)more;
}
