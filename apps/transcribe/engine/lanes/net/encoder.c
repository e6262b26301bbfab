/* SPDX-License-Identifier: MIT
 *
 * The encoder: a number of windows at once, and the keys and values of all layers of the decoder, written to the slots.
 *
 * Shapes: x is [state, positions x windows]. Weights are multiplied with this two-dimensional form, which is one large
 * product instead of one for each window. Attention sees [head size, positions, heads, windows]. Its keys and values are
 * padded with 0 to a multiple of the block that ggml's kernels need. As in whisper.cpp, the padding is not masked.
 */
#include <math.h>
#include <stdlib.h>

#include "apps/transcribe/engine/lanes/net/graph.h"
#include "base/failure.h"

/* A convolution over time with a kernel of three frames and gelu: columns of three frames each, times the weights.
 * x is [frames, channels, windows]; the result is [state, frames / stride x windows]. */
static struct ggml_tensor *convolve(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, const char *weight,
                                    const char *bias, int stride)
{
    const int state = n->weights->state;
    struct ggml_tensor *w = tr_net_tensor(n, weight, 0), *b = tr_net_tensor(n, bias, 0);
    if (!w || !b || w->ne[1] != x->ne[1] || w->ne[2] != state || ggml_nelements(b) != state) {
        n->missing = n->missing ? n->missing : weight;
        return NULL;
    }
    x = ggml_im2col(c, w, x, stride, 0, 1, 0, 1, 0, false, GGML_TYPE_F16);
    x = ggml_mul_mat(c, ggml_reshape_2d(c, w, w->ne[0] * w->ne[1], state),
                     ggml_reshape_2d(c, x, x->ne[0], x->ne[1] * x->ne[2]));
    return ggml_gelu(c, ggml_add(c, x, ggml_reshape_1d(c, b, state)));
}

static struct ggml_tensor *attention(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, int layer)
{
    const struct tr_weights *w = n->weights;
    const int64_t state = w->state, positions = w->audio_positions, windows = n->shape.windows, heads = w->audio_heads;
    const int64_t size = state / heads, padded = n->sound;
    const size_t row = ggml_row_size(GGML_TYPE_F16, state), all = row * (size_t)padded;
    struct ggml_tensor *q = tr_net_linear(n, c, x, "encoder.blocks.%d.attn.query", layer, true);
    struct ggml_tensor *k = tr_net_linear(n, c, x, "encoder.blocks.%d.attn.key", layer, false);
    struct ggml_tensor *v = tr_net_linear(n, c, x, "encoder.blocks.%d.attn.value", layer, true);
    if (n->missing)
        return x;
    struct ggml_cgraph *g = n->encoder.graph.nodes;
    struct ggml_tensor *k_to = ggml_view_3d(c, n->pad_k, state, positions, windows, row, all, 0);
    struct ggml_tensor *v_to = ggml_view_3d(c, n->pad_v, state, positions, windows, row, all, 0);
    ggml_build_forward_expand(g, ggml_cpy(c, ggml_reshape_3d(c, k, state, positions, windows), k_to));
    ggml_build_forward_expand(g, ggml_cpy(c, ggml_reshape_3d(c, v, state, positions, windows), v_to));
    const size_t head = ggml_row_size(GGML_TYPE_F16, size);
    q = ggml_permute(c, ggml_reshape_4d(c, q, size, heads, positions, windows), 0, 2, 1, 3);
    k = ggml_view_4d(c, n->pad_k, size, padded, heads, windows, row, head, all, 0);
    v = ggml_view_4d(c, n->pad_v, size, padded, heads, windows, row, head, all, 0);
    struct ggml_tensor *y = ggml_flash_attn_ext(c, q, k, v, NULL, 1.0f / sqrtf((float)size), 0, 0);
    return tr_net_linear(n, c, ggml_reshape_2d(c, y, state, positions * windows), "encoder.blocks.%d.attn.out", layer,
                         true);
}

/* Writes the keys and values that the decoder will look at. */
static void store(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x)
{
    const struct tr_weights *w = n->weights;
    const float scale = powf((float)w->state / (float)w->text_heads, -0.25f);
    for (int i = 0; i < w->text_layers; i++) {
        struct ggml_tensor *k = tr_net_linear(n, c, x, "decoder.blocks.%d.cross_attn.key", i, false);
        struct ggml_tensor *v = tr_net_linear(n, c, x, "decoder.blocks.%d.cross_attn.value", i, true);
        if (n->missing)
            return;
        ggml_build_forward_expand(n->encoder.graph.nodes,
                                  ggml_set_rows(c, n->cross_k[i], ggml_scale(c, k, scale), n->encoder.rows));
        ggml_build_forward_expand(n->encoder.graph.nodes, ggml_set_rows(c, n->cross_v[i], v, n->encoder.rows));
    }
}

