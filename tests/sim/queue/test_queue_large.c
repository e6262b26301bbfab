/* SPDX-License-Identifier: MIT
 *
 * The simulation of a queue with 1,000 machines of 8 GPUs each, with faults: see world.h and seeds.h. */
#include <stdio.h>

#include "sim/queue/world/world.h"
#include "sim/seeds.h"

static int run(uint64_t seed, bool trace, volatile uint64_t *progress, struct seed_outcome *out)
{
    static struct world world;
    struct plan plan;
    plan_draw_large(&plan, seed);
    const int failed = world_run(&world, seed, &plan, trace, progress);
    out->events = world.handled;
    snprintf(out->words, sizeof out->words, "%s", world.words);
    return failed;
}

int main(int argc, char **argv)
{
    return seeds_main(&(struct seeds){ .name = "sim_queue_large", .n = 4, .run = run }, argc, argv);
}
