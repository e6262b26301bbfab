/* The launcher, which processes a directory of files and returns an exit code and a summary. Its components are also
 * tested alone. The content of a file says what a worker does with it: `ok`, `error MESSAGE`, `once` (the first attempt
 * fails), `kill`, `kill once`, `wait` (never ends), `lost` (the device is lost). */
#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>

#include "base/fault.h"
#include "support/shell.h"

/* --- the worker --- */

static bool says(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    char path[4096], text[256];
    snprintf(path, sizeof path, "%.*s", (int)t->size, (const char *)t->data);
    FILE *f = fopen(path, "re");
    if (!f)
        return gd_result_error(r, "cannot read it: %s", strerror(errno));
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    if (says(text, "error "))
        return gd_result_error(r, "%s", text + 6);
    if (says(text, "once") && t->attempt == 1)
        return gd_result_error(r, "not yet");
    if (says(text, "lost"))
        return gd_result_device_lost(r, "it fell off the bus");
    if (says(text, "kill") && (t->attempt == 1 || !strstr(text, "once")))
        kill(getpid(), SIGKILL);
    while (says(text, "wait"))
        pause();
    return gd_result_set(r, path, strlen(path));
}

/* setup_args is a list of digits: the devices on which setup fails. */
static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    for (size_t i = 0; i < s->args_size; i++)
        if (((const char *)s->args)[i] == (char)('0' + s->gpu_id))
            return gd_worker_error(w, "no model here\nand more words");
    return 0;
}

/* --- launching --- */

struct seen {
    _Atomic unsigned done, failed, timeouts, starts, exits, setup_fails, worker_exits, devices_out, progress;
    char names[64][64]; /* base names, in the order of the callbacks */
    struct gd_balance last;
    int interrupt_at; /* interrupt the run when this many tasks have started; 0: never */
};

static void note_success(void *user, const struct gd_report *r)
{
    struct seen *s = user;
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)r->size, (const char *)r->data);
    CHECK_EQ(r->size, r->input_size);
    CHECK_MEM(r->data, r->input, r->size);
    if (s->done < 64)
        snprintf(s->names[s->done], sizeof s->names[0], "%s", basename(path));
    s->done++;
}

static void note_error(void *user, const struct gd_report *r)
{
    (void)r;
    ((struct seen *)user)->failed++;
}

static void note_timeout(void *user, const struct gd_report *r)
{
    CHECK_EQ(r->failure, GD_FAILURE_TIMEOUT);
    ((struct seen *)user)->timeouts++;
}

static void note_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    (void)task_id, (void)worker_id, (void)attempt, (void)start_ns;
    struct seen *s = user;
    if ((int)++s->starts == s->interrupt_at)
        kill(getpid(), SIGINT);
}

static void note_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    (void)worker_id, (void)gpu_id;
    CHECK_CONTAINS(error, "and more words");
    ((struct seen *)user)->setup_fails++;
}

static void note_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    (void)worker_id, (void)gpu_id, (void)why, (void)given_up;
    ((struct seen *)user)->worker_exits++;
}

static void note_device_out(void *user, int gpu_id, const char *why)
{
    (void)gpu_id, (void)why;
    ((struct seen *)user)->devices_out++;
}

static void note_exit(void *user)
{
    ((struct seen *)user)->exits++;
}

static void note_progress(void *user, const struct gd_balance *now)
{
    struct seen *s = user;
    s->progress++;
    s->last = *now;
}

static struct seen seen;
static struct gd_launch l;
static struct gd_options options;
static char *printed;

static void begin(void)
{
    static const struct gd_launch init = GD_LAUNCH_INIT;
    memset(&seen, 0, sizeof seen);
    l = init;
    gd_options_init(&options, sizeof options);
    options.handle_signals = true;
    l.options = &options;
    l.input_dir = sh_dir();
    l.gpus = "sim:2";
    options.output = GD_OUTPUT_DISCARD;
    options.cancel_grace_ms = 3600 * 1000; /* so that a worker that starts slowly is not killed at the end */
    options.user = &seen;
    options.on_success = note_success;
    options.on_error = note_error;
    options.on_exit = note_exit;
}

/* Runs the launch. The summary is in `printed`, which the case frees. */
static int launch(void)
{
    size_t size;
    l.summary = open_memstream(&printed, &size);
    CHECK(l.summary);
    const int code = gd_launch_run(&l);
    fclose(l.summary);
    return code;
}

