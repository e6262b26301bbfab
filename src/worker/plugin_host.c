/* gpu-dispatch-host: the program that runs as a worker, for a plugin or for other programs. A dispatcher starts it,
 * once for each worker. A person can run it to see what a plugin offers. All of its code is in host_main.c, which is
 * also part of the gpu-dispatch command. */
#include "binding.h"

int main(int argc, char **argv)
{
    return gd__host_main(argc, argv);
}
