/* SPDX-License-Identifier: MIT
 *
 * Loads a model into whisper.cpp, after checking what whisper.cpp does not check: unknown settings, models that make it
 * abort, a missing GPU.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LOAD_H
#define GD_TRANSCRIBE_ENGINE_LOAD_H

#include "apps/transcribe/engine/settings.h"

struct whisper_context;

/* The share of one worker in the cores that this process may use; at least 1. */
unsigned tr_load_cores(const struct tr_settings *s);

/* The number of threads that one worker uses. */
int tr_load_threads(const struct tr_settings *s);

/* Checks everything that can be checked before the model is loaded: versions, settings, the file, the GPU and its free
 * memory. Returns 0, or -1 with gd__fail_text(). */
int tr_load_check(const struct tr_settings *s);

/* whisper.cpp's number of the language in the settings, which is a code or an English name, in upper or lower case. -1: it
 * does not know this language. */
int tr_load_language_number(const struct tr_settings *s);

/* Loads the model, without a state. Returns NULL with gd__fail_text() on an error. Release with whisper_free(). */
struct whisper_context *tr_load_model(const struct tr_settings *s);

/* Checks that whisper.cpp uses the GPU. To be called after the model was loaded and after each state was made. Returns
 * 0, or -1 with gd__fail_text(). */
int tr_load_on_gpu(void);

/* The language to use from the beginning of a file ("en"), as a static string. NULL: to be detected. */
const char *tr_load_language(const struct tr_settings *s, struct whisper_context *model);

#endif
