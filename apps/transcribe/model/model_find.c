/* SPDX-License-Identifier: MIT
 *
 * Finds a model by its size. Searches the directories in the order that model.h gives, and makes the error message for
 * a model that was not found.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/model/model.h"
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/model/places.h"
#include "apps/transcribe/model/published.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/parse.h"

/* The first file that exists; the caller frees it. NULL: not found, or no memory. */
static char *look(const struct tr_places *p, const char *name)
{
    struct stat st;
    for (size_t i = 0; i < p->n; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/ggml-%s.bin", p->paths[i], name) < 0)
            return NULL;
        if (stat(path, &st) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static bool looks_like_a_path(const char *text)
{
    const size_t size = strlen(text);
    return strchr(text, '/') || (size > 4 && strcmp(text + size - 4, ".bin") == 0);
}

/* --- the error message ---------------------------------------------------------------- */

/* Adds the command that downloads a model into the directory where it was searched for first. */
static void add_command(struct gd__buffer *b, const char *name, const char *model_dir)
{
    gd__buffer_format(b, "gpu-dispatch models download %s", name);
    if (model_dir && *model_dir) {
        gd__buffer_text(b, " --model-dir ");
        gd__buffer_shell_word(b, model_dir);
    }
}

static int say(struct gd__buffer *message)
{
    gd__buffer_add(message, "", 1);
    gd__fail("%s", message->failed ? "no memory to look for the model" : message->data);
    gd__buffer_free(message);
    return -1;
}

/* Lists the directories, one on each line, but leaves `room` bytes of the message free. */
static void add_places(struct gd__buffer *b, const struct tr_places *p, size_t room)
{
    char shown[TR_SHOWN];
    for (size_t i = 0; i < p->n; i++) {
        const char *place = tr_shown(shown, p->paths[i]);
        if (b->size + strlen(place) + room > GD__FAIL_ROOM - 64) {
            gd__buffer_format(b, "\n  and %zu more", p->n - i);
            return;
        }
        gd__buffer_text(b, "\n  ");
        gd__buffer_text(b, place);
    }
}

/* The command is on a separate line, so that it can be copied. It must not be cut off, no matter how many directories
 * are listed. */
static int not_found(const struct tr_places *p, const char *name, const char *model_dir)
{
    struct gd__buffer message = { 0 }, command = { 0 };
    if (strcmp(name, "demo") == 0) {
        gd__buffer_text(&command,
                        "\nIt is part of the source tree of this program, in models/: give its path with --model");
    } else {
        gd__buffer_text(&command, "\nThis command downloads it:\n  ");
        add_command(&command, name, model_dir);
    }
    gd__buffer_format(&message, "the model %s (ggml-%s.bin) is not on this machine. These places were searched:", name,
                      name);
    add_places(&message, p, command.size);
    gd__buffer_add(&message, command.data, command.size);
    message.failed |= command.failed;
    gd__buffer_free(&command);
    return say(&message);
}

/* The names in one list, for gd__nearest_word(). The caller frees it. NULL: no memory. */
static const char **all_names(size_t *n)
{
    const struct tr_published *all = tr_published_all(n);
    const char **names = calloc(*n, sizeof *names);
    for (size_t i = 0; names && i < *n; i++)
        names[i] = all[i].name;
    return names;
}

/* is_path: the user gave the name where a file may be given too. */
static int no_such_model(const char *size, bool is_path)
{
    size_t n;
    char room[TR_SHOWN];
    const char **names = all_names(&n), *near = names ? gd__nearest_word(size, names, n) : NULL;
    struct gd__buffer message = { .failed = !names };
    gd__buffer_text(&message, "\"");
    gd__buffer_text(&message, tr_shown(room, size));
    gd__buffer_text(&message,
                    is_path ? "\" is neither a file nor the size of a model" : "\" is not the size of a model");
    if (looks_like_a_path(size))
        gd__buffer_text(&message, ": give a model file with --model");
    else if (near)
        gd__buffer_format(&message, ": did you mean %s?", near);
    gd__buffer_text(&message, "\nThe sizes are ");
    for (size_t i = 0; names && i < n; i++)
        gd__buffer_format(&message, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
    free(names);
    return say(&message);
}

static int wrong_sum(const char *path, const char *name, const char *found, const char *sum, const char *model_dir)
{
    struct gd__buffer message = { 0 };
    char room[TR_SHOWN];
    gd__buffer_text(&message, tr_shown(room, path));
    gd__buffer_format(&message, ": is not the model %s: its %s is %s instead of %s", name, tr_published_kind(sum),
                      found, sum);
    gd__buffer_text(&message, "\nTo use it anyway, give its path with --model; otherwise delete it");
    if (strcmp(name, "demo") != 0) {
        gd__buffer_text(&message, ". This command then downloads it again:\n  ");
        add_command(&message, name, model_dir);
    }
    return say(&message);
}

/* --- finding -------------------------------------------------------------------------- */

static int check_sum(const struct tr_model *m, const char *name, const char *model_dir)
{
    char found[TR_SUM_TEXT] = "";
    const struct tr_published *known = tr_published_find(name);
    const int good = known ? tr_model_verify(m->path, known->sum, found) : 1;
    if (good == 0)
        return wrong_sum(m->path, name, found, known->sum, model_dir);
    return good < 0 ? -1 : 0;
}

static int check_found(struct tr_model *out, const char *path, const char *name, const char *model_dir)
{
    if (tr_model_check(out, path) < 0)
        return -1;
    snprintf(out->name, sizeof out->name, "%s", name);
    if (check_sum(out, name, model_dir) == 0)
        return 0;
    tr_model_free(out);
    return -1;
}

/* Whether a name that the user gave for a file or a size can only mean a size. */
static bool means_a_size(const char *given)
{
    struct stat st;
    return !looks_like_a_path(given) && stat(given, &st) < 0 && errno == ENOENT;
}

static int find_size(struct tr_model *out, const char *size, bool is_path, const char *model_dir)
{
    const char *name = tr_published_name(size);
    /* Checked, because the name becomes part of a path and of a command. */
    if (!*name || strlen(name) >= sizeof out->name ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")])
        return no_such_model(size, is_path);
    struct tr_places places;
    tr_places_collect(&places, model_dir);
    char *found = places.failed ? NULL : look(&places, name);
    int result;
    if (found)
        result = check_found(out, found, name, model_dir);
    else if (places.failed)
        result = gd__fail("no memory to look for the model");
    else
        result = tr_published_find(name) ? not_found(&places, name, model_dir) : no_such_model(size, is_path);
    free(found);
    tr_places_free(&places);
    return result;
}

int tr_model_find(struct tr_model *out, const char *size, const char *path, const char *model_dir)
{
    *out = (struct tr_model){ 0 };
    if (path && !means_a_size(path))
        return tr_model_check(out, path);
    return find_size(out, path ? path : size, path != NULL, model_dir);
}
