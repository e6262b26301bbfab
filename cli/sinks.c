/* SPDX-License-Identifier: MIT
 *
 * The sinks of a run. One that fails is told of once and does not end the run: the tasks are worth more than their
 * log. The exit status says so in the end.
 */
#include "sinks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"

int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command)
{
    if (r->joblog && cli_joblog_open(&s->joblog, r->joblog, command) < 0)
        return -1;
    if (r->results && cli_results_open(&s->results, r->results) < 0)
        return -1;
    if (r->output && cli_records_open(&s->records, r->output, false) < 0)
        return -1;
    if (s->records)
        cli_records_json_input(s->records, r->jsonl);
    return 0;
}

static enum cli_progress_style style_of(const struct cli_run *r)
{
    return r->bar ? CLI_PROGRESS_BAR : r->eta ? CLI_PROGRESS_ETA : CLI_PROGRESS_NONE;
}

int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user)
{
    const enum cli_progress_style style = style_of(r);
    if (style != CLI_PROGRESS_NONE && cli_progress_open(&s->progress, 2, style, stats, user) < 0)
        return -1;
    /* Records on standard output are the only thing there. */
    const struct cli_output_options o = { .tag = r->tag,
                                          .silent = r->output && strcmp(r->output, "-") == 0,
                                          .progress = s->progress };
    return cli_output_open(&s->output, &o);
}

static void check(struct cli_sinks *s, int rc)
{
    if (rc >= 0)
        return;
    if (!s->failed)
        cli_sinks_say(s, "%s", cli_error_text());
    s->failed = true;
}

void cli_sinks_add(struct cli_sinks *s, const struct cli_end *e)
{
    if (s->joblog)
        check(s, cli_joblog_add(s->joblog, e));
    if (s->results)
        check(s, cli_results_add(s->results, e));
    if (s->records)
        check(s, cli_records_add(s->records, e));
    check(s, cli_output_add(s->output, e));
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
    return cli_output_broken(s->output) || (s->records && cli_records_broken(s->records));
}

void cli_sinks_undraw(struct cli_sinks *s)
{
    cli_progress_close(&s->progress);
}

void cli_sinks_close(struct cli_sinks *s)
{
    cli_output_close(&s->output);
    cli_progress_close(&s->progress);
    check(s, s->records ? cli_records_close(&s->records) : 0);
    check(s, s->joblog ? cli_joblog_close(&s->joblog) : 0);
    cli_results_close(&s->results);
}
