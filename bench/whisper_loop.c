/* SPDX-License-Identifier: MIT
 *
 * Measures whisper.cpp alone: one process that loads the model once. Each file is decoded with libsndfile, given to
 * whisper_full() and written as text, one after the other. It uses the default greedy decoding, and keeps no context
 * between files. bench/run.py compares `gpu-dispatch transcribe` with it, and tools/train/evaluate.sh measures models
 * with it.
 *
 *     whisper_loop [-g] [-t THREADS] MODEL OUTPUT_DIR < FILES      one path per line; a/b.wav becomes OUTPUT_DIR/b.txt
 *
 * -g: use the GPU. Files must be 16 kHz mono. Prints records like the other programs here: the total seconds (from the
 * start of main() to its end), the seconds for loading the model, and the duration of the recordings.
 */
#include <sndfile.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <whisper.h>

enum { RATE = 16000 };

struct sound {
    float *samples;
    size_t count, room;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int enlarge(struct sound *s, size_t count)
{
    if (count > s->room) {
        float *more = realloc(s->samples, count * sizeof *more);
        if (!more) {
            perror("whisper_loop");
            return -1;
        }
        s->samples = more;
        s->room = count;
    }
    return 0;
}

static int decode(struct sound *s, const char *path)
{
    SF_INFO info = { 0 };
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    int rc = -1;
    if (!file || info.samplerate != RATE || info.channels != 1)
        fprintf(stderr, "whisper_loop: %s: %s\n", path, file ? "not 16 kHz mono" : sf_strerror(NULL));
    else if (enlarge(s, (size_t)info.frames) == 0) {
        s->count = (size_t)sf_readf_float(file, s->samples, info.frames);
        rc = 0;
    }
    if (file)
        sf_close(file);
    return rc;
}

static int write_text(struct whisper_context *whisper, const char *dir, const char *path)
{
    char name[4096];
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');
    snprintf(name, sizeof name, "%s/%.*s.txt", dir, (int)(dot ? dot - base : (long)strlen(base)), base);
    FILE *out = fopen(name, "w");
    if (!out) {
        perror(name);
        return -1;
    }
    for (int i = 0; i < whisper_full_n_segments(whisper); i++) {
        const char *text = whisper_full_get_segment_text(whisper, i);
        fprintf(out, "%s\n", text + (*text == ' '));
    }
    return fclose(out);
}

static int transcribe(struct whisper_context *whisper, const struct sound *s, int threads)
{
    struct whisper_full_params params = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    params.print_progress = params.print_timestamps = params.print_realtime = false;
    params.no_context = true;
    params.n_threads = threads;
    return whisper_full(whisper, params, s->samples, (int)s->count);
}

/* The duration of the recordings in seconds, or -1. */
static double all_files(struct whisper_context *whisper, const char *dir, int threads, int *files)
{
    struct sound sound = { 0 };
    char *line = NULL;
    size_t room = 0;
    double seconds = 0;
    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (decode(&sound, line) < 0 || transcribe(whisper, &sound, threads) != 0 ||
            write_text(whisper, dir, line) != 0) {
            seconds = -1;
            break;
        }
        seconds += (double)sound.count / RATE;
        ++*files;
    }
    free(line);
    free(sound.samples);
    return seconds;
}

static void print_record(const char *name, double value)
{
    printf("{\"name\": \"%s\", \"median\": %.6f, \"repeats\": [%.6f]}\n", name, value, value);
}

int main(int argc, char **argv)
{
    double start = now();
    struct whisper_context_params params = whisper_context_default_params();
    int threads = 1, files = 0;
    params.use_gpu = false;
    for (int c; (c = getopt(argc, argv, "gt:")) != -1;) {
        if (c == 'g')
            params.use_gpu = true;
        else if (c != 't' || (threads = atoi(optarg)) < 1)
            return 2;
    }
    if (argc - optind != 2) {
        fputs("usage: whisper_loop [-g] [-t THREADS] MODEL OUTPUT_DIR < FILES\n", stderr);
        return 2;
    }
    whisper_log_set(quiet, NULL);
    struct whisper_context *whisper = whisper_init_from_file_with_params(argv[optind], params);
    if (!whisper)
        return 1;
    double loaded = now();
    double seconds = all_files(whisper, argv[optind + 1], threads, &files);
    whisper_free(whisper);
    if (seconds < 0)
        return 1;
    print_record("whisper_seconds", now() - start);
    print_record("whisper_load_seconds", loaded - start);
    print_record("whisper_audio_seconds", seconds);
    print_record("whisper_files", files);
    return 0;
}