__attribute__((format(printf, 2, 3))) static void write_file(const char *text, const char *format, ...)
{
    char path[4096], name[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    FILE *f = fopen(path, "we");
    CHECK(f);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

static void make_directory(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    CHECK_EQ(mkdir(path, 0755), 0);
}

static unsigned lines(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* --- runs --- */

TEST(every_file_is_processed)
{
    begin();
    for (int i = 0; i < 20; i++)
        write_file("ok", "f%d.wav", i);
    CHECK_EQ(launch(), 0);
    CHECK_EQ(seen.done, 20);
    CHECK_EQ(seen.failed, 0);
    CHECK_EQ(seen.exits, 1);
    CHECK_CONTAINS(printed, "GPU  files  failed  busy  restarts");
    CHECK_CONTAINS(printed, "\n  1  ");
    CHECK_CONTAINS(printed, "\nall     20       0");
    CHECK_CONTAINS(printed, "\n20 files in ");
    CHECK_EQ(lines(printed), 5);
    free(printed);
}

TEST(largest_first)
{
    begin();
    l.gpus = "sim:1";
    write_file("ok", "a");
    write_file("ok, and the largest of all", "b");
    write_file("ok, not small", "c");
    CHECK_EQ(launch(), 0);
    CHECK_STR(seen.names[0], "b");
    CHECK_STR(seen.names[1], "c");
    CHECK_STR(seen.names[2], "a");
    free(printed);
}

TEST(sorted_by_name_if_requested)
{
    begin();
    l.gpus = "sim:1";
    l.order = GD_FILE_ORDER_NAME;
    write_file("ok", "b");
    write_file("ok, and the largest", "c");
    write_file("ok", "a");
    CHECK_EQ(launch(), 0);
    CHECK_STR(seen.names[0], "a");
    CHECK_STR(seen.names[1], "b");
    CHECK_STR(seen.names[2], "c");
    free(printed);
}

TEST(patterns_choose_files)
{
    begin();
    l.patterns = (const char *const[]){ "*.wav", "*.flac", NULL };
    write_file("ok", "a.wav");
    write_file("ok", "b.flac");
    write_file("error not asked for", "c.txt");
    make_directory("sub");
    write_file("error not asked for", "sub/d.wav");
    CHECK_EQ(launch(), 0);
    CHECK_EQ(seen.done, 2);
    free(printed);
    write_file("ok", "sub/d.wav");
    begin();
    l.patterns = (const char *const[]){ "*.wav", "*.flac", NULL };
    l.recursive = true;
    CHECK_EQ(launch(), 0);
    CHECK_EQ(seen.done, 3);
    free(printed);
}

TEST(a_file_that_fails_does_not_stop_the_others)
{
    begin();
    for (int i = 0; i < 10; i++)
        write_file("ok", "f%d", i);
    write_file("error it has no samples", "bad.wav");
    CHECK_EQ(launch(), 1);
    CHECK_EQ(seen.done, 10);
    CHECK_EQ(seen.failed, 1);
    CHECK_CONTAINS(printed, "\n1 failed: 1 error\n");
    CHECK_CONTAINS(printed, "/bad.wav: it has no samples\n");
    free(printed);
}

TEST(a_retry_is_not_a_failure)
{
    begin();
    options.retries = 1;
    options.retry_delay_ms = 1;
    write_file("once", "a");
    CHECK_EQ(launch(), 0);
    CHECK_CONTAINS(printed, ", 1 retry\n");
    free(printed);
}

TEST(a_worker_killed_inside_a_file_is_replaced)
{
    begin();
    l.gpus = "sim:1";
    options.on_worker_exit = note_worker_exit;
    write_file("kill once", "a");
    write_file("ok", "b");
    CHECK_EQ(launch(), 0);
    CHECK_EQ(seen.done, 2);
    CHECK_EQ(seen.worker_exits, 1);
    CHECK_CONTAINS(printed, "\n  0      2       0");
    CHECK_CONTAINS(printed, "%         1  ");
    free(printed);
}

TEST(a_file_that_kills_its_workers_is_a_crash)
{
    begin();
    options.restart_delay_ms = 1;
    write_file("kill", "a");
    write_file("ok", "b");
    CHECK_EQ(launch(), 1);
    CHECK_EQ(seen.done, 1);
    CHECK_CONTAINS(printed, "1 failed: 1 crash\n");
    free(printed);
}

TEST(timeouts_go_to_on_error_or_on_timeout)
{
    begin();
    options.task_timeout_ms = 50;
    options.cancel_grace_ms = 10;
    write_file("wait", "a");
    CHECK_EQ(launch(), 1);
    CHECK_EQ(seen.failed, 1);
    CHECK_CONTAINS(printed, "1 failed: 1 timeout\n");
    free(printed);
    begin();
    options.task_timeout_ms = 50;
    options.cancel_grace_ms = 10;
    options.on_timeout = note_timeout;
    CHECK_EQ(launch(), 1);
    CHECK_EQ(seen.failed, 0);
    CHECK_EQ(seen.timeouts, 1);
    CHECK_CONTAINS(printed, "1 failed: 1 timeout\n");
    free(printed);
}

TEST(interrupted)
{
    begin();
    for (int i = 0; i < 10; i++)
        write_file("wait", "f%d", i);
    options.on_task_start = note_start;
    options.stop_grace_ms = 50;
    seen.interrupt_at = 2;
    CHECK_EQ(launch(), 130);
    CHECK_GE(seen.failed, 2); /* the run may not have taken the other files yet */
    CHECK_EQ(seen.exits, 1);
    CHECK_CONTAINS(printed, "no files processed\n");
    CHECK_CONTAINS(printed, " files cancelled");
    CHECK_CONTAINS(printed, "interrupted by a signal\n");
    free(printed);
}

TEST(without_user_callbacks)
{
    begin();
    const struct gd_options none = GD_OPTIONS_INIT;
    options = none;
    write_file("ok", "a");
    write_file("error x", "b");
    CHECK_EQ(launch(), 1);
    CHECK_CONTAINS(printed, "\n2 files, 1 failed, in ");
    free(printed);
}

TEST(quiet_prints_no_summary)
{
    begin();
    l.quiet = true;
    write_file("ok", "a");
    CHECK_EQ(launch(), 0);
    CHECK_STR(printed, "");
    free(printed);
    begin();
    l.quiet = true;
    l.input_dir = "/nowhere/at/all";
    CHECK_EQ(launch(), 1);
    CHECK_EQ(lines(printed), 1);
    free(printed);
}

TEST(progress_is_reported_up_to_the_last_file)
{
    begin();
    l.on_progress = note_progress;
    for (int i = 0; i < 5; i++)
        write_file("ok", "f%d", i);
    CHECK_EQ(launch(), 0);
    CHECK_GE(seen.progress, 2);
    CHECK_EQ(seen.last.total, 5);
    CHECK_EQ(seen.last.done, 5);
    CHECK(seen.last.eta_seconds == 0);
    free(printed);
}

static double ten_minutes(void *user, const struct gd_report *r)
{
    CHECK(user == &seen);
    CHECK_EQ(r->failure, GD_FAILURE_NONE);
    return 600;
}

TEST(media_lengths_give_a_real_time_factor)
{
    begin();
    l.media_seconds = ten_minutes;
    write_file("ok", "a");
    write_file("ok", "b");
    write_file("error x", "c");
    CHECK_EQ(launch(), 1);
    CHECK_CONTAINS(printed, "20m00s of audio in ");
    free(printed);
}

TEST(devices_named_by_number_alone)
{
    static const int ids[] = { 5, 9 };
    begin();
    l.gpus = NULL;
    options.gpu_ids = ids;
    options.n_gpus = 2;
    write_file("ok", "a");
    CHECK_EQ(launch(), 0);
    CHECK_CONTAINS(printed, "\n  5  ");
    CHECK_CONTAINS(printed, "\n  9  ");
    free(printed);
}

TEST(chunks_work_with_any_queue_size)
{
    begin();
    options.placement = GD_PLACE_CHUNKS;
    options.queue_size = 4;
    for (int i = 0; i < 20; i++)
        write_file("ok", "f%d", i);
    CHECK_EQ(launch(), 0);
    CHECK_CONTAINS(printed, "\n  0     10       0");
    CHECK_CONTAINS(printed, "\n  1     10       0");
    free(printed);
}

static int to_the_second(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)task_id;
    CHECK(user == &seen);
    CHECK_EQ(weight, 2);
    CHECK_EQ(n_workers, 2);
    return 1;
}

TEST(a_custom_placement)
{
    begin();
    options.placement = GD_PLACE_CUSTOM;
    options.place = to_the_second;
    l.order = GD_FILE_ORDER_NAME;
    for (int i = 0; i < 6; i++)
        write_file("ok", "f%d", i);
    CHECK_EQ(launch(), 0);
    CHECK_CONTAINS(printed, "\n  1      6       0");
    free(printed);
}

/* --- errors before and during the work --- */

TEST(no_such_directory)
{
    begin();
    l.input_dir = "/nowhere/at/all";
    CHECK_EQ(launch(), 1);
    CHECK_EQ(lines(printed), 1);
    CHECK_CONTAINS(printed, "/nowhere/at/all");
    CHECK_EQ(seen.exits, 0);
    free(printed);
}

TEST(no_file_matched)
{
    begin();
    write_file("ok", "a.txt");
    l.patterns = (const char *const[]){ "*.wav", "*.flac", NULL };
    CHECK_EQ(launch(), 1);
    CHECK_EQ(lines(printed), 1);
    CHECK_CONTAINS(printed, " matches *.wav, *.flac (");
    CHECK_CONTAINS(printed, sh_dir());
    CHECK_CONTAINS(printed, "recursive");
    free(printed);
    l.recursive = true;
    CHECK_EQ(launch(), 1);
    CHECK(!strstr(printed, "recursive"));
    free(printed);
}

TEST(an_empty_directory)
{
    begin();
    CHECK_EQ(launch(), 1);
    CHECK_CONTAINS(printed, "no files in ");
    free(printed);
}

TEST(a_device_that_does_not_exist)
{
    begin();
    setenv("GPU_DISPATCH_SIM", "2", 1);
    l.gpus = "0,7";
    write_file("ok", "a");
    CHECK_EQ(launch(), 1);
    CHECK_EQ(lines(printed), 1);
    CHECK_CONTAINS(printed, "7");
    CHECK_EQ(seen.exits, 0);
    free(printed);
}

TEST(an_unreadable_directory_is_reported)
{
    begin();
    make_directory("locked");
    char path[4096];
    snprintf(path, sizeof path, "%s/locked", sh_dir());
    CHECK_EQ(chmod(sh_dir(), 0755), 0);
    CHECK_EQ(chmod(path, 0), 0);
    if (geteuid() == 0 && seteuid(65534) < 0) /* root may read everything */
        SKIP("cannot become an ordinary user");
    l.recursive = true;
    CHECK_EQ(launch(), 1);
    if (getuid() == 0)
        CHECK_EQ(seteuid(0), 0);
    CHECK_CONTAINS(printed, "/locked: cannot be ");
    CHECK_CONTAINS(printed, "no files in ");
    free(printed);
}

TEST(one_device_fails_in_setup)
{
    begin();
    options.setup_args = "0";
    options.setup_args_size = 1;
    options.on_setup_fail = note_setup_fail;
    for (int i = 0; i < 5; i++)
        write_file("ok", "f%d", i);
    CHECK_EQ(launch(), 0);
    CHECK_EQ(seen.done, 5);
    CHECK_EQ(seen.setup_fails, 1);
    CHECK_CONTAINS(printed, "worker 0 on GPU 0 failed to set up: no model here\n");
    CHECK(!strstr(printed, "more words"));
    free(printed);
}

TEST(every_device_fails_in_setup)
{
    begin();
    options.setup_args = "01";
    options.setup_args_size = 2;
    write_file("ok", "a");
    CHECK_EQ(launch(), 1);
    CHECK_EQ(lines(printed), 3);
    CHECK_CONTAINS(printed, " failed to set up: no model here\n");
    CHECK_CONTAINS(printed, "\n1 more worker failed to set up: the same error as worker ");
    CHECK_CONTAINS(printed, "\nAll workers failed during setup: no task was run\n");
    free(printed);
}

TEST(a_device_that_is_lost_is_taken_out_of_use)
{
    begin();
    l.gpus = "sim:1";
    options.on_device_out = note_device_out;
    for (int i = 0; i < 4; i++)
        write_file("lost", "f%d", i);
    CHECK_EQ(launch(), 1);
    CHECK_GE(seen.failed, 1); /* those that were found before the device was lost twice */
    CHECK_LE(seen.failed, 4);
    CHECK_EQ(seen.devices_out, 1);
    CHECK_CONTAINS(printed, "GPU 0 is taken out of use: ");
    free(printed);
}

/* Every call that can fail is made to fail once. Either the file is processed, or the reason is reported. */
TEST_WITHIN(120, every_failing_call_is_reported)
{
    write_file("ok", "a");
    unsigned long nth = 1, made;
    do {
        begin();
        l.gpus = "sim:1";
        options.restart_delay_ms = 1;
        size_t size;
        l.summary = open_memstream(&printed, &size);
        CHECK(l.summary);
        gd__fault_begin(nth);
        const int code = gd_launch_run(&l);
        made = gd__fault_count();
        gd__fault_begin(0);
        fclose(l.summary);
        CHECK(code == 0 || code == 1);
        CHECK_EQ(code == 0, seen.done == 1);
        CHECK_GE(lines(printed), 1);
        CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
        free(printed);
    } while (nth++ <= made);
    CHECK_GT(nth, 20);
}

TEST(nothing_to_launch)
{
    CHECK_EQ(gd_launch_run(NULL), 1);
    CHECK_EQ(gd_launch_validate(NULL), GD_E_INVALID);
    begin();
    l.input_dir = NULL;
    CHECK_EQ(launch(), 1);
    CHECK_CONTAINS(printed, "input_dir");
    free(printed);
    begin();
    l.size = 0;
    CHECK_EQ(gd_launch_validate(&l), GD_E_INVALID);
}

/* Both structs may be longer or shorter than in this version of the library. */
TEST(a_launch_of_another_version)
{
    struct {
        struct gd_launch l;
        uint64_t more;
    } newer = { .more = 0 };
    struct {
        struct gd_options o;
        uint64_t more;
    } newer_options = { .more = 0 };
    begin();
    newer.l = l;
    newer.l.size = sizeof newer;
    newer_options.o = options;
    newer_options.o.size = sizeof newer_options;
    newer.l.options = &newer_options.o;
    CHECK_EQ(gd_launch_validate(&newer.l), 0);
    newer_options.more = 1;
    CHECK_EQ(gd_launch_validate(&newer.l), GD_E_VERSION);
    newer_options.more = 0;
    newer.more = 1;
    CHECK_EQ(gd_launch_validate(&newer.l), GD_E_VERSION);
    l.size = offsetof(struct gd_launch, media_seconds);
    options.size = offsetof(struct gd_options, orphans);
    CHECK_EQ(gd_launch_validate(&l), 0);
}

/* --- checks before a launch --- */

TEST(a_launch_that_can_start_is_valid)
{
    begin();
    CHECK_EQ(gd_launch_validate(&l), 0); /* the call does not check if there are files */
    write_file("ok", "a");
    options.placement = GD_PLACE_CHUNKS;
    CHECK_EQ(gd_launch_validate(&l), 0);
    options.worker_argv = (char *const[]){ (char[]){ "true" }, NULL };
    CHECK_EQ(gd_launch_validate(&l), 0);
    options.worker_argv = (char *const[]){ (char[]){ "/bin/sh" }, NULL };
    CHECK_EQ(gd_launch_validate(&l), 0);
}

TEST(a_launch_that_cannot_start_is_not_valid)
{
    begin();
    l.input_dir = "/nowhere/at/all";
    CHECK_EQ(gd_launch_validate(&l), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "/nowhere/at/all");
    begin();
    l.gpus = "rubbish";
    CHECK_LT(gd_launch_validate(&l), 0);
    CHECK_CONTAINS(gd_error_text(), "rubbish");
    begin();
    options.plugin = "/nowhere/plugin.so";
    CHECK_EQ(gd_launch_validate(&l), GD_E_PLUGIN);
    begin();
    options.queue_size = 0;
    CHECK_EQ(gd_launch_validate(&l), GD_E_INVALID);
    static char programs[][32] = { "no-such-program-anywhere", "/nowhere/program", "/tmp" };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        begin();
        options.worker_argv = (char *const[]){ programs[i], NULL };
        write_file("ok", "a");
        CHECK_EQ(gd_launch_validate(&l), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), programs[i]);
        CHECK_EQ(launch(), 1);
        CHECK_CONTAINS(printed, "cannot run the worker program ");
        CHECK_EQ(seen.failed, 0);
        free(printed);
    }
}

