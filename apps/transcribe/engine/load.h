/* SPDX-License-Identifier: MIT
 *
 * Loading a model into whisper.cpp, after everything was checked that whisper.cpp takes on trust: settings it does not
 * know, models that make it abort, a GPU that is not there.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LOAD_H
#define GD_TRANSCRIBE_ENGINE_LOAD_H

#include "apps/transcribe/engine/settings.h"

struct whisper_context;

/* How many threads one worker uses. */
int tr_load_threads(const struct tr_settings *s);

/* Without a state; NULL with gd__fail_text(). Release with whisper_free(). */
struct whisper_context *tr_load_model(const struct tr_settings *s);

/* Once the model is loaded, and whenever a state was made: whether that went to the GPU. 0, or -1 with
 * gd__fail_text(). */
int tr_load_on_gpu(void);

/* The language for a file to begin with: "en"; NULL: to be detected. Static. */
const char *tr_load_language(const struct tr_settings *s, struct whisper_context *model);

#endif
