/* SPDX-License-Identifier: MIT
 *
 * Reads a model file. All numbers are 32 bits, little-endian:
 *
 *   magic; 11 sizes; filters: mels, bins, mels x bins floats; tokens: count, then length and bytes of each;
 *   tensors to the end of the file: number of dimensions, length of the name, type, dimensions, name, data
 *
 * The list of tensors is read first, then memory is reserved for all of them, then their data is read.
 */
#include "apps/transcribe/engine/lanes/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

enum { MAGIC = 0x67676d6c, MOST_TENSORS = 4096, NAME = 128, MOST_TOKENS = 1 << 20, MOST_MELS = 1024 };

struct reader {
    const char *path;
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
    struct ggml_tensor *t = ggml_new_tensor_4d(w->tensors, (enum ggml_type)head[2], ne[0], ne[1], ne[2], ne[3]);
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
    w->tensors = ggml_init((struct ggml_init_params){ ggml_tensor_overhead() * (MOST_TENSORS + 1), NULL, true });
    if (!w->tensors)
        return gd__fail("no memory for the model");
    while ((rc = get_tensor(r, w)) > 0)
        ;
    if (rc < 0)
        return -1;
    if (r->n == 0)
        return bad(r, "it has no tensors");
    w->buffer = ggml_backend_alloc_ctx_tensors(w->tensors, backend);
    if (!w->buffer)
        return gd__fail("no memory for the model %s on the device", r->path);
    ggml_backend_buffer_set_usage(w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return get_data(r);
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
    free(r);
    if (rc < 0)
        tr_weights_free(w);
    return rc;
}

void tr_weights_free(struct tr_weights *w)
{
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->tensors);
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
    struct ggml_tensor *t = ggml_get_tensor(w->tensors, full);
    return t && (ne0 == 0 || t->ne[0] == ne0) && (ne1 == 0 || t->ne[1] == ne1) ? t : NULL;
}