TEST(the_workload_can_be_estimated_before_a_launch)
{
    struct gd_workload w = { .size = sizeof w };
    begin();
    l.patterns = (const char *const[]){ "*.wav", NULL };
    l.order = GD_FILE_ORDER_NAME;
    write_file("12345", "a.wav");
    write_file("123", "b.wav");
    write_file("1234567", "c.txt");
    CHECK_EQ(gd_launch_workload(&l, &w), 0);
    CHECK_EQ(w.count, 2);
    CHECK_EQ(w.total_bytes, 8);
    CHECK_EQ(w.largest_bytes, 5);
    l.input_dir = "/nowhere/at/all";
    CHECK_EQ(gd_launch_workload(&l, &w), GD_E_INVALID);
}

/* --- each component alone --- */

TEST(the_detector_alone)
{
    struct gd_devices *devices;
    CHECK_EQ(gd_devices_open(&devices, NULL), 0);
    const bool cuda = gd_devices_cuda(devices);
    CHECK(cuda == true || cuda == false);
    gd_devices_close(&devices);
    CHECK_EQ(gd_devices_open(&devices, "sim:2"), 0);
    CHECK_EQ(gd_devices_count(devices), 2);
    const int there[] = { 0, 1 }, not_there[] = { 0, 7 };
    CHECK_EQ(gd_devices_validate(devices, there, 2), 0);
    CHECK_EQ(gd_devices_validate(devices, not_there, 2), GD_E_NO_DEVICES);
    gd_devices_close(&devices);
}

