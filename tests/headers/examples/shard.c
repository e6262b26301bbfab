/* The program around the example in <gpu_dispatch/shard.h>: see examples.sh. It runs both shards of a list. */
#include "common.h"

#include <stdlib.h>

static int run_shard(void)
{
    struct gd_options o = GD_OPTIONS_INIT;
    struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
    o.gpus = "sim:1";
    o.source = next_path;
    o.on_success = print_result;
#include "example.inc"
    if (jo.shard.count != 2)
        return 1;
    return gd_run(&o) < 0 ? fprintf(stderr, "%s\n", gd_error_text()), 1 : 0;
}

int main(int argc, char **argv)
{
    if (gd_worker_main(&argc, argv, &echo_ops) < 0)
        return 1;
    setenv("PMI_SIZE", "2", 1);
    setenv("PMI_RANK", "0", 1);
    if (run_shard() != 0)
        return 1;
    setenv("PMI_RANK", "1", 1);
    n_given = 0; /* the second process has the whole list, too */
    return run_shard() == 0 && n_done == 3 ? 0 : 1;
}
