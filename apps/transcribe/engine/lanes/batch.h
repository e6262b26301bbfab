/* SPDX-License-Identifier: MIT
 *
 * Many recordings at once: each lane has a slot of the net until it is decoded, then the next lane gets the slot. A
 * round feeds one token to every slot. New windows are encoded together.
 *
 *     tr_batch_add(b, lane);
 *     while (tr_batch_size(b) > 0 && tr_batch_round(b) == 0)
 *         while ((lane = tr_batch_take(b)) != NULL) ...           // lanes that are decoded
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_BATCH_H
#define GD_TRANSCRIBE_ENGINE_LANES_BATCH_H

#include "apps/transcribe/engine/lanes/lane.h"
#include "apps/transcribe/engine/lanes/net/net.h"

struct tr_batch;

/* The net is borrowed. Returns 0, or -1 with gd__fail_text(). Release with tr_batch_close(), which does not free lanes. */
int tr_batch_open(struct tr_batch **out, struct tr_net *net, const struct tr_net_shape *shape, int n_tokens);
void tr_batch_close(struct tr_batch **b); /* NULL is fine */

/* Adds a lane, which waits for a slot. */
void tr_batch_add(struct tr_batch *b, struct tr_lane *l);

/* Takes a lane out, whatever it is doing. It must be one that was added and not taken. */
void tr_batch_remove(struct tr_batch *b, struct tr_lane *l);

/* Lanes that were added and are not decoded; and how many of them have no slot. */
size_t tr_batch_size(const struct tr_batch *b);
size_t tr_batch_waiting(const struct tr_batch *b);

/* One token for each lane that has a slot. Returns 0, or -1 with gd__fail_text() if the device failed. */
int tr_batch_round(struct tr_batch *b);

/* The next lane that is decoded; NULL: none. */
struct tr_lane *tr_batch_take(struct tr_batch *b);

/* What was computed so far. */
struct tr_batch_counts {
    uint64_t steps, windows, encodings, tokens, prefills;
};
struct tr_batch_counts tr_batch_counts(const struct tr_batch *b);

#endif
