/* SPDX-License-Identifier: MIT
 *
 * Graphs and the parts that encoder and decoder have in common. A tensor that the model lacks is replaced by another one
 * while the graph is made, so that making it goes on; the graph is then never computed.
 */
#include "apps/transcribe/engine/lanes/net/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"

int tr_graph_begin(struct tr_graph *g, size_t nodes)
{
    const size_t size = ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false);
    g->context = ggml_init((struct ggml_init_params){ size, NULL, true });
    if (!g->context)
        return gd__fail("no memory for a graph"), TR_NET_NO_MEMORY;
    g->nodes = ggml_new_graph_custom(g->context, nodes, false);
    return 0;
}

static int check_nodes(const struct tr_graph *g, ggml_backend_t backend)
{
    for (int i = 0; i < ggml_graph_n_nodes(g->nodes); i++) {
        const struct ggml_tensor *node = ggml_graph_node(g->nodes, i);
        if (!ggml_backend_supports_op(backend, node))
            return gd__fail("%s cannot compute %s of this model", ggml_backend_name(backend), ggml_op_desc(node)),
                   TR_NET_UNFIT;
    }
    return 0;
}

int tr_graph_end(struct tr_graph *g, ggml_backend_t backend)
{
    const int rc = check_nodes(g, backend);
    if (rc < 0)
        return rc;
    g->memory = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (!g->memory || !ggml_gallocr_alloc_graph(g->memory, g->nodes))
        return gd__fail("no memory for computing on the device"), TR_NET_NO_MEMORY;
    return 0;
}

void tr_graph_free(struct tr_graph *g)
{
    if (g->memory)
        ggml_gallocr_free(g->memory);
    ggml_free(g->context);
    *g = (struct tr_graph){ 0 };
}

struct ggml_tensor *tr_net_tensor(struct tr_net *n, const char *name, int layer)
{
    struct ggml_tensor *t = tr_weights_find(n->weights, name, layer, 0, 0);
    if (!t && !n->missing)
        n->missing = name;
    return t;
}

/* "encoder.blocks.%d.attn_ln" and ".weight" */
static struct ggml_tensor *part(struct tr_net *n, const char *name, int layer, const char *end)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", name, end);
    struct ggml_tensor *t = tr_weights_find(n->weights, full, layer, 0, 0);
    if (!t && !n->missing)
        n->missing = name;
    return t;
}

struct ggml_tensor *tr_net_norm(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, const char *name,
                                int layer)
{
    struct ggml_tensor *weight = part(n, name, layer, ".weight"), *bias = part(n, name, layer, ".bias");
    if (!weight || !bias || weight->ne[0] != x->ne[0] || bias->ne[0] != x->ne[0]) {
        n->missing = n->missing ? n->missing : name;
        return x;
    }
    return ggml_add(c, ggml_mul(c, ggml_norm(c, x, 1e-5f), weight), bias);
}

struct ggml_tensor *tr_net_linear(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x, const char *name,
                                  int layer, bool with_bias)
{
    struct ggml_tensor *weight = part(n, name, layer, ".weight");
    struct ggml_tensor *bias = with_bias ? part(n, name, layer, ".bias") : NULL;
    if (!weight || (with_bias && !bias) || weight->ne[0] != x->ne[0] || (bias && bias->ne[0] != weight->ne[1])) {
        n->missing = n->missing ? n->missing : name;
        return x;
    }
    struct ggml_tensor *y = ggml_mul_mat(c, weight, x);
    return bias ? ggml_add(c, y, bias) : y;
}

struct ggml_tensor *tr_net_feed_forward(struct tr_net *n, struct ggml_context *c, struct ggml_tensor *x,
                                        const char *half, int layer)
{
    char norm[64], in[64], out[64];
    snprintf(norm, sizeof norm, "%s.blocks.%%d.mlp_ln", half);
    snprintf(in, sizeof in, "%s.blocks.%%d.mlp.0", half);
    snprintf(out, sizeof out, "%s.blocks.%%d.mlp.2", half);
    struct ggml_tensor *y = tr_net_norm(n, c, x, norm, layer);
    y = ggml_gelu(c, tr_net_linear(n, c, y, in, layer, true));
    y = tr_net_linear(n, c, y, out, layer, true);
    return n->missing ? x : ggml_add(c, y, x);
}
