/* SPDX-License-Identifier: MIT
 *
 * Collects the directories where models may be.
 */
#include "apps/transcribe/model/places.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *set_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Adds the directory base/rest. Adds nothing if base is NULL or the directory is already listed. */
static void add_place(struct tr_places *p, const char *base, const char *rest)
{
    char *path = NULL;
    if (!base || p->n == TR_PLACES)
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
static void add_snapshots(struct tr_places *p, const char *hub, const char *rest)
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

/* The directory of this program. */
static bool own_directory(char program[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", program, PATH_MAX);
    if (n <= 0 || n == PATH_MAX)
        return false;
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    *(slash ? slash : program) = '\0';
    return true;
}

/* Adds the directory where this program's data was installed and, for a build directory, the models of its source tree.
 */
static void add_own(struct tr_places *p)
{
    char program[PATH_MAX];
    if (own_directory(program)) {
        add_place(p, program, "/../models");
        add_place(p, program, "/../share/gpu_dispatch/models");
    }
    add_place(p, GD_DATA_DIR, "/models");
}

void tr_places_collect(struct tr_places *p, const char *model_dir)
{
    const char *home = set_variable("HOME"), *cache = set_variable("XDG_CACHE_HOME");
    *p = (struct tr_places){ 0 };
    add_place(p, model_dir && *model_dir ? model_dir : NULL, "");
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

void tr_places_free(struct tr_places *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->paths[i]);
    p->n = 0;
}

char *tr_places_download(const char *model_dir)
{
    const struct {
        const char *base, *rest;
    } choices[] = {
        { model_dir && *model_dir ? model_dir : NULL, "" }, { set_variable("GPU_DISPATCH_MODELS"), "" },
        { set_variable("WHISPER_MODEL_DIR"), "" },          { set_variable("XDG_CACHE_HOME"), "/whisper.cpp" },
        { set_variable("HOME"), "/.cache/whisper.cpp" },    { "models", "" },
    };
    char *path = NULL;
    size_t i = 0;
    while (!choices[i].base)
        i++;
    return asprintf(&path, "%s%s", choices[i].base, choices[i].rest) < 0 ? NULL : path;
}

/* The caller frees the path. NULL: not a file that can be read, or no memory. */
static char *readable(const char *directory, const char *rest)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, rest) < 0)
        return NULL;
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *tr_places_data(const char *installed, const char *in_tree)
{
    char program[PATH_MAX + 32], *found = NULL;
    if (own_directory(program)) {
        const size_t n = strlen(program);
        memcpy(program + n, "/..", sizeof "/..");
        found = readable(program, in_tree);
        memcpy(program + n, "/../share/gpu_dispatch", sizeof "/../share/gpu_dispatch");
        found = found ? found : readable(program, installed);
    }
    return found ? found : readable(GD_DATA_DIR, installed);
}
