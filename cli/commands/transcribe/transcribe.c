/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe`, also called launcher_multigpu: reads a directory of audio files and writes text.
 *
 * It is a run of the transcription worker (apps/transcribe) over a list of files. The code of `run` does all
 * displaying, writing and recording. Errors are found before any process is started: in the command line, the files,
 * the worker, the model, the devices and the output directory.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpu_dispatch/devices.h>

#include "apps/transcribe/engine/settings.h"
#include "apps/transcribe/fetch/fetch.h"
#include "apps/transcribe/model/model.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json.h"
#include "binding.h"
#include "cli/commands.h"
#include "cli/commands/transcribe/check.h"
#include "cli/commands/transcribe/files/arriving_files.h"
#include "cli/commands/transcribe/files/audio_files.h"
#include "cli/commands/transcribe/files/file_lists.h"
#include "cli/commands/transcribe/find_worker.h"
#include "cli/commands/transcribe/identity.h"
#include "cli/commands/transcribe/transcribe_options.h"
#include "cli/commands/transcribe/try_worker.h"
#include "cli/output/task_end.h"
#include "cli/run/run.h"
#include "cli/run/shard/shard_options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

#define USUAL_SIZE "base"

enum { FAILED = 1 }; /* the exit status for every error, as in the programs that this one replaces */

/* A zeroed struct is empty. */
struct work {
    struct cli_transcribe *asked;
    char *plugin;
    struct tr_model model;
    size_t n_devices;
    enum gd_vendor vendor; /* of the first device */
    struct tr_settings settings;
    struct cli_audio audio;
    struct cli_arriving arriving;           /* with --watch, instead of audio */
    struct gd__buffer about;                /* what the plugin says about itself */
    struct gd__buffer setup, identity, job; /* NUL-terminated */
    size_t n_warnings;                      /* results that have one */
};

static int complain(void)
{
    cli_say("%s", gd__fail_text());
    return FAILED;
}

/* --- requirements -------------------------------------------------------------------- */

/* Prints error messages itself. A worker that cannot find its libraries is reported before the run starts. */
static int find_plugin(struct work *w)
{
    w->plugin = cli_transcriber_find();
    if (!w->plugin)
        return -1;
    if (cli_transcriber_try(w->plugin, &w->about) == 0)
        return 0;
    cli_say("%s", gd__fail_text());
    return -1;
}

/* Refuses another language for an English-only model. */
static int check_language(const struct work *w)
{
    const struct cli_transcribe *t = w->asked;
    const char *l = t->language;
    if (w->model.multilingual)
        return 0;
    if (t->translate)
        return gd__fail(
            "model %s supports only English and cannot translate: use one without .en, as in --model-size small",
            w->model.name);
    if (l && strcasecmp(l, "en") != 0 && strcasecmp(l, "english") != 0)
        return gd__fail("model %s supports only English: leave out --language %s, or use a model without .en",
                        w->model.name, l);
    return 0;
}

/* Accepts only a regular file. A pipe, for example, may never end. */
static int check_vad(const char *path)
{
    struct stat st;
    if (!path)
        return 0;
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        return gd__fail("--vad %s cannot be read: %s", path, strerror(errno));
    return S_ISREG(st.st_mode) ? 0 : gd__fail("--vad %s is not a regular file: give the file of a VAD model", path);
}

static int find_model(struct work *w)
{
    const struct cli_transcribe *t = w->asked;
    const char *size = t->model_size ? t->model_size : USUAL_SIZE;
    if (tr_model_find(&w->model, size, t->model, t->model_dir) < 0)
        return -1;
    return check_vad(t->vad) < 0 ? -1 : check_language(w);
}

static int find_devices(struct work *w)
{
    struct gd_devices *devices = NULL;
    struct gd_device d = { .size = sizeof d };
    const char *spec = w->asked->run.gpus;
    /* With "free", it is not known yet which devices will be used. So look at the usable devices. */
    int rc = gd_devices_open(&devices, gd__spec_is_free(spec) ? "auto" : spec);
    if (rc == 0)
        rc = gd_devices_get(devices, 0, &d);
    if (rc < 0)
        rc = gd__fail("--gpus %s: %s", spec, gd_error_text());
    w->n_devices = rc == 0 ? gd_devices_count(devices) : 0;
    w->vendor = (enum gd_vendor)d.vendor;
    gd_devices_close(&devices);
    return rc;
}

/* A directory as the only argument is treated as --input-dir. */
static const char *input_root(const struct cli_transcribe *t)
{
    struct stat st;
    if (t->input_dir || t->inputs.n != 1)
        return t->input_dir;
    return stat(t->inputs.items[0], &st) == 0 && S_ISDIR(st.st_mode) ? t->inputs.items[0] : NULL;
}

static void make_settings(struct work *w)
{
    const struct cli_transcribe *t = w->asked;
    const unsigned per_gpu = t->run.workers.per_gpu ? t->run.workers.per_gpu : 1;
    struct tr_settings *s = &w->settings;
    *s = t->settings;
    s->model = w->model.path;
    s->model_name = w->model.name;
    s->language = t->language;
    s->places = (struct tr_places){ .input_dir = input_root(t),
                                    .output_dir = t->output_dir,
                                    .formats = t->formats,
                                    .full_names = t->full_names,
                                    .layout = t->settings.places.layout,
                                    .sync = t->run.sync && strcmp(t->run.sync, "full") == 0 };
    s->threads = t->threads;
    s->workers = (unsigned)w->n_devices * per_gpu;
    s->vad_model = t->vad;
    s->translate = t->translate;
    s->input_base = t->input_base;
    s->no_gpu = t->no_gpu || w->vendor == GD_VENDOR_CPU || w->vendor == GD_VENDOR_SIMULATED;
}

/* Existing outputs are checked only if no journal records which files are done. */
static int measure_files(struct work *w)
{
    const struct tr_places *p = &w->settings.places;
    const bool skip_done = w->asked->run.resume && !w->asked->run.journal;
    if (cli_audio_apart(&w->audio, p) < 0)
        return -1;
    if (!w->asked->dry_run && tr_outputs_check(p) < 0)
        return -1;
    if (cli_audio_divide(&w->audio, w->asked, p->input_dir) < 0) /* after the check, which makes the output directory */
        return -1;
    return cli_audio_measure(&w->audio, p, skip_done);
}

/* --- the run ---------------------------------------------------------------------------- */

/* A number in a line of JSON from the worker. Less than 0: it has no such member. */
static double number_in(const void *text, size_t size, const char *member)
{
    struct gd__json value;
    char number[64];
    if (!gd__json_valid(text, size) || !gd__json_member(text, size, member, &value) || value.size >= sizeof number)
        return -1;
    memcpy(number, value.at, value.size);
    number[value.size] = '\0';
    return strtod(number, NULL);
}

/* The audio's duration, from the worker's result. */
static double audio_seconds(const struct cli_task_end *e)
{
    const double seconds = e->ok ? number_in(e->out, e->out_size, "audio_duration") : -1;
    return seconds > 0 ? seconds : 0;
}

static double audio_done(const void *part, size_t size)
{
    return number_in(part, size, "audio_done");
}

/* Prints the warning in the worker's result. */
static void note_warning(void *work, const struct cli_task_end *e)
{
    struct work *w = work;
    struct gd__json value;
    struct gd__buffer text = { 0 };
    if (!e->ok || !gd__json_member(e->out, e->out_size, "warning", &value) ||
        !gd__json_read_string(&text, value.at, value.size))
        return;
    w->n_warnings++;
    if (!cli_run_is_silent(&w->asked->run) && !text.failed)
        cli_say("warning: %.*s", (int)text.size, text.data ? text.data : "");
    gd__buffer_free(&text);
}

static int describe(struct work *w)
{
    const struct cli_transcribe *t = w->asked;
    tr_settings_write(&w->setup, &w->settings);
    gd__buffer_add(&w->setup, "", 1);
    cli_transcribe_identify(&w->identity, &w->settings);
    gd__buffer_add(&w->identity, "", 1);
    gd__buffer_text(&w->job, "transcribe ");
    gd__buffer_text(&w->job, t->run.queue.url ? t->run.queue.url : t->input_dir ? t->input_dir : t->inputs.items[0]);
    gd__buffer_text(&w->job, t->inputs.n + (t->input_dir != NULL) > 1 ? " ..." : "");
    gd__buffer_add(&w->job, "", 1);
    return w->setup.failed || w->identity.failed || w->job.failed ? gd__fail("out of memory") : 0;
}

/* "2 GPUs" */
static void name_devices(const struct work *w, char *out, size_t size)
{
    const char *s = w->n_devices == 1 ? "" : "s";
    if (w->vendor == GD_VENDOR_CPU)
        snprintf(out, size, "the processor, %zu worker%s", w->n_devices, s);
    else
        snprintf(out, size, "%zu %sGPU%s%s", w->n_devices, w->vendor == GD_VENDOR_SIMULATED ? "simulated " : "", s,
                 w->asked->no_gpu && w->vendor != GD_VENDOR_SIMULATED ? ", which are not used" : "");
}

/* "12 files, 3h05m of audio (2 durations estimated); 4 done before" */
static void name_files(const struct work *w, char *out, size_t size)
{
    const struct cli_audio *a = &w->audio;
    const size_t n = gd_files_count(a->files);
    char time[32], unsure[64] = "", skipped[64] = "";
    if (a->unsure)
        snprintf(unsure, sizeof unsure, " (%zu duration%s estimated)", a->unsure, a->unsure == 1 ? "" : "s");
    if (a->skipped)
        snprintf(skipped, sizeof skipped, "; %zu done before", a->skipped);
    snprintf(out, size, "%zu file%s, %s of audio%s%s", n, n == 1 ? "" : "s",
             gd__text_duration(time, sizeof time, a->seconds), unsure, skipped);
}

/* "shard 3 of 16 (task 3 of 16 of srun): 12 of 200 files" */
static void say_shard(const struct work *w)
{
    const struct cli_audio *a = &w->audio;
    const size_t n = gd_files_count(a->files) + a->skipped;
    char shard[192];
    if (w->asked->run.shard.count > 0 && !w->asked->run.quiet)
        cli_say("%s: %zu of %zu file%s", cli_shard_text(&w->asked->run, shard, sizeof shard), n, a->in_all_shards,
                a->in_all_shards == 1 ? "" : "s");
}

static void say_mono(const struct work *w)
{
    const size_t n = gd_files_count(w->audio.files), mono = w->audio.mono;
    if (w->asked->settings.diarize_channels && mono > 0)
        cli_say(
            "warning: %zu of %zu file%s %s only one channel: with --diarize channels, everything in it is one speaker",
            mono, n, n == 1 ? "" : "s", mono == 1 ? "has" : "have");
}

static void say_beginning(const struct work *w)
{
    char files[256], devices[96];
    if (w->asked->run.quiet)
        return;
    say_shard(w);
    name_files(w, files, sizeof files);
    name_devices(w, devices, sizeof devices);
    if (!w->asked->run.queue.url && !w->asked->run.watch) {
        cli_say("%s", files);
        say_mono(w);
    }
    if (w->asked->fp16)
        cli_say("--fp16 has no effect: the model file decides the precision");
    cli_say("model %s on %s; text goes to %s", w->model.name, devices, w->asked->output_dir);
}

/* Prints the last messages, after the summary. The number of files that were left out is printed again, because the
 * first message about them is far above by now. Advice on what to do next is printed only without a journal. With a
 * journal, `run` has printed it. status is the exit status of the run. Returns the exit status of the command. */
static int conclude(const struct work *w, int status)
{
    const struct cli_run *r = &w->asked->run;
    const size_t n = w->audio.problems.n, refused = atomic_load(&w->arriving.refused);
    const bool stopped = status > CLI_EXIT_SIGNAL && status < CLI_EXIT_ERROR; /* by a signal */
    const bool some_left = stopped || (status > 0 && status <= CLI_EXIT_MANY);
    if (n > 0 && !cli_run_is_silent(r))
        cli_say("%zu %s could not be read (see above)", n, n == 1 ? "file or directory" : "files or directories");
    if (refused > 0 && !cli_run_is_silent(r))
        cli_say("%zu file%s left out (see above)", refused, refused == 1 ? " was" : "s were");
    if (w->n_warnings > 0 && !cli_run_is_silent(r))
        cli_say("%zu %s truncated: only the part that could be read was transcribed (see above)", w->n_warnings,
                w->n_warnings == 1 ? "file was" : "files were");
    if (some_left && !r->journal && !r->queue.url && !cli_run_is_silent(r))
        cli_say("to transcribe the rest, run the same command with --resume");
    return stopped ? status : status || n + refused > 0 ? FAILED : 0;
}

static int start(struct work *w)
{
    struct cli_run *r = &w->asked->run;
    const char *words[] = { w->plugin, NULL };
    struct cli_source list = { .kind = CLI_SOURCE_LIST, .files = w->audio.files };
    if (r->queue.url)
        list = (struct cli_source){ .kind = CLI_SOURCE_WORDS }; /* without inputs */
    if (r->watch)
        list = (struct cli_source){
            .kind = CLI_SOURCE_WATCH, .path = r->watch, .accept = cli_arriving_accept, .user = &w->arriving
        };
    if (describe(w) < 0)
        return complain();
    say_beginning(w);
    r->worker = "";
    r->words = words;
    r->n_words = 1;
    r->sources = &list;
    r->n_sources = 1;
    r->setup_args = w->setup.data;
    r->key = r->journal ? "file" : NULL; /* a file that has changed is transcribed again */
    r->own = (struct cli_run_own){
        .job = w->job.data,
        .identity = w->identity.data,
        .show_identity = cli_transcribe_show,
        .silent = true,
        .json = true,
        .media_seconds = audio_seconds,
        .work_unit = 0.001,
        .work_done = audio_done,
        .media = "audio",
        .on_end = note_warning,
        .user = w,
        .is_dealt = true,
    };
    const int status = cli_run_asked(r);
    tr_outputs_tidy(&w->settings.places);
    r->words = NULL;
    r->sources = NULL;
    return conclude(w, status);
}

/* --- the command -------------------------------------------------------------------------- */

static int nothing_left(const struct work *w)
{
    const size_t n = w->audio.skipped;
    say_shard(w);
    if (!w->asked->run.quiet && n == 0)
        cli_say("this shard has no files: nothing to do");
    else if (!w->asked->run.quiet && n == 1)
        cli_say("the file already has its text in %s: nothing to do", w->asked->output_dir);
    else if (!w->asked->run.quiet)
        cli_say("all %zu files already have their text in %s: nothing to do", n, w->asked->output_dir);
    return w->audio.problems.n ? FAILED : 0;
}

/* --dry-run: needs no worker, model or GPU. */
static int list_files(struct work *w)
{
    char files[256];
    if (cli_file_lists_read(w->asked) < 0)
        return complain();
    make_settings(w);
    if (cli_audio_find(&w->audio, w->asked) < 0 || measure_files(w) < 0 ||
        cli_audio_list(&w->audio, &w->settings.places) < 0)
        return complain();
    say_shard(w);
    name_files(w, files, sizeof files);
    if (!w->asked->run.quiet)
        cli_say("%s", files);
    return w->audio.problems.n ? FAILED : 0;
}

/* --check: for programs that check the installation before the user chooses a model. */
static int check(struct work *w)
{
    const bool named = w->asked->model || w->asked->model_size;
    if (find_plugin(w) < 0)
        return FAILED;
    if ((named && find_model(w) < 0) || find_devices(w) < 0)
        return complain();
    char devices[96];
    name_devices(w, devices, sizeof devices);
    const struct cli_check report = { .plugin = w->plugin,
                                      .about = &w->about,
                                      .model = named ? &w->model : NULL,
                                      .gpus = w->asked->run.gpus,
                                      .devices = devices };
    return w->asked->run.quiet || cli_transcribe_report(&report) == 0 ? 0 : complain();
}

/* The files come from a queue. */
static int work_for_queue(struct work *w)
{
    if (w->asked->input_base && tr_fetch_possible() < 0)
        return complain();
    if (find_plugin(w) < 0)
        return FAILED;
    if (find_model(w) < 0 || find_devices(w) < 0)
        return complain();
    make_settings(w);
    return tr_outputs_check(&w->settings.places) < 0 ? complain() : start(w);
}

/* The files arrive while they are transcribed. */
static int work_for_directory(struct work *w)
{
    if (find_plugin(w) < 0)
        return FAILED;
    if (find_model(w) < 0 || find_devices(w) < 0)
        return complain();
    make_settings(w);
    w->arriving = (struct cli_arriving){ .places = &w->settings.places,
                                         .skip_done = w->asked->run.resume && !w->asked->run.journal };
    return tr_outputs_check(&w->settings.places) < 0 ? complain() : start(w);
}

static int transcribe(struct work *w)
{
    if (w->asked->check)
        return check(w);
    if (w->asked->dry_run)
        return list_files(w);
    if (w->asked->run.queue.url)
        return work_for_queue(w);
    if (w->asked->run.watch)
        return work_for_directory(w);
    if (cli_file_lists_read(w->asked) < 0 ||
        cli_audio_find(&w->audio, w->asked) < 0) /* first: a wrong file name is reported before a missing model */
        return complain();
    if (find_plugin(w) < 0)
        return FAILED;
    if (find_model(w) < 0 || find_devices(w) < 0)
        return complain();
    make_settings(w);
    if (measure_files(w) < 0)
        return complain();
    /* A shard without files still makes its journal, so that it is not missing among the others. */
    const bool needs_journal = w->asked->run.journal && w->asked->run.shard.count > 0;
    return gd_files_count(w->audio.files) || needs_journal ? start(w) : nothing_left(w);
}

static int run_command(const struct cli_opts *o, int argc, char **argv)
{
    struct cli_transcribe asked;
    struct work w = { .asked = &asked };
    int status = 0;
    signal(SIGPIPE, SIG_IGN);
    if (cli_transcribe_parse(&asked, o, argc, argv) < 0)
        status = complain();
    else if (asked.run.help || asked.run.list_options)
        (asked.run.help ? cli_opts_help : cli_opts_list)(o);
    else
        status = transcribe(&w);
    cli_audio_free(&w.audio);
    cli_arriving_free(&w.arriving);
    tr_model_free(&w.model);
    gd__buffer_free(&w.about);
    gd__buffer_free(&w.setup);
    gd__buffer_free(&w.identity);
    gd__buffer_free(&w.job);
    free(w.plugin);
    cli_transcribe_free(&asked);
    return status;
}

int cli_transcribe_main(int argc, char **argv)
{
    return run_command(&cli_transcribe_options, argc, argv);
}

int cli_launcher_main(int argc, char **argv)
{
    cli_set_name("launcher_multigpu");
    return run_command(&cli_launcher_options, argc, argv);
}
