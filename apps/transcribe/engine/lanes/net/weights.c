/* SPDX-License-Identifier: MIT
 *
 * Reads a model file. All numbers are 32 bits, little-endian:
 *
 *   magic; 11 sizes; filters: mels, bins, mels x bins floats; tokens: count, then length and bytes of each;
 *   tensors to the end of the file: number of dimensions, length of the name, type, dimensions, name, data
 *
 * The list of tensors is read first, then memory is reserved for all of them, then their data is read.
 */
#include "apps/transcribe/engine/lanes/net/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

enum { MAGIC = 0x67676d6c, MOST_TENSORS = 4096, NAME = 128, MOST_TOKENS = 1 << 20, MOST_MELS = 1024 };

enum { ORDINARY = TR_WEIGHT_PLACES - 1 };

struct reader {
    const char *path;
    ggml_backend_buffer_type_t types[TR_WEIGHT_PLACES]; /* the kinds of memory; NULL: there is none */
    ggml_backend_buffer_t none[TR_WEIGHT_PLACES];       /* an empty buffer of each */
    FILE *file;
    long offsets[MOST_TENSORS]; /* where the data of each tensor begins */
    struct ggml_tensor *tensors[MOST_TENSORS];
    size_t n;
};

static int bad(const struct reader *r, const char *what)
{
    return gd__fail("the model %s cannot be used: %s", r->path, what);
}

static int get(struct reader *r, void *to, size_t size)
{
    return size == 0 || fread(to, 1, size, r->file) == size ? 0 : bad(r, "it ends too early, or cannot be read");
}

static int get_sizes(struct reader *r, struct tr_weights *w)
{
    struct {
        int32_t magic, tokens, audio_positions, audio_state, audio_heads, audio_layers, text_positions, text_state,
            text_heads, text_layers, mels, type;
    } s;
    if (get(r, &s, sizeof s) < 0)
        return -1;
    const bool sound = s.magic == MAGIC && s.tokens > 0 && s.tokens < MOST_TOKENS && s.audio_positions > 0 &&
                       s.audio_state > 0 && s.audio_heads > 0 && s.audio_layers > 0 && s.text_positions > 0 &&
                       s.text_heads > 0 && s.text_layers > 0;
    if (!sound || s.text_state != s.audio_state || s.audio_state % s.audio_heads || s.text_state % s.text_heads)
        return bad(r, "its sizes are not those of a Whisper model");
    w->audio_positions = s.audio_positions;
    w->state = s.audio_state;
    w->audio_heads = s.audio_heads;
    w->audio_layers = s.audio_layers;
    w->text_positions = s.text_positions;
    w->text_heads = s.text_heads;
    w->text_layers = s.text_layers;
    tr_vocabulary_begin(&w->vocabulary, s.tokens);
    return 0;
}

static int get_filters(struct reader *r, struct tr_weights *w)
{
    int32_t size[2];
    if (get(r, size, sizeof size) < 0)
        return -1;
    if (size[0] <= 0 || size[0] > MOST_MELS || size[1] <= 0 || size[1] > MOST_MELS)
        return bad(r, "the filters of its spectrum have a wrong size");
    w->mels = size[0];
    w->bins = size[1];
    const size_t n = (size_t)w->mels * (size_t)w->bins;
    w->filters = malloc(n * sizeof *w->filters);
    return w->filters ? get(r, w->filters, n * sizeof *w->filters) : gd__fail("no memory for the model");
}

/* Reads n lengths and texts into two new arrays. */
static int get_texts(struct reader *r, int n, uint32_t *lengths, char **text)
{
    size_t total = 0, room = 0;
    for (int i = 0; i < n; i++) {
        if (get(r, &lengths[i], sizeof *lengths) < 0)
            return -1;
        if (lengths[i] > 4096)
            return bad(r, "one of its tokens is too long");
        if (total + lengths[i] > room) {
            room = 2 * (total + lengths[i]);
            char *more = realloc(*text, room);
            if (!more)
                return gd__fail("no memory for the tokens of the model");
            *text = more;
        }
        if (get(r, *text + total, lengths[i]) < 0)
            return -1;
        total += lengths[i];
    }
    return 0;
}

