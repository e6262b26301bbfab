/* Random numbers of the simulations: see random.h. */
#include "sim/random.h"

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a + UINT64_C(0x9e3779b97f4a7c15) * (b + 1);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t sim_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return sim_mix(*state, 0);
}

uint64_t sim_below(uint64_t *state, uint64_t n)
{
    const uint64_t x = sim_random(state);
    return n ? x % n : 0;
}

uint64_t sim_spread(uint64_t *state, uint64_t mean_ns)
{
    const uint64_t kind = sim_below(state, 16);
    if (kind == 0)
        return 0;
    return sim_below(state, (kind == 1 ? 20 : 2) * mean_ns + 1);
}
