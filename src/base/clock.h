/* Monotonic time in nanoseconds. The scheduler never calls this: its caller passes in the time. */
#ifndef GD_BASE_CLOCK_H
#define GD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GD__NS_PER_US UINT64_C(1000)
#define GD__NS_PER_MS UINT64_C(1000000)
#define GD__NS_PER_S  UINT64_C(1000000000)
#define GD__NEVER     UINT64_MAX

static inline uint64_t gd__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
