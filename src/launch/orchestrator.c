/* The four other components put together, and nothing else: devices, files, a queue of them, a balancer that counts, a
 * spawner that runs; then wait, print, and say how it went in an exit code.
 *
 * Who launches and who waits is the caller's thread; the callbacks, which feed the balancer, are made on the spawner's.
 * The balancer is read only after the run has ended, so they never use it at the same time.
 *
 * Every complaint is a line of its own that says what to do. One that comes from a component is printed as it is.
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
#include "command/template.h"

enum { PROGRESS_MS = 100, EXIT_INTERRUPTED = 130, LINE_ROOM = 512 };

struct launching {
    struct gd_launch l;
    struct gd_options run; /* as the caller has them */
    FILE *to;
    struct gd_options o; /* run, with our callbacks in front of its own */
    int *gpu_ids;
    size_t n_gpus;
    struct gd_files *files;
    struct gd_task_queue *queue;
    struct gd_balancer *balancer;
    struct gd_spawner *spawner;
    int no_setup;      /* 1 + the worker whose setup was last printed to have failed */
    unsigned problems; /* what could not be searched for files */
};

/* --- complaints --- */

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

/* What a worker or the system said: its first line, fit for a terminal. */
static const char *in_a_line(char out[LINE_ROOM], const char *words)
{
    gd__text_line(out, LINE_ROOM, words ? words : "", words ? strlen(words) : 0);
    return out;
}

static void on_problem(void *user, const char *path, const char *why)
{
    struct launching *c = user;
    char name[LINE_ROOM], words[LINE_ROOM];
    gd__text_name(name, sizeof name, path, strlen(path));
    complain(c, "%s: %s", name, in_a_line(words, why));
    c->problems++;
}

/* --- callbacks: ours first, then the user's --- */

static int next_file(void *user, struct gd_item *item)
{
    return gd_task_queue_next(((struct launching *)user)->queue, item);
}

static int place(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const struct gd_options *run = &((struct launching *)user)->run;
    return run->place(run->user, task_id, weight, n_workers);
}

static void on_success(void *user, const struct gd_report *r)
{
    struct launching *c = user;
    const struct gd_options *run = &c->run;
    gd_balancer_add(c->balancer, r, c->l.media_seconds ? c->l.media_seconds(run->user, r) : 0);
    if (run->on_success)
        run->on_success(run->user, r);
}

static void on_error(void *user, const struct gd_report *r)
{
    struct launching *c = user;
    gd_balancer_add(c->balancer, r, 0);
    if (c->run.on_error)
        c->run.on_error(c->run.user, r);
}

static void on_timeout(void *user, const struct gd_report *r)
{
    struct launching *c = user;
    gd_balancer_add(c->balancer, r, 0);
    c->run.on_timeout(c->run.user, r);
}

static void on_task_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    const struct gd_options *run = &((struct launching *)user)->run;
    run->on_task_start(run->user, task_id, worker_id, attempt, start_ns);
}

/* The library's own message may begin with the worker's name, which ours has already. */
static const char *after_name(const char *words)
{
    int length = 0;
    (void)sscanf(words, "worker %*d (GPU %*d) %n", &length);
    return words + length;
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct launching *c = user;
    char words[LINE_ROOM];
    c->no_setup = worker_id + 1;
    complain(c, "worker %d on GPU %d failed to set up: %s", worker_id, gpu_id, in_a_line(words, after_name(error)));
    if (c->run.on_setup_fail)
        c->run.on_setup_fail(c->run.user, worker_id, gpu_id, error);
}

static void on_cleanup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    const struct launching *c = user;
    char words[LINE_ROOM];
    complain(c, "worker %d on GPU %d failed to clean up: %s", worker_id, gpu_id, in_a_line(words, after_name(error)));
    if (c->run.on_cleanup_fail)
        c->run.on_cleanup_fail(c->run.user, worker_id, gpu_id, error);
}

static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct launching *c = user;
    char words[LINE_ROOM];
    if (given_up && c->no_setup != worker_id + 1) /* why its setup failed was printed */
        complain(c, "worker %d on GPU %d is given up: %s", worker_id, gpu_id, in_a_line(words, after_name(why)));
    if (!given_up)
        gd_balancer_restarted(c->balancer, gpu_id);
    if (c->run.on_worker_exit)
        c->run.on_worker_exit(c->run.user, worker_id, gpu_id, why, given_up);
}

static void on_device_out(void *user, int gpu_id, const char *why)
{
    const struct launching *c = user;
    char words[LINE_ROOM];
    complain(c, "GPU %d is taken out of use: %s", gpu_id, in_a_line(words, why));
    if (c->run.on_device_out)
        c->run.on_device_out(c->run.user, gpu_id, why);
}

