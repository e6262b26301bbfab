/* SPDX-License-Identifier: MIT
 *
 * A run that takes its tasks from a queue: see run_queue.h.
 */
#include "cli/run/queue/run_queue.h"

#include <string.h>

#include "base/failure.h"
#include "cli/output/files/failure_record.h"
#include "cli/run/journal/run_journal.h"
#include "cli/say.h"

int cli_set_idle_exit(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_idle_exit *idle = field;
    idle->given = true;
    idle->never = strcmp(text, "never") == 0;
    if (idle->never)
        return 0;
    if (cli_set_duration(opt, &idle->ms, text) < 0)
        return gd__fail("%s, or never", gd__fail_text());
    return idle->ms > 0 ? 0 : gd__fail("--idle-exit takes a time longer than 0, such as 30s, or never");
}

int cli_run_queue_check(const struct cli_run *r, bool inputs)
{
    const bool queue = r->queue.url != NULL;
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { r->spool && !queue, "--spool is for a queue: give --queue nats://HOST/NAME too" },
        { r->lost_timeout_ms && !queue, "--lost-timeout is for a queue: give --queue nats://HOST/NAME too" },
        { r->queue_force && !queue, "--force is for a queue: give --queue nats://HOST/NAME too" },
        { r->spool && !*r->spool, "--spool needs the name of a file: --spool FILE" },
        { queue && inputs, "with --queue the tasks come from the queue: add inputs with gpu-dispatch push --queue URL, "
                           "and give none here" },
        { queue && r->journal,
          "with --queue there is no journal, because the queue has the records: leave out --journal. "
          "Records that the server has not got yet are in --spool FILE" },
        { queue && r->resume, "with --queue there is nothing to resume: a node takes what is left" },
        { queue && r->retry_failed,
          "with --queue failed tasks are added once more by gpu-dispatch push --retry-failed" },
        { queue && r->key, "--key is for inputs: give it to gpu-dispatch push" },
        { queue && r->shard_text,
          "with --queue there are no shards, because the queue divides the tasks among its nodes: "
          "leave out --shard" },
        { queue && r->keep_order, "-k is not possible with --queue: tasks of a queue end in any order" },
        { queue && r->dry_run, "--dry-run is not possible with --queue: it would take tasks from other nodes" },
        { queue && r->shuffle, "--shuf is not possible with --queue: the order is that of the push" },
        { queue && r->skip_blank, "-r is for inputs: give it to gpu-dispatch push" },
        { queue && r->nul, "-0 is for inputs: give it to gpu-dispatch push" },
        { queue && cli_halt_needs_total(&r->halt),
          "--halt with a percentage is not possible with --queue: the number of tasks is not known" },
    };
    if (cli_queue_check(&r->queue) < 0)
        return -1;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    return 0;
}

int cli_run_queue_open(struct cli_run_queue *q, const struct cli_run *r, struct gd_options *o)
{
    const struct gd_queue_options defaults = GD_QUEUE_OPTIONS_INIT;
    if (!r->queue.url)
        return 0;
    q->is_used = true;
    q->options = defaults;
    cli_queue_apply(&r->queue, &q->options);
    cli_queue_warn(&q->options);
    cli_journal_identity(&q->command, r);
    gd__buffer_add(&q->command, "", 1);
    if (q->command.failed)
        return gd__fail("out of memory");
    q->options.command = q->command.data;
    q->options.spool = r->spool;
    q->options.force = r->queue_force;
    if (r->lost_timeout_ms > 0)
        q->options.lost_timeout_ms = r->lost_timeout_ms;
    q->options.idle_exit_ms = r->idle_exit.never ? GD_QUEUE_IDLE_NEVER : (int64_t)r->idle_exit.ms;
    o->queue = &q->options;
    o->source = NULL;
    o->source_cancel = NULL;
    return 0;
}

void cli_run_queue_close(struct cli_run_queue *q)
{
    gd__buffer_free(&q->command);
}

void cli_run_queue_note(struct gd__record_note *note, const struct cli_task_end *e, bool lost)
{
    *note = (struct gd__record_note){ .output = e->out,
                                      .output_size = e->out_size,
                                      .failure = e->ok ? NULL : e->status,
                                      .stderr_size = e->err_size,
                                      .exit_code = e->exit_code,
                                      .signal = e->signal,
                                      .not_done = lost };
    note->stderr_end = e->err_size ? cli_last_lines(e->err, &note->stderr_size) : NULL;
}

void cli_run_queue_say(void *running, const char *line)
{
    (void)running;
    cli_say("%s", line);
}
