/* SPDX-License-Identifier: MIT
 *
 * Draws the progress. On a terminal it redraws one line: ten times a second while figures change, otherwise once a
 * second. Elsewhere (a file, a pipe) it writes a plain line every five seconds, and a last one.
 *
 * A thread holds the lock while it writes to the terminal, so that drawing never happens in the middle of output.
 */
#include "cli/output/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/thread.h"
#include "cli/run/stop/suspend.h"
#include "cli/say.h"
#include "tui/layout.h"
#include "view/json.h"

enum { REDRAW_MS = 100, REDRAW_IDLE_MS = 1000, PLAIN_MS = 5000, JSON_MS = 1000, USUAL_WIDTH = 80, WIDEST = 512 };

/* --- figures and layout --------------------------------------------------------- */

void cli_figures_of(struct cli_figures *f, const struct gd_snapshot *now, struct view_history *h)
{
    const struct gd_stats *s = now->stats;
    struct view_figures t;
    view_history_add(h, now);
    view_figures_of(&t, now, h);
    *f = (struct cli_figures){ .total = t.total,
                               .done = t.passed,
                               .ended = t.ended,
                               .failed = s->failed + s->timeouts,
                               .running = s->running,
                               .workers = s->n_workers,
                               .seconds = t.elapsed,
                               .eta = t.eta,
                               .by_work = t.work_total > 0,
                               .part = t.part,
                               .state = view_held_state(now) };
}

/* Adds the time left. If that is not known or zero, adds the elapsed time. */
static void add_time(struct gd__buffer *b, const struct cli_figures *f)
{
    char time[32];
    const double eta = f->eta;
    gd__buffer_text(b, gd__text_duration(time, sizeof time, eta > 0 ? eta : f->seconds));
    gd__buffer_text(b, eta > 0 ? " left" : "");
}

static void add_state(struct gd__buffer *b, const struct cli_figures *f)
{
    if (f->state)
        gd__buffer_format(b, ", %s", f->state);
}

static void add_failed(struct gd__buffer *b, const struct cli_figures *f)
{
    if (f->failed)
        gd__buffer_format(b, ", %llu failed", (unsigned long long)f->failed);
}

static void add_done(struct gd__buffer *b, const struct cli_figures *f)
{
    if (f->total)
        gd__buffer_format(b, "%llu/%llu", (unsigned long long)f->done, (unsigned long long)f->total);
    else
        gd__buffer_format(b, "%llu done", (unsigned long long)f->done);
}

static bool is_known(const struct cli_figures *f)
{
    return f->by_work || f->total;
}

static double part_of(const struct cli_figures *f)
{
    const double part = f->by_work ? f->part : f->total ? (double)f->done / (double)f->total : 0;
    return part > 1 ? 1 : part;
}

/* " 45% [#######........] 450/1000, 3 failed, 2m05s left"; the bar takes the remaining width. */
static void lay_bar(struct gd__buffer *b, const struct cli_figures *f, unsigned width)
{
    struct gd__buffer tail = { 0 };
    add_done(&tail, f);
    add_state(&tail, f);
    add_failed(&tail, f);
    gd__buffer_text(&tail, ", ");
    add_time(&tail, f);
    const double part = part_of(f);
    size_t taken = sizeof "100% [] " - 1 + tail.size, room = width > taken ? width - taken : 0;
    if (is_known(f)) {
        gd__buffer_format(b, "%3d%% ", (int)(part * 100));
        if (room >= 4) {
            size_t full = (size_t)(part * (double)room);
            gd__buffer_text(b, "[");
            for (size_t i = 0; i < room; i++)
                gd__buffer_text(b, i < full ? "#" : ".");
            gd__buffer_text(b, "] ");
        }
    }
    gd__buffer_add(b, tail.data, tail.size);
    b->failed = b->failed || tail.failed;
    gd__buffer_free(&tail);
}

/* "450/1000 (45%), 8 running, 3 failed, 13/s, 2m05s left" */
static void lay_line(struct gd__buffer *b, const struct cli_figures *f)
{
    char rate[32];
    add_done(b, f);
    if (f->by_work)
        gd__buffer_format(b, " (%d%% of the work)", (int)(part_of(f) * 100));
    else if (f->total)
        gd__buffer_format(b, " (%d%%)", (int)((double)f->done * 100 / (double)f->total));
    gd__buffer_format(b, ", %llu running", (unsigned long long)f->running);
    add_state(b, f);
    add_failed(b, f);
    if (f->seconds > 0)
        gd__buffer_format(b, ", %s/s", view_show_rate(rate, sizeof rate, (double)f->ended / f->seconds));
    gd__buffer_text(b, ", ");
    add_time(b, f);
}

