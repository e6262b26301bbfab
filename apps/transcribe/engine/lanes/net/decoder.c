/* SPDX-License-Identifier: MIT
 *
 * The decoder, in two forms. A step feeds one token to every slot and looks back at the slot's memory. Prefilling feeds
 * whole sequences to a few slots. Sequences begin at position 0, so they look back only at themselves. What they look at
 * of the sound is gathered from their slots, which may be any.
 *
 * A step returns the best text token of each slot and the logits of all tokens from eot on. All other logits stay on the
 * device, where tr_net_all_logits() can read them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/engine/lanes/net/graph.h"
#include "base/failure.h"

/* One form of the decoder while its graph is made. */
struct form {
    struct tr_net *net;
    struct ggml_context *c;
    struct ggml_cgraph *g;
    int64_t length, sequences; /* tokens in each sequence; sequences */
    struct ggml_tensor *rows;  /* where the keys and values of the tokens go */
    struct ggml_tensor *mask;
    struct ggml_tensor *sound_rows; /* NULL: sequence i looks at slot i */
    int64_t keys;                   /* of a slot that are looked at; 0: the sequences look at themselves */
};

static float scale_of(const struct tr_net *n)
{
    return powf((float)n->weights->state / (float)n->weights->text_heads, -0.25f);
}

static struct ggml_tensor *heads_of(struct form *f, struct ggml_tensor *x)
{
    const struct tr_weights *w = f->net->weights;
    const int64_t heads = w->text_heads;
    return ggml_permute(f->c, ggml_reshape_4d(f->c, x, w->state / heads, heads, f->length, f->sequences), 0, 2, 1, 3);
}

/* The first `keys` rows of each slot in a cache with `all` rows for each slot. */
static struct ggml_tensor *slots_of(struct form *f, struct ggml_tensor *cache, int64_t keys, int64_t all)
{
    const struct tr_weights *w = f->net->weights;
    const int64_t heads = w->text_heads, size = w->state / heads;
    const size_t row = ggml_row_size(GGML_TYPE_F16, w->state);
    return ggml_view_4d(f->c, cache, size, keys, heads, f->sequences, row, ggml_row_size(GGML_TYPE_F16, size),
                        row * (size_t)all, 0);
}

static struct ggml_tensor *joined(struct form *f, struct ggml_tensor *y)
{
    return ggml_reshape_2d(f->c, y, f->net->weights->state, f->length * f->sequences);
}

static struct ggml_tensor *self_attention(struct form *f, struct ggml_tensor *x, int i)
{
    struct tr_net *n = f->net;
    struct ggml_context *c = f->c;
    const float scale = scale_of(n);
    struct ggml_tensor *q = tr_net_linear(n, c, x, "decoder.blocks.%d.attn.query", i, true);
    struct ggml_tensor *k = tr_net_linear(n, c, x, "decoder.blocks.%d.attn.key", i, false);
    struct ggml_tensor *v = tr_net_linear(n, c, x, "decoder.blocks.%d.attn.value", i, true);
    if (n->missing)
        return x;
    q = ggml_scale(c, q, scale);
    k = ggml_scale(c, k, scale);
    ggml_build_forward_expand(f->g, ggml_set_rows(c, n->self_k[i], k, f->rows));
    ggml_build_forward_expand(f->g, ggml_set_rows(c, n->self_v[i], v, f->rows));
    if (f->keys > 0) {
        k = slots_of(f, n->self_k[i], f->keys, n->keys);
        v = slots_of(f, n->self_v[i], f->keys, n->keys);
    } else {
        k = heads_of(f, ggml_cast(c, k, GGML_TYPE_F16));
        v = heads_of(f, ggml_cast(c, v, GGML_TYPE_F16));
    }
    struct ggml_tensor *y = ggml_flash_attn_ext(c, heads_of(f, q), k, v, f->mask, 1.0f, 0, 0);
    return tr_net_linear(n, c, joined(f, y), "decoder.blocks.%d.attn.out", i, true);
}

/* What the encoder made for the slots of the sequences. */
static struct ggml_tensor *sound_of(struct form *f, struct ggml_tensor *cache)
{
    if (!f->sound_rows)
        return slots_of(f, cache, f->net->sound, f->net->sound);
    const struct tr_weights *w = f->net->weights;
    const int64_t heads = w->text_heads;
    struct ggml_tensor *rows = ggml_cast(f->c, ggml_get_rows(f->c, cache, f->sound_rows), GGML_TYPE_F16);
    rows = ggml_reshape_4d(f->c, rows, w->state / heads, heads, f->net->sound, f->sequences);
    return ggml_permute(f->c, rows, 0, 2, 1, 3);
}

