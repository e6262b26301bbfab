/* The program around the example in <gpu_dispatch/journal.h>: see examples.sh. */
#include "common.h"

int main(int argc, char **argv)
{
    if (gd_worker_main(&argc, argv, &echo_ops) < 0)
        return 1;
    if (!gd_journal_available())
        return 77;
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpus = "sim:1";
    o.source = next_path;
    o.on_success = print_result;
#include "example.inc"
    return n_done == 3 ? 0 : 1;
}
