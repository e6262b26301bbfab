/* SPDX-License-Identifier: MIT
 *
 * Finds models, and checks whether a file is a model.
 *
 * A size ("base", "large-v3", "base.en-q5_1", "demo") means the file ggml-SIZE.bin in the first of these directories
 * that has it: --model-dir; $GPU_DISPATCH_MODELS; $WHISPER_MODEL_DIR; ./models; the directory where this program's data
 * was installed (the demo model); ~/.cache/whisper.cpp, ~/.cache/whisper, ~/.local/share/whisper.cpp (and the same in
 * $XDG_CACHE_HOME and $XDG_DATA_HOME); the snapshots of ggerganov/whisper.cpp in Hugging Face's cache ($HF_HUB_CACHE,
 * $HF_HOME/hub, ~/.cache/huggingface/hub). "large" means large-v3, "turbo" means large-v3-turbo.
 */
#ifndef GD_TRANSCRIBE_MODEL_MODEL_H
#define GD_TRANSCRIBE_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { TR_MODEL_NAME = 64 };

struct tr_model {
    char *path;
    char name[TR_MODEL_NAME]; /* "base", or taken from the file's name */
    uint64_t bytes;
    bool multilingual; /* false: English only */
    int layers;        /* of the encoder */
    int mels;
};

/* Finds a model by size, or by path if path is not NULL. A path without a slash and without .bin that names no file is
 * taken as a size. Checks the file: its magic, every tensor up to its last byte
 * (a truncated file is refused) and, for a published model under its own name, its checksum. A correct checksum is
 * stored in the cache directory with the file's path, size and time, and not computed again. Returns 0, or -1 with
 * gd__fail_text(). The error message lists the directories that were searched and the exact command that downloads the
 * model. Or it says what is wrong with the file and what to do. Release with tr_model_free(). */
int tr_model_find(struct tr_model *out, const char *size, const char *path, const char *model_dir);
void tr_model_free(struct tr_model *m);

/* The same check, without the checksum. Release with tr_model_free(). */
int tr_model_check(struct tr_model *out, const char *path);

/* A file's base name without ggml- and .bin. */
void tr_model_name(char name[TR_MODEL_NAME], const char *path);

#endif
