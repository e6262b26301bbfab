/* SPDX-License-Identifier: MIT
 *
 * The contents of a model file in whisper.cpp's format: sizes, filters of the spectrum, tokens, and the weights as ggml
 * tensors in the memory of a device.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_NET_WEIGHTS_H
#define GD_TRANSCRIBE_ENGINE_LANES_NET_WEIGHTS_H

#include <ggml-backend.h>
#include <ggml.h>

#include "apps/transcribe/engine/lanes/tokens/vocabulary.h"

enum { TR_WEIGHT_PLACES = 4 };

struct tr_weights {
    int audio_positions, state, audio_heads, audio_layers; /* of the encoder */
    int text_positions, text_heads, text_layers;           /* of the decoder, which has the same state */
    int mels, bins;                                        /* the filters are a table of mels x bins */
    float *filters;
    struct tr_vocabulary vocabulary;
    /* The weights, by the kind of memory that they are in. The last place is ordinary memory of the device. A CPU can
     * have others, where ggml stores some quantised types in another order and multiplies them faster. */
    struct tr_weight_place {
        struct ggml_context *tensors; /* NULL: this place is not used */
        ggml_backend_buffer_t buffer;
    } places[TR_WEIGHT_PLACES];
};

/* Reads a model that tr_model_check() has accepted. Returns 0, or -1 with gd__fail_text(). Release with
 * tr_weights_free(). */
int tr_weights_load(struct tr_weights *w, const char *path, ggml_backend_t backend);
void tr_weights_free(struct tr_weights *w);

/* Finds a tensor: "encoder.conv1.weight", or with a number for %d. Returns NULL if the model has none, or another
 * shape. An `ne` of 0 accepts any size. */
struct ggml_tensor *tr_weights_find(const struct tr_weights *w, const char *name, int layer, int64_t ne0, int64_t ne1);

#endif
