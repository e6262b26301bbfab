/* Random numbers of the simulations. A seed determines all of them. */
#ifndef GD_TESTS_SIM_RANDOM_H
#define GD_TESTS_SIM_RANDOM_H

#include <stdint.h>

uint64_t sim_mix(uint64_t a, uint64_t b);               /* a hash; for choices that depend on the task's number */
uint64_t sim_random(uint64_t *state);                   /* the next number of a sequence */
uint64_t sim_below(uint64_t *state, uint64_t n);        /* 0 .. n - 1; 0 for n = 0 */
uint64_t sim_spread(uint64_t *state, uint64_t mean_ns); /* mostly near the mean, sometimes 0 or ten times the mean */

#endif
