/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch transcribe`, also called launcher_multigpu. Options that `run` has too are stored in the
 * same place, by the same functions.
 */
#include "cli/commands/transcribe/transcribe_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/engine/decoding/limits.h"
#include "apps/transcribe/fetch/fetch.h"
#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "cli/commands/transcribe/decoding_options.h"
#include "cli/run/queue/run_queue.h"
#include "cli/run/shard/shard_options.h"

#define USUAL_FORMAT "txt"

/* whisper.cpp stops its decoder after a short time, not at once. So a worker gets this much time before it is killed.
 * After a kill, the next worker would have to load the model again. */
enum { GRACE_MS = 5000 };

/* --- values ---------------------------------------------------------------------- */

/* "auto" is the same as no language. The worker checks whether the language exists. */
static int set_language(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (!*text || text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ ")])
        return gd__fail("--language takes a language, as in en or german, or auto, not \"%s\"", text);
    *(const char **)field = strcasecmp(text, "auto") == 0 || strcmp(text, "None") == 0 ? NULL : text;
    return 0;
}

/* Whether True or False was given does not matter. */
static int set_fp16(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt, (void)text;
    *(bool *)field = true;
    return 0;
}

/* Other ways to tell speakers apart may come, so this is not a flag. */
static int set_diarize(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (strcmp(text, "channels") != 0)
        return gd__fail("--diarize takes channels (each channel of a file is a speaker), not \"%s\"", text);
    *(bool *)field = true;
    return 0;
}

/* --- the table -------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(struct cli_transcribe, field)

static const struct cli_opt table[] = {
    { "input-dir", 0, "DIR",
      "directory with the audio files; files and directories may also be given as plain arguments", cli_set_text,
      AT(input_dir), .group = "Input and output" },
    { "watch", 0, "DIR",
      "transcribe the files in DIR, and new files as they are completed, until Ctrl-C or --idle-exit", cli_set_text,
      AT(run.watch) },
    { "arg-file", 'a', "FILE",
      "a file with the paths of audio files or directories, one on each line (- is standard input); may be repeated",
      cli_set_list, AT(arg_files) },
    { "null", '0', NULL, "the paths in the files of --arg-file end with a NUL character instead of a newline",
      cli_set_flag, AT(run.nul) },
    { "output-dir", 'o', "DIR",
      "directory for the text, with the same subdirectories as the input (default " CLI_USUAL_OUTPUT ")", cli_set_text,
      AT(output_dir) },
    { "pattern", 0, "GLOB", "use only files whose names match; may be repeated (default *.wav)", cli_set_list,
      AT(run.patterns) },
    { "recursive", 'r', NULL, "also use files in subdirectories", cli_set_flag, AT(run.recursive) },
    { "format", 'f', "LIST",
      "what to write: txt, srt, vtt, json, tsv, lrc, csv, several with commas between them, or all "
      "(default " USUAL_FORMAT ")",
      cli_set_text, AT(format) },
    { "output-format", 0, "LIST", NULL, cli_set_text, AT(format) },
    { "max-line-width", 0, "N",
      "break the lines of subtitles (srt, vtt) after at most N characters; turns on word timestamps", cli_set_number,
      AT(settings.places.layout.max_line_width), .min = 1, .max = 10000 },
    { "max-line-count", 0, "N",
      "show at most N lines of --max-line-width at a time; a subtitle may then begin or end inside a segment",
      cli_set_number, AT(settings.places.layout.max_line_count), .min = 1, .max = 10000 },
    { "max-words-per-line", 0, "N", "show at most N words at a time in subtitles; turns on word timestamps",
      cli_set_number, AT(settings.places.layout.max_words_per_line), .min = 1, .max = 10000 },
    { "highlight-words", 0, NULL, "underline each word in subtitles while it is spoken; turns on word timestamps",
      cli_set_flag, AT(settings.places.layout.highlight_words) },
    { "full-names", 0, NULL, "write talk.wav.txt instead of talk.txt for talk.wav", cli_set_flag, AT(full_names) },
    { "accept-truncated", 0, NULL,
      "transcribe the readable part of a file that ends too early, with a warning (default: it fails)", cli_set_flag,
      AT(settings.accept_truncated) },
    { "dry-run", 0, NULL, "list the files in order, with durations, and transcribe nothing", cli_set_flag,
      AT(dry_run) },
    { "check", 0, NULL,
      "check the worker, the devices and the model (if you name one), print what was found, and transcribe nothing",
      cli_set_flag, AT(check) },

    { "model-size", 0, "SIZE", "which model: tiny, base, small, medium, large-v3, base.en, demo, ... (default base)",
      cli_set_text, AT(model_size), .group = "Model and text" },
    { "model", 0, "FILE", "use this model file (ggml-*.bin), or this size if there is no such file", cli_set_text,
      AT(model) },
    { "model-dir", 0, "DIR", "search DIR for the model first", cli_set_text, AT(model_dir) },
    { "language", 0, "LANG", "spoken language, such as en (default: detected in each file)", set_language,
      AT(language) },
    { "translate", 0, NULL, "translate into English", cli_set_flag, AT(translate) },
    { "task", 0, "TASK", "transcribe, or translate (into English, as --translate) (default transcribe)", cli_set_task,
      AT(translate) },
    { "word-timestamps", 0, NULL, "also write the times of words to json files", cli_set_flag,
      AT(settings.word_timestamps) },
    { "diarize", 0, "HOW",
      "name the speakers; channels: each channel of a file is a speaker, as in recordings of calls, and is transcribed "
      "by itself",
      set_diarize, AT(settings.diarize_channels) },
    { "clip-timestamps", 0, "LIST",
      "transcribe only these parts of each file: start,end,start,end,... in seconds; the last end may be left out",
      cli_set_setting_list, AT(settings) },

    { "decoder", 0, "NAME",
      "lanes (many files at once, which keeps a GPU busy), whisper.cpp (its own decoder, one file at a time), or auto "
      "(lanes, but whisper.cpp for a beam search and for models of an unusual shape) (default auto)",
      cli_set_decoder, AT(settings.decoder),
      .group = "Decoding (default: greedy, with fallback to higher temperatures)" },
    { "batch-size", 0, "N",
      "with --decoder lanes: number of recordings that are decoded at once, 1 to 256; auto: as many as fit into the "
      "free memory, at most 64; 8 on a CPU (default auto)",
      cli_set_batch_size, AT(settings.batch_size), .min = 1, .max = 256 },
    { "split", 0, "WHEN",
      "with --decoder lanes: auto cuts files of more than 5 minutes where they are quiet, and decodes the parts at "
      "once; never decodes from the beginning to the end (default auto)",
      cli_set_split, AT(settings.split) },
    { "beam-size", 0, "N",
      "number of beams, 1 to 8; more than 1 is a beam search, with whisper.cpp's decoder; 1 is greedy (default 1)",
      cli_set_number, AT(settings.beam_size), .min = 1, .max = 8 },
    { "best-of", 0, "N", "number of candidates at temperatures above 0, 1 to 8 (default 5, or 1 with a beam search)",
      cli_set_setting, AT(settings) },
    { "length-penalty", 0, "A",
      "a candidate's log probability is divided by ((5 + length) / 6) to the power of A; None divides it by the length "
      "(default None)",
      cli_set_setting, AT(settings) },
    { "patience", 0, "P", NULL, cli_refuse,
      .refused = "the beam search of whisper.cpp has no patience. Leave it out, or use a larger --beam-size" },
    { "temperature", 0, "T", "first temperature of the decoder, 0 to 1 (default 0)", cli_set_setting, AT(settings) },
    { "temperature-increment-on-fallback", 0, "T",
      "if the result of a window (30 s) is bad, raise the temperature by T and decode it again, up to temperature 1; 0 "
      "or None: never (default 0.2)",
      cli_set_setting, AT(settings) },
    { "entropy-threshold", 0, "X",
      "a result is bad if the entropy of its last 32 tokens is below X, because it repeats itself; None: not checked "
      "(default 2.4)",
      cli_set_setting, AT(settings) },
    { "compression-ratio-threshold", 0, "X",
      "a result is bad if its text can be compressed by more than the factor X, because it repeats itself; not with "
      "whisper.cpp's decoder; None: not checked (default None)",
      cli_set_setting, AT(settings) },
    { "logprob-threshold", 0, "X",
      "a result is bad if the mean log probability of its tokens is below X; None: not checked (default -1)",
      cli_set_setting, AT(settings) },
    { "no-speech-threshold", 0, "P",
      "a window has no text if its probability of silence is above P and the mean log probability of its result is "
      "below --logprob-threshold; None: not checked (default 0.6)",
      cli_set_setting, AT(settings) },
    { "initial-prompt", 0, "TEXT",
      "text that helps the model, such as names and their spelling; it comes before the first window of 30 s",
      cli_set_text, AT(settings.prompt) },
    { "prompt", 0, "TEXT", NULL, cli_set_text, AT(settings.prompt) },
    { "carry-initial-prompt", 0, NULL, "put --initial-prompt before every window", cli_set_setting_on, AT(settings) },
    { "hotwords", 0, "TEXT", "words that the model should expect; they are put before the prompt of every window",
      cli_set_text, AT(settings.hotwords) },
    { "condition-on-previous-text", 0, "yes|no", "give the decoder the text of the windows before (default yes)",
      cli_set_setting, AT(settings) },
    { "suppress-tokens", 0, "LIST",
      "numbers of tokens that the text must not contain, with commas between them; -1: symbols that are not speech "
      "(default: none)",
      cli_set_setting_list, AT(settings) },
    { "suppress-blank", 0, "yes|no", "the text of a window does not begin with a blank (default yes)", cli_set_setting,
      AT(settings) },
    { "without-timestamps", 0, NULL, "the model gives no times; a segment is as long as a window", cli_set_setting_on,
      AT(settings) },
    { "max-initial-timestamp", 0, "S",
      "the first segment of a window begins at most S seconds after the start of the window; None: no limit (default "
      "1)",
      cli_set_setting, AT(settings) },

    { "vad", 0, "FILE", "a model that detects speech; audio without speech is skipped", cli_set_text, AT(vad),
      .group = "Speech detection" },
    { "vad-threshold", 0, "P", "a probability above P is speech (default 0.5)", cli_set_setting, AT(settings) },
    { "vad-min-speech-duration-ms", 0, "MS", "drop speech that is shorter than MS (default 250)", cli_set_setting,
      AT(settings) },
    { "vad-min-silence-duration-ms", 0, "MS", "silence that is shorter than MS does not end speech (default 100)",
      cli_set_setting, AT(settings) },
    { "vad-max-speech-duration-s", 0, "S", "divide speech that is longer than S seconds; None: no limit (default None)",
      cli_set_setting, AT(settings) },
    { "vad-speech-pad-ms", 0, "MS", "also transcribe MS before and after speech (default 30)", cli_set_setting,
      AT(settings) },

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
    { "device", 0, "DEV", "cuda (the GPUs of --gpus) or cpu (as --no-gpu) (default cuda)", cli_set_device, AT(no_gpu) },
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

    CLI_QUEUE_URL(
        struct cli_transcribe, run.queue,
        "take the paths of the files from a queue, such as nats://host/NAME, to which gpu-dispatch push has added "
        "them; run this on any number of machines that share the files, or give --input-base",
        "Queue"),
    { "input-base", 0, "ADDR",
      "fetch the files over HTTP or HTTPS: the path of a file is appended to ADDR, such as https://host/audio",
      cli_set_text, AT(input_base) },
    { "idle-exit", 0, "TIME",
      "with --queue: leave after TIME without a file; never: stay even if the queue is done (default: leave when the "
      "queue is done). With --watch: end after TIME without a new file (default never)",
      cli_set_idle_exit, AT(run.idle_exit) },
    { "spool", 0, "FILE",
      "file for records that the server has not confirmed yet; the next node with this file publishes them (default: "
      "in ~/.local/state/gpu-dispatch)",
      cli_set_text, AT(run.spool) },
    { "lost-timeout", 0, "TIME", "give up if the server of the queue cannot be reached for TIME (default 10m)",
      cli_set_duration, AT(run.lost_timeout_ms) },
    { "force", 0, NULL, "work even if the other nodes of the queue have another model or other options", cli_set_flag,
      AT(run.queue_force) },
    CLI_QUEUE_SPILL_DIR(struct cli_transcribe, run.queue),
    CLI_QUEUE_CREDENTIALS(struct cli_transcribe, run.queue),

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

    /* Options of other programs that use Whisper. */
    { "fp16", 0, NULL, NULL, set_fp16, AT(fp16) },
    { "compute-type", 0, "TYPE", NULL, cli_refuse,
      .refused = "the model file decides the precision. Leave it out, or use a smaller model, such as --model-size "
                 "base-q5_1" },
    { "device-index", 0, "N", NULL, cli_refuse, .refused = "choose GPUs by their numbers, as in --gpus 0,1" },
    { "vad-filter", 0, NULL, NULL, cli_refuse, .refused = "name the file of a VAD model instead: --vad FILE" },
    { "prefix", 0, "TEXT", NULL, cli_refuse,
      .refused = "whisper.cpp cannot begin a window with given text. Use --initial-prompt TEXT" },
    { "repetition-penalty", 0, "X", NULL, cli_refuse,
      .refused = "whisper.cpp finds repetitions in the result. Use --entropy-threshold" },
    { "no-repeat-ngram-size", 0, "N", NULL, cli_refuse,
      .refused = "whisper.cpp finds repetitions in the result. Use --entropy-threshold" },
    { "prompt-reset-on-temperature", 0, "T", NULL, cli_refuse,
      .refused = "whisper.cpp always decodes without a prompt at temperatures of 0.5 and above. Leave it out" },
    { "hallucination-silence-threshold", 0, "S", NULL, cli_refuse,
      .refused = "whisper.cpp does not search silence for invented text. Use --vad FILE to leave out silence" },
    { "prepend-punctuations", 0, "TEXT", NULL, cli_refuse,
      .refused = "punctuation stays at the word at which the model wrote it. Leave it out" },
    { "append-punctuations", 0, "TEXT", NULL, cli_refuse,
      .refused = "punctuation stays at the word at which the model wrote it. Leave it out" },
    { .name = NULL },
};

#define ABOUT                                                                           \
    "\n"                                                                                \
    "Transcribes every audio file in a directory with a Whisper model, many files at\n" \
    "once on each GPU, longest first, and prints a summary at the end.\n"               \
    "\n"                                                                                \
    "Examples:\n"
#define AFTER                                                                            \
    "Models are files named ggml-SIZE.bin. They are searched for in --model-dir,\n"      \
    "$GPU_DISPATCH_MODELS, ./models and the usual caches. The model demo is included.\n" \
    "It recognises 50 English words and is only for trying things out. Others are\n"     \
    "downloaded by gpu-dispatch models download SIZE.\n"                                 \
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
    .as_python = true,
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
    .as_python = true,
};

/* --- options that cannot be combined ------------------------------------------------- */

static bool is_empty(const char *text)
{
    return text && !*text;
}

/* Whether a parameter of the VAD differs from its default. */
static bool changes_vad(const struct tr_settings *s)
{
    const struct tr_settings *d = &tr_settings_defaults;
    return s->vad_threshold != d->vad_threshold || s->vad_min_speech_duration_ms != d->vad_min_speech_duration_ms ||
           s->vad_min_silence_duration_ms != d->vad_min_silence_duration_ms ||
           s->vad_max_speech_duration_s != d->vad_max_speech_duration_s || s->vad_speech_pad_ms != d->vad_speech_pad_ms;
}

static int check(const struct cli_transcribe *t)
{
    const struct cli_run *r = &t->run;
    const struct tr_layout *layout = &t->settings.places.layout;
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { r->nul && t->arg_files.n == 0, "-0 is for a list of files: give --arg-file FILE too" },
        { !t->input_dir && t->inputs.n == 0 && t->arg_files.n == 0 && !t->check && !r->queue.url && !r->watch,
          "give the directory with the audio files: --input-dir DIR" },
        { is_empty(t->input_dir), "--input-dir needs the name of a directory: --input-dir DIR" },
        { is_empty(t->output_dir), "--output-dir needs the name of a directory: --output-dir DIR" },
        { is_empty(t->model_size), "--model-size needs a size, as in --model-size base" },
        { is_empty(t->model), "--model needs the name of a file or a size: --model FILE" },
        { t->model && t->model_size, "--model and --model-size cannot be combined: give one of them" },
        { t->model && t->model_dir && strchr(t->model, '/'),
          "--model-dir and --model cannot be combined: --model already names the file" },
        { is_empty(r->journal), "--journal needs the name of a file: --journal FILE" },
        { r->retry_failed && !r->journal, "--retry-failed needs a journal: give --journal FILE. Without a journal, "
                                          "use --resume alone: it runs the files that have no output" },
        { r->force_resume && !r->journal, "--force-resume needs a journal: give --journal FILE" },
        { r->sync && !r->journal, "--sync is for a journal: give --journal FILE" },
        { r->skip_done.n && !r->journal, "--skip-done needs a journal for this run: give --journal FILE" },
        { r->lock_wait.given && !r->journal, "--lock-wait is for a journal: give --journal FILE" },
        { r->journal && t->dry_run, "--dry-run runs nothing, so there is nothing to record: leave out --journal" },
        { r->watch && (t->input_dir || t->inputs.n + t->arg_files.n > 0),
          "--watch is the only input: leave out --input-dir, -a and other files" },
        { r->watch && r->queue.url, "--watch and --queue cannot be combined: a queue has the list of files" },
        { r->watch && t->dry_run, "--dry-run is not possible with --watch: use --input-dir to see the files" },
        { r->watch && r->shard_text,
          "--watch cannot be combined with --shard: give each machine a directory of its own, or use a queue" },
        { r->idle_exit.given && !r->watch && !r->queue.url,
          "--idle-exit is for a queue or a directory: give --queue nats://HOST/NAME or --watch DIR too" },
        { r->queue.url && t->dry_run, "--dry-run is not possible with --queue: the queue has the list of files" },
        { r->queue.url && r->resume, "--resume is not possible with --queue: the queue knows which files are done" },
        { t->input_base && !r->queue.url, "--input-base is for a queue: give --queue nats://HOST/NAME too" },
        { r->http_token_file && !r->http, "--http-token-file is for --http: give --http too" },
        { !t->vad && changes_vad(&t->settings), "the options --vad-... are for a VAD model: give --vad FILE too" },
        { tr_layout_is_set(layout) && !(t->formats & (1U << TR_SRT | 1U << TR_VTT)),
          "--max-line-width, --max-line-count, --max-words-per-line and --highlight-words are for subtitles: give "
          "--format srt or --format vtt too" },
        { layout->max_line_count && !layout->max_line_width,
          "--max-line-count needs the width of a line: give --max-line-width too" },
        { layout->max_words_per_line && layout->max_line_width,
          "--max-words-per-line and --max-line-width cannot be combined: give one of them" },
        { tr_layout_is_set(layout) && t->settings.without_timestamps,
          "the layout of subtitles needs the times of words: leave out --without-timestamps" },
        { t->settings.word_timestamps && !(t->formats & 1U << TR_JSON) && !tr_layout_is_set(layout),
          "--word-timestamps are written only to json: give --format json too" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    }
    enum tr_decoder decoder;
    const char *why;
    if (tr_decoding_choose(&t->settings, &decoder, &why) < 0)
        return -1;
    if (cli_run_queue_check(r, t->inputs.n + t->arg_files.n > 0) < 0 ||
        (t->input_base && tr_fetch_check_base(t->input_base) < 0))
        return -1;
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
    *t = (struct cli_transcribe){ .output_dir = CLI_USUAL_OUTPUT,
                                  .format = USUAL_FORMAT,
                                  .settings = tr_settings_defaults };
    cli_run_defaults(&t->run);
    t->run.term_grace_ms = GRACE_MS;
    t->run.gpus = NULL;
    if (read_line(t, o, argc, argv) < 0)
        return -1;
    if (t->run.help || t->run.list_options)
        return 0;
    if (tr_formats_parse(t->format, &t->formats) < 0 || check(t) < 0)
        return -1;
    if (t->run.watch)
        t->input_dir = t->run.watch;
    t->settings.word_timestamps |= tr_layout_is_set(&t->settings.places.layout);
    if (!t->run.gpus)
        t->run.gpus = t->no_gpu ? "cpu" : "auto";
    if (t->run.patterns.n == 0 && cli_set_list(NULL, &t->run.patterns, "*.wav") < 0)
        return -1;
    return cli_shard_options_apply(&t->run);
}

void cli_transcribe_free(struct cli_transcribe *t)
{
    free(t->inputs.items);
    free(t->arg_files.items);
    for (char **path = t->listed; path && *path; path++)
        free(*path);
    free(t->listed);
    cli_run_free(&t->run);
}