/* "ETA: 2m05s, 450/1000, 8 running, 3 failed, 0.27s each" */
static void lay_eta(struct gd__buffer *b, const struct cli_figures *f)
{
    char time[32];
    const double eta = f->eta;
    gd__buffer_format(b, "ETA: %s, ", eta < 0 ? "unknown" : gd__text_duration(time, sizeof time, eta));
    add_done(b, f);
    gd__buffer_format(b, ", %llu running", (unsigned long long)f->running);
    add_state(b, f);
    add_failed(b, f);
    if (f->ended)
        gd__buffer_format(b, ", %s each", gd__text_duration(time, sizeof time, f->seconds / (double)f->ended));
}

size_t cli_progress_layout(char *out, size_t size, const struct cli_figures *f, enum cli_progress_style style,
                           unsigned width)
{
    struct gd__buffer b = { 0 };
    if (size == 0)
        return 0;
    if (style == CLI_PROGRESS_BAR)
        lay_bar(&b, f, width);
    else if (style == CLI_PROGRESS_ETA)
        lay_eta(&b, f);
    else
        lay_line(&b, f);
    size_t length = b.failed ? 0 : b.size;
    length = length > width ? width : length;
    length = length > size - 1 ? size - 1 : length;
    if (length)
        memcpy(out, b.data, length);
    out[length] = 0;
    gd__buffer_free(&b);
    return length;
}

/* --- drawing ------------------------------------------------------------------------ */

struct cli_progress {
    int fd;
    enum cli_progress_style style;
    bool terminal; /* the line is redrawn in place */
    cli_stats_fn *stats;
    void *user;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the fields below, and the terminal */
    pthread_cond_t wake;
    bool ended;
    bool shown;                 /* a line is on the terminal */
    uint64_t drawn_ms, next_ms; /* CLOCK_MONOTONIC: time of the last drawing, and of the next */
    char line[WIDEST + 1];
    size_t length;
    struct cli_figures last;
    struct tui_panel *panel; /* draws instead of this thread, if not NULL */
    tui_read_fn *read;       /* for CLI_PROGRESS_JSON */
    struct view_history history;
};

static unsigned terminal_width(int fd)
{
    struct winsize w;
    unsigned width = ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : USUAL_WIDTH;
    /* The last column stays free, since some terminals move to the next line when it is written. Two more stay free for
     * the "^C" that the terminal itself prints after the line, so that it is erased with the line. */
    return width > WIDEST ? WIDEST : width > 3 ? width - 3 : 1;
}

/* Errors are ignored: if the terminal is gone, only the progress display is lost. */
static void put(const struct cli_progress *p, const char *before, const char *after)
{
    char text[WIDEST + 64];
    int length = snprintf(text, sizeof text, "%s%.*s%s", before, (int)p->length, p->line, after);
    if (length > 0)
        (void)gd__write_all(p->fd, text, (size_t)length);
}

static void show(struct cli_progress *p)
{
    put(p, "\r", "\033[K");
    p->shown = true;
}

static void hide(struct cli_progress *p)
{
    if (p->shown)
        (void)gd__write_all(p->fd, "\r\033[K", sizeof "\r\033[K" - 1);
    p->shown = false;
}

/* Reads the figures and lays them out. Returns false if there are no figures yet. */
static bool refresh(struct cli_progress *p, struct cli_figures *f)
{
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_snapshot s = { .size = sizeof s, .stats = &stats };
    if (p->stats(p->user, &s, &stats) != 0)
        return false;
    cli_figures_of(f, &s, &p->history);
    p->length =
        cli_progress_layout(p->line, sizeof p->line, f, p->style, p->terminal ? terminal_width(p->fd) : USUAL_WIDTH);
    return true;
}

static bool have_moved(const struct cli_figures *a, const struct cli_figures *b)
{
    return a->total != b->total || a->done != b->done || a->running != b->running || a->part != b->part ||
           a->state != b->state;
}

static void put_json(struct cli_progress *p)
{
    const struct gd_snapshot *s = NULL;
    struct gd__buffer b = { 0 };
    if (p->read(p->user, &s) != 0 || !s)
        return;
    view_history_add(&p->history, s);
    view_json(&b, s, &p->history);
    gd__buffer_text(&b, "\n");
    if (!b.failed)
        (void)gd__write_all(p->fd, b.data, b.size);
    gd__buffer_free(&b);
}

/* Writes a plain line, with the program's name before it. */
static void put_line(struct cli_progress *p)
{
    char name[64];
    snprintf(name, sizeof name, "%s: ", cli_name());
    put(p, name, "\n");
}

