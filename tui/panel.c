/* SPDX-License-Identifier: MIT
 *
 * Draws the live view at the bottom of a terminal. Between two drawings the cursor is at the beginning of the line
 * below the panel. A drawing moves up by the rows of the panel, writes the lines that have changed and skips the
 * others, all in one write. The rows are counted again each time, because a terminal that was made narrower has wrapped
 * the old lines.
 *
 * After Ctrl-Z other programs write to the terminal. The panel is removed before the process stops. When the process
 * continues, the panel is drawn where the cursor is then. In the background nothing is drawn.
 *
 * When the user presses Enter or pastes lines, the echo moves the cursor down. The rows of the echo are counted
 * (typed_lines.h). The typed text is not read, so the program that runs next can read it.
 */
#include "tui/panel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/thread.h"
#include "tui/cells.h"
#include "tui/layout.h"
#include "tui/terminal.h"
#include "tui/typed_lines.h"

enum { REDRAW_MS = 100, REDRAW_IDLE_MS = 1000, PUT_BACK_MS = 10, PUT_BACK_SHARE = 4, TYPED_MS = 10 };

/* These sequences turn on synchronized output: a terminal that supports it shows the whole frame at once. They turn
 * automatic wrapping off, so that a line does not wrap if it is wider than computed. */
#define BEGIN "\033[?2026h\033[?25l\033[?7l\r"
#define END   "\033[?7h\033[?25h\033[?2026l"