static struct ggml_tensor *cross_attention(struct form *f, struct ggml_tensor *x, int i)
{
    struct tr_net *n = f->net;
    struct ggml_tensor *q = tr_net_linear(n, f->c, x, "decoder.blocks.%d.cross_attn.query", i, true);
    if (n->missing)
        return x;
    struct ggml_tensor *k = sound_of(f, n->cross_k[i]), *v = sound_of(f, n->cross_v[i]);
    struct ggml_tensor *y = ggml_flash_attn_ext(f->c, heads_of(f, q), k, v, NULL, scale_of(n), 0, 0);
    return tr_net_linear(n, f->c, joined(f, y), "decoder.blocks.%d.cross_attn.out", i, true);
}

/* All layers, before the last norm. */
static struct ggml_tensor *layers(struct form *f, struct ggml_tensor *tokens, struct ggml_tensor *positions)
{
    struct tr_net *n = f->net;
    struct ggml_tensor *texts = tr_net_tensor(n, "decoder.token_embedding.weight", 0);
    struct ggml_tensor *where = tr_net_tensor(n, "decoder.positional_embedding", 0);
    if (!texts || !where || texts->ne[0] != n->weights->state || texts->ne[1] != n->weights->vocabulary.size ||
        where->ne[0] != n->weights->state || where->ne[1] != n->weights->text_positions) {
        n->missing = n->missing ? n->missing : "decoder.token_embedding";
        return NULL;
    }
    struct ggml_tensor *x = ggml_add(f->c, ggml_get_rows(f->c, texts, tokens), ggml_get_rows(f->c, where, positions));
    for (int i = 0; i < n->weights->text_layers && !n->missing; i++) {
        struct ggml_tensor *y = self_attention(f, tr_net_norm(n, f->c, x, "decoder.blocks.%d.attn_ln", i), i);
        x = ggml_add(f->c, y, x);
        y = cross_attention(f, tr_net_norm(n, f->c, x, "decoder.blocks.%d.cross_attn_ln", i), i);
        x = tr_net_feed_forward(n, f->c, ggml_add(f->c, y, x), "decoder", i);
    }
    return n->missing ? NULL : x;
}

static struct ggml_tensor *input(struct ggml_context *c, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne3)
{
    struct ggml_tensor *t = ggml_new_tensor_4d(c, type, ne0, ne1, 1, ne3);
    ggml_set_input(t);
    return t;
}

static void output(struct ggml_cgraph *g, struct ggml_tensor *t)
{
    ggml_set_output(t);
    ggml_build_forward_expand(g, t);
}

static void set(const struct tr_net *n, struct ggml_tensor *t, const void *data)
{
    ggml_backend_tensor_set_async(n->backend, t, data, 0, ggml_nbytes(t));
}

/* --- steps ---------------------------------------------------------------------- */

/* The value of each sequence in a table [values, sequences] at its own index. */
static struct ggml_tensor *pick_values(struct ggml_context *c, struct ggml_tensor *table, struct ggml_tensor *index)
{
    return ggml_get_rows(c, ggml_reshape_3d(c, table, 1, table->ne[0], table->ne[1]),
                         ggml_reshape_2d(c, index, 1, index->ne[0]));
}

static void add_outputs(struct tr_net *n, struct tr_step *s, struct ggml_tensor *x)
{
    struct ggml_context *c = s->graph.context;
    const struct tr_vocabulary *v = &n->weights->vocabulary;
    struct ggml_tensor *tokens = tr_net_tensor(n, "decoder.token_embedding.weight", 0);
    struct ggml_tensor *texts = ggml_view_2d(c, tokens, tokens->ne[0], v->eot, tokens->nb[1], 0);
    struct ggml_tensor *others =
        ggml_view_2d(c, tokens, tokens->ne[0], v->size - v->eot, tokens->nb[1], tokens->nb[1] * (size_t)v->eot);
    s->text = ggml_mul_mat(c, texts, x);
    s->others = ggml_mul_mat(c, others, x);
    output(s->graph.nodes, s->text);
    output(s->graph.nodes, s->others);
    struct ggml_tensor *allowed = n->forbidden ? ggml_add(c, s->text, n->forbidden) : s->text;
    s->best = ggml_argmax(c, allowed);
    s->best_logit = pick_values(c, allowed, s->best);
    s->best_share = pick_values(c, ggml_soft_max(c, allowed), s->best);
    output(s->graph.nodes, s->best);
    output(s->graph.nodes, s->best_logit);
    output(s->graph.nodes, s->best_share);
}

