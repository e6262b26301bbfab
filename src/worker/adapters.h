/* Workers that run other programs. Part of the host programs, not of the library. */
#ifndef GD_WORKER_ADAPTERS_H
#define GD_WORKER_ADAPTERS_H

#include <gpu_dispatch/command.h>
#include <gpu_dispatch/worker.h>

/* The functions of a worker that runs a command for each task. The spec is copied. On failure returns NULL and sets the
 * error message. Call it once per process. */
const struct gd_worker_ops *gd__command_ops(const struct gd_command_spec *spec);

#endif
