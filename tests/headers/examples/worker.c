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

#include "example.inc"
