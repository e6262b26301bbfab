/* SPDX-License-Identifier: MIT
 *
 * Runs the simulation of a queue over many seeds: see world.h and seeds.h. */
#include <stdio.h>

#include "sim/queue/world/world.h"
#include "sim/seeds.h"

static int run(uint64_t seed, bool trace, volatile uint64_t *progress, struct seed_outcome *out)
{
    static struct world world;
    const int failed = world_run(&world, seed, NULL, trace, progress);
    out->events = world.handled;
    snprintf(out->words, sizeof out->words, "%s", world.words);
    return failed;
}

int main(int argc, char **argv)
{
    return seeds_main(&(struct seeds){ .name = "sim_queue", .n = 10000, .run = run }, argc, argv);
}
