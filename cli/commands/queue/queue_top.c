/* SPDX-License-Identifier: MIT
 *
 * A queue, live: see queue_top.h. Nodes report every few seconds, and a reader asks only for what is new. So the queue is
 * read every second.
 */
#include "cli/commands/queue/queue_top.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "cli/commands/queue/queue_page.h"
#include "cli/commands/queue/queue_view.h"
#include "cli/run/stop/exit_status.h"
#include "tui/screen.h"
#include "tui/terminal.h"

enum {
    READ_MS = 1000,
    QUIET_SECONDS = 5, /* so long without an answer is shown */
    END_MS = 500,
    WHOLE = 10000,
    USUAL_WIDTH = 100,
    ERROR_ROOM = 1024,
};

struct top {
    const char *url;
    struct gd_queue_reader *reader;
    struct queue_view view;
};

static int read_queue(struct top *t)
{
    return queue_view_read(&t->view, t->reader, t->url);
}

static void fill_view(struct tui_view *v, bool whole)
{
    struct tui_terminal t;
    const bool drawn = tui_can_draw(STDOUT_FILENO);
    *v = (struct tui_view){ .width = USUAL_WIDTH, .height = WHOLE };
    tui_terminal_of(&t);
    v->colour = drawn && t.colour;
    v->utf8 = t.utf8;
    if (drawn)
        tui_size(STDOUT_FILENO, &v->width, &v->height);
    if (whole)
        v->height = WHOLE;
}

static int print(struct gd__buffer *b)
{
    const int rc = b->failed ? gd__fail("out of memory") : gd__write_all(STDOUT_FILENO, b->data, b->size);
    gd__buffer_free(b);
    return rc;
}

static int print_page(const struct queue_view *q)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    fill_view(&v, true);
    queue_page(&b, q, &v);
    return print(&b);
}

static int print_json(const struct queue_view *q)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "{");
    queue_view_json(&b, q);
    gd__buffer_text(&b, "}\n");
    return print(&b);
}

/* --- on a screen ---------------------------------------------------------------------- */

/* Reading may take long: the first time, or while the server does not answer. So another thread reads, and keys work at
 * any time. */
struct watcher {
    struct top *t;
    pthread_t thread;
    int changed;           /* an eventfd: there is something new */
    int stop;              /* an eventfd: the thread is to end */
    pthread_mutex_t mutex; /* for the following */
    struct queue_view next;
    bool has_next;
    char error[ERROR_ROOM]; /* why the queue cannot be read any more; "": it can */
};

static void ring(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

static void exchange(struct queue_view *a, struct queue_view *b)
{
    const struct queue_view c = *a;
    *a = *b;
    *b = c;
}

/* Reads once. Returns false if that failed. */
static bool read_next(struct watcher *w, struct queue_view *v)
{
    const bool read = queue_view_read(v, w->t->reader, w->t->url) == 0;
    pthread_mutex_lock(&w->mutex);
    if (read) {
        exchange(v, &w->next);
        w->has_next = true;
    } else {
        (void)snprintf(w->error, sizeof w->error, "%s", gd__fail_text());
    }
    pthread_mutex_unlock(&w->mutex);
    ring(w->changed);
    return read;
}

static void *read_on(void *user)
{
    struct watcher *w = user;
    struct queue_view v = { 0 };
    struct pollfd stop = { .fd = w->stop, .events = POLLIN };
    while (read_next(w, &v) && poll(&stop, 1, READ_MS) == 0)
        continue;
    queue_view_free(&v);
    return NULL;
}

/* Takes what the thread has read. Returns 1 if there is something new, 0 if not, or -1 with gd__fail_text(). */
static int take_next(struct watcher *w)
{
    uint64_t rings;
    (void)!read(w->changed, &rings, sizeof rings);
    pthread_mutex_lock(&w->mutex);
    const bool has = w->has_next;
    if (has)
        exchange(&w->t->view, &w->next);
    w->has_next = false;
    const int rc = *w->error ? gd__fail("%s", w->error) : has;
    pthread_mutex_unlock(&w->mutex);
    return rc;
}

static void draw(const struct top *t, struct tui_screen *screen, unsigned quiet_seconds)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    char hint[96] = "q leaves";
    fill_view(&v, false);
    if (quiet_seconds >= QUIET_SECONDS)
        (void)snprintf(hint, sizeof hint, "no answer from the server for %u s, q leaves", quiet_seconds);
    v.hint = hint;
    if (t->view.url)
        queue_page(&b, &t->view, &v);
    else
        gd__buffer_format(&b, "reading the queue ...\n%s\n", hint);
    tui_screen_draw(screen, &b);
    gd__buffer_free(&b);
}

