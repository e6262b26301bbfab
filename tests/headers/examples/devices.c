/* The program around the example in <gpu_dispatch/devices.h>: see examples.sh. */
#include "common.h"

int main(void)
{
#include "example.inc"
    return 0;
}
