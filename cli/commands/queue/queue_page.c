/* SPDX-License-Identifier: MIT
 *
 * Lays out a queue: see queue_page.h. If the terminal is too small, rows of nodes are left out first, and then the bar.
 */
#include "cli/commands/queue/queue_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tui/cells.h"
#include "view/figures.h"

enum { WITH_BAR = 4, HEADING = 1, NODE_LEAST = 12, NODE_MOST = 32, FIGURES = 62 /* columns of the other figures */ };

struct page {
    const struct queue_view *q;
    struct tui_line l;
    size_t left; /* lines */
};

static void end_line(struct page *p)
{
    tui_end(&p->l);
    p->left--;
}

static double part_of(const struct gd_queue_figures *f, uint64_t n)
{
    return f->tasks ? (double)n / (double)f->tasks : 0;
}

static void put_headline(struct page *p)
{
    const struct gd_queue_figures *f = &p->q->f;
    const char *state = queue_view_state(p->q);
    char ended[32], tasks[32];
    tui_format(&p->l, TUI_BOLD, "%s of %s task%s", view_show_count(ended, sizeof ended, f->done + f->failed),
               view_show_count(tasks, sizeof tasks, f->tasks), f->tasks == 1 ? "" : "s");
    if (f->tasks) /* rounded down: 100 is shown only at the end */
        tui_format(&p->l, TUI_BOLD, ", %.1f %%", (double)(int)(part_of(f, f->done + f->failed) * 1000) / 10);
    tui_format(&p->l,
               f->is_done     ? TUI_BOLD_GREEN
               : f->nodes > 0 ? TUI_PLAIN
                              : TUI_YELLOW,
               ", %s%s", state, f->is_done || f->nodes > 0 ? "" : " for nodes");
    /* The address at the right, if a good part of it fits. */
    const size_t name = tui_columns(p->q->url, p->l.utf8), gap = 2;
    const size_t room = p->l.width > p->l.column + gap ? p->l.width - p->l.column - gap : 0;
    if (name <= room || room >= 16) {
        tui_to(&p->l, p->l.width - (name < room ? name : room));
        tui_add(&p->l, TUI_DIM, p->q->url);
    }
    end_line(p);
}

/* The number of columns that a part takes. It is at least 1 if the part is not 0. */
static size_t share(double part, size_t width)
{
    const size_t n = (size_t)(part * (double)width);
    return part > 0 && n == 0 ? 1 : n > width ? width : n;
}

static void put_bar(struct page *p)
{
    static const char *const full[] = { "#", "━" }, *const rest[] = { ".", "─" };
    const struct gd_queue_figures *f = &p->q->f;
    const size_t width = p->l.width;
    const bool u = p->l.utf8;
    const size_t filled = share(part_of(f, f->done + f->failed), width); /* rounded down: full only at the end */
    size_t bad = share(part_of(f, f->failed), width);
    bad = bad > filled ? filled : bad;
    tui_fill(&p->l, TUI_GREEN, full[u], filled - bad);
    tui_fill(&p->l, TUI_RED, full[u], bad);
    tui_fill(&p->l, TUI_DIM, rest[u], width - filled);
    end_line(p);
}

/* Adds "12 words", with two blanks before it, unless the line begins. */
static void put_count(struct page *p, enum tui_colour colour, uint64_t n, const char *words)
{
    char count[32];
    if (p->l.column)
        tui_add(&p->l, TUI_PLAIN, "  ");
    tui_format(&p->l, colour, "%s %s", view_show_count(count, sizeof count, n), words);
}

static void put_counts(struct page *p)
{
    const struct gd_queue_figures *f = &p->q->f;
    put_count(p, TUI_GREEN, f->done, "done");
    put_count(p, f->failed ? TUI_RED : TUI_PLAIN, f->failed, "failed");
    put_count(p, TUI_PLAIN, f->held, "held");
    put_count(p, TUI_PLAIN, f->waiting, "waiting");
    if (f->push_is_open)
        tui_add(&p->l, TUI_YELLOW, "  a push is going on");
    end_line(p);
}

static void put_pace(struct page *p)
{
    const struct queue_view *q = p->q;
    char figure[48];
    put_count(p, q->f.nodes || q->f.is_done ? TUI_PLAIN : TUI_YELLOW, q->f.nodes, q->f.nodes == 1 ? "node" : "nodes");
    put_count(p, TUI_PLAIN, q->workers, q->workers == 1 ? "worker" : "workers");
    put_count(p, TUI_PLAIN, q->busy, "busy");
    if (q->rate > 0)
        tui_format(&p->l, TUI_PLAIN, "  %s tasks/s", view_show_rate(figure, sizeof figure, q->rate));
    if (q->eta >= 0)
        tui_format(&p->l, TUI_PLAIN, "  %s ETA", view_show_clock(figure, sizeof figure, q->eta));
    end_line(p);
}

static void put_skipped(struct page *p)
{
    char count[32];
    tui_format(&p->l, TUI_YELLOW, "%s message%s left out: ", view_show_count(count, sizeof count, p->q->skipped),
               p->q->skipped == 1 ? "" : "s");
    tui_add(&p->l, TUI_PLAIN, p->q->first_skipped);
    end_line(p);
}

/* --- nodes -------------------------------------------------------------------------- */

