/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch transcribe`, alias launcher_multigpu. Those that a run has too are stored where `run`
 * stores them, by the same functions.
 */
#include "cli/commands/transcribe/transcribe_options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/output/transcript.h"
#include "cli/text.h"

#define USUAL_FORMAT "txt"

/* Whisper stops its decoder after a little, not at once: before that a worker is not killed, since its successor would
 * have to load the model again. */
enum { GRACE_MS = 5000 };

/* --- values of their own ------------------------------------------------------- */

/* What is above 1 gives nothing at all: the decoder tries no temperature above it. */
static int set_temperature(const struct cli_opt *opt, void *field, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    (void)opt;
    if (end == text || *end || !isdigit((unsigned char)*text) || !isfinite(value) || value > 1)
        return cli_error("--temperature takes a number from 0 to 1, not \"%s\"", text);
    *(double *)field = value;
    return 0;
}

/* "auto" is what leaving it out means; the worker knows which languages there are. */
static int set_language(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (!*text || text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ ")])
        return cli_error("--language takes a language, as in en or german, or auto, not \"%s\"", text);
    *(const char **)field = strcasecmp(text, "auto") == 0 ? NULL : text;
    return 0;
}

/* --- the table -------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(struct cli_transcribe, field)

static const struct cli_opt table[] = {
    { "input-dir", 0, "DIR", "the folder with the audio; files and folders may be named as words as well", cli_set_text,
      AT(input_dir), .group = "Input and output" },
    { "output-dir", 0, "DIR", "where the text goes, in folders like those of the input (default " CLI_USUAL_OUTPUT ")",
      cli_set_text, AT(output_dir) },
    { "pattern", 0, "GLOB", "only files whose name matches; may be given several times (default *.wav)", cli_set_list,
      AT(run.patterns) },
    { "recursive", 'r', NULL, "files in folders below too", cli_set_flag, AT(run.recursive) },
    { "format", 0, "LIST", "txt, srt, vtt, json, tsv, several with commas, or all (default " USUAL_FORMAT ")",
      cli_set_text, AT(format) },
    { "full-names", 0, NULL, "talk.wav becomes talk.wav.txt, not talk.txt", cli_set_flag, AT(full_names) },
    { "dry-run", 0, NULL, "list the files in their order, with durations, and do nothing", cli_set_flag, AT(dry_run) },
    { "check", 0, NULL, "see whether worker, devices and the model, if one is named, are there, and do nothing",
      cli_set_flag, AT(check) },

    { "model-size", 0, "SIZE", "tiny, base, small, medium, large-v3, base.en, demo, ... (default base)", cli_set_text,
      AT(model_size), .group = "Model and text" },
    { "model", 0, "FILE", "a model by its file instead (ggml-*.bin)", cli_set_text, AT(model) },
    { "model-dir", 0, "DIR", "look for the model there first", cli_set_text, AT(model_dir) },
    { "language", 0, "LANG", "that is spoken, as in en (default: detected in each file)", set_language, AT(language) },
    { "translate", 0, NULL, "into English", cli_set_flag, AT(translate) },
    { "prompt", 0, "TEXT", "words that the model is to expect: names, spellings", cli_set_text, AT(prompt) },
    { "beam-size", 0, "N", "1 to 8 beams; 1 is greedy (default 1)", cli_set_number, AT(beam_size), .min = 1, .max = 8 },
    { "temperature", 0, "T", "0 to 1, from which the decoder goes up where it is not sure (default 0)", set_temperature,
      AT(temperature) },
    { "word-timestamps", 0, NULL, "times of words too, in json", cli_set_flag, AT(word_timestamps) },
    { "vad", 0, "FILE", "a model that finds speech; the rest is not transcribed", cli_set_text, AT(vad) },

    { "gpus", 0, "SPEC", "devices to use: auto (all that there are), 0,2, 0-3, sim:4, cpu:8 (default auto)",
      cli_set_text, AT(run.gpus), .group = "Devices and workers" },
    { "workers", 'j', "N", "workers on each GPU; auto:6G: as many as have 6 GiB of its free memory each (default 1)",
      cli_set_workers, AT(run.workers) },
    { "workers-per-gpu", 0, "N", NULL, cli_set_workers, AT(run.workers) },
    { "threads", 0, "N", "threads of each worker (default: cores divided by workers, at most 4 with a GPU)",
      cli_set_number, AT(threads), .min = 1, .max = 1024 },
    { "no-gpu", 0, NULL, "compute on the processor, whatever GPUs there are", cli_set_flag, AT(no_gpu) },
    { "timeout", 0, "TIME", "give up on a file that takes longer: 30s, 5m, 1.5h", cli_set_timeout, AT(run.timeout_ms) },
    { "retries", 0, "N", "try a file that fails up to N times in all; 0: until it succeeds (default 1)",
      cli_set_retries, AT(run.retries), .max = 1000000 },

    { "resume", 0, NULL,
      "skip files whose outputs are there and are not older; with --journal, those that the journal holds as ended",
      cli_set_flag, AT(run.resume), .group = "Runs that survive" },
    { "journal", 0, "FILE", "keep on disk what is done, so that a run that was killed can go on", cli_set_text,
      AT(run.journal) },
    { "retry-failed", 0, NULL, "run the files that failed according to the journal, and with --resume the rest too",
      cli_set_flag, AT(run.retry_failed) },
    { "force-resume", 0, NULL, "resume though model or options are not those that the journal was begun with",
      cli_set_flag, AT(run.force_resume) },
    { "sync", 0, "HOW", "normal (survives kill -9) or full (survives power loss too) (default normal)", cli_set_sync,
      AT(run.sync) },
    { "failed", 0, "FILE", "a JSON line per file that failed", cli_set_text, AT(run.failed) },

    { "output", 0, "FILE", "a JSON line per file: its text, language, duration, times; - is standard output",
      cli_set_text, AT(run.output), .group = "Showing it" },
    { "http", 0, "[ADDR:]PORT", "show the run on a web page at that address (default address 127.0.0.1)", cli_set_text,
      AT(run.http) },
    { "http-token-file", 0, "FILE",
      "a private file (mode 600) with the token that the page asks for (default: $GPU_DISPATCH_HTTP_TOKEN, else one is "
      "made at random and printed with the address)",
      cli_set_text, AT(run.http_token_file) },
    { "progress", 0, "HOW",
      "what is shown meanwhile: panel, bar, eta, line (one every few seconds), json, none (default: panel on a "
      "terminal, else line)",
      cli_set_progress, AT(run.progress) },
    { "quiet", 0, NULL, "nothing is shown but failures", cli_set_flag, AT(run.quiet) },
    { "verbose", 'v', NULL, "show which worker is on which GPU, and workers that are replaced", cli_set_flag,
      AT(run.verbose) },
    { "help", 'h', NULL, "this text", cli_set_flag, AT(run.help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(run.list_options) },
    { .name = NULL },
};

#define ABOUT                                                                           \
    "\n"                                                                                \
    "Transcribes every audio file of a folder with a Whisper model, one at a time on\n" \
    "each GPU, the longest first, and says in the end how it went.\n"                   \
    "\n"                                                                                \
    "Examples:\n"
#define AFTER                                                                           \
    "A model is looked for as ggml-SIZE.bin in --model-dir, $GPU_DISPATCH_MODELS,\n"    \
    "./models and the usual caches; demo comes with this program and knows 50 words.\n" \
    "\n"                                                                                \
    "Exit status: 0 every file was transcribed; 1 a file failed, there was none, or\n"  \
    "it could not start; 130 Ctrl-C. More: man gpu-dispatch-transcribe.\n"

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
    .after = "This is gpu-dispatch transcribe by another name.\n" AFTER,
};

/* --- what does not go together ------------------------------------------------------ */

static bool is_empty(const char *text)
{
    return text && !*text;
}

static int check(const struct cli_transcribe *t)
{
    const struct cli_run *r = &t->run;
    const struct {
        bool wrong;
        const char *words;
    } rules[] = {
        { !t->input_dir && t->inputs.n == 0 && !t->check, "name the folder with the audio: --input-dir DIR" },
        { is_empty(t->input_dir), "--input-dir needs the name of a folder: --input-dir DIR" },
        { is_empty(t->output_dir), "--output-dir needs the name of a folder: --output-dir DIR" },
        { is_empty(t->model_size), "--model-size needs a size, as in base" },
        { is_empty(t->model), "--model needs the name of a file: --model FILE" },
        { t->model && t->model_size, "--model and --model-size are two ways to name the model: give one of them" },
        { t->model && t->model_dir,
          "--model-dir is where a model is looked for by its size: leave it out with --model" },
        { is_empty(r->journal), "--journal needs the name of a file: --journal FILE" },
        { r->retry_failed && !r->journal,
          "--retry-failed needs the journal of the run: give --journal FILE, or --resume alone, which runs again what "
          "has no output" },
        { r->force_resume && !r->journal, "--force-resume needs the journal of the run: give --journal FILE" },
        { r->sync && !r->journal, "--sync is for a journal: give --journal FILE" },
        { r->journal && t->dry_run, "--dry-run does nothing that a journal could keep: leave out --journal" },
        { r->http_token_file && !r->http, "--http-token-file is for --http" },
        { t->word_timestamps && !(t->formats & 1U << TR_JSON),
          "--word-timestamps are written to json alone: give --format json too" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong)
            return cli_error("%s", rules[i].words);
    }
    return 0;
}

/* --- parsing -------------------------------------------------------------------------- */

/* Options and words in any order; after "--" there are only words. */
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
    return t->run.patterns.n ? 0 : cli_set_list(NULL, &t->run.patterns, "*.wav");
}

void cli_transcribe_free(struct cli_transcribe *t)
{
    free(t->inputs.items);
    cli_run_free(&t->run);
}
