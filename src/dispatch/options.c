/* Checks and copies the options. The message for every mistake says what to do. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "dispatch/internal.h"
#include "queue/run/queue_run.h"
#include "shard/spec.h"
#include "worker/host.h"

enum { MOST_BATCH = 32767, MOST_AHEAD = 65536 };

void gd_options_init(struct gd_options *o, size_t size)
{
    const struct gd_options defaults = GD_OPTIONS_INIT;
    if (!o || size < sizeof o->size)
        return;
    memset(o, 0, size);
    memcpy(o, &defaults, size < sizeof defaults ? size : sizeof defaults);
    o->size = size;
}

/* Converts a struct of another version to ours. An older struct is shorter, and the missing fields get their defaults.
 * A newer struct is accepted if the fields that this version does not know are zero. */
static int read_options(struct gd_options *out, const struct gd_options *o)
{
    if (!o)
        return gd__error(GD_E_INVALID,
                         "the options are NULL: pass a struct gd_options initialised with GD_OPTIONS_INIT");
    gd_options_init(out, sizeof *out);
    const int rc = gd__sized_read(out, sizeof *out, o, "gd_options");
    out->size = sizeof *out;
    return rc;
}

static int check_tasks(const struct gd_options *o)
{
    if (!o->source && !o->keep_workers && !o->queue && !o->queue_url)
        return gd__error(GD_E_INVALID, "no source is set: set gd_options.source");
    if (!o->on_success)
        return gd__error(GD_E_INVALID, "no on_success is set: set gd_options.on_success");
    if (o->queue_size == 0)
        return gd__error(GD_E_INVALID, "queue_size is 0: it must be at least 1 (the default is 1024)");
    if (o->queue_bytes == 0)
        return gd__error(GD_E_INVALID, "queue_bytes is 0: it must be at least 1 (the default is 1 GiB)");
    if (o->crash_limit == 0 || o->setup_attempts == 0 || o->death_limit == 0)
        return gd__error(GD_E_INVALID, "crash_limit, setup_attempts and death_limit must be at least 1");
    if (o->batch_size == 0 || o->batch_size > MOST_BATCH)
        return gd__error(GD_E_INVALID, "batch_size is %u: it must be 1 to %d", o->batch_size, MOST_BATCH);
    if (o->concurrency > GD__FLIGHT_MAX)
        return gd__error(GD_E_INVALID, "concurrency is %u: it must be 0 to %u", o->concurrency, GD__FLIGHT_MAX);
    if (o->io_threads == 0 || o->io_threads > 1024)
        return gd__error(GD_E_INVALID, "io_threads is %u: it must be 1 to 1024", o->io_threads);
    if (o->load_ahead > MOST_AHEAD)
        return gd__error(GD_E_INVALID, "load_ahead is %u: it must be 0 to %d", o->load_ahead, MOST_AHEAD);
    if (o->setup_args_size > 0 && !o->setup_args)
        return gd__error(GD_E_INVALID, "setup_args_size is %zu, but setup_args is NULL", o->setup_args_size);
    if ((unsigned)o->output > GD_OUTPUT_CAPTURE)
        return gd__error(GD_E_INVALID, "output is %d, which is not a value of enum gd_worker_output", (int)o->output);
    if ((unsigned)o->orphans > GD_ORPHANS_REAP)
        return gd__error(GD_E_INVALID, "orphans is %d, which is not a value of enum gd_orphans", (int)o->orphans);
    return 0;
}

/* A queue is the source and the journal of its nodes, and divides the tasks among them. */
static int check_queue(const struct gd_options *o)
{
    if (!o->queue && !o->queue_url)
        return 0;
    if (o->queue && o->queue_url)
        return gd__error(GD_E_INVALID, "both queue and queue_url are set: set only one");
    if (o->source)
        return gd__error(GD_E_INVALID, "both a source and a queue are set: push the tasks of the source to the queue "
                                       "(gd_queue_push_add()), and set no source");
    if (o->journal)
        return gd__error(GD_E_INVALID,
                         "both a journal and a queue are set: the queue has the records. Set "
                         "gd_queue_options.spool to choose where they are kept until the server has them");
    if (o->shard.count > 0)
        return gd__error(GD_E_INVALID, "both a shard and a queue are set: the queue divides the tasks among its nodes. "
                                       "Run every node without a shard");
    if (o->keep_workers)
        return gd__error(GD_E_INVALID, "both keep_workers and a queue are set: a node does only one run");
    if (o->ordered)
        return gd__error(GD_E_INVALID, "both ordered and a queue are set: tasks of a queue end in any order");
    return 0;
}

/* Copies the options of the queue, and checks them. */
static int copy_queue(struct gd_dispatcher *d, const struct gd_options *o)
{
    const struct gd_queue_options plain = GD_QUEUE_OPTIONS_INIT;
    struct gd_queue_options by_url = plain;
    if (!o->queue && !o->queue_url)
        return 0;
    by_url.url = o->queue_url;
    return gd__queue_options_copy(&d->copy.queue, o->queue ? o->queue : &by_url);
}

