/* The lock of the state that this module has once per process: the NVML library, and the subscribers to failures of
 * devices. */
#ifndef GD_GPU_LOCK_H
#define GD_GPU_LOCK_H

#include <pthread.h>

extern pthread_mutex_t gd__gpu_mutex; /* only for waiting on a condition; otherwise use the functions */
void gd__gpu_lock(void);
void gd__gpu_unlock(void);

/* How many forks are between the first process and this one. After a fork the threads of this module are gone. */
unsigned gd__gpu_forks(void);

#endif
