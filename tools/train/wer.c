/*
 * Word error rate of a model through whisper.cpp itself, with its default greedy decoding.
 * Reads a table (file, tab, what is said; the first line is a heading) and the WAV files beside it (16 kHz, mono,
 * 16 bits); prints a line per clip that is wrong and the totals. With a fourth argument N, groups of N clips are joined
 * with pauses of a second to longer files.
 *
 * usage: wer MODEL FOLDER [-v] [N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

enum { RATE = 16000, HEADER = 44, MOST_WORDS = 4096, TEXT = 65536 };

struct totals {
    int files, exact, words, errors;
    double seconds;
};

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int split(char *text, const char **words)
{
    int n = 0;
    for (char *save, *word = strtok_r(text, " \n", &save); word && n < MOST_WORDS; word = strtok_r(NULL, " \n", &save))
        words[n++] = word;
    return n;
}

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edit distance in words. */
static int distance(const char **a, int n, const char **b, int m)
{
    static int row[MOST_WORDS + 1];
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int before = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, before + (strcmp(a[i - 1], b[j - 1]) != 0));
            before = above;
        }
    }
    return row[m];
}

/* Appends a file's samples to *samples, which has room for `room`; the new count, or -1. */
static int append_wav(const char *path, float *samples, int count, int room)
{
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, HEADER, SEEK_SET) != 0) {
        perror(path);
        if (in)
            fclose(in);
        return -1;
    }
    short buffer[4096];
    for (size_t got; (got = fread(buffer, sizeof *buffer, 4096, in)) > 0;)
        for (size_t i = 0; i < got && count < room; i++)
            samples[count++] = buffer[i] / 32768.0f;
    fclose(in);
    return count;
}

static int transcribe(struct whisper_context *whisper, const float *samples, int count, int verbose, char *text)
{
    struct whisper_full_params params = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    params.print_progress = params.print_timestamps = params.print_realtime = false;
    params.n_threads = 2;
    if (whisper_full(whisper, params, samples, count) != 0)
        return -1;
    text[0] = 0;
    for (int i = 0; i < whisper_full_n_segments(whisper); i++) {
        const char *part = whisper_full_get_segment_text(whisper, i);
        strncat(text, part, TEXT - 1 - strlen(text));
        if (verbose)
            printf("  %6.2f %6.2f %s\n", 0.01 * (double)whisper_full_get_segment_t0(whisper, i),
                   0.01 * (double)whisper_full_get_segment_t1(whisper, i), part);
    }
    return 0;
}

static void tally(struct totals *totals, const char *name, char *said, char *heard, int count)
{
    static const char *a[MOST_WORDS], *b[MOST_WORDS];
    char *copy = strdup(heard), *said_copy = strdup(said);
    int n = split(said_copy, a), errors = distance(a, n, b, split(copy, b));
    totals->files++;
    totals->exact += errors == 0;
    totals->words += n;
    totals->errors += errors;
    totals->seconds += (double)count / RATE;
    if (errors)
        printf("%s: said <%s> heard <%s>: %d\n", name, said, heard, errors);
    free(copy);
    free(said_copy);
}

static int run(struct whisper_context *whisper, const char *folder, int join, int verbose)
{
    static char path[4096], line[4096], name[4096], said[TEXT], heard[TEXT];
    enum { ROOM = RATE * 600 };
    float *samples = malloc(sizeof *samples * ROOM);
    struct totals totals = { 0 };
    snprintf(path, sizeof path, "%s/transcripts.tsv", folder);
    FILE *table = fopen(path, "r");
    if (!samples || !table || !fgets(line, sizeof line, table)) {
        perror(path);
        return 1;
    }
    int count = 0, held = 0;
    while (fgets(line, sizeof line, table)) {
        char *save, *file = strtok_r(line, "\t\n", &save), *words = strtok_r(NULL, "\t\n", &save);
        snprintf(path, sizeof path, "%s/%s", folder, file);
        if ((count = append_wav(path, samples, count, ROOM)) < 0)
            return 1;
        if (held == 0)
            said[0] = 0;
        snprintf(name, sizeof name, "%s", file);
        strncat(said, held ? " " : "", TEXT - 1 - strlen(said));
        strncat(said, words, TEXT - 1 - strlen(said));
        if (++held < join) {
            memset(samples + count, 0, sizeof *samples * RATE);
            count += RATE;
            continue;
        }
        if (transcribe(whisper, samples, count, verbose, heard) < 0)
            return 1;
        tally(&totals, name, said, heard, count);
        held = count = 0;
    }
    fclose(table);
    free(samples);
    printf("%d files of %.1f s in all: word error rate %.4f (%d of %d words), %d exact (%.1f %%)\n", totals.files,
           totals.seconds, (double)totals.errors / totals.words, totals.errors, totals.words, totals.exact,
           100.0 * totals.exact / totals.files);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: wer MODEL FOLDER [-v] [N]\n", stderr);
        return 2;
    }
    int verbose = argc > 3 && strcmp(argv[3], "-v") == 0;
    int join = argc > 3 + verbose ? atoi(argv[3 + verbose]) : 1;
    whisper_log_set(quiet, NULL);
    struct whisper_context_params params = whisper_context_default_params();
    params.use_gpu = false;
    struct whisper_context *whisper = whisper_init_from_file_with_params(argv[1], params);
    if (!whisper)
        return 1;
    int rc = run(whisper, argv[2], join, verbose);
    whisper_free(whisper);
    return rc;
}
