/* gd_launch_run() processes the files of a directory, prints a summary and returns an exit status. The steps of the run
 * are in launch/run.c. This file has the launcher's parts of them: it finds devices and files before the run, and
 * prints errors and the summary to a FILE.
 *
 * The program's options are passed on as they are, with its callbacks and their user pointer. The launcher sets only
 * the devices, the source, the number of tasks, the queue size if it is too small, and a missing on_success.
 *
 * Every error is printed as one line, which says what to do. If a component fails, the first line of its error message
 * is printed.
 */
#include <gpu_dispatch/launch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text/printable.h"
#include "binding.h"
#include "command/template.h"
#include "journal/journal.h"
#include "launch/deal_files.h"
#include "launch/run.h"
#include "shard/names.h"

enum { PROGRESS_MS = 100, EXIT_INTERRUPTED = 130, LINE_ROOM = 512 };

struct launching {
    const struct gd_launch *asked;
    struct gd_launch l;        /* a copy of *asked, converted to our version of the struct */
    struct gd_options options; /* a copy of l.options, converted likewise */
    FILE *to;
    struct gd_files *files;
    struct gd_task_queue *queue;
    struct gd__file_deal *deal; /* NULL: there is no shard */
    struct gd__run run;
    uint64_t left;     /* files that failed or were cancelled */
    unsigned problems; /* directories that could not be searched, and output that could not be printed */
};

/* --- messages --- */

__attribute__((format(printf, 2, 3))) static void complain(const struct launching *c, const char *format, ...)
{
    char line[2 * LINE_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(c->to, "%s\n", line);
    fflush(c->to);
}

/* The first line of a message from a worker or the system, fit for a terminal. */
static const char *first_line(char out[LINE_ROOM], const char *message)
{
    gd__text_cause(out, LINE_ROOM, message ? message : "");
    return out;
}

static void on_problem(void *user, const char *path, const char *why)
{
    struct launching *c = user;
    char name[LINE_ROOM], message[LINE_ROOM];
    gd__text_name(name, sizeof name, path, strlen(path));
    complain(c, "%s: %s", name, first_line(message, why));
    c->problems++;
}

/* --- checks --- */

/* Copies the caller's struct and converts it if it is of another version. */
static int read_launch(struct launching *c)
{
    c->l = (struct gd_launch)GD_LAUNCH_INIT;
    gd_options_init(&c->options, sizeof c->options);
    int rc = gd__sized_read(&c->l, sizeof c->l, c->asked, "gd_launch");
    if (rc == 0 && c->l.options)
        rc = gd__sized_read(&c->options, sizeof c->options, c->l.options, "gd_options");
    c->to = rc == 0 && c->l.summary ? c->l.summary : stderr;
    c->options.size = sizeof c->options;
    if (rc == 0 && (!c->l.input_dir || !*c->l.input_dir))
        rc = gd__error(GD_E_INVALID, "no input directory: set gd_launch.input_dir to the directory of the files");
    return rc;
}

/* Called before any process is started. Otherwise a missing worker program would be noticed only when a worker fails to
 * start. */
static int check_program(char *const *argv)
{
    char path[PATH_MAX];
    if (!argv || !argv[0] || gd__executable_locate(argv[0], path, sizeof path) == 0)
        return 0;
    return gd__error(GD_E_INVALID, "cannot run the worker program %s: %s", argv[0],
                     strchr(argv[0], '/') ? "it does not exist or is not executable" : "it is not in PATH");
}

/* --- devices and files --- */

/* Uses the devices in gd_launch.gpus or, if that is NULL, those in the options. */
static int name_devices(const struct gd_launch *l, struct gd_options *o)
{
    const char *spec = l->gpus ? l->gpus : o->gpus;
    if (!spec && o->n_gpus > 0 && o->gpu_ids)
        return 0;
    o->gpus = spec ? spec : "auto";
    o->gpu_ids = NULL;
    o->n_gpus = 0;
    struct gd_devices *devices;
    const int rc = gd_devices_open(&devices, o->gpus); /* check the devices before a long search for files */
    if (rc == 0)
        gd_devices_close(&devices);
    return rc;
}

static void ignore_success(void *user, const struct gd_report *report)
{
    (void)user, (void)report;
}

/* Used if the program has no on_device_note. Shows the user which GPUs the run waits for. */
static int print_note(void *user, const char *message)
{
    (void)user;
    if (message)
        fprintf(stderr, "%s\n", message);
    return 0;
}

/* Fills in the options, except for the source and the number of tasks. Makes all checks that need no files. */
static int make_options(struct launching *c, struct gd_options *o)
{
    int rc = read_launch(c);
    if (rc < 0)
        return rc;
    *o = c->options;
    o->on_success = o->on_success ? o->on_success : ignore_success;
    o->on_device_note = o->on_device_note ? o->on_device_note : print_note;
    rc = name_devices(&c->l, o);
    return rc < 0 ? rc : check_program(o->worker_argv);
}

static struct gd_shard shard_of(const struct launching *c)
{
    const struct gd_options *o = &c->options;
    return o->shard.count > 0 || !o->journal ? o->shard : gd__journal_shard(o->journal);
}

static struct gd_discover what_to_find(const struct launching *c)
{
    const enum gd_placement placement = c->options.placement;
    struct gd_discover what = GD_DISCOVER_INIT;
    what.patterns = c->l.patterns;
    what.recursive = c->l.recursive;
    what.no_sizes = c->l.order != GD_FILE_ORDER_SIZE && placement != GD_PLACE_BY_SIZE && placement != GD_PLACE_CUSTOM &&
                    shard_of(c).count <= 1;
    return what;
}

/* "*.wav, *.flac" */
static void join_patterns(char out[LINE_ROOM], const char *const *patterns)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; patterns[i] && length < LINE_ROOM; i++)
        length += (size_t)snprintf(out + length, LINE_ROOM - length, "%s%s", i > 0 ? ", " : "", patterns[i]);
}

