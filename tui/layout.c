/* SPDX-License-Identifier: MIT
 *
 * Lays out the live view. From top to bottom it has the progress, a bar, counts, times and the table of GPUs. If there
 * is not enough room, the table is left out first and then the bar. Too many rows are folded (view/rows.c), and too
 * many columns are left out (table.c). */
#include "tui/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/text/buffer.h"
#include "tui/cells.h"
#include "tui/table.h"
#include "view/rows.h"

/* The lines that are being built. */
struct page {
    const struct gd_snapshot *s;
    const struct view_history *h;
    const struct tui_view *v;
    struct view_figures f;
    struct tui_line l;
    size_t left; /* lines */
};

static void end_line(struct page *p)
{
    tui_end(&p->l);
    p->left--;
}

/* --- progress --------------------------------------------------------------------------- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_headline(struct page *p)
{
    char passed[32], total[32], far[32] = "";
    const struct view_figures *f = &p->f;
    view_show_count(passed, sizeof passed, f->passed);
    if (f->part >= 0) /* rounded down: 100 is shown only at the end */
        snprintf(far, sizeof far, ", %.1f %%%s", (double)(int)(f->part * 1000) / 10,
                 f->work_total > 0 ? " of the work" : "");
    if (f->total)
        tui_format(&p->l, TUI_BOLD, "%s of %s task%s%s", passed, view_show_count(total, sizeof total, f->total),
                   plural(f->total), far);
    else
        tui_format(&p->l, TUI_BOLD, "%s task%s%s", passed, plural(f->passed), far);
    if (p->s->ended)
        tui_add(&p->l, TUI_BOLD_GREEN, ", ended");
    else if (view_held_state(p->s))
        tui_format(&p->l, TUI_YELLOW, ", %s", view_held_state(p->s));
    else if (p->s->stale)
        tui_add(&p->l, TUI_YELLOW, ", in a callback");
    /* Shows the job's name at the right, if a good part of it fits. */
    const size_t name = tui_columns(p->s->job, p->l.utf8), gap = 2;
    const size_t room = p->l.width > p->l.column + gap ? p->l.width - p->l.column - gap : 0;
    if (name > 0 && (name <= room || room >= 16)) {
        tui_to(&p->l, p->l.width - (name < room ? name : room));
        tui_add(&p->l, TUI_DIM, p->s->job);
    }
    end_line(p);
}

/* The number of columns of the bar that a part takes. It is at least 1 if the part is not 0. */
static size_t share(double part, size_t width)
{
    const size_t n = (size_t)(part * (double)width);
    return part > 0 && n == 0 ? 1 : n > width ? width : n;
}

/* The failed part of the bar. How much of the work has failed is not known. So the share of failed tasks among the
 * tasks that have ended or were skipped is used. */
static double bad_part(const struct page *p)
{
    const struct gd_stats *a = p->s->stats;
    const struct view_figures *f = &p->f;
    const double wrong = (double)a->failed + (double)a->timeouts;
    const uint64_t all = f->total > f->passed ? f->total : f->passed;
    if (f->work_total > 0)
        return f->passed ? f->part * wrong / (double)f->passed : 0;
    return all ? wrong / (double)all : 0;
}

static void put_bar(struct page *p)
{
    static const char *const full[] = { "#", "━" }, *const rest[] = { ".", "─" };
    const size_t width = p->l.width;
    const bool u = p->l.utf8, over = p->f.total && p->f.passed >= p->f.total;
    if (p->f.part < 0)
        return;
    size_t filled = share(p->f.part, width), bad = share(bad_part(p), width);
    filled = !over && filled == width ? width - 1 : filled; /* full only at the end */
    bad = bad > filled ? filled : bad;
    tui_fill(&p->l, TUI_GREEN, full[u], filled - bad);
    tui_fill(&p->l, TUI_RED, full[u], bad);
    tui_fill(&p->l, TUI_DIM, rest[u], width - filled);
    end_line(p);
}

/* --- counts and times ----------------------------------------------------------------------- */

/* Pieces of text with two spaces between them. They take as many lines as they need, up to a limit. */
struct flow {
    struct page *p;
    size_t lines; /* lines that may still be begun */
};

static void put_piece(struct flow *f, enum tui_colour colour, const char *text)
{
    struct tui_line *l = &f->p->l;
    const size_t gap = l->column ? 2 : 0;
    if (l->column + gap + tui_columns(text, l->utf8) > l->width && l->column > 0) {
        if (f->lines == 0)
            return;
        f->lines--;
        end_line(f->p);
    }
    if (l->column)
        tui_to(l, l->column + gap);
    tui_add(l, colour, text);
}

static void put_count(struct flow *f, enum tui_colour colour, uint64_t n, const char *words)
{
    char text[96], count[32];
    snprintf(text, sizeof text, "%s %s", view_show_count(count, sizeof count, n), words);
    put_piece(f, colour, text);
}