int gd__options_check_placement(const struct gd_options *o)
{
    if ((unsigned)o->placement > GD_PLACE_CUSTOM)
        return gd__error(GD_E_INVALID, "placement is %d, which is not a value of enum gd_placement", (int)o->placement);
    if (o->placement == GD_PLACE_CUSTOM && !o->place)
        return gd__error(GD_E_INVALID, "GD_PLACE_CUSTOM needs gd_options.place");
    if (o->placement == GD_PLACE_CHUNKS && (o->total_tasks == 0 || o->total_tasks > o->queue_size))
        return gd__error(GD_E_INVALID,
                         "GD_PLACE_CHUNKS divides the whole list in advance: set total_tasks (now %llu), and set "
                         "queue_size (now %zu) to at least total_tasks",
                         (unsigned long long)o->total_tasks, o->queue_size);
    return 0;
}

int gd__options_shard(struct gd_shard *out, const struct gd_options *o, const struct gd_journal *journal)
{
    const struct gd_shard own = o->shard, recorded = journal ? gd__journal_shard(journal) : (struct gd_shard){ 0 };
    if (own.count > 0 || own.index > 0) {
        const int rc = gd__shard_check(own);
        if (rc < 0)
            return gd__error_context(rc, "gd_options.shard");
    }
    if (own.count > 0 && recorded.count > 0 && (own.index != recorded.index || own.count != recorded.count))
        return gd__error(GD_E_INVALID,
                         "gd_options.shard is shard %u of %u, but the journal was opened for shard %u of %u (counted "
                         "from 1): set both to the same shard, or only that of the journal",
                         own.index + 1, own.count, recorded.index + 1, recorded.count);
    *out = own.count > 0 ? own : recorded;
    return 0;
}

static int check_worker_code(const struct gd_options *o)
{
    if (gd__in_worker_process())
        return gd__error(GD_E_NO_WORKER_MAIN,
                         "this process is itself a worker: call gd_worker_main() at the start of main()");
    if (o->plugin && o->worker_argv)
        return gd__error(GD_E_INVALID, "both plugin and worker_argv are set: set only one");
    if (o->plugin && access(o->plugin, R_OK) < 0)
        return gd__error(GD_E_PLUGIN, "cannot read the worker plugin %s: %s", o->plugin, strerror(errno));
    if (o->worker_argv && !o->worker_argv[0])
        return gd__error(GD_E_INVALID, "worker_argv is empty: it must name a program that calls gd_worker_main()");
    if (!o->plugin && !o->worker_argv && !gd__worker_registered())
        return gd__error(
            GD_E_NO_WORKER_MAIN,
            "gd_worker_main() has not been called: call it at the start of main(), or set plugin or worker_argv");
    return 0;
}

/* --- copies --- */

static char **copy_strings(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    char **copy = gd__calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = gd__strdup(list[i]);
        if (!copy[i]) {
            while (i > 0)
                gd__free(copy[--i]);
            gd__free(copy);
            return NULL;
        }
    }
    return copy;
}

static void free_strings(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        gd__free(list[i]);
    gd__free(list);
}

static int copy_pointed(struct gd_dispatcher *d, const struct gd_options *o)
{
    struct gd__run_copy *c = &d->copy;
    char full[PATH_MAX];
    c->env = copy_strings((char *const *)(uintptr_t)o->env);
    c->setup_args = o->setup_args_size > 0 ? gd__memdup(o->setup_args, o->setup_args_size) : NULL;
    c->worker_argv = o->worker_argv ? copy_strings(o->worker_argv) : NULL;
    c->plugin = o->plugin ? gd__strdup(realpath(o->plugin, full) ? full : o->plugin) : NULL;
    const bool missing = !c->env || (o->setup_args_size > 0 && !c->setup_args) || (o->worker_argv && !c->worker_argv) ||
                         (o->plugin && !c->plugin);
    if (missing)
        return gd__error(GD_E_NO_MEMORY, "no memory for a copy of the options");
    return 0;
}

int gd__options_copy(struct gd_dispatcher *d, const struct gd_options *o)
{
    int rc = read_options(&d->o, o);
    const bool total_comes_later = d->o.keep_workers && d->o.placement == GD_PLACE_CHUNKS;
    if (rc < 0 || (rc = check_tasks(&d->o)) < 0 || (rc = check_queue(&d->o)) < 0 || (rc = copy_queue(d, &d->o)) < 0 ||
        (rc = total_comes_later ? 0 : gd__options_check_placement(&d->o)) < 0 ||
        (rc = gd__options_shard(&d->shard, &d->o, d->o.journal)) < 0 || (rc = check_worker_code(&d->o)) < 0 ||
        (rc = gd__devices_resolve(d)) < 0)
        return rc;
    rc = copy_pointed(d, &d->o);
    d->o.gpus = NULL;
    d->o.gpu_ids = d->copy.gpu_ids;
    d->o.plugin = d->copy.plugin;
    d->o.worker_argv = d->copy.worker_argv;
    d->o.env = NULL;
    d->o.queue = d->copy.queue;
    d->o.queue_url = NULL;
    d->o.setup_args = d->copy.setup_args;
    return rc;
}

void gd__options_free(struct gd_dispatcher *d)
{
    gd__devices_free(d);
    gd__free(d->copy.plugin);
    gd__free(d->copy.setup_args);
    free_strings(d->copy.worker_argv);
    free_strings(d->copy.env);
    gd__queue_options_free(d->copy.queue);
}
