/* SPDX-License-Identifier: MIT
 *
 * Finds a model by its size. Searches the directories in the order that model.h gives, and makes the error message for
 * a model that was not found.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/model/model.h"
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/parse.h"

#define PUBLISHED "https://huggingface.co/ggerganov/whisper.cpp/resolve/main"

/* --- places --------------------------------------------------------------------------- */

enum { PLACES = 24 };

struct places {
    char *paths[PLACES]; /* directories */
    size_t n;
    bool failed;
};

static const char *set_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Adds the directory base/rest. Adds nothing if base is NULL or the directory is already listed. */
static void add_place(struct places *p, const char *base, const char *rest)
{
    char *path = NULL;
    if (!base || p->n == PLACES)
        return;
    if (asprintf(&path, "%s%s", base, rest) < 0) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->paths[i], path) == 0) {
            free(path);
            return;
        }
    }
    p->paths[p->n++] = path;
}

/* Adds the snapshots in the order of their names. The checksum of a file shows later whether it is the right model. */
static void add_snapshots(struct places *p, const char *hub, const char *rest)
{
    char *directory = NULL;
    if (!hub || asprintf(&directory, "%s%s/models--ggerganov--whisper.cpp/snapshots", hub, rest) < 0)
        return;
    struct dirent **found = NULL;
    const int n = scandir(directory, &found, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX + 2];
        snprintf(name, sizeof name, "/%s", found[i]->d_name);
        if (found[i]->d_name[0] != '.')
            add_place(p, directory, name);
        free(found[i]);
    }
    if (n <= 0)
        add_place(p, directory, ""); /* lists it among the searched directories */
    free(found);
    free(directory);
}

/* Adds the directory where this program's data was installed and, for a build directory, the models of its source tree.
 */
static void add_own(struct places *p)
{
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program);
    if (n > 0 && (size_t)n < sizeof program) {
        program[n] = '\0';
        char *slash = strrchr(program, '/');
        *(slash ? slash : program) = '\0';
        add_place(p, program, "/../models");
        add_place(p, program, "/../share/gpu_dispatch/models");
    }
    add_place(p, GD_DATA_DIR, "/models");
}

static void collect(struct places *p, const char *model_dir)
{
    const char *home = set_variable("HOME"), *cache = set_variable("XDG_CACHE_HOME");
    add_place(p, model_dir, "");
    add_place(p, set_variable("GPU_DISPATCH_MODELS"), "");
    add_place(p, set_variable("WHISPER_MODEL_DIR"), "");
    add_place(p, "./models", "");
    add_own(p);
    add_place(p, cache, "/whisper.cpp");
    add_place(p, cache, "/whisper");
    add_place(p, home, "/.cache/whisper.cpp");
    add_place(p, home, "/.cache/whisper");
    add_place(p, set_variable("XDG_DATA_HOME"), "/whisper.cpp");
    add_place(p, home, "/.local/share/whisper.cpp");
    add_snapshots(p, set_variable("HF_HUB_CACHE"), "");
    add_snapshots(p, set_variable("HF_HOME"), "/hub");
    add_snapshots(p, home, "/.cache/huggingface/hub");
}

static void release(struct places *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->paths[i]);
}

/* The first file that exists; the caller frees it. NULL: not found, or no memory. */
static char *look(const struct places *p, const char *name)
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

/* --- the error message ---------------------------------------------------------------- */

/* Adds a path quoted as one word of a shell, with the home directory as ~. */
static void add_quoted(struct gd__buffer *b, const char *path)
{
    const char *home = set_variable("HOME");
    const size_t n = home ? strlen(home) : 0;
    if (n > 1 && strncmp(path, home, n) == 0 && path[n] == '/') {
        gd__buffer_text(b, "~/");
        path += n + 1;
    }
    const bool plain =
        path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=,@%")] == 0;
    gd__buffer_text(b, plain ? "" : "'");
    for (; *path; path++)
        gd__buffer_add(b, *path == '\'' ? "'\\''" : path, *path == '\'' ? 4 : 1);
    gd__buffer_text(b, plain ? "" : "'");
}

/* Adds the command that downloads a model into the directory that the user named, or else into the default directory.
 */
