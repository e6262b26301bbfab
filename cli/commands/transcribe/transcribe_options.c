/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch transcribe`, also called launcher_multigpu. Options that `run` has too are stored in the
 * same place, by the same functions.
 */
#include "cli/commands/transcribe/transcribe_options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "cli/run/shard/shard_options.h"

#define USUAL_FORMAT "txt"

/* whisper.cpp stops its decoder after a short time, not at once. So a worker gets this much time before it is killed.
 * After a kill, the next worker would have to load the model again. */
enum { GRACE_MS = 5000 };

/* --- values ---------------------------------------------------------------------- */

/* A temperature above 1 would give no result at all, because the decoder tries no temperature above 1. */
static int set_temperature(const struct cli_opt *opt, void *field, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    (void)opt;
    if (end == text || *end || !isdigit((unsigned char)*text) || !isfinite(value) || value > 1)
        return gd__fail("--temperature takes a number from 0 to 1, not \"%s\"", text);
    *(double *)field = value;
    return 0;
}

/* "auto" is the same as no language. The worker checks whether the language exists. */
static int set_language(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (!*text || text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ ")])
        return gd__fail("--language takes a language, as in en or german, or auto, not \"%s\"", text);
    *(const char **)field = strcasecmp(text, "auto") == 0 ? NULL : text;
    return 0;
}

/* --- the table -------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(struct cli_transcribe, field)

static const struct cli_opt table[] = {
    { "input-dir", 0, "DIR",
      "directory with the audio files; files and directories may also be given as plain arguments", cli_set_text,
      AT(input_dir), .group = "Input and output" },
    { "output-dir", 0, "DIR",
      "directory for the text, with the same subdirectories as the input (default " CLI_USUAL_OUTPUT ")", cli_set_text,
      AT(output_dir) },
    { "pattern", 0, "GLOB", "use only files whose names match; may be repeated (default *.wav)", cli_set_list,
      AT(run.patterns) },
    { "recursive", 'r', NULL, "also use files in subdirectories", cli_set_flag, AT(run.recursive) },
    { "format", 0, "LIST",
      "what to write: txt, srt, vtt, json, tsv, several with commas between them, or all (default " USUAL_FORMAT ")",
      cli_set_text, AT(format) },
    { "full-names", 0, NULL, "write talk.wav.txt instead of talk.txt for talk.wav", cli_set_flag, AT(full_names) },
    { "dry-run", 0, NULL, "list the files in order, with durations, and transcribe nothing", cli_set_flag,
      AT(dry_run) },
    { "check", 0, NULL, "check the worker, the devices and the model (if you name one), and transcribe nothing",
      cli_set_flag, AT(check) },

    { "model-size", 0, "SIZE", "which model: tiny, base, small, medium, large-v3, base.en, demo, ... (default base)",
      cli_set_text, AT(model_size), .group = "Model and text" },
    { "model", 0, "FILE", "use this model file (ggml-*.bin)", cli_set_text, AT(model) },
    { "model-dir", 0, "DIR", "search DIR for the model first", cli_set_text, AT(model_dir) },
    { "language", 0, "LANG", "spoken language, such as en (default: detected in each file)", set_language,
      AT(language) },
    { "translate", 0, NULL, "translate into English", cli_set_flag, AT(translate) },
    { "prompt", 0, "TEXT", "text that helps the model, such as names and their spelling", cli_set_text, AT(prompt) },
    { "beam-size", 0, "N", "number of beams, 1 to 8; 1 is greedy search (default 1)", cli_set_number, AT(beam_size),
      .min = 1, .max = 8 },
    { "temperature", 0, "T",
      "first temperature of the decoder, 0 to 1; it rises when the decoder is unsure (default 0)", set_temperature,
      AT(temperature) },
    { "word-timestamps", 0, NULL, "also write the times of words to json files", cli_set_flag, AT(word_timestamps) },
    { "vad", 0, "FILE", "a model that detects speech; audio without speech is skipped", cli_set_text, AT(vad) },

    { "gpus", 0, "SPEC",
      "devices to use: auto (all GPUs); 0,2 or 0-3 (numbers); free:2 (wait for 2 unused GPUs); sim:4 (4 "
      "simulated GPUs); cpu:8 (8 workers, no GPU) (default auto)",
      cli_set_text, AT(run.gpus), .group = "Devices and workers" },
    { "ignore-gpu-locks", 0, NULL, "also use GPUs that another run has locked with --gpus free, and lock no GPU",
      cli_set_flag, AT(run.ignore_gpu_locks) },
    { "workers", 'j', "N",
      "number of workers on each GPU; auto:6G starts as many as fit if each needs 6 GiB of free GPU memory (default 1)",
      cli_set_workers, AT(run.workers) },
    { "workers-per-gpu", 0, "N", NULL, cli_set_workers, AT(run.workers) },
    { "threads", 0, "N", "threads of each worker (default: cores divided by workers, at most 4 with a GPU)",
      cli_set_number, AT(threads), .min = 1, .max = 1024 },
    { "no-gpu", 0, NULL, "compute on the CPU even if there are GPUs", cli_set_flag, AT(no_gpu) },
    { "timeout", 0, "TIME", "fail a file that takes longer than TIME, such as 30s, 5m or 1.5h", cli_set_timeout,
      AT(run.timeout_ms) },
    { "stop-grace", 0, "TIME", "after SIGTERM, end within TIME (default 25s)", cli_set_duration,
      AT(run.stop_grace_ms) },
    { "retries", 0, "N", "try a failing file up to N times in all; 0 means until it succeeds (default 1)",
      cli_set_retries, AT(run.retries), .max = 1000000 },

    { "resume", 0, NULL,
      "skip files whose outputs exist and are up to date; with --journal, skip the files that the journal records as "
      "finished",
      cli_set_flag, AT(run.resume), .group = "Durable runs" },
    { "journal", 0, "FILE", "record finished files in FILE, so that a killed run can be resumed", cli_set_text,
      AT(run.journal) },
    { "retry-failed", 0, NULL,
      "run the files that the journal records as failed; with --resume, also run the remaining files", cli_set_flag,
      AT(run.retry_failed) },
    { "force-resume", 0, NULL, "resume even if the model or the options differ from those in the journal", cli_set_flag,
      AT(run.force_resume) },
    { "sync", 0, "HOW",
      "what the journal survives: normal (kill -9), or full (kill -9 and power loss) (default normal)", cli_set_sync,
      AT(run.sync) },
    { "failed", 0, "FILE", "write a JSON line for each failed file", cli_set_text, AT(run.failed) },

    { "shard", 0, "K/N",
      "run only shard K of N of the files: 3/16 (the third of 16), auto (as Slurm, MPI or torchrun set it) or auto/16 "
      "(for Kubernetes); --journal, --output and --failed get names such as run.3-of-16.db",
      cli_set_text, AT(run.shard_text), .group = "Several machines" },
    { "skip-done", 0, "FILE",
      "also skip the files that succeeded according to this other journal, for when the number of shards has changed; "
      "may "
      "be repeated",
      cli_set_list, AT(run.skip_done) },
    { "lock-wait", 0, "TIME",
      "wait up to TIME if another run uses the journal (default 2m with --shard or in a Slurm job, otherwise 0)",
      cli_set_lock_wait, AT(run.lock_wait) },

    { "output", 0, "FILE", "write a JSON line for each file: text, language, duration, times; - is standard output",
      cli_set_text, AT(run.output), .group = "Progress and records" },
    { "http", 0, "[ADDR:]PORT", "show the run on a web page at this address (ADDR is 127.0.0.1 unless given)",
      cli_set_text, AT(run.http) },
    { "http-token-file", 0, "FILE",
      "private file (mode 600) with the access token of the web page (default: $GPU_DISPATCH_HTTP_TOKEN, or a random "
      "token that is printed with the address)",
      cli_set_text, AT(run.http_token_file) },
    { "progress", 0, "HOW",
      "how to show progress: panel, bar, eta, line (one every few seconds), json or none (default: panel on a "
      "terminal, otherwise line)",
      cli_set_progress, AT(run.progress) },
    { "quiet", 0, NULL, "show only failures", cli_set_flag, AT(run.quiet) },
    { "verbose", 'v', NULL, "show the GPU of each worker, and report replaced workers", cli_set_flag, AT(run.verbose) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(run.help), .group = "Help" },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(run.list_options) },
    { .name = NULL },
};

#define ABOUT                                                                           \
    "\n"                                                                                \
    "Transcribes every audio file in a directory with a Whisper model, one file at a\n" \
    "time on each GPU, longest first, and prints a summary at the end.\n"               \
    "\n"                                                                                \
    "Examples:\n"
#define AFTER                                                                            \
    "Models are files named ggml-SIZE.bin. They are searched for in --model-dir,\n"      \
    "$GPU_DISPATCH_MODELS, ./models and the usual caches. The model demo is included.\n" \
    "It recognises 50 English words and is only for trying things out.\n"                \
    "\n"                                                                                 \
    "Exit status: 0 every file was transcribed; 1 a file failed, no file was found,\n"   \
    "or the run could not start; 130 Ctrl-C; 143 SIGTERM.\n"                             \
    "More: man gpu-dispatch-transcribe.\n"

const struct cli_opts cli_transcribe_options = {
    .command = "transcribe",
    .usage = "usage: gpu-dispatch transcribe [OPTIONS] --input-dir DIR\n"
             "       gpu-dispatch transcribe [OPTIONS] FILE|DIR...\n" ABOUT
             "  gpu-dispatch transcribe --input-dir data/audio --model-size large-v3\n"
             "  gpu-dispatch transcribe --gpus 0,1 --format txt,srt --language en talks/*.mp3\n"
             "  gpu-dispatch transcribe --input-dir calls -r --resume --output-dir text\n"
             "  gpu-dispatch transcribe --input-dir clips --gpus cpu --model-size demo\n",
    .table = table,
    .after = AFTER,
};

const struct cli_opts cli_launcher_options = {
    .invoked = "launcher_multigpu",
    .usage = "usage: launcher_multigpu [OPTIONS] --input-dir DIR\n"
             "       launcher_multigpu [OPTIONS] FILE|DIR...\n" ABOUT
             "  launcher_multigpu --input-dir data/audio --gpus auto\n"
             "  launcher_multigpu --input-dir data/audio --gpus 0,1,2 --model-size large-v3\n"
             "  launcher_multigpu --input-dir clips --gpus cpu --model-size demo\n",
    .table = table,
    .after = "launcher_multigpu is another name for gpu-dispatch transcribe.\n" AFTER,
};

/* --- options that cannot be combined ------------------------------------------------- */

static bool is_empty(const char *text)
{
    return text && !*text;
}

static int check(const struct cli_transcribe *t)
{
    const struct cli_run *r = &t->run;
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { !t->input_dir && t->inputs.n == 0 && !t->check, "give the directory with the audio files: --input-dir DIR" },
        { is_empty(t->input_dir), "--input-dir needs the name of a directory: --input-dir DIR" },
        { is_empty(t->output_dir), "--output-dir needs the name of a directory: --output-dir DIR" },
        { is_empty(t->model_size), "--model-size needs a size, as in --model-size base" },
        { is_empty(t->model), "--model needs the name of a file: --model FILE" },
        { t->model && t->model_size, "--model and --model-size cannot be combined: give one of them" },
        { t->model && t->model_dir, "--model-dir and --model cannot be combined: --model already names the file" },
        { is_empty(r->journal), "--journal needs the name of a file: --journal FILE" },
        { r->retry_failed && !r->journal, "--retry-failed needs a journal: give --journal FILE. Without a journal, "
                                          "use --resume alone: it runs the files that have no output" },
        { r->force_resume && !r->journal, "--force-resume needs a journal: give --journal FILE" },
        { r->sync && !r->journal, "--sync is for a journal: give --journal FILE" },
        { r->skip_done.n && !r->journal, "--skip-done needs a journal for this run: give --journal FILE" },
        { r->lock_wait.given && !r->journal, "--lock-wait is for a journal: give --journal FILE" },
        { r->journal && t->dry_run, "--dry-run runs nothing, so there is nothing to record: leave out --journal" },
        { r->http_token_file && !r->http, "--http-token-file is for --http: give --http too" },
        { t->word_timestamps && !(t->formats & 1U << TR_JSON),
          "--word-timestamps are written only to json: give --format json too" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    }
    if (r->gpus && strchr(r->gpus, '+'))
        return gd__fail("--gpus %s: a worker of a transcription uses one GPU, so groups are not possible: write a list "
                        "such as 0,1, and each GPU gets its own worker",
                        r->gpus);
    return 0;
}

/* --- parsing -------------------------------------------------------------------------- */

/* Options and arguments may be mixed. After "--" there are only arguments. */
static int read_line(struct cli_transcribe *t, const struct cli_opts *o, int argc, char **argv)
{
    for (int at = 0; at < argc;) {
        bool only_words;
        const int first = cli_opts_parse_part(o, t, argc - at, argv + at, &only_words);
        if (first < 0)
            return -1;
        at += first;
        do {
            if (at < argc && cli_set_list(NULL, &t->inputs, argv[at++]) < 0)
                return -1;
        } while (only_words && at < argc);
    }
    return 0;
}

int cli_transcribe_parse(struct cli_transcribe *t, const struct cli_opts *o, int argc, char **argv)
{
    *t = (struct cli_transcribe){ .output_dir = CLI_USUAL_OUTPUT, .format = USUAL_FORMAT };
    cli_run_defaults(&t->run);
    t->run.term_grace_ms = GRACE_MS;
    t->run.gpus = NULL;
    if (read_line(t, o, argc, argv) < 0)
        return -1;
    if (t->run.help || t->run.list_options)
        return 0;
    if (tr_formats_parse(t->format, &t->formats) < 0 || check(t) < 0)
        return -1;
    if (!t->run.gpus)
        t->run.gpus = t->no_gpu ? "cpu" : "auto";
    if (t->run.patterns.n == 0 && cli_set_list(NULL, &t->run.patterns, "*.wav") < 0)
        return -1;
    return cli_shard_options_apply(&t->run);
}

void cli_transcribe_free(struct cli_transcribe *t)
{
    free(t->inputs.items);
    cli_run_free(&t->run);
}
