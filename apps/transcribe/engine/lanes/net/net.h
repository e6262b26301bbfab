/* SPDX-License-Identifier: MIT
 *
 * A Whisper model on a device, as three ggml graphs of fixed shape. A slot has the state of one recording: what the
 * encoder made of its window, and what the decoder remembers of its tokens.
 *
 *   tr_net_encode()   windows of sound, into any slots
 *   tr_net_prefill()  many tokens for a few slots
 *   tr_net_step()     one token for every slot
 *
 * The shapes do not depend on how many slots are in use. So the result for a slot does not depend on its neighbours.
 * Only one thread at a time may use a net.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_NET_NET_H
#define GD_TRANSCRIBE_ENGINE_LANES_NET_NET_H

#include <stdint.h>

#include "apps/transcribe/engine/lanes/net/weights.h"
#include "apps/transcribe/engine/lanes/sound/spectrum.h"
#include "apps/transcribe/engine/lanes/tokens/rules.h"

struct tr_net;

enum { TR_MOST_WINDOWS = 16 };

struct tr_net_shape {
    int slots;      /* with 2 or more, a result does not depend on their number (on a CPU) */
    int windows;    /* encoded at once; also the number of slots that are prefilled at once; at most TR_MOST_WINDOWS */
    int short_feed; /* sequences that are not longer are prefilled by a graph of this length */
};

/* The bytes of device memory for each slot, without the graphs' own memory. */
size_t tr_net_slot_bytes(const struct tr_weights *w);

/* Makes the graphs and their memory, and on a GPU runs each once. forbidden: text tokens that must not be chosen, one byte each, or
 * NULL. The weights are borrowed. Returns 0, TR_NET_NO_MEMORY if the device has not enough memory for this shape, or
 * TR_NET_UNFIT if the model or the device lacks something; both with gd__fail_text(). */
enum { TR_NET_NO_MEMORY = -1, TR_NET_UNFIT = -2 };
int tr_net_open(struct tr_net **out, const struct tr_weights *w, ggml_backend_t backend,
                const struct tr_net_shape *shape, const uint8_t *forbidden);
void tr_net_close(struct tr_net **n); /* NULL is fine */

int tr_net_frames(const struct tr_net *n); /* of a window, as the encoder takes it */

/* Where to put the spectrum of window i before tr_net_encode(): mels rows of tr_net_frames() values. */
float *tr_net_window(struct tr_net *n, int i);

/* Encodes the first n_windows windows into these slots. Returns 0, or -1 with gd__fail_text(). */
int tr_net_encode(struct tr_net *n, int n_windows, const int *slots);

struct tr_feed {
    int slot;
    const int *tokens;                 /* from position 0 on */
    int n;                             /* at most tr_net_longest_feed() */
    int start;                         /* position of a token whose logits are wanted too */
    float *start_logits, *last_logits; /* room for all logits of that token and of the last one */
};

int tr_net_longest_feed(const struct tr_net *n);
int tr_net_prefill(struct tr_net *n, const struct tr_feed *feeds, int count);

/* Feeds tokens[slot] at positions[slot] to every slot. A slot that is not in use may have any token at position 0. The
 * results are in `out`, one for each slot, valid until the next step. Returns 0, or -1 with gd__fail_text(). */
int tr_net_step(struct tr_net *n, const int32_t *tokens, const int32_t *positions, struct tr_logits *out);

/* Reads all logits of a slot after a step. */
int tr_net_all_logits(struct tr_net *n, int slot, float *all);

#endif
