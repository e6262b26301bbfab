/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch status FILE`: prints the state of a run, which it reads from the journal only. The run may be running,
 * killed, or long over. Prints text, or JSON with --json.
 *
 * The rate is that of the last run. The time left is known only if the number of inputs is known.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <gpu_dispatch/journal.h>

#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"
#include "cli/commands.h"
#include "cli/commands/transcribe/identity.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"
#include "view/remaining.h"

enum { SLOWEST = 5, WIDEST_INPUT = 48, WIDEST_WORD = 32, MOST_CLASSES = 20 };

struct asked {
    bool json, help, list_options;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "json", 0, NULL, "print one JSON object, for programs", cli_set_flag, AT(json), .group = "Options" },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "status",
    .usage = "usage: gpu-dispatch status [OPTIONS] FILE\n"
             "\n"
             "Shows the state of a run from its journal FILE, made with `run --journal FILE`:\n"
             "whether it is running, has ended or was killed, how many tasks are done, how\n"
             "many remain and how long those will take, what failed and why, and the slowest\n"
             "tasks.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch status run.db\n"
             "  gpu-dispatch status --json run.db | jq .left\n",
    .table = table,
    .after = "Exit status: 0; 255 if the journal does not exist or cannot be read.\n"
             "More: man gpu-dispatch-status.\n",
};

/* --- figures ------------------------------------------------------------------------ */

struct figures {
    struct gd_journal_summary s;
    double seconds; /* duration of the last run, until now or until its last write to the journal */
    double rate;    /* tasks per second in that run; 0: not known */
    struct view_remaining remaining;
    double eta; /* seconds; < 0: not known */
};

static void work_out(struct figures *f)
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

static const char *state_of(const struct gd_journal_summary *s)
{
    return s->held ? "running" : s->end ? s->end : s->runs ? "killed" : "not begun";
}

/* --- text ------------------------------------------------------------------------------- */

/* "1,234,567" */
static const char *grouped(char *out, size_t size, uint64_t n)
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
static const char *task_time(char *out, size_t size, double seconds)
{
    if (seconds >= 1)
        return gd__text_duration(out, size, seconds);
    snprintf(out, size, seconds < 0.01 ? "%.2fms" : "%.0fms", seconds * 1000);
    return out;
}

static const char *moment(char *out, size_t size, double unix_time)
{
    const time_t seconds = (time_t)unix_time;
    struct tm tm;
    if (!localtime_r(&seconds, &tm) || strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(out, size, "%.0f", unix_time);
    return out;
}

/* Prints a text from a journal. Another user may have written the journal, so the text is printed on one line,
 * shortened, and without characters that a terminal would act on. */
static void print_text(const char *text, size_t size, size_t widest)
{
    char shown[PATH_MAX + 1];
    const bool cut = size > widest;
    size_t n = cut ? widest - 3 : size;
    while (cut && n > 0 && (text[n] & 0xc0) == 0x80) /* not in the middle of a character */
        n--;
    for (size_t i = 0; i < n; i++)
        shown[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    gd__text_plain(shown, n, false);
    printf("%.*s%s", (int)n, shown, cut ? "..." : "");
}

static void print_command(const char *command)
{
    struct gd__buffer b = { 0 };
    if (!command)
        return;
    cli_transcribe_show(&b, command);
    if (!b.failed)
        tr_show(b.data, b.size); /* a prompt may contain newlines, and a path any byte */
    if (!b.failed)
        printf("gpu-dispatch %s%.*s\n", cli_transcribe_is(command) ? "" : "run ... ", (int)b.size,
               b.data ? b.data : "");
    gd__buffer_free(&b);
}

static void print_state(const struct figures *f, const char *path)
{
    const struct gd_journal_summary *s = &f->s;
    char when[64], how_long[32];
    gd__text_duration(how_long, sizeof how_long, f->seconds);
    print_text(path, strlen(path), PATH_MAX);
    printf(": ");
    if (s->held)
        printf("running for %s (process %" PRIu64 ")", how_long, s->pid);
    else if (s->end) {
        print_text(s->end, strlen(s->end), WIDEST_WORD);
        printf(" %s, after %s", moment(when, sizeof when, s->ended), how_long);
    } else if (s->runs)
        printf("killed, last record %s: continue with --resume",
               moment(when, sizeof when, s->written > 0 ? s->written : s->started));
    else
        printf("not begun");
    printf("\n");
    print_command(s->command);
    printf("\n");
}

static void print_count(const char *what, uint64_t n, const char *more)
{
    char number[40];
    printf("  %-8s %12s%s%s\n", what, grouped(number, sizeof number, n), *more ? "   " : "", more);
}

static void print_counts(const struct figures *f)
{
    const struct gd_journal_summary *s = &f->s;
    char more[128] = "", time[32], number[40], gone[48];
    const uint64_t all = s->done + s->failed, of = f->remaining.all;
    if (f->remaining.has_left)
        snprintf(more, sizeof more, "of %s, %.1f %%", grouped(number, sizeof number, of),
                 of ? 100.0 * (double)s->done / (double)of : 0.0);
    print_count("done", s->done, more);
    *more = '\0';
    if (s->failed)
        snprintf(more, sizeof more, "%.1f %%", 100.0 * (double)s->failed / (double)all);
    print_count("failed", s->failed, more);
    if (f->remaining.has_left && f->remaining.left) {
        *more = '\0';
        if (f->eta >= 0)
            snprintf(more, sizeof more, "about %s", gd__text_duration(time, sizeof time, f->eta));
        print_count("left", f->remaining.left, more);
    }
    if (f->rate > 0)
        printf("  %-8s %12.*f   tasks a second\n", "rate", f->rate < 100 ? 2 : 0, f->rate);
    if (all && s->busy_seconds > 0)
        printf("  %-8s %12s   a task, on average\n", "time",
               task_time(time, sizeof time, s->busy_seconds / (double)all));
    if (s->runs > 1)
        printf("\nRun %" PRIu64 " of this journal: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " skipped.\n",
               s->runs, s->run_done, s->run_failed, s->skipped);
    if (f->remaining.gone)
        printf("%s of the tasks above %s not in the input of the last run.\n",
               grouped(gone, sizeof gone, f->remaining.gone), f->remaining.gone == 1 ? "was" : "were");
}

static int print_failure(void *user, const char *failure, uint64_t count)
{
    char number[40];
    size_t *classes = user;
    if (*classes == 0)
        printf("\nFailures\n");
    if (++*classes > MOST_CLASSES)
        return 0;
    printf("  %12s   ", grouped(number, sizeof number, count));
    print_text(failure, strlen(failure), WIDEST_WORD);
    printf("\n");
    return 0;
}

static int print_slow(void *user, const struct gd_journal_record *r)
{
    char time[32];
    bool *any = user;
    const char *failure = r->failure ? r->failure : "failed";
    if (!*any)
        printf("\nSlowest\n");
    *any = true;
    printf("  %12s   ", task_time(time, sizeof time, r->seconds));
    print_text(r->input, r->input_size, WIDEST_INPUT);
    if (r->gpu_id >= 0)
        printf("  (GPU %d)", r->gpu_id);
    printf("%s", r->done ? "" : "  ");
    if (!r->done)
        print_text(failure, strlen(failure), WIDEST_WORD);
    printf("\n");
    return 0;
}

static int print_page(struct gd_journal_reader *r, const struct figures *f, const char *path)
{
    const struct gd_journal_query slow = { .size = sizeof slow, .order = GD_JOURNAL_SLOWEST, .limit = SLOWEST };
    size_t classes = 0;
    bool any_slow = false;
    print_state(f, path);
    print_counts(f);
    if (gd_journal_reader_failures(r, print_failure, &classes) < 0)
        return -1;
    if (classes > MOST_CLASSES)
        printf("  %12s   and %zu more classes\n", "", classes - MOST_CLASSES);
    return gd_journal_reader_each(r, &slow, print_slow, &any_slow);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void put_text(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ",\"%s\":", name);
    if (text)
        gd__json_put_string(b, text, strlen(text));
    else
        gd__buffer_text(b, "null");
}

static void put_command(struct gd__buffer *b, const char *command)
{
    struct gd__buffer shown = { 0 };
    if (command)
        cli_transcribe_show(&shown, command);
    gd__buffer_add(&shown, "", 1);
    put_text(b, "command", command && !shown.failed ? shown.data : NULL);
    gd__buffer_free(&shown);
}

static void put_number(struct gd__buffer *b, const char *name, bool known, double value, int digits)
{
    if (known)
        gd__buffer_format(b, ",\"%s\":%.*f", name, digits, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

static int put_failure(void *user, const char *failure, uint64_t count)
{
    struct gd__buffer *b = user;
    if (b->data[b->size - 1] != '{')
        gd__buffer_text(b, ",");
    gd__json_put_string(b, failure, strlen(failure));
    gd__buffer_format(b, ":%" PRIu64, count);
    return b->failed ? GD_E_NO_MEMORY : 0;
}

static int put_slow(void *user, const struct gd_journal_record *r)
{
    struct gd__buffer *b = user;
    gd__buffer_format(b, "%s{\"id\":%" PRIu64 ",\"run\":%" PRIu64 ",\"input\":", b->data[b->size - 1] == '[' ? "" : ",",
                      r->number, r->run);
    gd__json_put_string(b, r->input, r->input_size);
    gd__buffer_format(b, ",\"seconds\":%.6f,\"gpu\":%d}", r->seconds, r->gpu_id);
    return b->failed ? GD_E_NO_MEMORY : 0;
}

static void put_summary(struct gd__buffer *b, const struct figures *f)
{
    const struct gd_journal_summary *s = &f->s;
    gd__buffer_text(b, "{\"state\":");
    gd__json_put_string(b, state_of(s), strlen(state_of(s)));
    put_number(b, "pid", s->held, (double)s->pid, 0);
    put_command(b, s->command);
    gd__buffer_format(b, ",\"runs\":%" PRIu64 ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64, s->runs, s->done, s->failed);
    put_number(b, "total", f->remaining.has_left, (double)s->total, 0);
    put_number(b, "left", f->remaining.has_left, (double)f->remaining.left, 0);
    put_number(b, "not_in_input", s->end != NULL, (double)f->remaining.gone, 0);
    put_number(b, "eta_seconds", f->eta >= 0, f->eta, 3);
    put_number(b, "tasks_per_second", f->rate > 0, f->rate, 3);
    gd__buffer_format(b, ",\"run_done\":%" PRIu64 ",\"run_failed\":%" PRIu64 ",\"skipped\":%" PRIu64, s->run_done,
                      s->run_failed, s->skipped);
    put_number(b, "started", s->started > 0, s->started, 6);
    put_number(b, "written", s->written > 0, s->written, 6);
    put_number(b, "ended", s->ended > 0, s->ended, 6);
    put_number(b, "seconds", true, f->seconds, 3);
    put_number(b, "busy_seconds", true, s->busy_seconds, 6);
}

static int print_json(struct gd_journal_reader *r, const struct figures *f)
{
    const struct gd_journal_query slow = { .size = sizeof slow, .order = GD_JOURNAL_SLOWEST, .limit = SLOWEST };
    struct gd__buffer b = { 0 };
    put_summary(&b, f);
    gd__buffer_text(&b, ",\"failures\":{");
    int rc = b.failed ? GD_E_NO_MEMORY : gd_journal_reader_failures(r, put_failure, &b);
    gd__buffer_text(&b, "},\"slowest\":[");
    if (rc == 0)
        rc = b.failed ? GD_E_NO_MEMORY : gd_journal_reader_each(r, &slow, put_slow, &b);
    gd__buffer_text(&b, "]}\n");
    if (rc == 0 && !b.failed)
        fwrite(b.data, 1, b.size, stdout);
    gd__buffer_free(&b);
    return rc;
}

/* ------------------------------------------------------------------------------------------------ */

static int show(const struct asked *asked, const char *path)
{
    struct gd_journal_reader *r = NULL;
    struct figures f = { .s.size = sizeof f.s };
    int rc = gd_journal_reader_open(&r, path);
    if (rc == 0)
        rc = gd_journal_reader_summary(r, &f.s);
    if (rc == 0) {
        work_out(&f);
        rc = asked->json ? print_json(r, &f) : print_page(r, &f, path);
    }
    if (rc < 0)
        cli_say("%s", gd_error_text());
    gd_journal_reader_close(&r);
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}

int cli_status_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    const char *path = NULL;
    int first = cli_opts_parse(&options, &asked, argc, argv);
    const bool explain = asked.help || asked.list_options;
    if (first >= 0 && first < argc) {
        path = argv[first];
        int rest = cli_opts_parse(&options, &asked, argc - first - 1, argv + first + 1);
        first = rest < 0 ? rest : first + 1 + rest;
    }
    if (first >= 0 && first < argc)
        first = gd__fail("status takes only one journal: leave out \"%s\"", argv[first]);
    else if (first >= 0 && !path && !explain)
        first = gd__fail("status needs a journal: gpu-dispatch status FILE");
    if (first < 0) {
        cli_say("%s", gd__fail_text());
        return CLI_EXIT_ERROR;
    }
    if (path && !asked.help && !asked.list_options)
        return show(&asked, path);
    (asked.help ? cli_opts_help : cli_opts_list)(&options);
    return 0;
}
