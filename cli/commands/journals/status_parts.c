/* SPDX-License-Identifier: MIT
 *
 * The figures of a journal, and how `status` prints them: see status_parts.h.
 */
#include "cli/commands/journals/status_parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "apps/transcribe/output/shown.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"
#include "cli/commands/transcribe/identity.h"

/* --- figures ------------------------------------------------------------------------ */

void status_work_out(struct status_figures *f)
{
    const struct gd_journal_summary *s = &f->s;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double last = s->ended > 0 ? s->ended : s->held ? (double)now.tv_sec + (double)now.tv_nsec / 1e9 : s->written;
    const uint64_t over = s->run_done + s->run_failed;
    f->seconds = last > s->started ? last - s->started : 0;
    /* The journal's counts are from its last write, so the rate is computed up to the time of that write. */
    const double until = s->held && s->written > s->started ? s->written - s->started : f->seconds;
    f->rate = until > 0 ? (double)over / until : 0;
    view_remaining_of(&f->remaining, s);
    f->eta = s->held && f->remaining.has_left && f->rate > 0 ? (double)f->remaining.left / f->rate : -1;
}

const char *status_state(const struct gd_journal_summary *s)
{
    return s->held ? "running" : s->end ? s->end : s->runs ? "killed" : "not begun";
}

/* --- text ------------------------------------------------------------------------------- */

/* "1,234,567" */
const char *status_grouped(char *out, size_t size, uint64_t n)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* The time of a task. It is usually far below a second. */
const char *status_task_time(char *out, size_t size, double seconds)
{
    if (seconds >= 1)
        return gd__text_duration(out, size, seconds);
    snprintf(out, size, seconds < 0.01 ? "%.2fms" : "%.0fms", seconds * 1000);
    return out;
}

const char *status_moment(char *out, size_t size, double unix_time)
{
    const time_t seconds = (time_t)unix_time;
    struct tm tm;
    if (!localtime_r(&seconds, &tm) || strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(out, size, "%.0f", unix_time);
    return out;
}

/* Prints a text from a journal. Another user may have written the journal, so the text is printed on one line,
 * shortened, and without characters that a terminal would act on. */
void status_print_text(FILE *out, const char *text, size_t size, size_t widest)
{
    char shown[PATH_MAX + 1];
    const bool cut = size > widest;
    size_t n = cut ? widest - 3 : size;
    while (cut && n > 0 && (text[n] & 0xc0) == 0x80) /* not in the middle of a character */
        n--;
    for (size_t i = 0; i < n; i++)
        shown[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    gd__text_plain(shown, n, false);
    fprintf(out, "%.*s%s", (int)n, shown, cut ? "..." : "");
}

void status_print_command(FILE *out, const char *command)
{
    struct gd__buffer b = { 0 };
    if (!command)
        return;
    cli_transcribe_show(&b, command);
    if (!b.failed)
        tr_show(b.data, b.size); /* a prompt may contain newlines, and a path any byte */
    if (!b.failed)
        fprintf(out, "gpu-dispatch %s%.*s\n", cli_transcribe_is(command) ? "" : "run ... ", (int)b.size,
                b.data ? b.data : "");
    gd__buffer_free(&b);
}

void status_print_count(FILE *out, const char *what, uint64_t n, const char *more)
{
    char number[40];
    fprintf(out, "  %-8s %12s%s%s\n", what, status_grouped(number, sizeof number, n), *more ? "   " : "", more);
}

void status_print_slow(FILE *out, double seconds, const char *input, size_t input_size, const char *where,
                       const char *failure)
{
    char time[32];
    fprintf(out, "  %12s   ", status_task_time(time, sizeof time, seconds));
    status_print_text(out, input, input_size, STATUS_WIDEST_INPUT);
    if (*where)
        fprintf(out, "  (%s)", where);
    fprintf(out, "%s", failure ? "  " : "");
    if (failure)
        status_print_text(out, failure, strlen(failure), STATUS_WIDEST_WORD);
    fprintf(out, "\n");
}

/* --- JSON ----------------------------------------------------------------------------------- */

void status_put_text(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ",\"%s\":", name);
    if (text)
        gd__json_put_string(b, text, strlen(text));
    else
        gd__buffer_text(b, "null");
}

void status_put_command(struct gd__buffer *b, const char *command)
{
    struct gd__buffer shown = { 0 };
    if (command)
        cli_transcribe_show(&shown, command);
    gd__buffer_add(&shown, "", 1);
    status_put_text(b, "command", command && !shown.failed ? shown.data : NULL);
    gd__buffer_free(&shown);
}

void status_put_number(struct gd__buffer *b, const char *name, bool known, double value, int digits)
{
    if (known)
        gd__buffer_format(b, ",\"%s\":%.*f", name, digits, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

void status_put_members(struct gd__buffer *b, const struct status_figures *f)
{
    const struct gd_journal_summary *s = &f->s;
    gd__buffer_text(b, "\"state\":");
    gd__json_put_string(b, status_state(s), strlen(status_state(s)));
    status_put_number(b, "pid", s->held, (double)s->pid, 0);
    status_put_text(b, "host", s->host);
    status_put_number(b, "quiet_seconds", s->held && s->quiet_seconds > 0, s->quiet_seconds, 3);
    status_put_command(b, s->command);
    gd__buffer_format(b, ",\"runs\":%" PRIu64 ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64, s->runs, s->done, s->failed);
    status_put_number(b, "total", f->remaining.has_left, (double)s->total, 0);
    status_put_number(b, "left", f->remaining.has_left, (double)f->remaining.left, 0);
    status_put_number(b, "not_in_input", s->end != NULL, (double)f->remaining.gone, 0);
    status_put_number(b, "eta_seconds", f->eta >= 0, f->eta, 3);
    status_put_number(b, "tasks_per_second", f->rate > 0, f->rate, 3);
    gd__buffer_format(b, ",\"run_done\":%" PRIu64 ",\"run_failed\":%" PRIu64 ",\"skipped\":%" PRIu64, s->run_done,
                      s->run_failed, s->skipped);
    status_put_number(b, "started", s->started > 0, s->started, 6);
    status_put_number(b, "written", s->written > 0, s->written, 6);
    status_put_number(b, "ended", s->ended > 0, s->ended, 6);
    status_put_number(b, "seconds", true, f->seconds, 3);
    status_put_number(b, "busy_seconds", true, s->busy_seconds, 6);
}
