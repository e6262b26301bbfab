/* The program around the example in <gpu_dispatch/dispatcher.h>: see examples.sh. */
#include "common.h"

int main(int argc, char **argv)
{
    int my_state = 0;
    if (gd_worker_main(&argc, argv, &echo_ops) < 0)
        return 1;
#include "example.inc"
    return n_done == 3 ? 0 : 1;
}
