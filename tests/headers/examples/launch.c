/* The program around the example in <gpu_dispatch/launch.h>: see examples.sh. */
#include "common.h"

int main(int argc, char **argv)
{
    if (gd_worker_main(&argc, argv, &echo_ops) < 0)
        return 1;
#include "example.inc"
}
