/* SPDX-License-Identifier: MIT
 *
 * Downloads a published model. The model appears under its name when it is complete and its checksum is right. Until
 * then it is in ggml-NAME.bin.part, with the name of its version in ggml-NAME.bin.part.version. If a download is
 * interrupted, the next one goes on from there.
 *
 * The part is locked while it is written. A second download of the same model waits for the first one.
 */
#ifndef GD_TRANSCRIBE_DOWNLOAD_DOWNLOAD_H
#define GD_TRANSCRIBE_DOWNLOAD_DOWNLOAD_H

#include <stdint.h>

#include "apps/transcribe/model/published.h"

enum tr_download_event {
    TR_DOWNLOAD_WAITS,    /* another process downloads this model */
    TR_DOWNLOAD_STARTS,   /* from the beginning */
    TR_DOWNLOAD_GOES_ON,  /* after the part that is there */
    TR_DOWNLOAD_PROGRESS, /* a piece was stored */
    TR_DOWNLOAD_CHECKS,   /* the checksum is computed */
};

struct tr_download {
    const struct tr_published *model;
    const char *directory; /* is created if it does not exist */
    const char *base;      /* a mirror; NULL: where the model is published */
    /* Called on the same thread. have and total are bytes. */
    void (*event)(void *user, enum tr_download_event event, uint64_t have, uint64_t total);
    void *user;
};

/* Returns 0 if the model was downloaded, 1 if it was there already, or -1 with gd__fail_text(). *path is the path of the
 * model, which the caller frees; NULL if there is none. */
int tr_download(const struct tr_download *d, char **path);

#endif
