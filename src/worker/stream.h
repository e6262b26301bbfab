/* The worker that runs a program which uses JSON Lines: see <gpu_dispatch/command.h>. */
#ifndef GD_WORKER_STREAM_H
#define GD_WORKER_STREAM_H

#include <stdbool.h>

/* Turns this process into that worker and does not return. words (NULL-terminated, not copied) is the program with its
 * arguments. If no dispatcher started this process, it does the same as gd_worker_main(). */
int gd__stream_main(int argc, char **argv, char *const *words, bool json);

#endif
