/* SPDX-License-Identifier: MIT
 *
 * Outputs: finds their places, and writes them completely or not at all.
 *
 * An output is first a part (parts.h) in the directory of the output. The part is made before the text is known. The
 * parts of a file are renamed after all of them are written.
 *
 * The place of a file in the mirrored tree follows from its path, if possible. If the directory and the file were named
 * in different ways (one absolute, one through a symbolic link), their real paths are compared.
 */
#include "apps/transcribe/output/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/transcribe/output/parts.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/text/buffer.h"

enum { LEAST_ROOM = 4096 }; /* free bytes that a disk must have for an output: a block of most file systems */

static int no_memory(void)
{
    (void)gd__fail("no memory for the outputs");
    return -1;
}

/* --- the path within the input directory ------------------------------------------ */

/* A copy without empty and "." components: "./a//b/." becomes "a/b", "." becomes "". NULL: no memory. */
static char *simplify(const char *path)
{
    char *out = malloc(strlen(path) + 1), *end = out;
    if (!out)
        return NULL;
    if (*path == '/')
        *end++ = '/';
    const char *const root = end;
    while (*path) {
        path += strspn(path, "/");
        const size_t n = strcspn(path, "/");
        if (n > 0 && !(n == 1 && *path == '.')) {
            if (end != root)
                *end++ = '/';
            memcpy(end, path, n);
            end += n;
        }
        path += n;
    }
    *end = '\0';
    return out;
}

static bool goes_up(const char *path)
{
    for (; *path; path += *path == '/') {
        const size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += n;
    }
    return false;
}