static int get_tokens(struct reader *r, struct tr_vocabulary *v)
{
    int32_t n;
    if (get(r, &n, sizeof n) < 0)
        return -1;
    if (n < 0 || n > v->size)
        return bad(r, "it has more tokens than its size says");
    uint32_t *lengths = malloc(((size_t)n + 1) * sizeof *lengths);
    char *text = NULL;
    int rc = lengths ? get_texts(r, n, lengths, &text) : gd__fail("no memory for the tokens of the model");
    if (rc == 0)
        rc = tr_vocabulary_set(v, n, lengths, text ? text : "");
    free(lengths);
    free(text);
    return rc;
}

/* --- where weights are stored ------------------------------------------------------ */

/* Only a CPU has several kinds of memory. whisper.cpp uses them too, and the results of their kernels differ a little. */
static void find_types(struct reader *r, ggml_backend_t backend)
{
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    r->types[ORDINARY] = ggml_backend_get_default_buffer_type(backend);
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
        return;
    ggml_backend_dev_get_extra_bufts_t get_extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                                              "ggml_backend_dev_get_extra_bufts");
    const ggml_backend_buffer_type_t *extra = get_extra ? get_extra(device) : NULL;
    for (int i = 0; i < ORDINARY && extra && extra[i]; i++) {
        r->types[i] = extra[i];
        r->none[i] = ggml_backend_buft_alloc_buffer(extra[i], 0);
    }
}

/* Whether a tensor is only used as the weights of a linear layer. */
static bool is_linear(const struct ggml_tensor *t)
{
    return ggml_n_dims(t) == 2 && strstr(t->name, ".blocks.") && strstr(t->name, ".weight");
}

/* Asks the device whether it can multiply a tensor of this shape and type in this kind of memory. */
static bool can_multiply(ggml_backend_t backend, const struct ggml_tensor *t, ggml_backend_buffer_t memory)
{
    struct ggml_context *c = ggml_init((struct ggml_init_params){ 4 * ggml_tensor_overhead(), NULL, true });
    if (!c)
        return false;
    struct ggml_tensor *weight = ggml_dup_tensor(c, t);
    struct ggml_tensor *product = ggml_mul_mat(c, weight, ggml_new_tensor_2d(c, GGML_TYPE_F32, t->ne[0], 512));
    weight->buffer = memory;
    const bool can = ggml_backend_dev_supports_op(ggml_backend_get_device(backend), product);
    ggml_free(c);
    return can;
}

static int choose_place(const struct reader *r, ggml_backend_t backend, const struct ggml_tensor *t)
{
    for (int i = 0; i < ORDINARY && is_linear(t); i++) {
        if (r->none[i] && can_multiply(backend, t, r->none[i]))
            return i;
    }
    return ORDINARY;
}

static struct ggml_context *open_place(struct tr_weight_place *p)
{
    if (!p->tensors)
        p->tensors = ggml_init((struct ggml_init_params){ ggml_tensor_overhead() * (MOST_TENSORS + 1), NULL, true });
    return p->tensors;
}

/* Moves tensors from the ordinary place, where they have no memory yet, to their own places. */
static int place_tensors(struct reader *r, struct tr_weights *w, ggml_backend_t backend)
{
    struct ggml_context *all = w->places[ORDINARY].tensors;
    w->places[ORDINARY].tensors = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        struct ggml_context *c = open_place(&w->places[choose_place(r, backend, r->tensors[i])]);
        struct ggml_tensor *t = c ? ggml_dup_tensor(c, r->tensors[i]) : NULL;
        if (!t) {
            rc = gd__fail("no memory for the model");
            break;
        }
        ggml_set_name(t, r->tensors[i]->name);
        r->tensors[i] = t;
    }
    ggml_free(all);
    return rc;
}

