/* SPDX-License-Identifier: MIT
 *
 * The bytes of a file, as the parsers of headers see them. Private to the parsers.
 *
 * The bytes come from the caller's buffers or, if there is a descriptor, from the file itself. Every offset is checked,
 * so a parser may use any offset.
 */
#ifndef GD_TRANSCRIBE_AUDIO_VIEW_H
#define GD_TRANSCRIBE_AUDIO_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed struct is an empty file; fd should then be -1. */
struct tr_view {
    const uint8_t *begin, *end; /* the first begin_size bytes, the last end_size bytes */
    uint64_t begin_size, end_size, size;
    uint64_t from; /* where the bytes of this view begin in the file of fd */
    int fd;        /* -1: only the bytes of begin and end can be read */
    int error;     /* errno of a failed read */
};

/* Gets n bytes. False if they cannot be read, or are not in the file. */
bool tr_view_get(struct tr_view *v, uint64_t at, void *to, size_t n);

/* Gets at most `most` bytes, and fewer if the file ends. Returns their number. */
size_t tr_view_some(struct tr_view *v, uint64_t at, void *to, size_t most);

/* A number of n bytes, n <= 8. */
uint64_t tr_little(const uint8_t *b, int n);
uint64_t tr_big(const uint8_t *b, int n);

bool tr_begins_with(const uint8_t *b, const char *word);

#endif
