/* The program around the example in <gpu_dispatch/command.h>: see examples.sh. */
#include "common.h"

int main(void)
{
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpus = "sim:1";
    o.source = next_path;
    o.on_success = print_result;
    o.on_error = print_error;
#include "example.inc"
    const int rc = gd_run(&o);
    gd_argv_free((char **)o.worker_argv);
    return rc == 0 && n_done == 3 ? 0 : 1;
}
