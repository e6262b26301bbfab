/* SPDX-License-Identifier: MIT
 *
 * --halt. The exit status is that of GNU parallel, found by experiments:
 *
 *   a limit of one (fail or done), reached      the exit status of the task that reached it
 *   any other limit as a number, reached or not the number of failures so far, at most 101
 *   a percentage, reached or not                the percentage of failures, rounded up
 *   success, reached                            0
 *
 * If a percentage of the total is exactly one task, the limit is one. Tasks that end after the limit was reached do not
 * change the status. */
#include "cli/run/stop/halt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/parse.h"
#include "base/text/printable.h"
#include "cli/run/stop/exit_status.h"

static const char *const when_names[] = { "never", "soon", "now" };
static const char *const what_names[] = { "fail", "success", "done" };

/* Returns the index of the name that equals the first length bytes of text, or -1. */
static int find_name(const char *const *names, int n, const char *text, size_t length)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0)
            return i;
    }
    return -1;
}

static int parse_limit(struct cli_halt *h, const char *whole, const char *text)
{
    uint64_t limit = 0;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '%') {
        h->limit = 0;
        return gd__parse_percent(text, &h->percent);
    }
    if (gd__parse_number("--halt", text, 1, UINT64_MAX, &limit) < 0)
        return gd__fail("--halt %s: the limit must be a number from 1 up, or a percentage like 20%%", whole);
    h->limit = limit;
    h->percent = 0;
    return 0;
}

/* Converts the form that older versions of GNU parallel used. Some scripts still use it. */
static const char *modern_form(const char *text, char *room, size_t size)
{
    unsigned percent;
    if (strcmp(text, "0") == 0)
        return "never";
    if (strcmp(text, "1") == 0)
        return "soon,fail=1";
    if (strcmp(text, "2") == 0)
        return "now,fail=1";
    if (gd__parse_percent(text, &percent) < 0)
        return text;
    snprintf(room, size, "soon,fail=%u%%", percent);
    return room;
}

int cli_halt_parse(struct cli_halt *h, const char *text)
{
    char room[32];
    const char *at = modern_form(text, room, sizeof room);
    size_t length = strcspn(at, ",=");
    int when = find_name(when_names, 3, at, length);
    if (when < 0)
        return gd__fail("--halt %s: must start with never, soon or now, as in soon,fail=1", text);
    h->when = (enum cli_halt_when)when;
    if (when == CLI_HALT_NEVER)
        return at[length] ? gd__fail("--halt %s: never has no limit: write --halt never", text) : 0;
    at += length + (at[length] != 0);
    length = strcspn(at, ",=");
    int what = find_name(what_names, 3, at, length);
    if (what < 0)
        return gd__fail("--halt %s: %s must be followed by fail, success or done, as in %s,fail=1", text,
                        when_names[when], when_names[when]);
    h->what = (enum cli_halt_what)what;
    return parse_limit(h, text, at + length + (at[length] != 0));
}

bool cli_halt_needs_total(const struct cli_halt *h)
{
    return h->when != CLI_HALT_NEVER && h->percent > 0;
}

static uint64_t counted(const struct cli_halt *h)
{
    const uint64_t figures[] = {
        [CLI_HALT_FAIL] = h->failed, [CLI_HALT_SUCCESS] = h->succeeded, [CLI_HALT_DONE] = h->failed + h->succeeded
    };
    return figures[h->what];
}

static bool reached(const struct cli_halt *h)
{
    if (h->percent)
        return h->total && (double)counted(h) * 100 >= (double)h->total * h->percent;
    return counted(h) >= h->limit;
}

static bool is_limit_of_one(const struct cli_halt *h)
{
    return h->percent ? h->total * h->percent == 100 : h->limit == 1;
}

int cli_halt_count_status(const struct cli_halt *h)
{
    /* At most 100: failed may exceed total, because a journal may hold failures of inputs that are no longer on the
     * list. */
    if (cli_halt_needs_total(h) && h->total)
        return h->failed < h->total ? (int)((h->failed * 100 + h->total - 1) / h->total) : 100;
    return h->failed < CLI_EXIT_MANY ? (int)h->failed : CLI_EXIT_MANY;
}

/* Names the task by its input, or by its number if the input is not one text. */
static void name_task(struct cli_halt *h, const struct gd_report *r)
{
    char name[CLI_HALT_TEXT - 2];
    size_t size = r->input ? r->input_size : 0;
    if (size > 0 && ((const char *)r->input)[size - 1] == '\0')
        size--;
    if (size > 0 && !memchr(r->input, 0, size) && gd__text_name(name, sizeof name, r->input, size) > 0)
        snprintf(h->task, sizeof h->task, "\"%s\"", name);
    else
        snprintf(h->task, sizeof h->task, "%llu", (unsigned long long)r->task_id + 1);
    if (r->failure != GD_FAILURE_NONE && r->error)
        gd__text_cause(h->error, sizeof h->error, r->error);
}

enum cli_halt_when cli_halt_add(struct cli_halt *h, const struct cli_task_end *e)
{
    if (e->report->failure == GD_FAILURE_CANCELLED) {
        h->cancelled++;
        return CLI_HALT_NEVER;
    }
    if (e->ok)
        h->succeeded++;
    else
        h->failed++;
    bool counts = h->what == CLI_HALT_DONE || e->ok == (h->what == CLI_HALT_SUCCESS);
    if (h->halted || h->when == CLI_HALT_NEVER || !counts || !reached(h))
        return CLI_HALT_NEVER;
    h->halted = true;
    name_task(h, e->report);
    if (h->what == CLI_HALT_SUCCESS)
        h->status = 0;
    else
        h->status = is_limit_of_one(h) ? cli_task_end_shell_status(e) : cli_halt_count_status(h);
    return h->when;
}

char *cli_halt_reason(const struct cli_halt *h, char *out, size_t size)
{
    static const char *const verbs[] = { "failed", "succeeded", "ended" };
    const unsigned long long n = counted(h);
    const char *verb = verbs[h->what];
    int length;
    if (h->percent)
        length = snprintf(out, size, "%llu of %llu tasks %s, the limit is %u%%", n, (unsigned long long)h->total, verb,
                          h->percent);
    else if (n == 1)
        length = snprintf(out, size, "task %s %s", h->task, verb);
    else
        length = snprintf(out, size, "%llu tasks %s, the last one is %s", n, verb, h->task);
    if (!h->percent && h->error[0] && length > 0 && (size_t)length < size)
        snprintf(out + length, size - (size_t)length, " (%s)", h->error);
    return out;
}
