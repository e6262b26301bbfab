/* Runs the simulator of the scheduler over many seeds: see seeds.h. */
#include <stdio.h>

#include "sim.h"
#include "sim/seeds.h"

static int run(uint64_t seed, bool trace, volatile uint64_t *progress, struct seed_outcome *out)
{
    static struct sim sim;
    const int failed = sim_run(&sim, seed, trace, progress);
    out->events = sim.handled;
    snprintf(out->words, sizeof out->words, "%s", sim.words);
    return failed;
}

int main(int argc, char **argv)
{
    return seeds_main(&(struct seeds){ .name = "sim", .n = 10000, .run = run }, argc, argv);
}