static void build(struct tr_net *n, struct ggml_context *c)
{
    const struct tr_weights *w = n->weights;
    const int64_t state = w->state, positions = w->audio_positions, windows = n->shape.windows;
    struct ggml_tensor *x = convolve(n, c, n->encoder.mel, "encoder.conv1.weight", "encoder.conv1.bias", 1);
    if (!x)
        return;
    x = ggml_cont(c, ggml_transpose(c, ggml_reshape_3d(c, x, state, 2 * positions, windows)));
    x = convolve(n, c, x, "encoder.conv2.weight", "encoder.conv2.bias", 2);
    struct ggml_tensor *where = tr_net_tensor(n, "encoder.positional_embedding", 0);
    if (!x || !where || where->ne[0] != state || where->ne[1] != positions) {
        n->missing = n->missing ? n->missing : "encoder.positional_embedding";
        return;
    }
    x = ggml_add(c, ggml_reshape_3d(c, x, state, positions, windows), where);
    x = ggml_reshape_2d(c, x, state, positions * windows);
    for (int i = 0; i < w->audio_layers && !n->missing; i++) {
        struct ggml_tensor *y = tr_net_norm(n, c, x, "encoder.blocks.%d.attn_ln", i);
        y = attention(n, c, y, i);
        x = tr_net_feed_forward(n, c, ggml_add(c, y, x), "encoder", i);
    }
    store(n, c, tr_net_norm(n, c, x, "encoder.ln_post", 0));
}

int tr_encoder_make(struct tr_net *n)
{
    const struct tr_weights *w = n->weights;
    const int64_t rows = (int64_t)w->audio_positions * n->shape.windows;
    const int rc = tr_graph_begin(&n->encoder.graph, 64 + 64 * (size_t)(w->audio_layers + w->text_layers));
    if (rc < 0)
        return rc;
    struct ggml_context *c = n->encoder.graph.context;
    n->encoder.mel = ggml_new_tensor_3d(c, GGML_TYPE_F32, 2 * (int64_t)w->audio_positions, w->mels, n->shape.windows);
    n->encoder.rows = ggml_new_tensor_1d(c, GGML_TYPE_I64, rows);
    ggml_set_input(n->encoder.mel);
    ggml_set_input(n->encoder.rows);
    n->encoder.mel_data = calloc((size_t)ggml_nelements(n->encoder.mel), sizeof *n->encoder.mel_data);
    n->encoder.row_data = calloc((size_t)rows, sizeof *n->encoder.row_data);
    if (!n->encoder.mel_data || !n->encoder.row_data)
        return gd__fail("no memory for the encoder"), TR_NET_NO_MEMORY;
    build(n, c);
    return n->missing ? 0 : tr_graph_end(&n->encoder.graph, n->backend);
}

int tr_net_frames(const struct tr_net *n)
{
    return 2 * n->weights->audio_positions;
}

float *tr_net_window(struct tr_net *n, int i)
{
    return n->encoder.mel_data + (size_t)i * (size_t)tr_net_frames(n) * (size_t)n->weights->mels;
}

int tr_net_encode(struct tr_net *n, int n_windows, const int *slots)
{
    const int positions = n->weights->audio_positions;
    for (int i = 0; i < n->shape.windows; i++) {
        const int64_t slot = i < n_windows ? slots[i] : n->shape.slots; /* the last slot is for windows of nobody */
        for (int t = 0; t < positions; t++)
            n->encoder.row_data[(size_t)i * (size_t)positions + (size_t)t] = slot * n->sound + t;
    }
    ggml_backend_tensor_set_async(n->backend, n->encoder.mel, n->encoder.mel_data, 0, ggml_nbytes(n->encoder.mel));
    ggml_backend_tensor_set_async(n->backend, n->encoder.rows, n->encoder.row_data, 0, ggml_nbytes(n->encoder.rows));
    if (ggml_backend_graph_compute(n->backend, n->encoder.graph.nodes) != GGML_STATUS_SUCCESS)
        return gd__fail("the encoder failed on %s", ggml_backend_name(n->backend));
    return 0;
}
