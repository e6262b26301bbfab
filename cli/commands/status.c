/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch status FILE...`: prints the state of a run, which it reads from the journal only. The run may be
 * running, killed, or long over. Prints text, or JSON with --json. This file prints one journal,
 * journals/status_many.c prints several, and queue/queue_status.c prints a queue.
 *
 * The rate is that of the last run. The time left is known only if the number of inputs is known.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <gpu_dispatch/journal.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "cli/commands.h"
#include "cli/commands/journals/set.h"
#include "cli/commands/journals/status_many.h"
#include "cli/commands/journals/status_parts.h"
#include "cli/commands/queue/queue_command.h"
#include "cli/commands/queue/queue_status.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct asked {
    bool json, overlaps, help, list_options;
    struct cli_queue queue;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "json", 0, NULL, "print one JSON object, for programs", cli_set_flag, AT(json), .group = "Options" },
    { "overlaps", 0, NULL, "look for tasks that several journals have, even if their shards differ", cli_set_flag,
      AT(overlaps) },
    CLI_QUEUE_URL(struct asked, queue, "show the state of a queue: nats://HOST/NAME", NULL),
    CLI_QUEUE_CREDENTIALS(struct asked, queue),
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "status",
    .usage = "usage: gpu-dispatch status [OPTIONS] FILE...\n"
             "       gpu-dispatch status [OPTIONS] --queue URL\n"
             "\n"
             "Shows the state of a run from its journal FILE, made with `run --journal FILE`:\n"
             "whether it is running, has ended or was killed, how many tasks are done, how\n"
             "many remain and how long those will take, what failed and why, and the slowest\n"
             "tasks.\n"
             "\n"
             "Several journals, such as those of the shards of a list, are shown as one run,\n"
             "with a line for each machine and each shard. Missing shards are named.\n"
             "\n"
             "With --queue, it shows a queue and its nodes.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch status run.db\n"
             "  gpu-dispatch status --json run.db | jq .left\n"
             "  gpu-dispatch status part.*.db\n"
             "  gpu-dispatch status --queue nats://host/NAME\n",
    .table = table,
    .after = "Exit status: 0; 255 if a journal or queue does not exist or cannot be read. The\n"
             "other journals are shown nevertheless.\n"
             "More: man gpu-dispatch-status.\n",
};

/* --- text ------------------------------------------------------------------------------- */

/* The last run of a merged journal is the merge itself, which ran no tasks. */
static bool is_merged(const struct gd_journal_summary *s)
{
    return !s->held && s->end && strcmp(s->end, "merged") == 0;
}

/* "running for 3m (process 77 on node2, last heartbeat 4s ago)". The machine is printed if another one may be meant. */
static void print_running(const struct gd_journal_summary *s, const char *how_long)
{
    char time[32];
    printf("running for %s (process %" PRIu64, how_long, s->pid);
    if (s->quiet_seconds > 0) {
        printf("%s", s->host ? " on " : "");
        status_print_text(stdout, s->host ? s->host : "", s->host ? strlen(s->host) : 0, STATUS_WIDEST_WORD);
        printf(", last heartbeat %s ago", gd__text_duration(time, sizeof time, s->quiet_seconds));
    }
    printf(")");
}

static void print_state(const struct status_figures *f, const char *path)
{
    const struct gd_journal_summary *s = &f->s;
    char when[64], how_long[32];
    gd__text_duration(how_long, sizeof how_long, f->seconds);
    status_print_text(stdout, path, strlen(path), PATH_MAX);
    printf(": ");
    if (s->held)
        print_running(s, how_long);
    else if (s->end) {
        status_print_text(stdout, s->end, strlen(s->end), STATUS_WIDEST_WORD);
        printf(" %s", status_moment(when, sizeof when, s->ended));
        if (!is_merged(s))
            printf(", after %s", how_long);
    } else if (s->runs)
        printf("killed, last record %s: continue with --resume",
               status_moment(when, sizeof when, s->written > 0 ? s->written : s->started));
    else
        printf("not begun");
    printf("\n");
    status_print_command(stdout, s->command);
    printf("\n");
}

static void print_counts(const struct status_figures *f)
{
    const struct gd_journal_summary *s = &f->s;
    char more[128] = "", time[32], number[40], gone[48];
    const uint64_t all = s->done + s->failed, of = f->remaining.all;
    if (f->remaining.has_left)
        snprintf(more, sizeof more, "of %s, %.1f %%", status_grouped(number, sizeof number, of),
                 of ? 100.0 * (double)s->done / (double)of : 0.0);
    status_print_count(stdout, "done", s->done, more);
    *more = '\0';
    if (s->failed)
        snprintf(more, sizeof more, "%.1f %%", 100.0 * (double)s->failed / (double)all);
    status_print_count(stdout, "failed", s->failed, more);
    if (f->remaining.has_left && f->remaining.left) {
        *more = '\0';
        if (f->eta >= 0)
            snprintf(more, sizeof more, "about %s", gd__text_duration(time, sizeof time, f->eta));
        status_print_count(stdout, "left", f->remaining.left, more);
    }
    if (f->rate > 0)
        printf("  %-8s %12.*f   tasks a second\n", "rate", f->rate < 100 ? 2 : 0, f->rate);
    if (all && s->busy_seconds > 0)
        printf("  %-8s %12s   a task, on average\n", "time",
               status_task_time(time, sizeof time, s->busy_seconds / (double)all));
    if (is_merged(s))
        printf("\nIt has the records of %" PRIu64 " %s.\n", s->runs - 1, s->runs == 2 ? "run" : "runs");
    else if (s->runs > 1)
        printf("\nRun %" PRIu64 " of this journal: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " skipped.\n",
               s->runs, s->run_done, s->run_failed, s->skipped);
    if (f->remaining.gone)
        printf("%s of the tasks above %s not in the input of the last run.\n",
               status_grouped(gone, sizeof gone, f->remaining.gone), f->remaining.gone == 1 ? "was" : "were");
}

static int print_failure(void *user, const char *failure, uint64_t count)
{
    char number[40];
    size_t *classes = user;
    if (*classes == 0)
        printf("\nFailures\n");
    if (++*classes > STATUS_MOST_CLASSES)
        return 0;
    printf("  %12s   ", status_grouped(number, sizeof number, count));
    status_print_text(stdout, failure, strlen(failure), STATUS_WIDEST_WORD);
    printf("\n");
    return 0;
}

static int print_slow(void *user, const struct gd_journal_record *r)
{
    char gpu[32] = "";
    bool *any = user;
    if (!*any)
        printf("\nSlowest\n");
    *any = true;
    if (r->gpu_id >= 0)
        snprintf(gpu, sizeof gpu, "GPU %d", r->gpu_id);
    status_print_slow(stdout, r->seconds, r->input, r->input_size, gpu,
                      r->done      ? NULL
                      : r->failure ? r->failure
                                   : "failed");
    return 0;
}

static int print_page(struct gd_journal_reader *r, const struct status_figures *f, const char *path)
{
    const struct gd_journal_query slow = { .size = sizeof slow, .order = GD_JOURNAL_SLOWEST, .limit = STATUS_SLOWEST };
    size_t classes = 0;
    bool any_slow = false;
    print_state(f, path);
    print_counts(f);
    if (gd_journal_reader_failures(r, print_failure, &classes) < 0)
        return -1;
    if (classes > STATUS_MOST_CLASSES)
        printf("  %12s   and %zu more classes\n", "", classes - STATUS_MOST_CLASSES);
    return gd_journal_reader_each(r, &slow, print_slow, &any_slow);
}

/* --- JSON ----------------------------------------------------------------------------------- */

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

static int print_json(struct gd_journal_reader *r, const struct status_figures *f)
{
    const struct gd_journal_query slow = { .size = sizeof slow, .order = GD_JOURNAL_SLOWEST, .limit = STATUS_SLOWEST };
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "{");
    status_put_members(&b, f);
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
    struct status_figures f = { .s.size = sizeof f.s };
    int rc = gd_journal_reader_open(&r, path);
    if (rc == 0)
        rc = gd_journal_reader_summary(r, &f.s);
    if (rc == 0) {
        status_work_out(&f);
        rc = asked->json ? print_json(r, &f) : print_page(r, &f, path);
    }
    if (rc < 0)
        cli_say("%s", gd_error_text());
    gd_journal_reader_close(&r);
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}

static int show_many(const struct asked *asked, struct cli_journals *j)
{
    const struct status_many_asked many = { .json = asked->json, .overlaps = asked->overlaps };
    const int rc = status_many(&many, j, stdout);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    return rc < 0 || j->n_readable < j->n ? CLI_EXIT_ERROR : 0;
}

int cli_status_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct cli_journals j = { .n = 0 };
    int status = CLI_EXIT_ERROR, rc = cli_journals_parse(&j, &options, &asked, argc, argv);
    const bool explain = asked.help || asked.list_options;
    if (rc == 0 && !explain)
        rc = queue_command_check("status", &asked.queue, &j);
    if (rc == 0 && !explain && asked.queue.url)
        rc = queue_status(&asked.queue, asked.json);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    else if (!explain && asked.queue.url)
        status = 0;
    else if (!explain)
        status = j.n_paths > 1 ? show_many(&asked, &j) : show(&asked, j.paths[0]);
    else
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    cli_journals_free(&j);
    return rc == 0 && explain ? 0 : status;
}