static int report_no_files(const struct gd_launch *l)
{
    char patterns[LINE_ROOM];
    const char *advice = l->recursive ? "" : " (subdirectories are searched only with `recursive`)";
    if (!l->patterns || !l->patterns[0])
        return gd__error(GD_E_INVALID, "no files in %s%s", l->input_dir, advice);
    join_patterns(patterns, l->patterns);
    return gd__error(GD_E_INVALID, "no file in %s matches %s%s", l->input_dir, patterns, advice);
}

static int find_files(struct launching *c)
{
    struct gd_discover what = what_to_find(c);
    what.on_problem = on_problem;
    what.user = c;
    int rc = gd_files_open(&c->files);
    if (rc == 0)
        rc = gd_files_discover(c->files, c->l.input_dir, &what);
    if (rc < 0)
        return rc;
    return gd_files_count(c->files) > 0 ? gd_files_sort(c->files, c->l.order) : report_no_files(&c->l);
}

/* Finds out which files belong to this shard. A deal lies beside the journal. If the name of the journal does not have
 * the shard, the program has chosen the name, and other shards cannot find the deal. */
static int deal_files(struct launching *c)
{
    const struct gd_shard shard = shard_of(c);
    struct gd_shard named = { 0 };
    char *base = NULL;
    if (shard.count == 0)
        return 0;
    int rc = c->options.journal ? gd__shard_path_split(gd__journal_path(c->options.journal), &base, &named) : 0;
    if (rc >= 0)
        rc = gd__file_deal_open(&c->deal, c->files, c->l.input_dir, shard, named.count == shard.count ? base : NULL);
    gd__free(base);
    return rc;
}

/* A source: the files of this shard. */
static int next_file(void *user, struct gd_item *item)
{
    struct launching *c = user;
    int rc;
    while ((rc = gd_task_queue_next(c->queue, item)) > 0 && c->deal) {
        const char *path = item->data;
        if (gd__file_deal_owns(c->deal, path)) {
            const char *key = gd__file_deal_key(c->deal, path);
            gd__item_dealt(item);
            return gd_item_key(item, key, strlen(key), NULL) < 0 ? GD_E_SOURCE : 1;
        }
        gd__item_drop(item);
        if (gd__item_stopped(item))
            return 0;
    }
    return rc;
}

/* --- the parts of the run --- */

static int fail(const struct launching *c, int rc)
{
    char message[LINE_ROOM];
    complain(c, "%s", first_line(message, gd_error_text()));
    return rc;
}

