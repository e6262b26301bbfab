/* SPDX-License-Identifier: MIT
 *
 * Takes over the whole terminal, for `gpu-dispatch top`. Signals are blocked and read from a signalfd, so that one
 * poll() waits for everything. Ctrl-C and Ctrl-Z still send signals. The terminal is restored before Ctrl-C ends the
 * process, and before Ctrl-Z stops it. */
#include "tui/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "tui/terminal.h"

#define ENTER  "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE  "\033[?7h\033[?25h\033[?1049l"
#define BEGIN  "\033[?2026h"
#define FINISH "\033[J\033[?2026l"

struct tui_screen {
    int signals; /* signalfd */
    bool keys;   /* standard input is a terminal */
    bool inside;
    struct termios before;
    sigset_t mask_before, ours;
    struct gd__buffer shown;
    char input[64]; /* bytes that were read but not yet used */
    size_t n_input;
    int digit;
};

static void enter(struct tui_screen *s)
{
    if (s->keys) {
        struct termios t = s->before;
        t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
    }
    (void)gd__write_all(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
    s->shown.size = 0;
    s->inside = true;
}

static void leave(struct tui_screen *s)
{
    if (!s->inside)
        return;
    (void)gd__write_all(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    if (s->keys)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
    s->inside = false;
}

int tui_screen_open(struct tui_screen **out)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH, SIGCONT };
    struct tui_screen *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("out of memory");
    sigemptyset(&s->ours);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&s->ours, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &s->ours, &s->mask_before);
    s->signals = signalfd(-1, &s->ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0) {
        const int code = errno;
        pthread_sigmask(SIG_SETMASK, &s->mask_before, NULL);
        free(s);
        return gd__fail("cannot watch for signals: %s", strerror(code));
    }
    s->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0;
    enter(s);
    *out = s;
    return 0;
}

/* --- drawing ------------------------------------------------------------------------ */

static size_t line_size(const struct gd__buffer *b, size_t at)
{
    const char *end = at < b->size ? memchr(b->data + at, '\n', b->size - at) : NULL;
    return end ? (size_t)(end - (b->data + at)) : 0;
}

void tui_screen_draw(struct tui_screen *s, const struct gd__buffer *lines)
{
    struct gd__buffer frame = { 0 };
    size_t old = 0, row = 1;
    if (lines->failed)
        return;
    gd__buffer_text(&frame, BEGIN);
    for (size_t at = 0; at < lines->size; row++) {
        const size_t size = line_size(lines, at), old_size = line_size(&s->shown, old);
        const bool there =
            old < s->shown.size && size == old_size && memcmp(lines->data + at, s->shown.data + old, size) == 0;
        if (!there) {
            gd__buffer_format(&frame, "\033[%zu;1H", row);
            gd__buffer_add(&frame, lines->data + at, size);
            gd__buffer_text(&frame, "\033[K");
        }
        at += size + 1;
        old = old < s->shown.size ? old + old_size + 1 : old;
    }
    gd__buffer_format(&frame, "\033[%zu;1H" FINISH, row);
    if (!frame.failed)
        (void)gd__write_all(STDOUT_FILENO, frame.data, frame.size);
    gd__buffer_free(&frame);
    s->shown.size = 0;
    gd__buffer_add(&s->shown, lines->data, lines->size);
    if (s->shown.failed)
        gd__buffer_free(&s->shown);
}

/* --- events --------------------------------------------------------------------------- */

/* Restores the terminal, stops the process as Ctrl-Z does, and takes the terminal over again when the process
 * continues. */
static void stop_here(struct tui_screen *s)
{
    sigset_t only;
    leave(s);
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    (void)raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL); /* the process stops here */
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    enter(s);
}

static enum tui_event heed_signal(struct tui_screen *s)
{
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return TUI_TICK;
    if (info.ssi_signo == SIGTSTP)
        stop_here(s);
    if (info.ssi_signo == SIGCONT &&
        s->inside) /* the stop could not be caught (SIGSTOP), and the shell has changed the terminal's settings */
        enter(s);
    if (info.ssi_signo == SIGWINCH)
        s->shown.size = 0;
    const bool over = info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP;
    return over ? TUI_LEAVE : TUI_RESIZED;
}

static const struct {
    const char *bytes;
    enum tui_event event;
} keys[] = {
    { "\033[A", TUI_UP }, { "\033[B", TUI_DOWN }, { "\033OA", TUI_UP },  { "\033OB", TUI_DOWN },
    { "k", TUI_UP },      { "j", TUI_DOWN },      { "\r", TUI_ENTER },   { "\n", TUI_ENTER },
    { "q", TUI_LEAVE },   { "Q", TUI_LEAVE },     { "\004", TUI_LEAVE }, { "\003", TUI_LEAVE },
};

static void drop(struct tui_screen *s, size_t n)
{
    s->n_input -= n;
    memmove(s->input, s->input + n, s->n_input);
}

/* Takes the first key from the input. Skips unknown key sequences completely. */
static enum tui_event next_key(struct tui_screen *s)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const size_t n = strlen(keys[i].bytes);
        if (n <= s->n_input && memcmp(s->input, keys[i].bytes, n) == 0) {
            drop(s, n);
            return keys[i].event;
        }
    }
    const char c = s->input[0];
    if (c >= '0' && c <= '9') {
        s->digit = c - '0';
        drop(s, 1);
        return TUI_DIGIT;
    }
    if (c == '\033' && s->n_input == 1) { /* Escape alone */
        drop(s, 1);
        return TUI_LEAVE;
    }
    drop(s, c == '\033' ? s->n_input : 1);
    return TUI_TICK;
}

static enum tui_event read_keys(struct tui_screen *s)
{
    const ssize_t n = read(STDIN_FILENO, s->input, sizeof s->input);
    if (n <= 0)
        return n < 0 && errno == EINTR ? TUI_TICK : TUI_LEAVE;
    s->n_input = (size_t)n;
    return next_key(s);
}

enum tui_event tui_screen_wait(struct tui_screen *s, int other, int timeout_ms)
{
    struct pollfd f[] = { { .fd = s->signals, .events = POLLIN },
                          { .fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN },
                          { .fd = other, .events = POLLIN } };
    if (s->n_input)
        return next_key(s);
    if (poll(f, sizeof f / sizeof f[0], timeout_ms) <= 0)
        return TUI_TICK;
    if (f[0].revents)
        return heed_signal(s);
    if (f[1].revents)
        return read_keys(s);
    return TUI_OTHER;
}

int tui_screen_digit(const struct tui_screen *s)
{
    return s->digit;
}

void tui_screen_close(struct tui_screen **screen)
{
    struct tui_screen *s = *screen;
    if (!s)
        return;
    leave(s);
    close(s->signals);
    pthread_sigmask(SIG_SETMASK, &s->mask_before, NULL);
    gd__buffer_free(&s->shown);
    free(s);
    *screen = NULL;
}