static void add_command(struct gd__buffer *b, const char *name, const char *model_dir)
{
    const char *home = set_variable("HOME"), *named = set_variable("GPU_DISPATCH_MODELS");
    char *directory = NULL;
    const int n = model_dir ? asprintf(&directory, "%s", model_dir)
                  : named   ? asprintf(&directory, "%s", named)
                  : home    ? asprintf(&directory, "%s/.cache/whisper.cpp", home)
                            : asprintf(&directory, "models");
    if (n < 0) {
        b->failed = true;
        return;
    }
    gd__buffer_text(b, "mkdir -p ");
    add_quoted(b, directory);
    gd__buffer_text(b, " && curl -L -o ");
    add_quoted(b, directory);
    gd__buffer_format(b, "/ggml-%s.bin %s/ggml-%s.bin", name, PUBLISHED, name);
    free(directory);
}

static int say(struct gd__buffer *message)
{
    gd__buffer_add(message, "", 1);
    gd__fail("%s", message->failed ? "no memory to look for the model" : message->data);
    gd__buffer_free(message);
    return -1;
}

/* Lists the directories, one on each line, but leaves `room` bytes of the message free. */
static void add_places(struct gd__buffer *b, const struct places *p, size_t room)
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
static int not_found(const struct places *p, const char *name, const char *model_dir)
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

static int no_such_model(const char *size)
{
    size_t n;
    char room[TR_SHOWN];
    const char *const *names = tr_model_names(&n), *near = gd__nearest_word(size, names, n);
    struct gd__buffer message = { 0 };
    gd__buffer_text(&message, "\"");
    gd__buffer_text(&message, tr_shown(room, size));
    gd__buffer_text(&message, "\" is not the size of a model");
    if (strchr(size, '/') || (strlen(size) > 4 && strcmp(size + strlen(size) - 4, ".bin") == 0))
        gd__buffer_text(&message, ": give a model file with --model");
    else if (near)
        gd__buffer_format(&message, ": did you mean %s?", near);
    gd__buffer_text(&message, "\nThe sizes are ");
    for (size_t i = 0; i < n; i++)
        gd__buffer_format(&message, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
    return say(&message);
}

static int wrong_sum(const char *path, const char *name, const char *found, const char *sum, const char *model_dir)
{
    struct gd__buffer message = { 0 };
    char room[TR_SHOWN];
    gd__buffer_text(&message, tr_shown(room, path));
    gd__buffer_format(&message, ": is not the model %s: its SHA-1 is %s instead of %s", name, found, sum);
    gd__buffer_text(&message, "\nTo use it anyway, give its path with --model; otherwise delete it");
    if (strcmp(name, "demo") != 0) {
        gd__buffer_text(&message, ". This command downloads it again:\n  ");
        add_command(&message, name, model_dir);
    }
    return say(&message);
}

/* --- finding -------------------------------------------------------------------------- */

/* Common short names. */
static const char *full_name(const char *size)
{
    static const char *const names[][2] = { { "large", "large-v3" }, { "turbo", "large-v3-turbo" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(size, names[i][0]) == 0)
            return names[i][1];
    }
    return size;
}

static int check_sum(const struct tr_model *m, const char *name, const char *model_dir)
{
    char found[41] = "";
    const char *sum = tr_model_sum(name);
    const int good = sum ? tr_model_verify(m->path, sum, found) : 1;
    if (good == 0)
        return wrong_sum(m->path, name, found, sum, model_dir);
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

int tr_model_find(struct tr_model *out, const char *size, const char *path, const char *model_dir)
{
    *out = (struct tr_model){ 0 };
    if (path)
        return tr_model_check(out, path);
    const char *name = full_name(size);
    /* Checked, because the name becomes part of a path and of a command. */
    if (!*name || strlen(name) >= sizeof out->name ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")])
        return no_such_model(size);
    struct places places = { 0 };
    collect(&places, model_dir && *model_dir ? model_dir : NULL);
    char *found = places.failed ? NULL : look(&places, name);
    int result;
    if (found)
        result = check_found(out, found, name, model_dir);
    else if (places.failed)
        result = gd__fail("no memory to look for the model");
    else
        result = tr_model_sum(name) ? not_found(&places, name, model_dir) : no_such_model(size);
    free(found);
    release(&places);
    return result;
}
