/* SPDX-License-Identifier: MIT
 *
 * The directories where models are searched for, in the order that model.h gives.
 */
#ifndef GD_TRANSCRIBE_MODEL_PLACES_H
#define GD_TRANSCRIBE_MODEL_PLACES_H

#include <stdbool.h>
#include <stddef.h>

enum { TR_PLACES = 24 };

struct tr_places {
    char *paths[TR_PLACES]; /* directories; some may not exist */
    size_t n;
    bool failed; /* no memory */
};

/* model_dir is searched first, unless it is NULL or empty. Release with tr_places_free(). */
void tr_places_collect(struct tr_places *p, const char *model_dir);
void tr_places_free(struct tr_places *p);

/* The directory that models are downloaded to: model_dir, or else the user's first directory among those above. The
 * caller frees it. NULL: no memory. */
char *tr_places_download(const char *model_dir);

/* Finds a file of this program's data: below the directory where it was installed, or in the source tree for a program
 * in a build directory. The caller frees it. NULL: not found, or no memory. */
char *tr_places_data(const char *installed, const char *in_tree);

#endif
