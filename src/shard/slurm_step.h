/* Finds out by which step of a Slurm job a process was started, without the environment. */
#ifndef GD_SHARD_SLURM_STEP_H
#define GD_SHARD_SLURM_STEP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether Slurm started the process as, or in, a batch script, and not with srun. Returns false if this can't be
 * determined. pid: the process or any ancestor of it. */
bool gd__slurm_step_is_batch(uint64_t pid);

#endif