static void on_output(void *user, int worker_id, int fd, const char *text, size_t length)
{
    const struct gd_options *run = &((struct launching *)user)->run;
    run->on_output(run->user, worker_id, fd, text, length);
}

static void on_end(void *user)
{
    const struct gd_options *run = &((struct launching *)user)->run;
    run->on_exit(run->user);
}

/* Where the user has no callback and we need none there is none: that may mean something, as with on_timeout. */
static void set_callbacks(struct launching *c)
{
    const struct gd_options *run = &c->run;
    struct gd_options *o = &c->o;
    o->user = c;
    o->source = next_file;
    o->source_cancel = NULL; /* ours never blocks */
    o->place = run->place ? place : NULL;
    o->on_success = on_success;
    o->on_error = on_error;
    o->on_timeout = run->on_timeout ? on_timeout : NULL;
    o->on_task_start = run->on_task_start ? on_task_start : NULL;
    o->on_setup_fail = on_setup_fail;
    o->on_cleanup_fail = on_cleanup_fail;
    o->on_worker_exit = on_worker_exit;
    o->on_device_out = on_device_out;
    o->on_output = run->on_output ? on_output : NULL;
    o->on_exit = run->on_exit ? on_end : NULL;
}

/* --- checks --- */

/* Copies what was asked for, so that a struct of another version is brought to ours. */
static int read_launch(struct launching *c, const struct gd_launch *l)
{
    c->l = (struct gd_launch)GD_LAUNCH_INIT;
    gd_options_init(&c->run, sizeof c->run);
    int rc = gd__sized_read(&c->l, sizeof c->l, l, "gd_launch");
    if (rc == 0 && c->l.options)
        rc = gd__sized_read(&c->run, sizeof c->run, c->l.options, "gd_options");
    c->to = rc == 0 && c->l.summary ? c->l.summary : stderr;
    c->run.size = sizeof c->run;
    if (rc == 0 && (!c->l.input_dir || !*c->l.input_dir))
        rc = gd__error(GD_E_INVALID, "no input directory: set gd_launch.input_dir to the directory of the files");
    return rc;
}

/* Before any process is started: a worker that is not there would only be found out by its failing. */
static int check_program(char *const *argv)
{
    char path[PATH_MAX];
    if (!argv || !argv[0] || gd__executable_locate(argv[0], path, sizeof path) == 0)
        return 0;
    return gd__error(GD_E_INVALID, "cannot run the worker program %s: %s", argv[0],
                     strchr(argv[0], '/') ? "there is no such program, or it may not be run"
                                          : "it is in no folder of PATH");
}

/* --- the steps --- */

static int copy_ids(struct launching *c, const int *ids, size_t n)
{
    c->gpu_ids = gd__calloc(n, sizeof *c->gpu_ids);
    if (!c->gpu_ids)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of %zu devices", n);
    for (size_t i = 0; ids && i < n; i++)
        c->gpu_ids[i] = ids[i];
    c->n_gpus = n;
    return 0;
}

static int list_ids(struct launching *c, const struct gd_devices *devices)
{
    int rc = copy_ids(c, NULL, gd_devices_count(devices));
    for (size_t i = 0; rc == 0 && i < c->n_gpus; i++) {
        struct gd_device d = { .size = sizeof d };
        rc = gd_devices_get(devices, i, &d);
        c->gpu_ids[i] = d.id;
    }
    return rc;
}

/* Those of the launch, or if it names none, those of the run's own options. */
static int find_devices(struct launching *c)
{
    const struct gd_options *run = &c->run;
    const char *spec = c->l.gpus ? c->l.gpus : run->gpus;
    if (!spec && run->n_gpus > 0 && run->gpu_ids)
        return copy_ids(c, run->gpu_ids, run->n_gpus);
    struct gd_devices *devices;
    c->o.gpus = spec ? spec : "auto";
    c->o.gpu_ids = NULL;
    c->o.n_gpus = 0;
    int rc = gd_devices_open(&devices, c->o.gpus);
    if (rc < 0)
        return rc;
    rc = list_ids(c, devices);
    gd_devices_close(&devices);
    return rc;
}

/* The checks that need no file, and the options as they will be but for the number of tasks. */
static int prepare(struct launching *c, const struct gd_launch *l)
{
    int rc = read_launch(c, l);
    if (rc < 0)
        return rc;
    c->o = c->run;
    set_callbacks(c);
    rc = find_devices(c);
    return rc < 0 ? rc : check_program(c->run.worker_argv);
}

