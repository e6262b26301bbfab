/* The worker that is a program speaking JSON Lines: see <gpu_dispatch/command.h>. */
#ifndef GD_WORKER_STREAM_H
#define GD_WORKER_STREAM_H

#include <stdbool.h>

/* Makes this process that worker, with words (NULL-terminated, kept) as the program: does not return then. Elsewhere it
 * is gd_worker_main(). */
int gd__stream_main(int argc, char **argv, char *const *words, bool json);

#endif
