/* SPDX-License-Identifier: MIT
 *
 * Finds, checks and sorts the audio files. They are sorted by name first, to find files that were named twice. Then
 * they are sorted by duration, because the longest file should not start last. If a header does not give the duration
 * (or the format is not read here), the duration is estimated from the size of the file.
 */
#include "cli/commands/transcribe/files/audio_files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/transcribe/audio/header.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "cli/input/directory_walk.h"
#include "cli/run/shard/shard_deal.h"
#include "cli/say.h"

/* A usual rate for compressed audio: 128 kbit/s. */
enum { BYTES_PER_SECOND = 16000 };

static const double LONGEST = 1e9; /* seconds: thirty years */

/* --- finding -------------------------------------------------------------------- */

/* Counts a file that is left out, and keeps the path that sorts first. Directories have no order, but the message
 * should name the same file each time. */
static void leave_out(struct cli_left_out *l, const char *path, const char *why)
{
    l->n++;
    if (l->path && strcmp(l->path, path) <= 0)
        return;
    char *copy = strdup(path);
    if (!copy)
        return; /* the message then names another file, or none */
    free(l->path);
    l->path = copy;
    snprintf(l->why, sizeof l->why, "%s", why);
}

static void note_problem(void *user, const char *path, const char *why)
{
    leave_out(&((struct cli_audio *)user)->problems, path, why);
}

static void note_other(void *user, const char *path, const char *what)
{
    leave_out(&((struct cli_audio *)user)->others, path, what);
}

/* ", as are 2 more of these" */
static const char *name_rest(char *out, size_t size, size_t n, const char *of_what)
{
    snprintf(out, size, n == 2 ? ", as is %zu more%s" : ", as are %zu more%s", n - 1, of_what);
    return n > 1 ? out : "";
}

/* Prints one message for files that could not be read, and one for pipes, sockets and devices. The second is only a
 * remark: such names do not count as failures. */
static void say_left_out(const struct cli_audio *a, bool quiet)
{
    const struct cli_left_out *p = &a->problems, *o = &a->others;
    char room[TR_SHOWN], rest[64];
    if (p->path)
        cli_say("cannot read %s: %s; the file is left out%s", tr_shown(room, p->path), p->why,
                name_rest(rest, sizeof rest, p->n, " that cannot be read"));
    if (o->path && !quiet)
        cli_say("%s is %s, not a file; left out%s", tr_shown(room, o->path), o->why,
                name_rest(rest, sizeof rest, o->n, " such"));
}

