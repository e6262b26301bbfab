/* SPDX-License-Identifier: MIT
 *
 * Parses the pages of Ogg files. Private to header.c and the decoders.
 */
#ifndef GD_TRANSCRIBE_AUDIO_OGG_H
#define GD_TRANSCRIBE_AUDIO_OGG_H

#include "apps/transcribe/audio/header.h"
#include "apps/transcribe/audio/view.h"

/* Parses the file, whose first page is at the offset start. False if it is not an Ogg file with sound. */
bool tr_ogg_parse(struct tr_view *v, uint64_t start, struct tr_header *out);

/* Files may be chains of several links, each with its own rate and channels. Finds the end of the link that begins at
 * the offset from: *end is the offset of the next link, or size, the size of the file. Reads the header of each page.
 * Returns 0, or -1 with errno. */
int tr_ogg_link(int fd, uint64_t from, uint64_t size, uint64_t *end);

#endif
