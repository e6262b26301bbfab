/* SPDX-License-Identifier: MIT
 *
 * The net: its memory on the device, and the graphs. There is one slot more than asked for. Windows and sequences of
 * nobody, which fill up a graph, are written there.
 */
#include "apps/transcribe/engine/lanes/net/net.h"

#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/engine/lanes/net/graph.h"
#include "base/failure.h"

enum { SOUND_BLOCK = 256, SHORT_KEYS = 256, FEED_BLOCK = 128 }; /* ggml's kernels want multiples of powers of two */

static int64_t rounded(int64_t n, int64_t block)
{
    return (n + block - 1) / block * block;
}

size_t tr_net_slot_bytes(const struct tr_weights *w)
{
    const size_t positions =
        (size_t)(rounded(w->audio_positions, SOUND_BLOCK) + rounded(w->text_positions, SHORT_KEYS));
    return 2 * (size_t)w->text_layers * ggml_row_size(GGML_TYPE_F16, w->state) * positions;
}

static void make_caches(struct tr_net *n)
{
    const struct tr_weights *w = n->weights;
    const int64_t slots = n->shape.slots + 1;
    for (int i = 0; i < w->text_layers; i++) {
        n->cross_k[i] = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, n->sound * slots);
        n->cross_v[i] = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, n->sound * slots);
        n->self_k[i] = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, n->keys * slots);
        n->self_v[i] = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, n->keys * slots);
    }
    n->pad_k = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, (int64_t)n->sound * n->shape.windows);
    n->pad_v = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, w->state, (int64_t)n->sound * n->shape.windows);
    for (struct tr_prefill *p = n->prefills; p < n->prefills + TR_PREFILLS; p++)
        p->mask = ggml_new_tensor_2d(n->caches, GGML_TYPE_F16, p->length, p->length);
}

static int reserve(struct tr_net *n, const uint8_t *forbidden)
{
    const int layers = n->weights->text_layers;
    n->caches = ggml_init((struct ggml_init_params){ ggml_tensor_overhead() * (size_t)(4 * layers + 16), NULL, true });
    if (!n->caches)
        return gd__fail("no memory for the decoder"), TR_NET_NO_MEMORY;
    make_caches(n);
    if (forbidden)
        n->forbidden = ggml_new_tensor_1d(n->caches, GGML_TYPE_F32, n->weights->vocabulary.eot);
    n->cache_buffer = ggml_backend_alloc_ctx_tensors(n->caches, n->backend);
    if (!n->cache_buffer)
        return gd__fail("no memory on the device for %d recordings at once", n->shape.slots), TR_NET_NO_MEMORY;
    ggml_backend_buffer_clear(n->cache_buffer, 0);
    return 0;
}

static int set_forbidden(struct tr_net *n, const uint8_t *forbidden)
{
    if (!forbidden)
        return 0;
    const int count = n->weights->vocabulary.eot;
    float *values = calloc((size_t)count, sizeof *values);
    if (!values)
        return gd__fail("no memory for the decoder"), TR_NET_NO_MEMORY;
    for (int i = 0; i < count; i++)
        values[i] = forbidden[i] ? -1e30f : 0; /* not infinite, so that differences stay numbers */
    ggml_backend_tensor_set(n->forbidden, values, 0, (size_t)count * sizeof *values);
    free(values);
    return 0;
}

static int make_rooms(struct tr_net *n)
{
    const struct tr_vocabulary *v = &n->weights->vocabulary;
    const size_t slots = (size_t)n->shape.slots;
    n->step_rows = calloc(slots, sizeof *n->step_rows);
    n->step_mask = calloc(slots * (size_t)n->keys, sizeof *n->step_mask);
    n->others = calloc(slots * (size_t)(v->size - v->eot), sizeof *n->others);
    n->best = calloc(slots, sizeof *n->best);
    n->best_logit = calloc(slots, sizeof *n->best_logit);
    n->best_share = calloc(slots, sizeof *n->best_share);
    const size_t windows = (size_t)n->shape.windows, fed = (size_t)tr_net_longest_feed(n) * windows;
    n->prefill_tokens = calloc(fed, sizeof *n->prefill_tokens);
    n->prefill_positions = calloc(fed, sizeof *n->prefill_positions);
    n->prefill_rows = calloc(fed, sizeof *n->prefill_rows);
    n->prefill_sound_rows = calloc((size_t)n->sound * windows, sizeof *n->prefill_sound_rows);
    n->prefill_wanted = calloc(2 * windows, sizeof *n->prefill_wanted);
    const bool good = n->step_rows && n->step_mask && n->others && n->best && n->best_logit && n->best_share &&
                      n->prefill_tokens && n->prefill_positions && n->prefill_rows && n->prefill_sound_rows &&
                      n->prefill_wanted;
    return good ? 0 : (gd__fail("no memory for the decoder"), TR_NET_NO_MEMORY);
}