/* The rest of path after dir, both simplified; NULL if path is not within dir. */
static const char *path_below(const char *dir, const char *path)
{
    const size_t n = strlen(dir);
    const char *rest = NULL;
    if (n == 0)
        rest = *path == '/' ? NULL : path;
    else if (strncmp(path, dir, n) == 0 && dir[n - 1] == '/')
        rest = path + n;
    else if (strncmp(path, dir, n) == 0 && path[n] == '/')
        rest = path + n + 1;
    return rest && *rest && !goes_up(rest) ? rest : NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The path with the links in its directories resolved. If the file itself is a link, that link is not resolved. NULL
 * with errno. */
static char *real_place(const char *path)
{
    const char *base = base_name(path);
    char *above = strndup(base == path ? "." : path, base == path ? 1 : (size_t)(base - path)), *out = NULL;
    char *real = above ? realpath(above, NULL) : NULL;
    if (real && asprintf(&out, "%s/%s", real, base) < 0)
        out = NULL;
    free(real);
    free(above);
    return out;
}

/* Like path_below(), but compares real paths. Returns 1 with *inside; 0 if the file is elsewhere or does not exist; -1
 * with errno. */
static int resolve_inside(const char *dir, const char *path, char **inside)
{
    char *real_dir = realpath(*dir ? dir : ".", NULL), *real = real_dir ? real_place(path) : NULL;
    char *simple = real ? simplify(real) : NULL; /* the path of a file in the root directory has two slashes here */
    const char *rest = simple ? path_below(real_dir, simple) : NULL;
    int result = 0;
    if (rest)
        result = (*inside = strdup(rest)) ? 1 : -1;
    else if (!simple && (errno == ENAMETOOLONG || errno == ENOMEM))
        result = -1;
    const int error = errno;
    free(simple);
    free(real);
    free(real_dir);
    errno = error;
    return result;
}

/* The input's path within the input directory, or its base name; the caller frees it. NULL with gd__fail_text(). */
static char *place_of(const struct tr_places *p, const char *input)
{
    char *dir = simplify(p->input_dir ? p->input_dir : ""), *path = simplify(input), *inside = NULL;
    const char *rest = dir && path ? path_below(dir, path) : NULL;
    if (dir && path && !p->input_dir)
        rest = base_name(path);
    int found = rest ? 0 : -1;
    errno = ENOMEM;
    if (!rest && dir && path)
        found = resolve_inside(dir, path, &inside);
    if (found == 0)
        inside = strdup(rest ? rest : base_name(path));
    if (!inside)
        tr_path_error(input, "cannot find out where its output goes", errno);
    free(dir);
    free(path);
    return inside;
}

/* --- paths ------------------------------------------------------------------------ */

/* The size of a base name without its extension. A name that is only an extension (".wav") is not shortened. */
static size_t stem_size(const char *base)
{
    const char *dot = strrchr(base, '.');
    return dot && dot > base + strspn(base, ".") ? (size_t)(dot - base) : strlen(base);
}

/* Names that are too long are refused before anything is written. */
static int check_name(const struct gd__buffer *out, const char *input)
{
    char room[TR_SHOWN];
    const size_t size = strlen(base_name(out->data));
    if (size > NAME_MAX)
        return gd__fail(
            "%s: the name of its output would have %zu bytes, at most %d are possible: give it a shorter name",
            tr_shown(room, input), size, NAME_MAX);
    if (out->size >= PATH_MAX)
        return gd__fail("%s: the path of its output would have %zu bytes, at most %d are possible: use an output "
                        "directory with a shorter path",
                        tr_shown(room, input), out->size, PATH_MAX - 1);
    return 0;
}

int tr_output_path(struct gd__buffer *out, const struct tr_places *p, const char *input, enum tr_format f)
{
    char room[TR_SHOWN];
    const char *base = base_name(input);
    out->size = 0;
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return gd__fail("\"%s\" is a directory, not a file", tr_shown(room, input));
    char *inside = place_of(p, input);
    if (!inside)
        return -1;
    const size_t above = (size_t)(base_name(inside) - inside);
    gd__buffer_text(out, p->output_dir);
    if (!*p->output_dir || out->data[out->size - 1] != '/')
        gd__buffer_text(out, *p->output_dir ? "/" : "./");
    gd__buffer_add(out, inside, above + (p->full_names ? strlen(inside + above) : stem_size(inside + above)));
    gd__buffer_text(out, ".");
    gd__buffer_text(out, tr_format_name(f));
    gd__buffer_add(out, "", 1);
    free(inside);
    if (out->failed)
        return no_memory();
    out->size--;
    return check_name(out, input);
}

/* --- existing files --------------------------------------------------------------- */

static bool is_older(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec < b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

bool tr_outputs_done(const struct tr_places *p, const char *input)
{
    struct gd__buffer path = { 0 };
    struct stat in, out;
    bool done = p->output_dir && p->formats && stat(input, &in) == 0;
    for (int f = 0; f < TR_FORMATS && done; f++) {
        if (p->formats & 1u << f)
            done = tr_output_path(&path, p, input, (enum tr_format)f) == 0 && stat(path.data, &out) == 0 &&
                   S_ISREG(out.st_mode) && !is_older(&out, &in);
    }
    gd__buffer_free(&path);
    return done;
}

/* Checks that a file at an output's path, if there is one, may be replaced. */
static int check_place(const char *final, const char *input)
{
    char room[TR_SHOWN];
    struct stat there, in;
    if (stat(final, &there) < 0)
        return 0;
    if (S_ISDIR(there.st_mode))
        return gd__fail("%s: is a directory, but an output must be written there: move it away", tr_shown(room, final));
    if (stat(input, &in) == 0 && in.st_dev == there.st_dev && in.st_ino == there.st_ino)
        return gd__fail("%s: would overwrite the input itself: use another output directory", tr_shown(room, final));
    return 0;
}

/* Finds the path of one output and checks that it may be written. Replaces the contents of path. */
static int find_place(struct gd__buffer *path, const struct tr_places *p, const char *input, enum tr_format f)
{
    if (tr_output_path(path, p, input, f) < 0 || !path->data)
        return -1;
    return check_place(path->data, input);
}

int tr_outputs_possible(const struct tr_places *p, const char *input)
{
    struct gd__buffer path = { 0 };
    int result = 0;
    for (int f = 0; f < TR_FORMATS && result == 0; f++) {
        if (p->formats & 1u << f)
            result = find_place(&path, p, input, (enum tr_format)f);
    }
    gd__buffer_free(&path);
    return result;
}

/* --- writing ------------------------------------------------------------------------ */

struct tr_outputs {
    const struct tr_places *places;
    const char *input;
    struct tr_part parts[TR_FORMATS]; /* a part without a final path was not requested */
};

/* An estimate of an output's size: speech has some 15 letters a second, in segments of a few seconds. Highlighted words
 * repeat the text of a cue for each of its words. */
static uint64_t room_for(const struct tr_places *p, enum tr_format f, double seconds)
{
    static const unsigned per_second[TR_FORMATS] = {
        [TR_TXT] = 16, [TR_SRT] = 32, [TR_VTT] = 32, [TR_JSON] = 128, [TR_TSV] = 24, [TR_LRC] = 24, [TR_CSV] = 24
    };
    const double most = 86400; /* a day: a header may give a wrong duration that is much longer */
    const double known = seconds > 0 ? seconds : 0;
    const unsigned times = p->layout.highlight_words && (f == TR_SRT || f == TR_VTT) ? 10 : 1;
    return LEAST_ROOM + (uint64_t)((known < most ? known : most) * per_second[f] * times);
}

static int begin_part(struct tr_outputs *o, enum tr_format f, struct gd__buffer *path, double seconds)
{
    struct tr_part *part = &o->parts[f];
    if (find_place(path, o->places, o->input, f) < 0)
        return -1;
    part->final = strdup(path->data);
    return part->final ? tr_part_create(part, room_for(o->places, f, seconds)) : no_memory();
}

int tr_outputs_begin(struct tr_outputs **out, const struct tr_places *p, const char *input, double seconds)
{
    struct tr_outputs *o = calloc(1, sizeof *o);
    struct gd__buffer path = { 0 };
    *out = NULL;
    if (!o)
        return no_memory();
    o->places = p;
    o->input = input;
    for (int f = 0; f < TR_FORMATS; f++)
        o->parts[f].fd = -1;
    int result = 0;
    for (int f = 0; f < TR_FORMATS && result == 0; f++) {
        if (p->formats & 1u << f)
            result = begin_part(o, (enum tr_format)f, &path, seconds);
    }
    gd__buffer_free(&path);
    if (result < 0)
        tr_outputs_drop(&o);
    *out = o;
    return result;
}

static int fill(struct tr_outputs *o, enum tr_format f, const struct tr_transcript *t)
{
    struct tr_part *part = &o->parts[f];
    struct gd__buffer contents = { 0 };
    int result = check_place(part->final, o->input); /* checked again, because files may have changed meanwhile */
    if (result == 0) {
        tr_format_write(&contents, f, t, &o->places->layout);
        result = contents.failed ? no_memory() : tr_part_fill(part, &contents, o->places->sync);
    }
    gd__buffer_free(&contents);
    return result;
}

int tr_outputs_finish(struct tr_outputs *o, const struct tr_transcript *t)
{
    for (int f = 0; f < TR_FORMATS; f++) {
        if (o->parts[f].final && fill(o, (enum tr_format)f, t) < 0)
            return -1;
    }
    for (int f = 0; f < TR_FORMATS; f++) {
        if (o->parts[f].final && tr_part_place(&o->parts[f], o->places->sync) < 0)
            return -1;
    }
    return 0;
}

void tr_outputs_drop(struct tr_outputs **outputs)
{
    struct tr_outputs *o = *outputs;
    *outputs = NULL;
    for (int f = 0; o && f < TR_FORMATS; f++)
        tr_part_drop(&o->parts[f]);
    free(o);
}

int tr_outputs_write(const struct tr_places *p, const char *input, const struct tr_transcript *t)
{
    struct tr_outputs *o = NULL;
    int result = tr_outputs_begin(&o, p, input, 0);
    if (result == 0)
        result = tr_outputs_finish(o, t);
    tr_outputs_drop(&o);
    return result;
}

/* --- before and after a run ------------------------------------------------------------------- */

void tr_outputs_tidy(const struct tr_places *p)
{
    tr_parts_tidy(*p->output_dir ? p->output_dir : ".");
}

int tr_outputs_check(const struct tr_places *p)
{
    struct tr_part part = { .fd = -1 };
    char *directory = NULL;
    if (asprintf(&directory, "%s/", *p->output_dir ? p->output_dir : ".") < 0)
        return no_memory();
    int result = tr_make_directories(directory);
    if (result == 0 && tr_part_open(&part, directory, LEAST_ROOM) < 0)
        result = tr_path_error(p->output_dir, "outputs cannot be written to this directory", errno);
    tr_part_drop(&part);
    if (result == 0)
        tr_outputs_tidy(p);
    free(directory);
    return result;
}