static void put_counts(struct page *p, size_t lines)
{
    const struct gd_stats *a = p->s->stats;
    struct flow f = { p, lines - 1 };
    put_count(&f, TUI_GREEN, a->completed, "done");
    put_count(&f, a->failed ? TUI_RED : TUI_PLAIN, a->failed, "failed");
    put_count(&f, a->timeouts ? TUI_RED : TUI_PLAIN, a->timeouts, a->timeouts == 1 ? "timeout" : "timeouts");
    if (a->setup_failures)
        put_count(&f, TUI_BOLD_RED, a->setup_failures, a->setup_failures == 1 ? "setup failure" : "setup failures");
    if (a->retried)
        put_count(&f, TUI_YELLOW, a->retried, "retried");
    if (a->skipped)
        put_count(&f, TUI_PLAIN, a->skipped, "skipped");
    if (a->cancelled)
        put_count(&f, TUI_YELLOW, a->cancelled, "cancelled");
    if (!p->s->ended)
        put_count(&f, TUI_PLAIN, a->running, "running");
    if (a->crashes)
        put_count(&f, TUI_YELLOW, a->crashes, a->crashes == 1 ? "crash" : "crashes");
    end_line(p);
}

static void put_times(struct page *p, size_t lines)
{
    char text[96], figure[48];
    struct flow f = { p, lines - 1 };
    snprintf(text, sizeof text, "%s elapsed", view_show_clock(figure, sizeof figure, p->f.elapsed));
    put_piece(&f, TUI_PLAIN, text);
    if (p->f.part >= 0 && !p->s->ended) {
        snprintf(text, sizeof text, "%s ETA", view_show_clock(figure, sizeof figure, p->f.eta));
        put_piece(&f, TUI_PLAIN, text);
    }
    if (!p->s->ended && p->f.rate_now >= 0) {
        snprintf(text, sizeof text, "%s tasks/s now", view_show_rate(figure, sizeof figure, p->f.rate_now));
        put_piece(&f, TUI_PLAIN, text);
    }
    snprintf(text, sizeof text, "%s tasks/s mean", view_show_rate(figure, sizeof figure, p->f.rate_mean));
    put_piece(&f, TUI_PLAIN, text);
    end_line(p);
}

/* How much of the audio is done, and how fast. This is a separate line, so that no other text moves when it appears. */
static void put_media(struct page *p, size_t lines)
{
    char text[96], done[32], total[32];
    struct flow f = { p, lines - 1 };
    if (!p->v->media || !(p->f.work_total > 0))
        return;
    snprintf(text, sizeof text, "%s of %s %.24s", view_show_clock(done, sizeof done, p->f.work_done),
             view_show_clock(total, sizeof total, p->f.work_total), p->v->media);
    put_piece(&f, TUI_PLAIN, text);
    if (p->f.work_rate > 0) {
        snprintf(text, sizeof text, "%sx real time", view_show_rate(done, sizeof done, p->f.work_rate));
        put_piece(&f, TUI_PLAIN, text);
    }
    end_line(p);
}

/* --- the rest ------------------------------------------------------------------------------------- */

enum { HEADING = 1, LEAST = 2 }; /* lines of the table: its heading, and the fewest rows */

static void put_table(struct page *p, size_t below)
{
    struct view_rows rows = { 0 };
    if (p->s->n_workers == 0 || p->left < HEADING + LEAST + below)
        return;
    const size_t left = p->left - below;
    const bool roomy = p->s->n_workers + HEADING + 1 <= left || left > 8;
    if (view_rows_make(&rows, p->s, left - HEADING - roomy, p->l.utf8) < 0) {
        p->l.out->failed = true;
        return;
    }
    if (roomy)
        end_line(p);
    tui_table(&p->l, &rows);
    p->left -= rows.n + HEADING;
    view_rows_free(&rows);
}

static void put_failure(struct page *p)
{
    tui_add(&p->l, TUI_RED, "last failure: ");
    tui_add(&p->l, TUI_PLAIN, p->h->failure);
    end_line(p);
}

static void put_request(struct page *p)
{
    tui_add(&p->l, TUI_YELLOW, p->h->refused ? "last request refused: " : "last request: ");
    tui_add(&p->l, TUI_PLAIN, p->h->request);
    end_line(p);
}

void tui_layout(struct gd__buffer *out, const struct gd_snapshot *s, const struct view_history *h,
                const struct tui_view *v)
{
    enum { WITH_BAR = 4, ROOMY = 10 }; /* lines */
    struct page p = { .s = s, .h = h, .v = v, .left = v->height > 1 ? v->height - 1 : 0 };
    p.l =
        (struct tui_line){ .out = out, .width = v->width > 1 ? v->width - 1 : 0, .colour = v->colour, .utf8 = v->utf8 };
    if (p.left == 0 || p.l.width == 0)
        return;
    const bool bar = p.left >= WITH_BAR;
    const size_t lines = p.left >= ROOMY ? 2 : 1;
    view_figures_of(&p.f, s, h);
    put_headline(&p);
    if (bar)
        put_bar(&p);
    if (p.left)
        put_counts(&p, lines);
    if (p.left)
        put_times(&p, lines);
    if (p.left >= ROOMY - WITH_BAR)
        put_media(&p, lines);
    const bool failure = v->last_events && *h->failure && p.left >= 1;
    /* the table is more useful than the request */
    const bool request = v->last_events && *h->request && p.left >= 1U + failure + HEADING + LEAST;
    const bool hint = v->hint && p.left >= 1U + failure + request;
    put_table(&p, (size_t)failure + request + hint);
    if (request)
        put_request(&p);
    if (failure)
        put_failure(&p);
    if (hint) {
        tui_add(&p.l, TUI_DIM, v->hint);
        end_line(&p);
    }
}
