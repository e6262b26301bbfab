/* The program around the example in <gpu_dispatch/queue.h>: see examples.sh. It is compiled, but not run: there is no
 * server with the name "host". */
#include "common.h"

#include <gpu_dispatch/queue.h>

int main(int argc, char **argv)
{
    struct gd_options o = GD_OPTIONS_INIT;
    (void)argv;
    if (argc < 1000)
        return 77;
#include "example.inc"
    return 0;
}