static int prepare(void *user, struct gd_options *o)
{
    struct launching *c = user;
    int rc = make_options(c, o);
    if (rc == 0)
        rc = find_files(c);
    if (rc == 0)
        rc = deal_files(c);
    if (rc == 0)
        rc = gd_task_queue_open(&c->queue, c->files);
    if (rc < 0)
        return fail(c, rc);
    o->source = next_file;
    o->source_cancel = NULL; /* the source never blocks */
    o->total_tasks = gd_files_count(c->files);
    if (o->placement == GD_PLACE_CHUNKS && o->queue_size < o->total_tasks)
        o->queue_size = o->total_tasks; /* GD_PLACE_CHUNKS divides the whole list in advance */
    return 0;
}

/* Passes the list of files to the source as its user pointer. The callbacks get the program's user pointer. */
static int open_source(void *user)
{
    struct launching *c = user;
    gd__dispatcher_hook(c->run.d, &(struct gd__hooks){ .fd = -1, .source_user = c });
    if (c->deal)
        gd__run_set_shard_total(&c->run, gd__file_deal_count(c->deal));
    return 0;
}

static int open_views(void *user)
{
    struct launching *c = user;
    gd_balancer_on_progress(c->run.balancer, c->l.on_progress, c->options.user, PROGRESS_MS);
    return 0;
}

static void report(void *user, int result)
{
    struct launching *c = user;
    char message[LINE_ROOM] = "";
    if (result < 0)
        first_line(message, gd_error_text());
    if (!c->l.quiet && gd__run_print_summary(&c->run, c->to, "files") < 0)
        c->problems++;
    if (result < 0)
        complain(c, "%s", message);
    struct gd_balance all = { .size = sizeof all };
    gd_balancer_overall(c->run.balancer, &all);
    c->left = all.failed + all.cancelled;
}

static void release(void *user)
{
    struct launching *c = user;
    gd__file_deal_close(&c->deal);
    gd_task_queue_close(&c->queue);
    gd_files_close(&c->files);
}

static void failed(void *user, int code)
{
    (void)fail(user, code);
}

static void say(void *user, const char *what, const char *why)
{
    char message[LINE_ROOM];
    complain(user, "%s: %s", what, first_line(message, why));
}

static double media_seconds(void *user, const struct gd_report *r)
{
    const struct launching *c = user;
    return c->l.media_seconds ? c->l.media_seconds(c->options.user, r) : 0;
}

static const struct gd__run_parts parts = { .prepare = prepare,
                                            .open_source = open_source,
                                            .open_views = open_views,
                                            .report = report,
                                            .close = release,
                                            .failed = failed,
                                            .say = say,
                                            .media_seconds = media_seconds };

/* --- the public calls --- */

int gd_launch_run(const struct gd_launch *l)
{
    struct launching c = { .asked = l };
    const int result = gd__run_execute(&c.run, &parts, &c);
    if (result == GD_E_INTERRUPTED)
        return EXIT_INTERRUPTED;
    return result < 0 || c.left > 0 || c.problems > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int stop_at_once(void *user, const char *path, uint64_t size)
{
    (void)user, (void)path, (void)size;
    return 1;
}

int gd_launch_validate(const struct gd_launch *l)
{
    const struct gd_discover any = GD_DISCOVER_INIT;
    struct launching c = { .asked = l };
    struct gd_options o = GD_OPTIONS_INIT;
    struct gd_dispatcher *d = NULL;
    int rc = make_options(&c, &o);
    if (rc == 0)
        rc = gd_discover_files(c.l.input_dir, &any, stop_at_once, NULL);
    if (rc >= 0) {
        o.gpus = gd__spec_is_free(o.gpus) ? "auto" : o.gpus; /* a check waits for nothing, and locks nothing */
        o.ignore_gpu_locks = true;
        o.source = gd_task_queue_next;
        o.total_tasks = 1; /* the number does not matter here, but the checks may need at least one task */
        rc = gd_dispatcher_open(&d, &o);
    }
    gd_dispatcher_close(&d);
    return rc < 0 ? rc : 0;
}

int gd_launch_workload(const struct gd_launch *l, struct gd_workload *out)
{
    struct launching c = { .asked = l };
    struct gd_files *files = NULL;
    int rc = read_launch(&c);
    if (rc == 0)
        rc = gd_files_open(&files);
    if (rc == 0) {
        struct gd_discover what = what_to_find(&c);
        what.no_sizes = false;
        rc = gd_files_discover(files, c.l.input_dir, &what);
    }
    if (rc == 0)
        rc = gd_estimate_workload(files, out);
    gd_files_close(&files);
    return rc;
}
