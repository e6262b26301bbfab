/* SPDX-License-Identifier: MIT
 *
 * The sinks of a run. One that fails is told of once and does not end the run: the tasks are worth more than their
 * log. The exit status says so in the end.
 */
#include "sinks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "tui/terminal.h"

static bool is_missing(const char *path)
{
    return access(path, F_OK) < 0 && errno == ENOENT;
}

/* The line of headings comes after the journal has cut the file back. */
static int open_joblog(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command, bool append)
{
    const bool missing = is_missing(r->joblog);
    if (cli_joblog_open(&s->joblog, r->joblog, command, append) < 0 ||
        cli_keep_follow(s->keep, r->joblog, cli_joblog_fd(s->joblog), missing) < 0)
        return -1;
    return cli_joblog_begin(s->joblog);
}

static int open_results(struct cli_sinks *s, const struct cli_run *r)
{
    if (cli_results_open(&s->results, r->results) < 0)
        return -1;
    cli_results_sync(s->results, r->sync && strcmp(r->sync, "full") == 0);
    return 0;
}

static int open_records(struct cli_sinks *s, const struct cli_run *r, bool append)
{
    const bool missing = is_missing(r->output);
    if (cli_records_open(&s->records, r->output, append) < 0 ||
        cli_keep_follow(s->keep, r->output, cli_records_fd(s->records), missing) < 0)
        return -1;
    cli_records_json_input(s->records, r->jsonl);
    cli_records_run(s->records, cli_keep_run(s->keep));
    s->output_path = r->output;
    return 0;
}

int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command,
                   struct cli_keep *keep)
{
    const bool append = cli_keep_goes_on(keep);
    s->keep = keep;
    if (r->joblog && open_joblog(s, r, command, append) < 0)
        return -1;
    if (r->results && open_results(s, r) < 0)
        return -1;
    if (r->output && open_records(s, r, append) < 0)
        return -1;
    /* With a journal the list is made of that, in the end. */
    return r->failed && !keep ? cli_failures_open(&s->failures, r->failed, r->jsonl) : 0;
}

/* On a terminal the panel, unless somebody types the inputs there. */
static enum cli_progress_style usual_style(const struct cli_run *r)
{
    const bool typed = r->n_sources == 0 && isatty(STDIN_FILENO);
    if (r->quiet || r->dry_run)
        return CLI_PROGRESS_NONE;
    return tui_can_draw(STDERR_FILENO) && !typed ? CLI_PROGRESS_PANEL : CLI_PROGRESS_LINE;
}

enum cli_progress_style cli_sinks_style(const struct cli_run *r)
{
    static const struct {
        const char *name;
        enum cli_progress_style style;
    } styles[] = {
        { "panel", CLI_PROGRESS_PANEL }, { "bar", CLI_PROGRESS_BAR },   { "eta", CLI_PROGRESS_ETA },
        { "line", CLI_PROGRESS_LINE },   { "json", CLI_PROGRESS_JSON }, { "none", CLI_PROGRESS_NONE },
    };
    if (r->bar || r->eta)
        return r->bar ? CLI_PROGRESS_BAR : CLI_PROGRESS_ETA;
    for (size_t i = 0; r->progress && i < sizeof styles / sizeof styles[0]; i++) {
        if (strcmp(r->progress, styles[i].name) != 0)
            continue;
        const bool cannot = styles[i].style == CLI_PROGRESS_PANEL && !tui_can_draw(STDERR_FILENO);
        return cannot ? CLI_PROGRESS_LINE : styles[i].style;
    }
    return usual_style(r);
}

static int open_progress(struct cli_sinks *s, enum cli_progress_style style, cli_stats_fn *stats, void *user,
                         struct cli_watch *watch)
{
    if (style == CLI_PROGRESS_NONE)
        return 0;
    if (style == CLI_PROGRESS_PANEL || style == CLI_PROGRESS_JSON)
        return cli_progress_open_view(&s->progress, STDERR_FILENO, style, cli_watch_read, watch);
    return cli_progress_open(&s->progress, STDERR_FILENO, style, stats, user);
}

int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user,
                   struct cli_watch *watch)
{
    static const int fds[] = { STDOUT_FILENO, STDERR_FILENO };
    const enum cli_progress_style style = cli_sinks_style(r);
    if (open_progress(s, style, stats, user, watch) < 0)
        return -1;
    cli_progress_media(s->progress, r->own.media);
    if (style == CLI_PROGRESS_PANEL && cli_passed_open(&s->passed, fds, s->progress) < 0)
        return -1;
    /* Records on standard output are the only thing there. */
    const struct cli_output_options o = { .tag = r->tag,
                                          .silent = r->own.silent || (r->output && strcmp(r->output, "-") == 0),
                                          .progress = s->progress };
    return cli_output_open(&s->output, &o);
}

void cli_sinks_pass(struct cli_sinks *s, int worker_id, int stream, const char *text, size_t size)
{
    if (s->passed)
        cli_passed_add(s->passed, worker_id, stream, text, size);
}

static void check(struct cli_sinks *s, int rc)
{
    if (rc >= 0)
        return;
    if (!s->failed)
        cli_sinks_say(s, "%s", cli_error_text());
    s->failed = true;
}

/* Where a person will look for what the task gave. */
static const char *where(const struct cli_sinks *s, const struct cli_end *e)
{
    return s->results && e->report->start_ns ? cli_results_path(s->results) : s->output_path;
}

/* With a journal a task that has not come to its end is left for a run that resumes: the record is that one's. */
static bool is_left(const struct cli_sinks *s, const struct cli_end *e)
{
    const enum gd_failure why = e->report->failure;
    return s->keep && !e->ok && (why == GD_FAILURE_CANCELLED || why == GD_FAILURE_NO_WORKER);
}

bool cli_sinks_add(struct cli_sinks *s, const struct cli_end *e)
{
    if (s->joblog)
        check(s, cli_joblog_add(s->joblog, e));
    if (s->results)
        check(s, cli_results_add(s->results, e));
    if (s->records && !is_left(s, e))
        check(s, cli_records_add(s->records, e));
    if (s->failures)
        check(s, cli_failures_add(s->failures, e));
    check(s, cli_output_add(s->output, e));
    /* A reader that went away has not got this one: it is not done either. */
    const bool lost = s->failed || cli_sinks_broken(s);
    cli_keep_note(s->keep, e, where(s, e), lost);
    return !s->keep || !lost;
}

void cli_sinks_say(struct cli_sinks *s, const char *format, ...)
{
    char words[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    cli_progress_pause(s->progress);
    cli_say("%s", words);
    cli_progress_resume(s->progress);
}

bool cli_sinks_broken(const struct cli_sinks *s)
{
    return cli_output_broken(s->output) || cli_passed_broken(s->passed) ||
           (s->records && cli_records_broken(s->records));
}

void cli_sinks_undraw(struct cli_sinks *s)
{
    cli_passed_close(&s->passed);
    cli_progress_close(&s->progress);
}

void cli_sinks_close(struct cli_sinks *s)
{
    cli_output_close(&s->output);
    cli_passed_close(&s->passed);
    cli_progress_close(&s->progress);
    check(s, s->records ? cli_records_close(&s->records) : 0);
    check(s, s->joblog ? cli_joblog_close(&s->joblog) : 0);
    check(s, s->failures ? cli_failures_close(&s->failures) : 0);
    cli_results_close(&s->results);
}
