/* One lock for the state that this module has once per process.
 *
 * It is held across a fork and unlocked on both sides, so that a child never finds it locked by a thread that it does
 * not have. The child counts the fork, so that the rest of the module can tell that its threads are gone. While the
 * lock is held, no code outside the library is called, except NVML.
 */
#include "gpu/lock.h"

pthread_mutex_t gd__gpu_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned forks; /* under the lock */
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&gd__gpu_mutex);
}

static void after_in_parent(void)
{
    pthread_mutex_unlock(&gd__gpu_mutex);
}

static void after_in_child(void)
{
    forks++;
    pthread_mutex_unlock(&gd__gpu_mutex);
}

static void prepare(void)
{
    pthread_atfork(before_fork, after_in_parent, after_in_child); /* fails only if there is no memory */
}

void gd__gpu_lock(void)
{
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&gd__gpu_mutex);
}

void gd__gpu_unlock(void)
{
    pthread_mutex_unlock(&gd__gpu_mutex);
}

unsigned gd__gpu_forks(void)
{
    return forks;
}
