/* The worker host as a program. Its arguments choose the worker that it becomes.
 *
 *   HOST PLUGIN.so                                                                a C plugin
 *   HOST --command [--quote] [--dry-run] [--ungroup] [--shell SHELL] -- WORD...   a command per task
 *   HOST --stream [--json] -- PROGRAM ARG...                                      a program that speaks JSON Lines
 *   HOST --check PLUGIN.so                                                        prints what the plugin offers
 *
 * If a plugin can't be used or the arguments are wrong, the worker does not crash. It runs with a setup that fails with
 * the reason, so that the dispatcher's on_setup_fail receives the reason.
 */
#include "binding.h"

#include <dlfcn.h>
#include <gpu_dispatch/worker.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "shm/layout.h"
#include "worker/adapters.h"
#include "worker/stream.h"

enum { EXIT_USAGE = 2 };

static char reason[2048]; /* the reason why this worker can't work */

static int refuse(struct gd_worker *w, const struct gd_setup *s)
{
    (void)s;
    return gd_worker_error(w, "%s", reason);
}

static int never(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    (void)w;
    (void)task;
    return gd_result_error(result, "%s", reason);
}

/* On failure returns NULL and sets the reason. The plugin is never unloaded. */
static const struct gd_worker_ops *load_plugin(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        snprintf(reason, sizeof reason, "worker plugin: %s", dlerror());
        return NULL;
    }
    const struct gd_worker_ops *(*offer)(void) = NULL;
    *(void **)&offer = dlsym(plugin, GD_PLUGIN_SYMBOL);
    const struct gd_worker_ops *ops = offer ? offer() : NULL;
    if (!offer)
        snprintf(reason, sizeof reason, "worker plugin %s does not export %s(): %s", path, GD_PLUGIN_SYMBOL, dlerror());
    else if (!ops)
        snprintf(reason, sizeof reason, "worker plugin %s: %s() returned NULL", path, GD_PLUGIN_SYMBOL);
    return ops;
}

static void print_offer(const char *path, const struct gd_worker_ops *ops)
{
#define OFFER(member)                                                     \
    {                                                                     \
        .name = #member, .offset = offsetof(struct gd_worker_ops, member) \
    }
    static const struct {
        const char *name;
        size_t offset;
    } offers[] = { OFFER(setup),   OFFER(process),   OFFER(process_batch), OFFER(load),  OFFER(unload),
                   OFFER(cleanup), OFFER(interrupt), OFFER(begin),         OFFER(cancel) };
#undef OFFER
    printf("%s:", path);
    for (size_t i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        void (*function)(void) = NULL;
        if (offers[i].offset + sizeof function <= ops->size)
            memcpy(&function, (const char *)ops + offers[i].offset, sizeof function);
        if (function)
            printf(" %s", offers[i].name);
    }
    printf("\n");
}

static int check_plugin(const char *path, int argc, char **argv)
{
    unsetenv(GD__BOOT_ENV); /* for this call the process is not a worker */
    const struct gd_worker_ops *ops = load_plugin(path);
    if (ops && gd_worker_main(&argc, argv, ops) < 0) {
        snprintf(reason, sizeof reason, "worker plugin %s: %s", path, gd_error_text());
        ops = NULL;
    }
    if (!ops) {
        fprintf(stderr, "%s\n", reason);
        return 1;
    }
    print_offer(path, ops);
    return 0;
}

/* ---- arguments ---- */

/* An option of a worker. It sets a flag, or stores the argument after it. */
struct option {
    const char *name;
    bool *flag;
    const char **value;
};

/* Reads `[options] --` from argv, which begins after the kind of the worker and ends with NULL. Returns the arguments
 * after "--". On failure returns NULL and sets the reason. */
static char **read_options(char **argv, const struct option *options, size_t n)
{
    for (; *argv && strcmp(*argv, "--") != 0; argv++) {
        size_t i = 0;
        while (i < n && strcmp(*argv, options[i].name) != 0)
            i++;
        if (i == n || (options[i].value && !argv[1])) {
            snprintf(reason, sizeof reason, "worker host: %s %s", i == n ? "unknown option" : "no value after", *argv);
            return NULL;
        }
        if (options[i].flag)
            *options[i].flag = true;
        else
            *options[i].value = *++argv;
    }
    if (!*argv) {
        snprintf(reason, sizeof reason, "worker host: -- is missing before the program to run");
        return NULL;
    }
    return argv + 1;
}

static const struct gd_worker_ops *command_worker(int argc, char **argv)
{
    (void)argc;
    struct gd_command_spec spec = { .size = sizeof spec };
    const struct option options[] = { { "--quote", &spec.quote, NULL },
                                      { "--dry-run", &spec.dry_run, NULL },
                                      { "--ungroup", &spec.ungroup, NULL },
                                      { "--shell", NULL, &spec.shell } };
    char **words = read_options(argv + 2, options, sizeof options / sizeof options[0]);
    if (!words)
        return NULL;
    spec.words = (const char *const *)words;
    const struct gd_worker_ops *ops = gd__command_ops(&spec);
    if (!ops)
        snprintf(reason, sizeof reason, "%s", gd_error_text());
    return ops;
}

/* Returns only if the arguments are wrong. A stream worker has its own loop over tasks. */
static const struct gd_worker_ops *stream_worker(int argc, char **argv)
{
    bool json = false;
    const struct option options[] = { { "--json", &json, NULL } };
    char **words = read_options(argv + 2, options, sizeof options / sizeof options[0]);
    if (!words)
        return NULL;
    if (*words)
        gd__stream_main(argc, argv, words, json);
    snprintf(reason, sizeof reason, "worker host: %s", *words ? gd_error_text() : "no program after --");
    return NULL;
}

static const struct {
    const char *name;
    const struct gd_worker_ops *(*open)(int argc, char **argv); /* on failure returns NULL and sets the reason */
} kinds[] = { { "--command", command_worker }, { "--stream", stream_worker } };

static const struct gd_worker_ops *open_worker(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0)
            return kinds[i].open(argc, argv);
    }
    if (argc == 2)
        return load_plugin(argv[1]);
    snprintf(reason, sizeof reason,
             "%s was started with %d arguments: it takes one plugin, or --command or --stream with their arguments",
             argc > 0 ? argv[0] : "the worker host", argc - 1);
    return NULL;
}

static int usage(const char *name)
{
    fprintf(stderr,
            "%s runs a worker for a gpu_dispatch dispatcher, which starts it: see gd_options.plugin in\n"
            "<gpu_dispatch/dispatcher.h> and <gpu_dispatch/command.h>. By hand, to see whether a plugin can be used:\n"
            "    %s --check PLUGIN.so\n",
            name, name);
    return EXIT_USAGE;
}

bool gd__host_wanted(void)
{
    return getenv(GD__BOOT_ENV) != NULL;
}

int gd__host_main(int argc, char **argv)
{
    static const struct gd_worker_ops refusing = { .size = sizeof refusing, .setup = refuse, .process = never };
    const char *name = argc > 0 ? argv[0] : "gpu-dispatch-host";
    if (argc == 3 && strcmp(argv[1], "--check") == 0)
        return check_plugin(argv[2], argc, argv);
    if (!gd__host_wanted())
        return usage(name);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a plugin's constructors may hang */
    const struct gd_worker_ops *ops = open_worker(argc, argv);
    gd_worker_main(&argc, argv, ops ? ops : &refusing);
    return usage(name); /* reached if a plugin removed the variable from the environment */
}
