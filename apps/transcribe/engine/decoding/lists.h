/* SPDX-License-Identifier: MIT
 *
 * Settings that are lists: the parts of a file that are transcribed, and the tokens that are suppressed.
 */
#ifndef GD_TRANSCRIBE_ENGINE_DECODING_LISTS_H
#define GD_TRANSCRIBE_ENGINE_DECODING_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of a file. */
struct tr_clip {
    double start, end; /* seconds; end INFINITY: to the end of the file */
};

/* A zeroed struct is empty. */
struct tr_clips {
    struct tr_clip *items;
    size_t n;
};

/* Reads "start,end,start,end,...", in seconds and in ascending order. The last end may be left out. An empty text, or
 * "0", is the whole file. shown is the name in error messages. Returns 0, or -1 with gd__fail_text(). */
int tr_clips_parse(struct tr_clips *out, const char *shown, const char *text);
void tr_clips_free(struct tr_clips *clips);

/* A zeroed struct is empty. */
struct tr_token_list {
    int32_t *ids;
    size_t n;
    bool non_speech; /* the list has -1: also symbols that are not speech */
};

/* Reads "-1,50362,...". Returns 0, or -1 with gd__fail_text(). */
int tr_token_list_parse(struct tr_token_list *out, const char *shown, const char *text);
void tr_token_list_free(struct tr_token_list *list);

#endif
