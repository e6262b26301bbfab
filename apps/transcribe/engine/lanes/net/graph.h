/* SPDX-License-Identifier: MIT
 *
 * What the files of the net share: a graph with its memory, and the net itself.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_NET_GRAPH_H
#define GD_TRANSCRIBE_ENGINE_LANES_NET_GRAPH_H

#include <ggml-alloc.h>
#include <stdbool.h>

#include "apps/transcribe/engine/lanes/net/net.h"

enum { TR_NET_LAYERS = 128, TR_STEPS = 2, TR_PREFILLS = 3 };

/* A graph that is made once and computed many times. A zeroed struct is empty. */
struct tr_graph {
    struct ggml_context *context;
    struct ggml_cgraph *nodes;
    ggml_gallocr_t memory;
};

struct tr_net {
    const struct tr_weights *weights;
    ggml_backend_t backend;
    struct tr_net_shape shape;
    int keys;            /* positions of a slot in the decoder's memory */
    int sound;           /* positions of a slot in what the encoder made, with padding */
    const char *missing; /* the first tensor that the model lacks */

    struct ggml_context *caches;
    ggml_backend_buffer_t cache_buffer;
    struct ggml_tensor *cross_k[TR_NET_LAYERS], *cross_v[TR_NET_LAYERS]; /* [state, sound x (slots + 1)] */
    struct ggml_tensor *self_k[TR_NET_LAYERS], *self_v[TR_NET_LAYERS];   /* [state, keys x (slots + 1)] */
    struct ggml_tensor *pad_k, *pad_v; /* keys and values of one layer of the encoder, padded with 0 */
    struct ggml_tensor *forbidden;     /* added to the logits of text tokens; NULL: nothing is forbidden */

    struct {
        struct tr_graph graph;
        struct ggml_tensor *mel, *rows;
        float *mel_data;
        int64_t *row_data;
    } encoder;
    struct tr_prefill {
        struct tr_graph graph;
        struct ggml_tensor *tokens, *positions, *rows, *sound_rows, *mask, *wanted, *logits;
        int length;          /* tokens of each sequence, with padding */
    } prefills[TR_PREFILLS]; /* from short to long */
    int32_t *prefill_tokens, *prefill_positions, *prefill_sound_rows, *prefill_wanted;
    int64_t *prefill_rows;
    struct tr_step {
        struct tr_graph graph;
        struct ggml_tensor *tokens, *positions, *rows, *mask, *text, *others, *best, *best_logit, *best_share;
        int keys; /* how far back this graph looks */
    } steps[TR_STEPS];
    const struct tr_step *last_step;
    int64_t *step_rows;
    ggml_fp16_t *step_mask;
    float *others;
    int32_t *best;
    float *best_logit, *best_share;
};

/* Begins a graph; nodes are then added to g->nodes. */
int tr_graph_begin(struct tr_graph *g, size_t nodes);
/* Reserves its memory. Returns 0, or TR_NET_NO_MEMORY or TR_NET_UNFIT. */
int tr_graph_end(struct tr_graph *g, ggml_backend_t backend);
void tr_graph_free(struct tr_graph *g);

/* A tensor of the model. If it is missing, remembers its name in the net and returns NULL. */
struct ggml_tensor *tr_net_tensor(struct tr_net *n, const char *name, int layer);

/* Layer norm, and a linear layer. bias NULL: without. */
struct ggml_tensor *tr_net_norm(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, const char *name,
                                int layer);
struct ggml_tensor *tr_net_linear(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, const char *name,
                                  int layer, bool bias);
/* x + the feed-forward part of a layer of "encoder" or "decoder". */
struct ggml_tensor *tr_net_feed_forward(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x,
                                        const char *part, int layer);

int tr_encoder_make(struct tr_net *n);
int tr_prefill_make(struct tr_net *n, struct tr_prefill *p);
int tr_step_make(struct tr_net *n, struct tr_step *s, int keys);

#endif