TEST(the_allocator_alone)
{
    struct gd_files *files;
    size_t gpu_of[2];
    CHECK_EQ(gd_files_open(&files), 0);
    CHECK_EQ(gd_files_add(files, "a.wav", 10), 0);
    CHECK_EQ(gd_files_add(files, "b.wav", 20), 0);
    CHECK_EQ(gd_distribute_workload(files, 2, GD_DISTRIBUTE_ROUND_ROBIN, gpu_of), 0);
    CHECK_EQ(gpu_of[0], 0);
    CHECK_EQ(gpu_of[1], 1);
    struct gd_task_queue *queue;
    struct gd_item item = { 0 };
    CHECK_EQ(gd_task_queue_open(&queue, files), 0);
    CHECK_EQ(gd_task_queue_left(queue), 2);
    CHECK_EQ(gd_task_queue_next(queue, &item), 1);
    CHECK_EQ(item.weight, 10);
    CHECK_EQ(gd_task_queue_left(queue), 1);
    gd_task_queue_close(&queue);
    gd_files_close(&files);
}

static _Atomic unsigned alone_done;

static void count_alone(void *user, const struct gd_report *r)
{
    (void)user, (void)r;
    alone_done++;
}

TEST(the_spawner_alone)
{
    static const int ids[] = { 0, 1 };
    struct gd_files *files;
    struct gd_task_queue *queue;
    struct gd_spawner *spawner;
    for (int i = 0; i < 5; i++)
        write_file("ok", "f%d", i);
    CHECK_EQ(gd_files_open(&files), 0);
    CHECK_EQ(gd_files_discover(files, sh_dir(), NULL), 0);
    CHECK_EQ(gd_task_queue_open(&queue, files), 0);
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = ids;
    o.n_gpus = 2;
    o.source = gd_task_queue_next;
    o.user = queue;
    o.on_success = count_alone;
    CHECK_EQ(gd_spawner_start(&spawner, &o), 0);
    int result = 77;
    CHECK_EQ(gd_spawner_wait(spawner, -1, &result), 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(alone_done, 5);
    CHECK_EQ(gd_task_queue_left(queue), 0);
    gd_spawner_close(&spawner);
    gd_task_queue_close(&queue);
    gd_files_close(&files);
}

TEST(the_balancer_alone)
{
    static const int ids[] = { 0 };
    struct gd_balancer *b;
    CHECK_EQ(gd_balancer_open(&b, ids, 1, 1, 0), 0);
    CHECK(gd_balancer_rtf(b) == 0);
    gd_balancer_close(&b);
}

int main(int argc, char **argv)
{
    const struct gd_worker_ops ops = { .size = sizeof ops, .setup = setup, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
