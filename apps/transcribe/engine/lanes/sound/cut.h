/* SPDX-License-Identifier: MIT
 *
 * Where a long recording is cut: at the quietest half second between two positions. It depends on the samples alone.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_SOUND_CUT_H
#define GD_TRANSCRIBE_ENGINE_LANES_SOUND_CUT_H

#include <stddef.h>

/* Returns the middle of the quietest half second that lies between these samples, which must be at least a second apart.
 * If several are equally quiet, the first. */
size_t tr_cut_find(const float *samples, size_t low, size_t high);

#endif
