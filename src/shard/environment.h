/* Finds out from the environment which shard this process is: --shard auto. */
#ifndef GD_SHARD_ENVIRONMENT_H
#define GD_SHARD_ENVIRONMENT_H

#include "shard/spec.h"

/* The environment, as a function, so that tests can pass a table. */
struct gd__shard_environment {
    const char *(*get)(void *user, const char *name); /* returns the value, borrowed during the call; NULL: not set */
    /* Whether a batch script started this process, although the variables of srun are set. NULL: not known. */
    bool (*in_batch_script)(void *user);
    void *user;
};

/* Sets *out to the shard that the spec means. If the spec is automatic, it is found in the environment:
 *
 *   source       variables                                            shard
 *   srun         SLURM_STEP_ID, SLURM_PROCID, SLURM_NTASKS            PROCID of NTASKS
 *   sbatch       SLURM_ARRAY_TASK_ID, _COUNT, _MIN, _MAX, _STEP       (ID - MIN) / STEP of COUNT
 *   both         all of these                                         element * NTASKS + PROCID of COUNT * NTASKS
 *   PMI          PMI_RANK, PMI_SIZE                                   RANK of SIZE
 *   Open MPI     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE           RANK of SIZE
 *   torchrun     RANK, WORLD_SIZE                                     RANK of WORLD_SIZE
 *   Kubernetes   JOB_COMPLETION_INDEX                                 INDEX of the N in "auto/N"
 *
 * Sources that are present together must agree. In an element of an array they must agree with srun, and not with the
 * product. All other combinations are errors, because a wrong guess would leave tasks out and report success: no
 * source, a source with only some of its variables, numbers that do not fit together, a job with several tasks or nodes
 * in which srun did not start this process, and an N in "auto/N" that is not the number found.
 *
 * origin: set to what the shard was found from, such as "element 3 of 4 of the Slurm array, task 2 of 3 of srun". Set to
 * "" if the spec is not automatic. May be NULL.
 *
 * Returns 0, or GD_E_INVALID. The error message has the variables that were seen, and what to do. */
int gd__shard_find(struct gd_shard *out, char origin[GD_SHARD_ORIGIN], const struct gd__shard_spec *spec,
                   const struct gd__shard_environment *environment);

#endif
