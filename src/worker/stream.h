/* The worker that is a program using JSON Lines: see <gpu_dispatch/command.h>. */
#ifndef GD_WORKER_STREAM_H
#define GD_WORKER_STREAM_H

#include <stdbool.h>

/* Makes this process that worker and does not return. words (NULL-terminated, kept) is the program with its arguments.
 * In a process that no dispatcher started, it does the same as gd_worker_main(). */
int gd__stream_main(int argc, char **argv, char *const *words, bool json);

#endif
