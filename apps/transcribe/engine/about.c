/* SPDX-License-Identifier: MIT
 *
 * What the worker was built with: the versions of its libraries, and the formats that they read.
 */
#include "apps/transcribe/engine/about.h"

#include <whisper.h>

#include "apps/transcribe/audio/audio.h"
#include "base/text/buffer.h"

__attribute__((visibility("default"))) tr_about_fn tr_transcriber_about;

char *tr_transcriber_about(void)
{
    struct gd__buffer b = { 0 };
    gd__buffer_format(&b, "whisper.cpp\t%s\n", whisper_version());
    tr_audio_about(&b);
    gd__buffer_add(&b, "", 1);
    if (b.failed)
        gd__buffer_free(&b);
    return b.data;
}
