/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch run` as options of the library.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "binding.h"
#include "cli/run/running.h"

/* Running tasks may take as long as they need after the first Ctrl-C or --halt soon. */
enum { NO_HURRY_MS = INT_MAX };

static void set_workers(struct gd_options *o, const struct cli_run *r)
{
    /* A dry run uses no GPU, so it waits for none. */
    o->gpus = r->dry_run && gd__spec_is_free(r->gpus) ? "auto" : r->gpus;
    o->ignore_gpu_locks = r->ignore_gpu_locks || r->dry_run;
    o->workers_per_gpu = r->workers.per_gpu;
    o->model_bytes = r->workers.model_bytes;
    o->gpus_per_worker = r->gpus_per_worker;
    o->visible_devices = r->visible_devices;
    o->any_cpu = r->any_cpu;
    o->setup_args = r->setup_args;
    o->setup_args_size = r->setup_args ? strlen(r->setup_args) + 1 : 0;
    o->base_seed = r->seed;
    o->setup_jobs = r->setup_jobs;
    o->setup_timeout_ms = r->setup_timeout_ms;
    o->batch_size = r->batch_size ? r->batch_size : o->batch_size;
    o->io_threads = r->io_threads ? r->io_threads : o->io_threads;
    o->orphans = GD_ORPHANS_REAP; /* SIGCHLD is blocked: see main() */
}

static void set_tasks(struct gd_options *o, const struct cli_run *r)
{
    o->shard = r->shard;
    o->queue_size = r->queue_size;
    o->task_timeout_ms = r->timeout_ms;
    o->cancel_grace_ms = r->term_grace_ms;
    o->retries = r->retries.tries ? r->retries.tries - 1 : UINT_MAX - 1;
    o->retry_timeouts = true; /* as in GNU parallel */
    o->crash_limit = r->crash_limit;
    o->max_tasks_per_worker = r->max_tasks_per_worker;
    o->start_gap_ms = r->delay_ms;
    /* With --halt a worker gets no task ahead, because the halt may come before that task starts. */
    o->window = r->halt.when == CLI_HALT_NEVER ? 0 : 1;
    o->ordered = r->keep_order;
    o->stop_grace_ms = NO_HURRY_MS;
}

void cli_dispatch_options(struct gd_options *o, const struct cli_run *asked)
{
    set_workers(o, asked);
    set_tasks(o, asked);
}

void cli_job_name(const struct cli_run *asked, char *out, size_t size)
{
    char shard[32] = "";
    if (asked->shard.count > 0)
        snprintf(shard, sizeof shard, "[%u/%u] ", asked->shard.index + 1, asked->shard.count);
    const int begin = snprintf(out, size, "%s%s", shard,
                               asked->own.job       ? asked->own.job
                               : asked->n_words > 0 ? ""
                                                    : "(commands)");
    size_t n = begin > 0 ? (size_t)begin : 0;
    for (size_t i = 0; !asked->own.job && i < asked->n_words && n < size; i++) {
        const int more = snprintf(out + n, size - n, "%s%s", i > 0 ? " " : "", asked->words[i]);
        n += more > 0 ? (size_t)more : 0;
    }
}