static int find_in(struct cli_audio *a, const char *dir, const struct gd_discover *what)
{
    return gd_files_discover(a->files, dir, what) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int find_word(struct cli_audio *a, const char *path, const struct gd_discover *what)
{
    struct stat st;
    char room[TR_SHOWN];
    if (stat(path, &st) < 0)
        return gd__fail("cannot read %s: %s", tr_shown(room, path), strerror(errno));
    if (S_ISDIR(st.st_mode))
        return find_in(a, path, what);
    if (!S_ISREG(st.st_mode))
        return gd__fail("%s is neither a file nor a directory", tr_shown(room, path));
    return gd_files_add(a->files, path, (uint64_t)st.st_size) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

/* Returns the extension ("mp3") of audio files that are in the directory but do not match the pattern. NULL: no such
 * files. */
static const char *other_audio(const char *dir, bool recursive)
{
    static const char *const kinds[] = { "wav", "mp3", "flac", "ogg", "opus", "m4a", "aac", "mp4", "webm" };
    for (size_t i = 0; dir && i < sizeof kinds / sizeof *kinds; i++) {
        char pattern[16];
        struct gd_files *files = NULL;
        struct gd_discover what = GD_DISCOVER_INIT;
        snprintf(pattern, sizeof pattern, "*.%s", kinds[i]);
        what.patterns = (const char *const[]){ pattern, NULL };
        what.recursive = recursive;
        what.no_sizes = true;
        const bool some =
            gd_files_open(&files) == 0 && gd_files_discover(files, dir, &what) == 0 && gd_files_count(files) > 0;
        gd_files_close(&files);
        if (some)
            return kinds[i];
    }
    return NULL;
}

static int nothing(const struct cli_transcribe *t, const struct gd_discover *what)
{
    const char *dir = t->input_dir ? t->input_dir : t->inputs.items[0];
    const char *other = other_audio(dir, what->recursive);
    char why[512];
    (void)cli_directory_walk_nothing(dir, what);
    if (!other)
        return -1;
    snprintf(why, sizeof why, "%s", gd__fail_text());
    return gd__fail("%s; for the other audio files there, use --pattern '*.%s'", why, other);
}

/* Finds the files of all arguments, one after the other. */
static int find_all(struct cli_audio *a, const struct cli_transcribe *t, const struct gd_discover *what)
{
    if (gd_files_open(&a->files) < 0)
        return gd__fail("%s", gd_error_text());
    int rc = t->input_dir ? find_in(a, t->input_dir, what) : 0;
    for (size_t i = 0; rc == 0 && i < t->inputs.n; i++)
        rc = find_word(a, t->inputs.items[i], what);
    return rc;
}

int cli_audio_find(struct cli_audio *a, const struct cli_transcribe *t)
{
    struct gd_discover what = GD_DISCOVER_INIT;
    what.patterns = t->run.patterns.items;
    what.recursive = t->run.recursive;
    what.follow = true;
    what.on_problem = note_problem;
    what.on_other = note_other;
    what.user = a;
    const int rc = find_all(a, t, &what);
    say_left_out(a, t->run.quiet);
    if (rc < 0)
        return -1;
    if (gd_files_count(a->files) == 0)
        return nothing(t, &what);
    return gd_files_sort(a->files, GD_FILE_ORDER_NAME) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

/* Whether the file is in the list twice. The list is sorted by name, so equal paths are neighbours. */
static bool is_duplicate(const struct gd_files *files, size_t i)
{
    return i > 0 && strcmp(gd_files_path(files, i - 1), gd_files_path(files, i)) == 0;
}

/* --- checking that outputs differ ------------------------------------------------- */

struct place {
    size_t path; /* the output's path, as an offset in the common text */
    size_t file;
};

/* Checking one format is enough, since the formats differ only in their extensions. */
enum tr_format cli_audio_first_format(const struct tr_places *p)
{
    for (int f = 0; f < TR_FORMATS; f++) {
        if (p->formats & 1U << f)
            return (enum tr_format)f;
    }
    return TR_TXT;
}

static int by_path(const void *a, const void *b, void *text)
{
    const struct place *x = a, *y = b;
    return strcmp((char *)text + x->path, (char *)text + y->path);
}

/* The output path of each file. A file that can't have an output (its name is too long) is skipped here. The worker
 * will refuse it, so that one such file does not stop all others. Returns the number of places, or -1. */
static long find_places(const struct gd_files *files, const struct tr_places *p, struct place *places,
                        struct gd__buffer *text)
{
    const enum tr_format format = cli_audio_first_format(p);
    struct gd__buffer path = { 0 };
    long n = 0;
    for (size_t i = 0; i < gd_files_count(files); i++) {
        if (is_duplicate(files, i) || tr_output_path(&path, p, gd_files_path(files, i), format) < 0)
            continue;
        places[n++] = (struct place){ .path = text->size, .file = i };
        gd__buffer_add(text, path.data, strlen(path.data) + 1);
    }
    gd__buffer_free(&path);
    return text->failed ? gd__fail("out of memory") : n;
}

/* The advice depends on the cause: names that differ only in their extension, or files in several directories. */
static int refuse(const struct gd_files *files, const struct tr_places *p, size_t a, size_t b, const char *output)
{
    const char *x = gd_files_path(files, a), *y = gd_files_path(files, b);
    const char *x_base = strrchr(x, '/'), *y_base = strrchr(y, '/');
    const bool same_name = strcmp(x_base ? x_base + 1 : x, y_base ? y_base + 1 : y) == 0;
    char rooms[3][TR_SHOWN]; /* shortened, since the advice comes last and must not be cut off */
    return gd__fail(
        "%s and %s would both be written to %s: %s", tr_shown(rooms[0], x), tr_shown(rooms[1], y),
        tr_shown(rooms[2], output),
        same_name || p->full_names
            ? "give the directory that contains them as --input-dir with --recursive, or transcribe them separately"
            : "use --full-names to give each its own name");
}

int cli_audio_apart(const struct cli_audio *a, const struct tr_places *p)
{
    const size_t count = gd_files_count(a->files);
    struct place *places = calloc(count + 1, sizeof *places);
    struct gd__buffer text = { 0 };
    if (!places)
        return gd__fail("out of memory");
    const long n = find_places(a->files, p, places, &text);
    int rc = n < 0 ? -1 : 0;
    if (n > 0)
        qsort_r(places, (size_t)n, sizeof *places, by_path, text.data);
    for (long i = 1; rc == 0 && i < n; i++) {
        if (by_path(&places[i - 1], &places[i], text.data) == 0)
            rc = refuse(a->files, p, places[i - 1].file, places[i].file, text.data + places[i].path);
    }
    free(places);
    gd__buffer_free(&text);
    return rc;
}

/* --- dividing ----------------------------------------------------------------------- */

static const char *get_file(const void *files, size_t i, uint64_t *size)
{
    *size = gd_files_size(files, i);
    return gd_files_path(files, i);
}

/* Opens the deal: beside the journal, or in the output directory. */
static int open_deal(const struct cli_audio *a, const struct cli_transcribe *t, const char *dir, struct gd__deal **out)
{
    const struct cli_deal_list list = { .n = gd_files_count(a->files), .dir = dir, .get = get_file, .user = a->files };
    char *in_output = NULL;
    if (!t->run.journal && asprintf(&in_output, "%s/.gpu-dispatch", t->output_dir) < 0)
        return gd__fail("out of memory");
    const int rc = (t->dry_run ? cli_deal_preview : cli_deal_open)(out, in_output ? in_output : t->run.journal_base,
                                                                   t->run.shard.count, &list);
    free(in_output);
    return rc;
}

int cli_audio_divide(struct cli_audio *a, const struct cli_transcribe *t, const char *dir)
{
    struct gd_files *ours = NULL;
    struct gd__deal *deal = NULL;
    const size_t n = gd_files_count(a->files);
    if (t->run.shard.count == 0)
        return 0;
    if (open_deal(a, t, dir, &deal) < 0)
        return -1;
    int rc = gd_files_open(&ours);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *path = gd_files_path(a->files, i), *key = gd__deal_key_within(path, dir);
        a->in_all_shards += !is_duplicate(a->files, i);
        if (gd__deal_owner(deal, key, strlen(key)) == t->run.shard.index)
            rc = gd_files_add(ours, path, gd_files_size(a->files, i));
    }
    gd__deal_close(&deal);
    gd_files_close(rc < 0 ? &ours : &a->files);
    if (rc < 0)
        return gd__fail("%s", gd_error_text());
    a->files = ours;
    return 0;
}

/* --- duration ---------------------------------------------------------------------- */

/* The duration in seconds. *sure is true if it comes from the header and is plausible, that is, at most one second per
 * byte. *mono is true if the header gives one channel. */
static double length_of(const char *path, bool *sure, bool *mono)
{
    struct tr_header h = { 0 };
    struct stat st;
    const off_t bytes = stat(path, &st) == 0 ? st.st_size : 0;
    *sure = tr_header_read(&h, path) == 0 && h.seconds > 0 && h.seconds <= fmin((double)bytes, LONGEST);
    *mono = h.channels == 1;
    return *sure ? h.seconds : (double)bytes / BYTES_PER_SECOND;
}

uint64_t cli_audio_milliseconds(const char *path)
{
    bool sure, mono;
    return (uint64_t)(length_of(path, &sure, &mono) * 1000);
}

static int add(struct cli_audio *a, struct gd_files *to, size_t i)
{
    const char *path = gd_files_path(a->files, i);
    bool sure, mono;
    const double seconds = length_of(path, &sure, &mono);
    a->seconds += seconds;
    a->mono += mono;
    a->unsure += !sure;
    return gd_files_add(to, path, (uint64_t)(seconds * 1000)) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

int cli_audio_measure(struct cli_audio *a, const struct tr_places *p, bool skip_done)
{
    struct gd_files *to = NULL;
    int rc = gd_files_open(&to) < 0 ? gd__fail("%s", gd_error_text()) : 0;
    for (size_t i = 0; rc == 0 && i < gd_files_count(a->files); i++) {
        if (is_duplicate(a->files, i))
            continue;
        if (skip_done && tr_outputs_done(p, gd_files_path(a->files, i)))
            a->skipped++;
        else
            rc = add(a, to, i);
    }
    if (rc == 0 && gd_files_sort(to, GD_FILE_ORDER_SIZE) < 0)
        rc = gd__fail("%s", gd_error_text());
    if (rc == 0) {
        struct gd_files *found = a->files;
        a->files = to;
        to = found;
    }
    gd_files_close(&to);
    return rc;
}

/* --- listing ------------------------------------------------------------------------- */

static void add_name(struct gd__buffer *b, const char *name)
{
    const size_t before = b->size;
    gd__buffer_text(b, name);
    if (!b->failed)
        tr_show(b->data + before, b->size - before);
}

/* Adds " -> one, the other". Returns 0, or -1 with gd__fail_text(). */
static int add_outputs(struct gd__buffer *b, struct gd__buffer *path, const struct tr_places *p, const char *input)
{
    const char *before = " -> ";
    for (int f = 0; f < TR_FORMATS; f++) {
        if (!(p->formats & 1U << f))
            continue;
        if (tr_output_path(path, p, input, (enum tr_format)f) < 0)
            return -1;
        gd__buffer_text(b, before);
        add_name(b, path->data);
        before = ", ";
    }
    return 0;
}

static int add_line(struct gd__buffer *b, struct gd__buffer *path, const char *input, const struct tr_places *p)
{
    char time[32];
    bool sure, mono;
    const double seconds = length_of(input, &sure, &mono);
    gd__buffer_format(b, "%s%7s  ", sure ? " " : "~", gd__text_duration(time, sizeof time, seconds));
    const size_t before = b->size;
    add_name(b, input);
    if (add_outputs(b, path, p, input) < 0) {
        b->size = before;
        gd__buffer_text(b, gd__fail_text()); /* the message begins with the name */
    }
    gd__buffer_text(b, "\n");
    return b->failed ? gd__fail("out of memory") : 0;
}

int cli_audio_list(const struct cli_audio *a, const struct tr_places *p)
{
    struct gd__buffer line = { 0 }, path = { 0 };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < gd_files_count(a->files); i++) {
        line.size = 0;
        rc = add_line(&line, &path, gd_files_path(a->files, i), p);
        if (rc == 0 && fwrite(line.data, 1, line.size, stdout) != line.size)
            rc = gd__fail("cannot write to standard output: %s", strerror(errno));
    }
    gd__buffer_free(&line);
    gd__buffer_free(&path);
    return rc;
}

void cli_audio_free(struct cli_audio *a)
{
    gd_files_close(&a->files);
    free(a->problems.path);
    free(a->others.path);
}
