/* Runs a simulation over many seeds.
 *
 *   PROGRAM                        all seeds
 *   PROGRAM --seeds N [--from S]   N seeds, beginning with S
 *   PROGRAM --seed 0x... [--trace] one seed; --trace prints every event
 *
 * The seeds are distributed over one child process per core. If a child dies (because the simulated code crashed or a
 * seed did not end), its current seed has failed, and a new child continues with the next seed. The last line is
 * `N passed, N failed`.
 */
#ifndef GD_TESTS_SIM_SEEDS_H
#define GD_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct seed_outcome {
    uint64_t events; /* that were handled */
    char words[400]; /* why it failed */
};

struct seeds {
    const char *name; /* of the simulation */
    uint64_t n;       /* how many seeds, if the user does not say it */
    /* Returns 0 if the run passed. Sets *progress (which may be NULL) to the number of each event. */
    int (*run)(uint64_t seed, bool trace, volatile uint64_t *progress, struct seed_outcome *out);
};

int seeds_main(const struct seeds *s, int argc, char **argv); /* returns the exit code */

#endif
