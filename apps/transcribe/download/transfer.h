/* SPDX-License-Identifier: MIT
 *
 * Fetches a file over HTTP or HTTPS into an open file, or the rest of it if a part is there already. The rest is stored
 * only if it is of the same version as the part: the server gets the version's name (its entity tag or date) with the
 * request, and the name in its answer must be the same.
 */
#ifndef GD_TRANSCRIBE_DOWNLOAD_TRANSFER_H
#define GD_TRANSCRIBE_DOWNLOAD_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

enum { TR_VERSION = 256 };

enum tr_transfer_end {
    TR_TRANSFER_WHOLE,  /* everything was stored */
    TR_TRANSFER_OTHER,  /* the part is not of the version that the server has: start again without it */
    TR_TRANSFER_FAILED, /* gd__fail_text() says why; what has arrived is stored */
};

struct tr_transfer {
    const char *address;
    int fd;                   /* of the file; everything up to `have` is there */
    uint64_t have, total;     /* total: the exact size of the whole file */
    char version[TR_VERSION]; /* of the part; empty: not known */
    /* Called before the first byte of a new version is stored, with the name of the version in `version`. */
    void (*started)(void *user, const struct tr_transfer *t);
    /* Called after each piece. NULL: not wanted. */
    void (*progress)(void *user, uint64_t have, uint64_t total);
    void *user;
};

enum tr_transfer_end tr_transfer(struct tr_transfer *t);

/* Whether a text can be sent as the name of a version. */
bool tr_transfer_is_version(const char *text);

#endif