static int make_graphs(struct tr_net *n)
{
    int rc = tr_encoder_make(n);
    for (int i = 0; rc == 0 && !n->missing && i < TR_PREFILLS; i++)
        rc = tr_prefill_make(n, &n->prefills[i]);
    for (int i = 0; rc == 0 && !n->missing && i < TR_STEPS; i++) {
        const int keys = i == TR_STEPS - 1 ? n->keys : SHORT_KEYS;
        if (keys < n->keys || i == TR_STEPS - 1)
            rc = tr_step_make(n, &n->steps[i], keys);
    }
    if (rc == 0 && n->missing)
        return gd__fail("the model has no usable tensor \"%s\"", n->missing), TR_NET_UNFIT;
    return rc;
}

/* Computes everything once. A device that lacks memory for a kernel ends the process here, and not during the work. */
static int try_out(struct tr_net *n)
{
    const size_t slots = (size_t)n->shape.slots;
    const int slot = n->shape.slots;
    int *tokens = calloc((size_t)tr_net_longest_feed(n), sizeof *tokens);
    int32_t *zeros = calloc(slots, sizeof *zeros), *far = calloc(slots, sizeof *far);
    struct tr_logits *out = calloc(slots, sizeof *out);
    float *all = calloc(2 * (size_t)n->weights->vocabulary.size, sizeof *all);
    int rc = tokens && zeros && far && out && all ? 0 : -1;
    if (rc < 0)
        gd__fail("no memory for the decoder");
    float *last = all ? all + n->weights->vocabulary.size : NULL;
    if (rc == 0)
        rc = tr_net_encode(n, 0, &slot);
    for (int i = 0; rc == 0 && i < TR_PREFILLS; i++)
        rc = tr_net_prefill(n, &(struct tr_feed){ slot, tokens, n->prefills[i].length, 0, all, last }, 1);
    if (rc == 0)
        rc = tr_net_step(n, zeros, zeros, out);
    for (size_t i = 0; rc == 0 && i < slots; i++)
        far[i] = n->weights->text_positions - 1;
    if (rc == 0)
        rc = tr_net_step(n, zeros, far, out);
    free(tokens);
    free(zeros);
    free(far);
    free(out);
    free(all);
    return rc < 0 ? TR_NET_NO_MEMORY : 0;
}

int tr_net_open(struct tr_net **out, const struct tr_weights *w, ggml_backend_t backend,
                const struct tr_net_shape *shape, const uint8_t *forbidden)
{
    struct tr_net *n = calloc(1, sizeof *n);
    if (!n)
        return gd__fail("no memory for the decoder"), TR_NET_NO_MEMORY;
    n->weights = w;
    n->backend = backend;
    n->shape = *shape;
    n->sound = (int)rounded(w->audio_positions, SOUND_BLOCK);
    n->keys = (int)rounded(w->text_positions, SHORT_KEYS);
    const int longest = (int)rounded(w->text_positions / 2 + 4, FEED_BLOCK);
    for (int i = 0; i < TR_PREFILLS; i++)
        n->prefills[i].length = i == 0 ? shape->short_feed : longest >> (TR_PREFILLS - 1 - i);
    int rc = w->text_layers <= TR_NET_LAYERS ? 0 : (gd__fail("the model has too many layers"), TR_NET_UNFIT);
    if (rc == 0)
        rc = reserve(n, forbidden);
    if (rc == 0)
        rc = set_forbidden(n, forbidden);
    if (rc == 0)
        rc = make_rooms(n);
    if (rc == 0)
        rc = make_graphs(n);
    if (rc == 0 && ggml_backend_dev_type(ggml_backend_get_device(backend)) != GGML_BACKEND_DEVICE_TYPE_CPU)
        rc = try_out(n); /* a CPU would need seconds for nothing */
    if (rc < 0)
        tr_net_close(&n);
    else
        *out = n;
    return rc;
}

void tr_net_close(struct tr_net **net)
{
    struct tr_net *n = *net;
    if (!n)
        return;
    tr_graph_free(&n->encoder.graph);
    for (int i = 0; i < TR_PREFILLS; i++)
        tr_graph_free(&n->prefills[i].graph);
    for (int i = 0; i < TR_STEPS; i++)
        tr_graph_free(&n->steps[i].graph);
    ggml_backend_buffer_free(n->cache_buffer);
    ggml_free(n->caches);
    void *rooms[] = { n->encoder.mel_data,
                      n->encoder.row_data,
                      n->prefill_tokens,
                      n->prefill_positions,
                      n->prefill_rows,
                      n->prefill_wanted,
                      n->prefill_sound_rows,
                      n->step_rows,
                      n->step_mask,
                      n->others,
                      n->best,
                      n->best_logit,
                      n->best_share };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        free(rooms[i]);
    free(n);
    *net = NULL;
}
