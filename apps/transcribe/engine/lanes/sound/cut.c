/* SPDX-License-Identifier: MIT
 *
 * Finds the quietest half second, in steps of 10 ms. */
#include "apps/transcribe/engine/lanes/sound/cut.h"

#include "apps/transcribe/audio/audio.h"

enum { STEP = TR_RATE / 100, STEPS = 50 };

static double energy(const float *samples)
{
    double sum = 0;
    for (int i = 0; i < STEP; i++)
        sum += (double)samples[i] * (double)samples[i];
    return sum;
}

/* Each window is summed anew: a running sum would collect rounding errors, and silence would not be 0. */
size_t tr_cut_find(const float *samples, size_t low, size_t high)
{
    double ring[STEPS] = { 0 }, least = -1;
    size_t best = (low + high) / 2, n = 0;
    for (size_t at = low; at + STEP <= high; at += STEP) {
        ring[n++ % STEPS] = energy(samples + at);
        if (n < STEPS)
            continue;
        double sum = 0;
        for (int i = 0; i < STEPS; i++)
            sum += ring[i];
        if (least < 0 || sum < least) {
            least = sum;
            best = at + STEP - (size_t)STEP * STEPS / 2;
        }
    }
    return best;
}
