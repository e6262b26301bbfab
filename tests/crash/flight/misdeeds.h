/* SPDX-License-Identifier: MIT
 *
 * What a hostile worker does with the tasks that it has in flight, in place of finishing each of them once: it finishes
 * them twice or never, finishes tasks that it does not hold, and sends partial results of such tasks. The library's own
 * checks end the process in some of these cases. hostile_worker.h has attacks that bypass them.
 */
#ifndef GD_TESTS_CRASH_FLIGHT_MISDEEDS_H
#define GD_TESTS_CRASH_FLIGHT_MISDEEDS_H

#include "crash/flight/pool.h"
#include "worker/host.h"

static _Atomic(struct gd_result *) old_result; /* of a task that was finished before, or NULL */

static void finish_once(struct gd_result *r)
{
    gd_result_finish(r);
    atomic_store(&old_result, r);
}

static void finish_twice(struct gd_result *r)
{
    finish_once(r);
    finish_once(r);
}

static void finish_never(struct gd_result *r)
{
    (void)r;
}

/* Its place may have another task by now. */
static void finish_old(struct gd_result *r)
{
    finish_once(atomic_load(&old_result));
    finish_once(r);
}

static void finish_copy(struct gd_result *r)
{
    struct gd_result copy = *r;
    finish_once(&copy);
}

static void part_of_old(struct gd_result *r)
{
    gd_result_partial(atomic_load(&old_result), "old", 3);
    finish_once(r);
}

static void part_after_finish(struct gd_result *r)
{
    finish_once(r);
    gd_result_partial(r, "late", 4);
}

static void many_parts(struct gd_result *r)
{
    static const char part[5000];
    for (size_t i = 0; i < 50; i++)
        gd_result_partial(r, part, i * 100);
    finish_once(r);
}

typedef void misdeed(struct gd_result *r);
static misdeed *const misdeeds[] = { finish_twice, finish_old,        finish_copy, part_of_old,
                                     many_parts,   part_after_finish, many_parts };

/* `rare`: one task in that many is not finished as it should be; 0: all are. `never`: such a task is never finished, which
 * costs the run a time limit. */
static void finish_somehow(struct gd_result *r, struct rng *random, uint64_t rare, bool never)
{
    if (rare == 0 || rng_below(random, rare) != 0)
        finish_once(r);
    else if (never)
        finish_never(r);
    else
        misdeeds[rng_below(random, COUNT_OF(misdeeds))](r);
}

#endif
