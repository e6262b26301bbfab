/* gpu-dispatch-host: the program that runs a worker plugin. A dispatcher starts it, once per worker.
 *
 *   gpu-dispatch-host PLUGIN.so           by a dispatcher: loads the plugin and is the worker
 *   gpu-dispatch-host --check PLUGIN.so   by anyone: says what the plugin offers; exit 0, or 1 if it can't be used
 *
 * A plugin that can't be used is no crash: the worker is run with a setup that fails with the reason, so that it
 * reaches the dispatcher's on_setup_fail.
 */
#include <dlfcn.h>
#include <gpu_dispatch/worker.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "shm/layout.h"

enum { EXIT_USAGE = 2 };

static char reason[2048]; /* why the plugin can't be used */

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

/* NULL with the reason set. The plugin stays loaded for good. */
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
#define OFFER(name)                                 \
    {                                               \
#name, offsetof(struct gd_worker_ops, name) \
    }
    static const struct {
        const char *name;
        size_t offset;
    } offers[] = { OFFER(setup),  OFFER(process), OFFER(process_batch), OFFER(load),
                   OFFER(unload), OFFER(cleanup), OFFER(interrupt) };
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
    unsetenv(GD__BOOT_ENV); /* whoever asks, this is no worker */
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

static int usage(const char *name)
{
    fprintf(stderr,
            "%s runs a worker plugin for a gpu_dispatch dispatcher, which starts it: see gd_options.plugin in\n"
            "<gpu_dispatch/dispatcher.h>. By hand, to see whether a plugin can be used:\n"
            "    %s --check PLUGIN.so\n",
            name, name);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops refusing = { .size = sizeof refusing, .setup = refuse, .process = never };
    const char *name = argc > 0 ? argv[0] : "gpu-dispatch-host";
    if (argc == 3 && strcmp(argv[1], "--check") == 0)
        return check_plugin(argv[2], argc, argv);
    if (!getenv(GD__BOOT_ENV))
        return usage(name);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a plugin's constructors may hang */
    const struct gd_worker_ops *ops = NULL;
    if (argc == 2)
        ops = load_plugin(argv[1]);
    else
        snprintf(reason, sizeof reason, "%s was started with %d arguments: it takes one plugin", name, argc - 1);
    gd_worker_main(&argc, argv, ops ? ops : &refusing);
    return usage(name); /* a plugin that took the variable out of the environment */
}