static struct gd_discover what_to_find(const struct launching *c)
{
    struct gd_discover what = GD_DISCOVER_INIT;
    what.patterns = c->l.patterns;
    what.recursive = c->l.recursive;
    what.no_sizes =
        c->l.order != GD_FILE_ORDER_SIZE && c->run.placement != GD_PLACE_BY_SIZE && c->run.placement != GD_PLACE_CUSTOM;
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

static int no_file(const struct gd_launch *l)
{
    char patterns[LINE_ROOM];
    const char *advice = l->recursive ? "" : " (its folders were not looked into: that is `recursive`)";
    if (!l->patterns || !l->patterns[0])
        return gd__error(GD_E_INVALID, "there is no file in %s%s", l->input_dir, advice);
    join_patterns(patterns, l->patterns);
    return gd__error(GD_E_INVALID, "no file matched %s in %s%s", patterns, l->input_dir, advice);
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
    return gd_files_count(c->files) > 0 ? gd_files_sort(c->files, c->l.order) : no_file(&c->l);
}

static int open_parts(struct launching *c)
{
    const size_t n = gd_files_count(c->files);
    c->o.total_tasks = n;
    if (c->o.placement == GD_PLACE_CHUNKS && c->o.queue_size < n)
        c->o.queue_size = n; /* chunks are dealt out beforehand */
    int rc = gd_task_queue_open(&c->queue, c->files);
    if (rc == 0)
        rc = gd_balancer_open(&c->balancer, c->gpu_ids, c->n_gpus, c->o.workers_per_gpu, n);
    if (rc < 0)
        return rc;
    gd_balancer_on_progress(c->balancer, c->l.on_progress, c->run.user, PROGRESS_MS);
    return gd_spawner_start(&c->spawner, &c->o);
}

/* Where there were as many workers as found room, each GPU may have had another number of them. */
static void count_workers(struct launching *c)
{
    const int n = gd_spawner_status(c->spawner, NULL, sizeof(struct gd_worker_stats), 0);
    struct gd_worker_stats *w = n > 0 ? gd__calloc((size_t)n, sizeof *w) : NULL;
    if (!w)
        return;
    gd_spawner_status(c->spawner, w, sizeof *w, (size_t)n);
    for (size_t g = 0; g < c->n_gpus; g++) {
        unsigned workers = 0;
        for (int i = 0; i < n; i++)
            workers += w[i].gpu_id == c->gpu_ids[g];
        gd_balancer_set_workers(c->balancer, c->gpu_ids[g], workers);
    }
    gd__free(w);
}

/* Waits, prints, and gives the exit code. */
static int finish(struct launching *c)
{
    int result = 0;
    char words[LINE_ROOM] = "";
    gd_spawner_wait(c->spawner, -1, &result);
    if (result < 0)
        in_a_line(words, gd_error_text());
    count_workers(c);
    if (!c->l.quiet && gd_balancer_print(c->balancer, c->to, "files") < 0)
        c->problems++;
    if (result < 0)
        complain(c, "%s", words);
    struct gd_balance all = { .size = sizeof all };
    gd_balancer_overall(c->balancer, &all);
    if (result == GD_E_INTERRUPTED)
        return EXIT_INTERRUPTED;
    return result < 0 || all.failed > 0 || all.cancelled > 0 || c->problems > 0;
}

static void release(struct launching *c)
{
    gd_spawner_close(&c->spawner);
    gd_balancer_close(&c->balancer);
    gd_task_queue_close(&c->queue);
    gd_files_close(&c->files);
    gd__free(c->gpu_ids);
}

/* --- the public calls --- */

int gd_launch_run(const struct gd_launch *l)
{
    struct launching c = { .to = stderr };
    char words[LINE_ROOM];
    int rc = prepare(&c, l), code = EXIT_FAILURE;
    if (rc == 0)
        rc = find_files(&c);
    if (rc == 0)
        rc = open_parts(&c);
    if (rc == 0)
        code = finish(&c);
    else
        complain(&c, "%s", in_a_line(words, gd_error_text()));
    release(&c);
    return code;
}

static int stop_at_once(void *user, const char *path, uint64_t size)
{
    (void)user, (void)path, (void)size;
    return 1;
}

int gd_launch_validate(const struct gd_launch *l)
{
    struct launching c = { .to = stderr };
    struct gd_dispatcher *d = NULL;
    int rc = prepare(&c, l);
    if (rc == 0) {
        const struct gd_discover any = GD_DISCOVER_INIT;
        rc = gd_discover_files(c.l.input_dir, &any, stop_at_once, NULL);
    }
    if (rc >= 0) {
        c.o.total_tasks = 1; /* how many there are does not matter here, but that there are some may */
        rc = gd_dispatcher_open(&d, &c.o);
    }
    gd_dispatcher_close(&d);
    release(&c);
    return rc < 0 ? rc : 0;
}

int gd_launch_workload(const struct gd_launch *l, struct gd_workload *out)
{
    struct launching c = { .to = stderr };
    struct gd_files *files = NULL;
    int rc = read_launch(&c, l);
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
