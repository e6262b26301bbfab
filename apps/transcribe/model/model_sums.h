/* SPDX-License-Identifier: MIT
 *
 * The published models: their names, and a check that a file is the model that its name says.
 */
#ifndef GD_TRANSCRIBE_MODEL_MODEL_SUMS_H
#define GD_TRANSCRIBE_MODEL_MODEL_SUMS_H

#include <stddef.h>

/* The names: the published models first, "demo" last. *n is their number. */
const char *const *tr_model_names(size_t *n);

/* The SHA-1 of the model with this name, in hexadecimal. NULL if the name is not one of the above. */
const char *tr_model_sum(const char *name);

/* Compares a file's SHA-1 with the expected one. Returns 1 if they are equal; 0 if not, with the file's SHA-1 in found
 * (41 bytes); -1 with gd__fail_text() if the file can't be read. A match is stored in
 * $XDG_CACHE_HOME/gpu_dispatch/models.tsv (or in ~/.cache) with the file's path, size and time, and the file is not
 * read again. A failure to store it is not an error. */
int tr_model_verify(const char *path, const char *sum, char found[41]);

#endif
