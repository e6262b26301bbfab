/* SPDX-License-Identifier: MIT
 *
 * Fetches inputs over HTTP or HTTPS, for machines that share no file system. The file is stored without a name in TMPDIR,
 * so nothing is left behind, whatever happens to the process.
 *
 * libcurl does it. It is opened when the first file is fetched, so nobody else needs it. A user and a password come from
 * ~/.netrc: in an address they would be seen in lists of processes.
 */
#ifndef GD_TRANSCRIBE_FETCH_FETCH_H
#define GD_TRANSCRIBE_FETCH_FETCH_H

#include "apps/transcribe/audio/audio.h"
#include "base/text/buffer.h"

/* Whether libcurl can be used. If not, returns -1 with gd__fail_text(). */
int tr_fetch_possible(void);

/* Checks an address that paths are appended to. Returns 0, or -1 with gd__fail_text(). */
int tr_fetch_check_base(const char *base);

/* The same for files other than inputs; what is their name in messages: "models". */
int tr_fetch_check_address(const char *what, const char *base);

/* Appends the address of the file `path`: the base, a slash, and the path with its special characters encoded. Returns 0,
 * or -1 with gd__fail_text() if the path has a component "." or "..": servers treat those differently. */
int tr_fetch_address(struct gd__buffer *b, const char *base, const char *path);

/* Fetches a file. A server that is silent for a minute is given up. Returns a descriptor, which the caller closes, or
 * TR_UNFIT (there is no such file) or TR_UNREAD (it may be there another time) with an error message. */
int tr_fetch(const char *base, const char *path, char message[TR_MESSAGE_MAX]);

#endif
