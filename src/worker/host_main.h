/* The worker host as a program: what gpu-dispatch-host does, and the gpu-dispatch command when it is started as a
 * worker (it is its own host).
 *
 *   HOST PLUGIN.so                                              a C plugin
 *   HOST --command [--quote] [--dry-run] [--ungroup] [--shell SHELL] -- WORD...   a command per task
 *   HOST --stream [--json] -- PROGRAM ARG...                    a program that speaks JSON Lines
 *   HOST --check PLUGIN.so                                      by hand: says what the plugin offers
 */
#ifndef GD_WORKER_HOST_MAIN_H
#define GD_WORKER_HOST_MAIN_H

#include <stdbool.h>

bool gd__host_wanted(void); /* this process was started as a worker */
int gd__host_main(int argc, char **argv);

#endif