static int reserve_places(const struct reader *r, struct tr_weights *w)
{
    for (int i = 0; i < TR_WEIGHT_PLACES; i++) {
        struct tr_weight_place *p = &w->places[i];
        if (!p->tensors)
            continue;
        p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->tensors, r->types[i]);
        if (!p->buffer)
            return gd__fail("no memory for the model %s on the device", r->path);
        ggml_backend_buffer_set_usage(p->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    return 0;
}

/* --- tensors ------------------------------------------------------------------------- */

/* Reads what comes before a tensor's data. Returns 1, 0 at the end of the file, or -1. */
static int get_tensor(struct reader *r, struct tr_weights *w)
{
    int32_t head[3], ne[4] = { 1, 1, 1, 1 };
    char name[NAME] = "";
    if (fread(head, sizeof *head, 1, r->file) != 1)
        return feof(r->file) ? 0 : bad(r, "it cannot be read");
    if (get(r, head + 1, 2 * sizeof *head) < 0)
        return -1;
    if (head[0] < 1 || head[0] > 4 || head[1] < 1 || head[1] >= NAME || head[2] < 0 || head[2] >= GGML_TYPE_COUNT ||
        ggml_blck_size((enum ggml_type)head[2]) == 0 || r->n == MOST_TENSORS)
        return bad(r, "one of its tensors is of an unknown kind");
    if (get(r, ne, (size_t)head[0] * sizeof *ne) < 0 || get(r, name, (size_t)head[1]) < 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        if (ne[i] < 1 || (i == 0 && ne[i] % ggml_blck_size((enum ggml_type)head[2])))
            return bad(r, "one of its tensors has a wrong size");
    }
    struct ggml_tensor *t =
        ggml_new_tensor_4d(w->places[ORDINARY].tensors, (enum ggml_type)head[2], ne[0], ne[1], ne[2], ne[3]);
    ggml_set_name(t, name);
    r->tensors[r->n] = t;
    r->offsets[r->n++] = ftell(r->file);
    return fseek(r->file, (long)ggml_nbytes(t), SEEK_CUR) == 0 ? 1 : bad(r, "it cannot be read");
}

static int get_data(struct reader *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->n; i++)
        most = ggml_nbytes(r->tensors[i]) > most ? ggml_nbytes(r->tensors[i]) : most;
    void *data = malloc(most + 1);
    int rc = data ? 0 : gd__fail("no memory for the model");
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        const size_t size = ggml_nbytes(r->tensors[i]);
        rc = fseek(r->file, r->offsets[i], SEEK_SET) == 0 ? get(r, data, size) : bad(r, "it cannot be read");
        if (rc == 0)
            ggml_backend_tensor_set(r->tensors[i], data, 0, size);
    }
    free(data);
    return rc;
}

static int read_model(struct reader *r, struct tr_weights *w, ggml_backend_t backend)
{
    int rc;
    if (get_sizes(r, w) < 0 || get_filters(r, w) < 0 || get_tokens(r, &w->vocabulary) < 0)
        return -1;
    if (!open_place(&w->places[ORDINARY]))
        return gd__fail("no memory for the model");
    while ((rc = get_tensor(r, w)) > 0)
        ;
    if (rc < 0)
        return -1;
    if (r->n == 0)
        return bad(r, "it has no tensors");
    find_types(r, backend);
    return place_tensors(r, w, backend) < 0 || reserve_places(r, w) < 0 ? -1 : get_data(r);
}

int tr_weights_load(struct tr_weights *w, const char *path, ggml_backend_t backend)
{
    *w = (struct tr_weights){ 0 };
    struct reader *r = calloc(1, sizeof *r);
    if (!r)
        return gd__fail("no memory for the model");
    r->path = path;
    r->file = fopen(path, "rbe");
    const int rc = r->file ? read_model(r, w, backend) : gd__fail("the model %s cannot be opened: %m", path);
    if (r->file)
        fclose(r->file);
    for (int i = 0; i < TR_WEIGHT_PLACES; i++)
        ggml_backend_buffer_free(r->none[i]);
    free(r);
    if (rc < 0)
        tr_weights_free(w);
    return rc;
}

void tr_weights_free(struct tr_weights *w)
{
    for (int i = 0; i < TR_WEIGHT_PLACES; i++) {
        ggml_backend_buffer_free(w->places[i].buffer);
        ggml_free(w->places[i].tensors);
    }
    free(w->filters);
    tr_vocabulary_free(&w->vocabulary);
    *w = (struct tr_weights){ 0 };
}

struct ggml_tensor *tr_weights_find(const struct tr_weights *w, const char *name, int layer, int64_t ne0, int64_t ne1)
{
    char full[NAME];
    const char *number = strstr(name, "%d");
    if (number)
        snprintf(full, sizeof full, "%.*s%d%s", (int)(number - name), name, layer, number + 2);
    else
        snprintf(full, sizeof full, "%s", name);
    struct ggml_tensor *t = NULL;
    for (int i = 0; !t && i < TR_WEIGHT_PLACES; i++)
        t = w->places[i].tensors ? ggml_get_tensor(w->places[i].tensors, full) : NULL;
    return t && (ne0 == 0 || t->ne[0] == ne0) && (ne1 == 0 || t->ne[1] == ne1) ? t : NULL;
}