int tr_step_make(struct tr_net *n, struct tr_step *s, int keys)
{
    const int slots = n->shape.slots;
    const int rc = tr_graph_begin(&s->graph, 64 + 96 * (size_t)n->weights->text_layers);
    if (rc < 0)
        return rc;
    struct ggml_context *c = s->graph.context;
    s->keys = keys;
    s->tokens = input(c, GGML_TYPE_I32, slots, 1, 1);
    s->positions = input(c, GGML_TYPE_I32, slots, 1, 1);
    s->rows = input(c, GGML_TYPE_I64, slots, 1, 1);
    s->mask = input(c, GGML_TYPE_F16, keys, 1, slots);
    struct form f = { n, c, s->graph.nodes, 1, slots, s->rows, s->mask, NULL, keys };
    struct ggml_tensor *x = layers(&f, s->tokens, s->positions);
    if (x)
        x = tr_net_norm(n, c, x, "decoder.ln", 0);
    if (n->missing)
        return 0;
    add_outputs(n, s, x);
    return tr_graph_end(&s->graph, n->backend);
}

/* The step that looks back far enough for all slots. */
static const struct tr_step *choose_step(const struct tr_net *n, const int32_t *positions)
{
    int furthest = 0;
    for (int i = 0; i < n->shape.slots; i++)
        furthest = positions[i] > furthest ? positions[i] : furthest;
    const struct tr_step *s = n->steps;
    while (s < n->steps + TR_STEPS - 1 && (!s->graph.nodes || s->keys <= furthest))
        s++;
    return s;
}

static void set_step_inputs(struct tr_net *n, const struct tr_step *s, const int32_t *tokens, const int32_t *positions)
{
    const ggml_fp16_t shown = ggml_fp32_to_fp16(0), hidden = ggml_fp32_to_fp16(-INFINITY);
    const int slots = n->shape.slots;
    for (int i = 0; i < slots; i++) {
        ggml_fp16_t *row = n->step_mask + (size_t)i * (size_t)s->keys;
        n->step_rows[i] = (int64_t)i * n->keys + positions[i];
        for (int k = 0; k < s->keys; k++)
            row[k] = k <= positions[i] ? shown : hidden;
    }
    set(n, s->tokens, tokens);
    set(n, s->positions, positions);
    set(n, s->rows, n->step_rows);
    set(n, s->mask, n->step_mask);
}

int tr_net_step(struct tr_net *n, const int32_t *tokens, const int32_t *positions, struct tr_logits *out)
{
    const struct tr_step *s = choose_step(n, positions);
    const int others = n->weights->vocabulary.size - n->weights->vocabulary.eot;
    set_step_inputs(n, s, tokens, positions);
    if (ggml_backend_graph_compute_async(n->backend, s->graph.nodes) != GGML_STATUS_SUCCESS)
        return gd__fail("the decoder failed on %s", ggml_backend_name(n->backend));
    ggml_backend_tensor_get_async(n->backend, s->others, n->others, 0, ggml_nbytes(s->others));
    ggml_backend_tensor_get_async(n->backend, s->best, n->best, 0, ggml_nbytes(s->best));
    ggml_backend_tensor_get_async(n->backend, s->best_logit, n->best_logit, 0, ggml_nbytes(s->best_logit));
    ggml_backend_tensor_get_async(n->backend, s->best_share, n->best_share, 0, ggml_nbytes(s->best_share));
    ggml_backend_synchronize(n->backend);
    n->last_step = s;
    for (int i = 0; i < n->shape.slots; i++) {
        out[i] = (struct tr_logits){
            .text = n->best[i],
            .text_logit = n->best_logit[i],
            .text_log_sum = n->best_logit[i] - logf(n->best_share[i]),
            .others = n->others + (size_t)i * (size_t)others,
        };
    }
    return 0;
}

int tr_net_all_logits(struct tr_net *n, int slot, float *all)
{
    const struct tr_step *s = n->last_step;
    if (!s)
        return gd__fail("the logits of a slot were read before a step");
    ggml_backend_tensor_get(s->text, all, s->text->nb[1] * (size_t)slot, s->text->nb[1]);
    ggml_backend_tensor_get(s->others, all + s->text->ne[0], s->others->nb[1] * (size_t)slot, s->others->nb[1]);
    return 0;
}

/* --- prefilling ------------------------------------------------------------------- */

