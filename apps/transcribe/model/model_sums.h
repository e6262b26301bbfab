/* SPDX-License-Identifier: MIT
 *
 * Checks that a file is the model that its name says, by its checksum.
 */
#ifndef GD_TRANSCRIBE_MODEL_MODEL_SUMS_H
#define GD_TRANSCRIBE_MODEL_MODEL_SUMS_H

#include <stdbool.h>

enum { TR_SUM_TEXT = 65 }; /* room for a SHA-1 or a SHA-256, in hexadecimal */

/* Computes a file's checksum, of the same kind as `like`. Returns 0, or -1 with gd__fail_text(). */
int tr_model_sum_file(const char *path, const char *like, char found[TR_SUM_TEXT]);

/* Compares a file's checksum with the expected one. Returns 1 if they are equal; 0 if not, with the file's own in found;
 * -1 with gd__fail_text() if the file can't be read. A match is stored in $XDG_CACHE_HOME/gpu_dispatch/models.tsv (or in
 * ~/.cache) with the file's path, size and time, and the file is not read again. A failure to store it is not an
 * error. */
int tr_model_verify(const char *path, const char *sum, char found[TR_SUM_TEXT]);

/* Whether a match is stored for this file as it is now. The file is not read. */
bool tr_model_is_verified(const char *path, const char *sum);

/* Stores a match. */
void tr_model_remember(const char *path, const char *sum);

#endif