struct tui_panel {
    int fd, wake; /* wake: an eventfd */
    int events;   /* an epoll descriptor that watches both */
    tui_read_fn *read;
    void *user;
    tui_suspend_fn *suspend;
    struct tui_terminal terminal;
    pthread_t thread;
    pthread_mutex_t lock; /* protects everything below, and the terminal */
    bool ended;
    bool held;               /* synchronized output was begun by tui_panel_pause(); the next drawing ends it */
    struct gd__buffer text;  /* the panel as it was last laid out */
    struct gd__buffer shown; /* the panel as it is on the terminal; empty: it is not there */
    struct tui_typed_lines typed;
    struct gd__buffer frame;
    struct view_history history;
    struct gd_stats last;
    const char *media;         /* see struct tui_view */
    uint64_t next_ms;          /* when the panel is drawn next (CLOCK_MONOTONIC) */
    uint64_t put_ns, put_cost; /* when the panel was last put on the terminal, and how long that took */
    struct sigaction before[3];
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ms(void)
{
    return now_ns() / 1000000;
}

/* --- signals ----------------------------------------------------------------------- */

static const int signals[] = { SIGWINCH, SIGTSTP, SIGCONT };
static _Atomic int signal_wake = -1; /* the panel's eventfd */
static atomic_bool resized, stop_wanted, continued;

static void ring(int wake)
{
    const uint64_t one = 1;
    while (write(wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void on_signal(int number)
{
    const int saved = errno, wake = signal_wake;
    if (number == SIGWINCH)
        resized = true;
    else if (number == SIGTSTP)
        stop_wanted = true;
    else
        continued = true;
    if (wake >= 0)
        ring(wake);
    errno = saved;
}

/* A signal that was ignored stays ignored: a shell without job control ignores SIGTSTP for its programs. */
static void take_signals(struct tui_panel *p)
{
    const struct sigaction ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    signal_wake = p->wake;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        sigaction(signals[i], NULL, &p->before[i]);
        if (p->before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &ours, NULL);
    }
}

static void give_signals_back(struct tui_panel *p)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &p->before[i], NULL);
    signal_wake = -1;
}

/* --- drawing ------------------------------------------------------------------------- */

/* The columns of a line, without the sequences that set colours. */
static size_t line_columns(const char *line, size_t size, bool utf8)
{
    struct tui_glyph g;
    size_t columns = 0;
    for (size_t at = 0; at < size;) {
        if (line[at] == '\033') {
            while (at < size && line[at] != 'm')
                at++;
            at++;
            continue;
        }
        at += tui_glyph(&g, line + at, size - at, utf8);
        columns += g.width;
    }
    return columns;
}

static size_t line_size(const struct gd__buffer *b, size_t at)
{
    const char *end = at < b->size ? memchr(b->data + at, '\n', b->size - at) : NULL;
    return end ? (size_t)(end - (b->data + at)) : 0;
}

/* The number of rows from the panel's first row to the cursor, on a terminal of this width. */
static size_t rows_shown(const struct tui_panel *p, unsigned width)
{
    size_t rows = 0;
    for (size_t at = 0; at < p->shown.size;) {
        const size_t size = line_size(&p->shown, at);
        const size_t columns = p->terminal.rewraps ? line_columns(p->shown.data + at, size, p->terminal.utf8) : 0;
        rows += columns > width ? (columns + width - 1) / width : 1;
        at += size + 1;
    }
    return rows;
}

static void go_up(struct gd__buffer *b, size_t rows)
{
    if (rows)
        gd__buffer_format(b, "\033[%zuA", rows);
}

/* Errors are ignored: if the terminal is gone, the run goes on without the panel. */
static void send_frame(struct tui_panel *p)
{
    if (!p->frame.failed)
        (void)gd__write_all(p->fd, p->frame.data, p->frame.size);
    p->frame.size = 0;
    p->frame.failed = false;
}

/* Adds the lines of the text, skipping those that are already shown. */
static void add_lines(struct tui_panel *p, bool anew)
{
    size_t old = 0;
    for (size_t at = 0; at < p->text.size;) {
        const size_t size = line_size(&p->text, at), old_size = line_size(&p->shown, old);
        const bool there = !anew && old < p->shown.size && size == old_size &&
                           memcmp(p->text.data + at, p->shown.data + old, size) == 0;
        if (!there) {
            gd__buffer_add(&p->frame, p->text.data + at, size);
            gd__buffer_text(&p->frame, "\033[K\r");
        }
        gd__buffer_text(&p->frame, "\n\r");
        at += size + 1;
        old = old < p->shown.size ? old + old_size + 1 : old;
    }
}

static bool same(const struct gd__buffer *a, const struct gd__buffer *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* Puts the laid-out panel on the terminal. */
static void put(struct tui_panel *p, bool anew)
{
    unsigned width, height;
    const uint64_t begun = now_ns();
    const size_t typed = tui_typed_lines_rows(&p->typed), moved = p->shown.size ? typed : 0;
    anew = anew || moved > 0;
    if (p->text.size == 0 || (!anew && !p->held && same(&p->text, &p->shown)))
        return;
    tui_size(p->fd, &width, &height);
    gd__buffer_text(&p->frame, BEGIN);
    go_up(&p->frame, rows_shown(p, width) + moved);
    if (anew)
        gd__buffer_text(&p->frame, "\033[J");
    add_lines(p, anew);
    gd__buffer_text(&p->frame, "\033[J" END);
    send_frame(p);
    p->held = false;
    p->put_ns = now_ns();
    p->put_cost = p->put_ns - begun;
    p->shown.size = 0;
    gd__buffer_add(&p->shown, p->text.data, p->text.size);
    if (p->shown.failed) /* no memory to record what is on the terminal, so it will not be erased */
        gd__buffer_free(&p->shown);
}

/* Removes the panel from the terminal. more: output and then the panel will follow, so the terminal need not show
 * anything before that. */
static void take_off(struct tui_panel *p, bool more)
{
    unsigned width, height;
    const size_t moved = tui_typed_lines_rows(&p->typed);
    if (p->shown.size) {
        tui_size(p->fd, &width, &height);
        gd__buffer_text(&p->frame, more ? "\033[?2026h\r" : "\r");
        go_up(&p->frame, rows_shown(p, width) + moved);
        gd__buffer_text(&p->frame, "\033[J");
        p->held = more;
    }
    if (p->held && !more) {
        gd__buffer_text(&p->frame, "\033[?2026l");
        p->held = false;
    }
    if (p->frame.size)
        send_frame(p);
    p->shown.size = 0;
}

/* Lays out the panel. Returns false if there is nothing new. Sets *moved if the figures have changed. */
static bool lay_out(struct tui_panel *p, bool *moved)
{
    const struct gd_snapshot *s = NULL;
    struct tui_view v = { .colour = p->terminal.colour, .utf8 = p->terminal.utf8, .media = p->media };
    if (p->read(p->user, &s) != 0 || !s)
        return false;
    tui_size(p->fd, &v.width, &v.height);
    if (v.height > 15) /* part of the screen stays free for the output above */
        v.height -= v.height / 3;
    view_history_add(&p->history, s);
    p->text.size = 0;
    tui_layout(&p->text, s, &p->history, &v);
    if (p->text.failed)
        gd__buffer_free(&p->text);
    const struct gd_stats *a = s->stats, *b = &p->last;
    *moved = a->completed != b->completed || a->failed != b->failed || a->timeouts != b->timeouts ||
             a->running != b->running || a->retried != b->retried || a->restarts != b->restarts;
    p->last = *a;
    return true;
}

static unsigned draw(struct tui_panel *p)
{
    bool moved = false;
    const bool ours = tui_in_foreground(p->fd);
    tui_typed_lines_watch(&p->typed, ours);
    if (!ours) {
        p->shown.size = 0; /* other programs have written to the terminal */
        return REDRAW_IDLE_MS;
    }
    if (!lay_out(p, &moved))
        return REDRAW_MS;
    put(p, atomic_exchange(&resized, false));
    return moved ? REDRAW_MS : REDRAW_IDLE_MS;
}

/* --- the thread -------------------------------------------------------------------------- */

static void stop_here(struct tui_panel *p)
{
    take_off(p, false);
    tui_typed_lines_watch(&p->typed, false);
    p->suspend();
}

static void heed_signals(struct tui_panel *p)
{
    if (atomic_exchange(&stop_wanted, false)) {
        stop_here(p);
        p->next_ms = now_ms() + REDRAW_MS; /* earlier if SIGCONT comes, which another thread may get */
    }
    if (atomic_exchange(&continued, false)) {
        p->shown.size = 0;
        p->next_ms = 0;
    }
    if (resized)
        p->next_ms = 0;
}

/* Makes the next drawing begin within ms. Returns true if that is sooner than planned. */
static bool draw_within(struct tui_panel *p, unsigned ms)
{
    const uint64_t then = now_ms() + ms;
    const bool sooner = p->next_ms > then;
    p->next_ms = sooner ? then : p->next_ms;
    return sooner;
}

static void sleep_until(struct tui_panel *p)
{
    uint64_t rings;
    const uint64_t now = now_ms();
    struct epoll_event e = { 0 };
    const int wait_ms = p->next_ms > now ? (int)(p->next_ms - now) : 0;
    pthread_mutex_unlock(&p->lock);
    const bool some = epoll_wait(p->events, &e, 1, wait_ms) > 0;
    if (some && e.data.fd == p->wake)
        (void)!read(p->wake, &rings, sizeof rings);
    pthread_mutex_lock(&p->lock);
    if (some && e.data.fd == p->fd) /* Enter; a paste brings more lines a moment later */
        (void)draw_within(p, TYPED_MS);
}

static void *keep_drawing(void *arg)
{
    struct tui_panel *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->ended) {
        heed_signals(p);
        if (now_ms() >= p->next_ms)
            p->next_ms = draw(p) + now_ms();
        if (!p->ended)
            sleep_until(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start(struct tui_panel *p)
{
    pthread_mutex_init(&p->lock, NULL);
    return gd__thread_start(&p->thread, "gd-panel", keep_drawing, p);
}

/* --- the interface ------------------------------------------------------------------------- */

/* Watches the terminal for typed lines. They are not read, so the watch is edge-triggered, to report each line only
 * once. If the kernel cannot watch the terminal, this feature is off. Returns 0 or an errno value. */
static int watch_events(struct tui_panel *p)
{
    struct epoll_event wake = { .events = EPOLLIN, .data.fd = p->wake };
    struct epoll_event line = { .events = EPOLLIN | EPOLLET, .data.fd = p->fd };
    p->events = epoll_create1(EPOLL_CLOEXEC);
    if (p->events < 0 || epoll_ctl(p->events, EPOLL_CTL_ADD, p->wake, &wake) < 0)
        return errno;
    (void)epoll_ctl(p->events, EPOLL_CTL_ADD, p->fd, &line);
    return 0;
}

static void close_events(struct tui_panel *p)
{
    if (p->events >= 0)
        close(p->events);
    if (p->wake >= 0)
        close(p->wake);
}

int tui_panel_open(struct tui_panel **out, int fd, tui_read_fn *read, void *user, tui_suspend_fn *suspend)
{
    struct tui_panel *p = calloc(1, sizeof *p);
    if (!p)
        return gd__fail("out of memory");
    *p = (struct tui_panel){ .fd = fd, .read = read, .user = user, .suspend = suspend };
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->events = -1;
    tui_terminal_of(&p->terminal);
    tui_typed_lines_open(&p->typed, fd);
    int code = p->wake < 0 ? errno : watch_events(p);
    if (code == 0) {
        resized = stop_wanted = continued = false;
        take_signals(p);
        code = start(p);
        if (code == 0) {
            *out = p;
            return 0;
        }
        give_signals_back(p);
    }
    tui_typed_lines_close(&p->typed);
    close_events(p);
    free(p);
    return gd__fail("cannot show the panel: %s", strerror(code));
}

void tui_panel_media(struct tui_panel *p, const char *media)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->media = media;
    pthread_mutex_unlock(&p->lock);
}

void tui_panel_pause(struct tui_panel *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    take_off(p, true);
}

/* The panel is put back at once, so that it does not flicker. If there is very much output, putting it back may take at
 * most a fifth of the time. Otherwise it is left to the drawing thread. */
void tui_panel_resume(struct tui_panel *p)
{
    if (!p)
        return;
    bool later = false;
    if (!tui_in_foreground(p->fd)) {
        take_off(p, false); /* draws nothing, and ends the synchronized output */
    } else if (now_ns() >= p->put_ns + PUT_BACK_SHARE * p->put_cost) {
        put(p, false);
    } else {
        later = draw_within(p, PUT_BACK_MS);
    }
    pthread_mutex_unlock(&p->lock);
    if (later)
        ring(p->wake);
}

void tui_panel_close(struct tui_panel **panel)
{
    struct tui_panel *p = *panel;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_mutex_unlock(&p->lock);
    ring(p->wake);
    pthread_join(p->thread, NULL);
    give_signals_back(p);
    if (tui_in_foreground(p->fd))
        take_off(p, false);
    if (stop_wanted) /* for a Ctrl-Z that came too late for the thread */
        (void)raise(SIGTSTP);
    tui_typed_lines_close(&p->typed);
    pthread_mutex_destroy(&p->lock);
    close_events(p);
    gd__buffer_free(&p->text);
    gd__buffer_free(&p->shown);
    gd__buffer_free(&p->frame);
    free(p);
    *panel = NULL;
}