/* A token sees itself and the tokens before it. Padding comes last, so no token of a sequence sees it. */
static int set_prefill_mask(const struct tr_prefill *p)
{
    const size_t length = (size_t)p->length;
    ggml_fp16_t *mask = malloc(length * length * sizeof *mask);
    if (!mask)
        return gd__fail("no memory for the decoder"), TR_NET_NO_MEMORY;
    for (size_t i = 0; i < length; i++) {
        for (size_t k = 0; k < length; k++)
            mask[i * length + k] = ggml_fp32_to_fp16(k <= i ? 0 : -INFINITY);
    }
    ggml_backend_tensor_set(p->mask, mask, 0, ggml_nbytes(p->mask));
    free(mask);
    return 0;
}

int tr_prefill_make(struct tr_net *n, struct tr_prefill *p)
{
    const int64_t length = p->length, windows = n->shape.windows;
    int rc = tr_graph_begin(&p->graph, 64 + 96 * (size_t)n->weights->text_layers);
    if (rc < 0)
        return rc;
    struct ggml_context *c = p->graph.context;
    p->tokens = input(c, GGML_TYPE_I32, length * windows, 1, 1);
    p->positions = input(c, GGML_TYPE_I32, length * windows, 1, 1);
    p->rows = input(c, GGML_TYPE_I64, length * windows, 1, 1);
    p->sound_rows = input(c, GGML_TYPE_I32, n->sound * windows, 1, 1);
    p->wanted = input(c, GGML_TYPE_I32, 2 * windows, 1, 1);
    struct form f = { n, c, p->graph.nodes, length, windows, p->rows, p->mask, p->sound_rows, 0 };
    struct ggml_tensor *x = layers(&f, p->tokens, p->positions);
    if (x)
        x = tr_net_norm(n, c, ggml_get_rows(c, x, p->wanted), "decoder.ln", 0);
    if (n->missing)
        return 0;
    p->logits = ggml_mul_mat(c, tr_net_tensor(n, "decoder.token_embedding.weight", 0), x);
    output(p->graph.nodes, p->logits);
    rc = tr_graph_end(&p->graph, n->backend);
    return rc < 0 ? rc : set_prefill_mask(p);
}

int tr_net_longest_feed(const struct tr_net *n)
{
    return n->prefills[TR_PREFILLS - 1].length;
}

/* feed NULL: a sequence of nobody, in the last slot. */
static void set_sequence(struct tr_net *n, int length, int i, const struct tr_feed *feed)
{
    const int64_t slot = feed ? feed->slot : n->shape.slots;
    for (int t = 0; t < length; t++) {
        const size_t at = (size_t)i * (size_t)length + (size_t)t;
        n->prefill_tokens[at] = feed && t < feed->n ? feed->tokens[t] : n->weights->vocabulary.eot;
        n->prefill_positions[at] = t < n->weights->text_positions ? t : 0;
        n->prefill_rows[at] = slot * n->keys + t;
    }
    for (int t = 0; t < n->sound; t++)
        n->prefill_sound_rows[(size_t)i * (size_t)n->sound + (size_t)t] = (int32_t)(slot * n->sound + t);
    n->prefill_wanted[2 * i] = i * length + (feed ? feed->start : 0);
    n->prefill_wanted[2 * i + 1] = i * length + (feed ? feed->n - 1 : 0);
}

/* The shortest graph for all these sequences. */
static const struct tr_prefill *choose_prefill(const struct tr_net *n, const struct tr_feed *feeds, int count)
{
    int longest = 0;
    for (int i = 0; i < count; i++)
        longest = feeds[i].n > longest ? feeds[i].n : longest;
    const struct tr_prefill *p = n->prefills;
    while (p < n->prefills + TR_PREFILLS - 1 && p->length < longest)
        p++;
    return p;
}

int tr_net_prefill(struct tr_net *n, const struct tr_feed *feeds, int count)
{
    const struct tr_prefill *p = choose_prefill(n, feeds, count);
    for (int i = 0; i < n->shape.windows; i++)
        set_sequence(n, p->length, i, i < count ? &feeds[i] : NULL);
    set(n, p->tokens, n->prefill_tokens);
    set(n, p->positions, n->prefill_positions);
    set(n, p->rows, n->prefill_rows);
    set(n, p->sound_rows, n->prefill_sound_rows);
    set(n, p->wanted, n->prefill_wanted);
    if (ggml_backend_graph_compute(n->backend, p->graph.nodes) != GGML_STATUS_SUCCESS)
        return gd__fail("the decoder failed on %s", ggml_backend_name(n->backend));
    const size_t row = p->logits->nb[1];
    for (int i = 0; i < count; i++) {
        ggml_backend_tensor_get(p->logits, feeds[i].start_logits, row * (size_t)(2 * i), row);
        ggml_backend_tensor_get(p->logits, feeds[i].last_logits, row * (size_t)(2 * i + 1), row);
    }
    return 0;
}
