/* SPDX-License-Identifier: MIT
 *
 * The published models: their names, and whether a file is the one of its name.
 */
#ifndef GD_TRANSCRIBE_MODEL_MODEL_SUMS_H
#define GD_TRANSCRIBE_MODEL_MODEL_SUMS_H

#include <stddef.h>

/* The names, those of the published ones first and "demo" last; *n is how many there are. */
const char *const *tr_model_names(size_t *n);

/* The SHA-1 that the model of a name has, in hexadecimal, or NULL if it is none of those above. */
const char *tr_model_sum(const char *name);

/* Compares a file's SHA-1 with what it has to be. 1: it is; 0: it is not, and found (41 bytes) is what it is; -1 with
 * gd__fail_text(): it can't be read. That a file is as it has to be is remembered in
 * $XDG_CACHE_HOME/gpu_dispatch/models.tsv (or in ~/.cache) for its path, size and time: then it is not read again. Not
 * being able to remember is no error. */
int tr_model_verify(const char *path, const char *sum, char found[41]);

#endif
