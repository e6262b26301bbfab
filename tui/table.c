/* SPDX-License-Identifier: MIT
 *
 * Lays out the table of GPUs. The array `columns` lists the columns, each with a rank. Columns are added in the order
 * of their ranks while they fit beside a task column of some width. The task column then gets the rest of the width.
 * Each column has a least width that usual figures do not exceed, so that columns do not move from one drawing to the
 * next. */
#include "tui/table.h"

#include <stdio.h>
#include <string.h>

#include <gpu_dispatch/devices.h>

#include "view/figures.h"

#define ELLIPSIS "…"
enum { CELL = sizeof((struct view_row){ 0 }.task) /* the longest */, LONGEST_EXTENSION = 5 };

struct column {
    const char *title;
    unsigned rank; /* columns are added in this order; 0: always shown */
    size_t least;  /* the least width */
    bool left;     /* aligned to the left */
    void (*cell)(char *out, const struct view_row *r, bool utf8);
    uint64_t needs; /* shown only if this is known for some row (enum gd_device_known); 0: always */
};

static void label(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    snprintf(out, CELL, "%s", r->label);
}

static void status(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    snprintf(out, CELL, "%s", view_status_name(r->status));
}

static void task(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    snprintf(out, CELL, "%s", r->task);
}

static void since(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    view_show_since(out, CELL, r->since_s);
}

static void done(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    view_show_short_count(out, CELL, r->done);
}

static void failed(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    view_show_short_count(out, CELL, r->failed);
}

static void timeouts(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    view_show_short_count(out, CELL, r->timeouts);
}

static void restarts(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    view_show_short_count(out, CELL, r->restarts);
}

static void last(char *out, const struct view_row *r, bool utf8)
{
    view_show_duration(out, CELL, r->last_s, utf8);
}

static void utilization(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    if (r->known & GD_KNOWN_UTILIZATION)
        snprintf(out, CELL, "%u%%", r->utilization);
}

static void memory(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    if (r->known & GD_KNOWN_MEMORY)
        view_show_memory(out, CELL, r->memory_used, r->memory_total);
}

static void temperature(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    if (r->known & GD_KNOWN_TEMPERATURE)
        snprintf(out, CELL, "%d C", r->temperature);
}

static void power(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    if (r->known & GD_KNOWN_POWER)
        snprintf(out, CELL, "%llu W", (unsigned long long)((r->power_mw + 500) / 1000));
}

static void name(char *out, const struct view_row *r, bool utf8)
{
    (void)utf8;
    snprintf(out, CELL, "%s", r->name);
}

enum { LABEL, STATUS, TASK, FAILED = 5, TIMEOUTS = 6 };

static const struct column columns[] = {
    [LABEL] = { "GPU", 0, 3, false, label, 0 },
    [STATUS] = { "Status", 0, 10, true, status, 0 },
    [TASK] = { "Task", 0, 0, true, task, 0 },
    { "For", 2, 7, false, since, 0 },
    { "Done", 1, 5, false, done, 0 },
    [FAILED] = { "Failed", 3, 6, false, failed, 0 },
    [TIMEOUTS] = { "Timeouts", 8, 8, false, timeouts, 0 },
    { "Restarts", 9, 8, false, restarts, 0 },
    { "Last", 6, 7, false, last, 0 },
    { "Util", 4, 4, false, utilization, GD_KNOWN_UTILIZATION },
    { "Memory", 5, 7, false, memory, GD_KNOWN_MEMORY },
    { "Temp", 10, 5, false, temperature, GD_KNOWN_TEMPERATURE },
    { "Power", 11, 5, false, power, GD_KNOWN_POWER },
    { "Device", 12, 6, true, name, 0 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0], LUXURY = 8, MOST_RANK = 12 };

static const enum tui_colour status_colours[] = {
    [VIEW_ERROR] = TUI_BOLD_RED,      [VIEW_QUARANTINED] = TUI_BOLD_RED, [VIEW_RESTARTING] = TUI_MAGENTA,
    [VIEW_INITIALIZING] = TUI_CYAN,   [VIEW_PROCESSING] = TUI_YELLOW,    [VIEW_IDLE] = TUI_GREEN,
    [VIEW_FINISHED] = TUI_BOLD_GREEN,
};

/* --- choosing columns and widths ---------------------------------------------------- */

struct shape {
    size_t width[N_COLUMNS]; /* 0: left out */
    size_t gap;
};

static void cell_of(char *out, const struct column *c, const struct view_row *r, bool utf8)
{
    *out = 0;
    c->cell(out, r, utf8);
}

static bool is_known(const struct column *c, const struct view_rows *rows)
{
    bool known = c->needs == 0;
    for (size_t i = 0; i < rows->n && !known; i++)
        known = rows->items[i].known & c->needs;
    return known;
}

