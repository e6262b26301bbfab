/* SPDX-License-Identifier: MIT
 *
 * Everything that is opened for a model: device, weights, net, filters, and how to decode. The number of slots is chosen
 * from the free memory of the device, and halved until everything fits.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_MODEL_H
#define GD_TRANSCRIBE_ENGINE_LANES_MODEL_H

#include "apps/transcribe/engine/lanes/lane.h"
#include "apps/transcribe/engine/lanes/net/net.h"
#include "apps/transcribe/engine/settings.h"

struct tr_lanes_model {
    ggml_backend_t backend;
    struct tr_weights weights;
    struct tr_net *net;
    struct tr_net_shape shape;
    unsigned slots; /* to be used; the shape may have more */
    struct tr_filters *filters;
    struct tr_decoding decoding;
    int language;        /* its number; TR_NO_LANGUAGE: to be detected */
    int *prompt, *fixed; /* tokens before the first window, and before every window */
    size_t n_prompt;
    int n_fixed;
    uint8_t *forbidden; /* one byte for each text token that must not be chosen; NULL: all are allowed */
};

/* Returns 0, -1 with gd__fail_text(), or TR_LANES_UNFIT with gd__fail_text() if only whisper.cpp's own decoder can use this
 * model on this device. Release with tr_lanes_model_close(). */
int tr_lanes_model_open(struct tr_lanes_model *m, const struct tr_settings *s);
void tr_lanes_model_close(struct tr_lanes_model *m);

#endif
