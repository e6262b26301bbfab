/* gpu-dispatch-host: the program that runs as a worker, for a plugin or for other programs. A dispatcher starts it,
 * once for each worker. Run by hand, it prints what a plugin offers. All of its code is in host_main.c, which the
 * gpu-dispatch command contains too. */
#include "binding.h"

int main(int argc, char **argv)
{
    return gd__host_main(argc, argv);
}
