/* The program around the example in <gpu_dispatch/worker.h>: see examples.sh. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common.h"

static bool load_model(const void *args)
{
    return args != NULL;
}

static int infer(const void *data, size_t size, float *out)
{
    (void)data;
    memset(out, 0, 4096);
    return size > 0 ? 0 : GD_E_FAILED;
}

static int dispatch(void)
{
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpus = "sim:1";
    o.setup_args = "model";
    o.setup_args_size = sizeof "model";
    o.source = next_path;
    o.on_success = print_result;
    o.on_error = print_error;
    return gd_run(&o) == 0 && n_done == 3 ? 0 : 1;
}

/* The engine of the second example. It processes each request on a separate thread. */
typedef void done_fn(void *request, const char *text, size_t size);
static done_fn *engine_done;

static void *engine_start(const void *args, done_fn *done)
{
    engine_done = done;
    return (void *)(uintptr_t)args;
}

static void *engine_thread(void *request)
{
    engine_done(request, "text", 4);
    return NULL;
}

static bool engine_add(void *engine, const void *data, size_t size, void *request)
{
    pthread_t thread;
    if (!engine || !data || size == 0 || pthread_create(&thread, NULL, engine_thread, request) != 0)
        return false;
    return pthread_detach(thread) == 0;
}

#define main example_main
#include "example.inc"
#undef main

/* Runs the first example, and then this program again for the second. */
int main(int argc, char **argv)
{
    if (argc > 1) {
        if (gd_worker_main(&argc, argv, &engine_ops) < 0)
            return 1;
        return dispatch();
    }
    if (example_main(argc, argv) != 0)
        return 1;
    execl("/proc/self/exe", argv[0], "engine", (char *)NULL);
    return 1;
}