/* Draws once. Returns the milliseconds until the next drawing. */
static unsigned draw(struct cli_progress *p)
{
    struct cli_figures f = { 0 };
    if (p->style == CLI_PROGRESS_JSON) {
        put_json(p);
        return JSON_MS;
    }
    if (!refresh(p, &f))
        return REDRAW_MS;
    bool moved = have_moved(&f, &p->last);
    p->last = f;
    if (p->terminal)
        show(p);
    else
        put_line(p);
    return !p->terminal ? PLAIN_MS : moved ? REDRAW_MS : REDRAW_IDLE_MS;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void *keep_drawing(void *arg)
{
    struct cli_progress *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->ended) {
        struct timespec until = { .tv_sec = (time_t)(p->next_ms / 1000),
                                  .tv_nsec = (long)(p->next_ms % 1000) * 1000000 };
        if (now_ms() < p->next_ms) {
            pthread_cond_timedwait(&p->wake, &p->lock, &until);
            continue;
        }
        unsigned pause_ms = draw(p);
        p->drawn_ms = now_ms();
        p->next_ms = p->drawn_ms + pause_ms;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start(struct cli_progress *p)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    return gd__thread_start(&p->thread, "gd-progress", keep_drawing, p);
}

static struct cli_progress *new_progress(int fd, enum cli_progress_style style, void *user)
{
    struct cli_progress *p = calloc(1, sizeof *p);
    if (!p) {
        (void)gd__fail("out of memory");
        return NULL;
    }
    p->fd = fd;
    p->style = style;
    p->terminal = (style == CLI_PROGRESS_BAR || style == CLI_PROGRESS_ETA) && isatty(fd);
    p->user = user;
    return p;
}

static int begin(struct cli_progress **out, struct cli_progress *p)
{
    p->next_ms = p->terminal ? 0 : now_ms() + (p->style == CLI_PROGRESS_JSON ? JSON_MS : PLAIN_MS);
    int code = start(p);
    if (code) {
        free(p);
        return gd__fail("cannot start a thread: %s", strerror(code));
    }
    *out = p;
    return 0;
}

int cli_progress_open(struct cli_progress **out, int fd, enum cli_progress_style style, cli_stats_fn *stats, void *user)
{
    struct cli_progress *p = new_progress(fd, style, user);
    if (!p)
        return -1;
    p->stats = stats;
    return begin(out, p);
}

int cli_progress_open_view(struct cli_progress **out, int fd, enum cli_progress_style style, tui_read_fn *read,
                           void *user)
{
    struct cli_progress *p = new_progress(fd, style, user);
    if (!p)
        return -1;
    p->read = read;
    if (style != CLI_PROGRESS_PANEL)
        return begin(out, p);
    if (tui_panel_open(&p->panel, fd, read, user, cli_suspend) < 0) {
        free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void cli_progress_media(struct cli_progress *p, const char *media)
{
    if (p)
        tui_panel_media(p->panel, media);
}

void cli_progress_pause(struct cli_progress *p)
{
    if (!p)
        return;
    if (p->panel) {
        tui_panel_pause(p->panel);
        return;
    }
    pthread_mutex_lock(&p->lock);
    hide(p);
}

/* The line comes back with the next drawing, a tenth of a second after the last one. Drawing it at once would mean one
 * drawing for each task that ends. */
void cli_progress_resume(struct cli_progress *p)
{
    if (!p)
        return;
    if (p->panel) {
        tui_panel_resume(p->panel);
        return;
    }
    bool sooner = p->terminal && p->next_ms > p->drawn_ms + REDRAW_MS;
    if (sooner)
        p->next_ms = p->drawn_ms + REDRAW_MS;
    pthread_mutex_unlock(&p->lock);
    if (sooner)
        pthread_cond_signal(&p->wake);
}

static void draw_last(struct cli_progress *p)
{
    struct cli_figures f;
    hide(p);
    if (p->style == CLI_PROGRESS_JSON)
        put_json(p);
    if (!p->stats || p->style == CLI_PROGRESS_LINE || !refresh(p, &f))
        return;
    if (!p->terminal)
        put_line(p);
    else if (p->style == CLI_PROGRESS_BAR)
        put(p, "\r", "\n");
}

void cli_progress_close(struct cli_progress **progress)
{
    struct cli_progress *p = *progress;
    if (!p)
        return;
    if (p->panel) {
        tui_panel_close(&p->panel);
        free(p);
        *progress = NULL;
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_signal(&p->wake);
    pthread_join(p->thread, NULL);
    draw_last(p);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
    *progress = NULL;
}
