/* Builds the arguments of worker/host_main.c, the worker that runs other programs. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "command/template.h"

/* A growing argv that owns its strings. After a failed allocation `failed` stays true. */
struct list {
    char **argv;
    size_t n, capacity;
    bool failed;
};

static void add(struct list *l, const char *word)
{
    if (l->n + 1 >= l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 16;
        char **argv = l->failed ? NULL : gd__realloc(l->argv, capacity * sizeof *argv);
        if (!argv) {
            l->failed = true;
            return;
        }
        l->argv = argv;
        l->capacity = capacity;
    }
    l->argv[l->n] = gd__strdup(word);
    l->failed |= !l->argv[l->n];
    l->n += l->argv[l->n] != NULL;
    l->argv[l->n] = NULL;
}

static void add_host(struct list *l, const char *host)
{
    if (!host || !*host)
        host = getenv("GPU_DISPATCH_HOST");
    add(l, host && *host ? host : GD_HOST_PATH);
}

static char **finish(struct list *l, const char *const *words)
{
    add(l, "--");
    for (; *words; words++)
        add(l, *words);
    if (l->failed) {
        gd_argv_free(l->argv);
        l->argv = NULL;
        gd__error(GD_E_NO_MEMORY, "no memory for a worker's arguments");
    }
    return l->argv;
}

char **gd_command_worker(const struct gd_command_spec *given)
{
    struct gd_command_spec spec = { 0 };
    struct gd_command *command;
    struct list l = { 0 };
    if (gd_command_open(&command, given) < 0) /* checks the template here once, not in every worker */
        return NULL;
    gd_command_close(&command);
    gd__sized_read(&spec, sizeof spec, given, "gd_command_spec");
    add_host(&l, spec.host);
    add(&l, "--command");
    if (spec.quote)
        add(&l, "--quote");
    if (spec.dry_run)
        add(&l, "--dry-run");
    if (spec.ungroup)
        add(&l, "--ungroup");
    if (spec.shell && *spec.shell) {
        add(&l, "--shell");
        add(&l, spec.shell);
    }
    return finish(&l, spec.words);
}

char **gd_stream_worker(const struct gd_stream_spec *given)
{
    struct gd_stream_spec spec = { 0 };
    struct list l = { 0 };
    if (gd__sized_read(&spec, sizeof spec, given, "gd_stream_spec") < 0)
        return NULL;
    if (!spec.words || !spec.words[0]) {
        gd__error(GD_E_INVALID, "gd_stream_spec.words is empty: set it to the program and its arguments");
        return NULL;
    }
    add_host(&l, spec.host);
    add(&l, "--stream");
    if (spec.json)
        add(&l, "--json");
    return finish(&l, spec.words);
}

void gd_argv_free(char **argv)
{
    for (char **at = argv; at && *at; at++)
        gd__free(*at);
    gd__free(argv);
}