/* Draws until the queue is done or the user leaves. */
static int draw_on(struct watcher *w, struct tui_screen *screen)
{
    uint64_t last_ns = gd__now_ns();
    for (;;) {
        const int rc = take_next(w);
        if (rc < 0)
            return -1;
        if (rc > 0)
            last_ns = gd__now_ns();
        draw(w->t, screen, (unsigned)((gd__now_ns() - last_ns) / 1000000000));
        if ((w->t->view.url && w->t->view.f.is_done) || tui_screen_wait(screen, w->changed, READ_MS) == TUI_LEAVE)
            return 0;
    }
}

/* Ends the thread. If it waits for a server that does not answer, nothing is released, and the process exits. */
static void end_thread(struct watcher *w, int rc)
{
    ring(w->stop);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += END_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(w->thread, NULL, &until) != 0)
        _exit(rc < 0 ? CLI_EXIT_ERROR : 0);
}

static int watch_with(struct watcher *w)
{
    struct tui_screen *screen = NULL;
    if (w->changed < 0 || w->stop < 0)
        return gd__fail("out of descriptors");
    if (tui_screen_open(&screen) < 0)
        return -1;
    int rc = pthread_create(&w->thread, NULL, read_on, w) == 0 ? 0 : gd__fail("cannot start a thread");
    if (rc == 0) {
        rc = draw_on(w, screen);
        tui_screen_close(&screen);
        end_thread(w, rc);
    }
    tui_screen_close(&screen);
    return rc;
}

/* *is_done: the queue is done. */
static int watch(struct top *t, bool *is_done)
{
    struct watcher w = { .t = t, .changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .stop = eventfd(0, EFD_CLOEXEC) };
    pthread_mutex_init(&w.mutex, NULL);
    const int rc = watch_with(&w);
    *is_done = rc == 0 && t->view.url && t->view.f.is_done;
    pthread_mutex_destroy(&w.mutex);
    queue_view_free(&w.next);
    if (w.changed >= 0)
        close(w.changed);
    if (w.stop >= 0)
        close(w.stop);
    return rc;
}

/* ---------------------------------------------------------------------------------------- */

static int print_each(struct top *t, bool once)
{
    for (;;) {
        if (read_queue(t) < 0 || print_json(&t->view) < 0)
            return -1;
        if (once || t->view.f.is_done)
            return 0;
        (void)poll(NULL, 0, READ_MS);
    }
}

static int show(struct top *t, bool once, bool json)
{
    bool is_done;
    if (json)
        return print_each(t, once);
    if (once || !tui_can_draw(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return read_queue(t) < 0 ? -1 : print_page(&t->view);
    const int rc = watch(t, &is_done);
    return rc == 0 && is_done ? print_page(&t->view) : rc;
}

int queue_top(const struct cli_queue *q, bool once, bool json)
{
    struct top t = { .url = q->url };
    int rc = queue_view_open(&t.reader, q);
    if (rc == 0)
        rc = show(&t, once, json);
    if (rc == 0)
        queue_view_say_skipped(t.reader);
    gd_queue_reader_close(&t.reader);
    queue_view_free(&t.view);
    return rc;
}