static size_t width_of(const struct column *c, const struct view_rows *rows, bool utf8)
{
    size_t most = strlen(c->title) > c->least ? strlen(c->title) : c->least;
    bool empty = true;
    for (size_t i = 0; i < rows->n; i++) {
        char cell[CELL];
        cell_of(cell, c, &rows->items[i], utf8);
        const size_t columns_taken = tui_columns(cell, utf8);
        most = columns_taken > most ? columns_taken : most;
        empty = empty && columns_taken == 0;
    }
    return empty && c->cell == name ? 0 : most;
}

static void choose(struct shape *s, const struct view_rows *rows, size_t width, bool utf8)
{
    const size_t part = width * 15 / 100, share = part < 8 ? 8 : part > 40 ? 40 : part;
    *s = (struct shape){ .gap = width < 100 ? 1 : 2 };
    s->width[LABEL] = width_of(&columns[LABEL], rows, utf8);
    s->width[STATUS] = width_of(&columns[STATUS], rows, utf8);
    size_t used = s->width[LABEL] + s->width[STATUS] + 2 * s->gap;
    for (unsigned rank = 1; rank <= MOST_RANK; rank++) {
        const size_t least_task = rank >= LUXURY && share < 28 ? 28 : share;
        for (size_t i = 0; i < N_COLUMNS; i++) {
            if (columns[i].rank != rank || !is_known(&columns[i], rows))
                continue;
            const size_t wanted = width_of(&columns[i], rows, utf8);
            if (wanted == 0 || used + wanted + s->gap + least_task > width)
                continue;
            s->width[i] = wanted;
            used += wanted + s->gap;
        }
    }
    s->width[TASK] = width > used ? width - used : 0;
}

/* --- the lines -------------------------------------------------------------------------- */

static void put(struct tui_line *l, const struct column *c, size_t width, enum tui_colour colour, const char *text)
{
    const size_t from = l->column, taken = tui_columns(text, l->utf8);
    if (!c->left && taken < width)
        tui_to(l, from + width - taken);
    tui_add_within(l, colour, text, from + width - l->column);
}

static enum tui_colour colour_of(size_t column, const struct view_row *r)
{
    if (column == STATUS)
        return status_colours[r->status];
    if ((column == FAILED && r->failed) || (column == TIMEOUTS && r->timeouts))
        return TUI_RED;
    return column == TASK && r->status != VIEW_PROCESSING ? TUI_DIM : TUI_PLAIN;
}

/* "talk.wav" */
static bool has_extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] && strlen(dot) <= 1 + LONGEST_EXTENSION && !strpbrk(dot, " \"");
}

/* True for "/data/a b/talk.wav" and "my songs/talk.wav", not for a record or a sentence with a slash in it. Also true
 * for a path whose beginning was already cut off. */
static bool is_path(const char *text)
{
    const char *name = strrchr(text, '/');
    if (strncmp(text, ELLIPSIS, strlen(ELLIPSIS)) == 0)
        return true;
    if (!name || strchr("{[\"", *text))
        return false;
    return text[strcspn(text, "/ \"{")] == '/' || has_extension(name + 1);
}

/* Files of one directory differ at the end of their paths, so a path that is too long is cut at its beginning. The
 * `lead` bytes before the path are kept, if that leaves room for some of the path. */
static void cut_front(char cell[CELL], size_t lead, size_t width, bool utf8)
{
    enum { LEAST = 8 };
    const char *mark = utf8 ? ELLIPSIS : "~", *text = cell + lead;
    char kept[CELL + sizeof ELLIPSIS], before[CELL];
    struct tui_glyph g;
    snprintf(before, sizeof before, "%.*s", (int)lead, cell);
    const size_t taken = tui_columns(before, utf8), all = tui_columns(cell, utf8);
    if (width < 2 || all <= width || width < taken + (lead ? LEAST : 0) || !is_path(text))
        return;
    for (size_t left = all - taken; left > width - taken - 1; left -= g.width)
        text += tui_glyph(&g, text, strlen(text), utf8);
    snprintf(kept, sizeof kept, "%s%s%s", before, mark, text);
    memcpy(cell, kept, CELL - 1); /* the text is shorter than CELL */
    cell[CELL - 1] = 0;
}

static void put_row(struct tui_line *l, const struct shape *s, const struct view_row *r)
{
    size_t at = 0;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        char cell[CELL];
        if (s->width[i] == 0)
            continue;
        if (r)
            cell_of(cell, &columns[i], r, l->utf8);
        if (r && i == TASK)
            cut_front(cell, r->lead, s->width[i], l->utf8);
        const char *text = r ? cell : columns[i].title;
        if (*text) {
            tui_to(l, at);
            put(l, &columns[i], s->width[i], r ? colour_of(i, r) : TUI_BOLD, text);
        }
        at += s->width[i] + s->gap;
    }
    tui_end(l);
}

void tui_table(struct tui_line *l, const struct view_rows *rows)
{
    struct shape s;
    choose(&s, rows, l->width, l->utf8);
    put_row(l, &s, NULL);
    for (size_t i = 0; i < rows->n; i++)
        put_row(l, &s, &rows->items[i]);
}
