/* The lock of what this module keeps per process: the NVML library, and who wants word of failing devices. */
#ifndef GD_GPU_LOCK_H
#define GD_GPU_LOCK_H

#include <pthread.h>

extern pthread_mutex_t gd__gpu_mutex; /* for waits on a condition; else these */
void gd__gpu_lock(void);
void gd__gpu_unlock(void);

/* How many forks lie between the first process and this one: what belongs to threads of an older one is gone. */
unsigned gd__gpu_forks(void);

#endif
