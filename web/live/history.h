/* SPDX-License-Identifier: MIT
 *
 * How the counts grew since the run began, in a limited number of samples. At first there is about one sample a second.
 * When there is no more room, every second sample is dropped, and the time between samples is doubled.
 */
#ifndef GD_WEB_LIVE_HISTORY_H
#define GD_WEB_LIVE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

enum { WEB_HISTORY_ROOM = 600 };

struct web_sample {
    double seconds; /* since the run began */
    uint64_t completed, failed, running;
};

/* A zeroed struct is empty. */
struct web_history {
    struct web_sample samples[WEB_HISTORY_ROOM];
    size_t n;
    double step; /* least time between two samples; 0: not begun */
};

/* A sample that comes sooner than a step after the last one is left out. */
void web_history_add(struct web_history *h, const struct web_sample *s);

/* Adds {"step":1,"columns":[...],"samples":[[...],...]} and a newline. */
void web_history_json(const struct web_history *h, struct gd__buffer *b);

#endif
