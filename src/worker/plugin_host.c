/* gpu-dispatch-host: the program that is a worker, of a plugin or of other programs. A dispatcher starts it, once per
 * worker; by hand it tells what a plugin offers. All of it is in host_main.c, which the gpu-dispatch command has too.
 */
#include "binding.h"

int main(int argc, char **argv)
{
    return gd__host_main(argc, argv);
}