enum { NAME_ROOM = 300 };

/* The host; if another node has the same, also the process: "n17 (4711)". Nodes are sorted by host. */
static const char *name_of(const struct page *p, size_t i, char out[NAME_ROOM])
{
    const struct queue_node *n = p->q->nodes;
    const char *host = n[i].node.host;
    const bool twice = (i > 0 && strcmp(host, n[i - 1].node.host) == 0) ||
                       (i + 1 < p->q->n_nodes && strcmp(host, n[i + 1].node.host) == 0);
    if (twice)
        (void)snprintf(out, NAME_ROOM, "%.256s (%" PRIu64 ")", host, n[i].node.pid);
    else
        (void)snprintf(out, NAME_ROOM, "%.256s", *host ? host : "?");
    return out;
}

static size_t name_width(const struct page *p)
{
    size_t widest = NODE_LEAST;
    for (size_t i = 0; i < p->q->n_nodes; i++) {
        char name[NAME_ROOM];
        const size_t n = tui_columns(name_of(p, i, name), p->l.utf8);
        widest = n > widest ? n : widest;
    }
    const size_t room = p->l.width > FIGURES + NODE_LEAST ? p->l.width - FIGURES : NODE_LEAST;
    widest = widest > NODE_MOST ? NODE_MOST : widest;
    return widest > room ? room : widest;
}

static enum tui_colour colour_of(enum view_node_state state)
{
    static const enum tui_colour colours[] = { TUI_PLAIN, TUI_YELLOW, TUI_RED, TUI_DIM };
    return colours[state];
}

static void put_node(struct page *p, size_t i, size_t width)
{
    const struct queue_node *n = &p->q->nodes[i];
    const struct gd_queue_node *a = &n->node;
    const enum tui_colour colour = colour_of(n->state);
    char done[32], failed[32], held[32], rate[32], seen[32], name[NAME_ROOM];
    tui_add_within(&p->l, colour, name_of(p, i, name), width);
    tui_to(&p->l, width);
    tui_format(&p->l, colour, "  %-8s %7u %4u %7s %8s", view_node_state_name(n->state), a->workers, a->busy,
               a->tasks_per_second > 0 && n->state < VIEW_NODE_LOST
                   ? view_show_rate(rate, sizeof rate, a->tasks_per_second)
                   : "-",
               view_show_short_count(done, sizeof done, a->done));
    tui_format(&p->l, a->failed && n->state < VIEW_NODE_LOST ? TUI_RED : colour, " %6s",
               view_show_short_count(failed, sizeof failed, a->failed));
    tui_format(&p->l, colour, " %6s %7s  ", view_show_short_count(held, sizeof held, a->held),
               view_show_since(seen, sizeof seen, a->age_seconds));
    if (a->note)
        tui_add(&p->l, n->state == VIEW_NODE_RUNNING ? TUI_YELLOW : colour, a->note);
    else if (a->http)
        tui_add(&p->l, TUI_DIM, a->http);
    end_line(p);
}

static void put_nodes(struct page *p, size_t lines)
{
    const size_t width = name_width(p), n = p->q->n_nodes;
    if (n == 0 || lines < HEADING + 1)
        return;
    const size_t rows = n + HEADING <= lines ? n : lines - HEADING - 1;
    tui_add(&p->l, TUI_BOLD, "Node");
    tui_to(&p->l, width);
    tui_format(&p->l, TUI_BOLD, "  %-8s %7s %4s %7s %8s %6s %6s %7s  Note", "State", "Workers", "Busy", "Tasks/s",
               "Done", "Failed", "Held", "Seen");
    end_line(p);
    for (size_t i = 0; i < rows; i++)
        put_node(p, i, width);
    if (rows < n) {
        tui_format(&p->l, TUI_DIM, "and %zu more", n - rows);
        end_line(p);
    }
}

void queue_page_nodes(struct gd__buffer *out, const struct queue_view *q, const struct tui_view *v, size_t lines)
{
    struct page p = { .q = q, .left = lines };
    p.l =
        (struct tui_line){ .out = out, .width = v->width > 1 ? v->width - 1 : 0, .colour = v->colour, .utf8 = v->utf8 };
    put_nodes(&p, lines);
}

void queue_page(struct gd__buffer *out, const struct queue_view *q, const struct tui_view *v)
{
    struct page p = { .q = q, .left = v->height > 1 ? v->height - 1 : 0 };
    p.l =
        (struct tui_line){ .out = out, .width = v->width > 1 ? v->width - 1 : 0, .colour = v->colour, .utf8 = v->utf8 };
    if (p.left == 0 || p.l.width == 0)
        return;
    const bool bar = p.left >= WITH_BAR;
    put_headline(&p);
    if (bar)
        put_bar(&p);
    if (p.left)
        put_counts(&p);
    if (p.left)
        put_pace(&p);
    if (q->skipped && p.left)
        put_skipped(&p);
    const size_t hint = v->hint && p.left > 0;
    if (q->n_nodes > 0 && p.left > HEADING + 2 + hint) {
        end_line(&p);
        put_nodes(&p, p.left - hint);
    }
    if (hint && p.left) {
        tui_add(&p.l, TUI_DIM, v->hint);
        end_line(&p);
    }
}
