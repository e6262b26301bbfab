/* SPDX-License-Identifier: MIT
 *
 * Decoders: the libraries that audio.c can read a file with, each behind the same few functions. Private to audio.c and
 * to them.
 */
#ifndef GD_TRANSCRIBE_AUDIO_DECODER_H
#define GD_TRANSCRIBE_AUDIO_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/audio/header.h"

/* The file as decoders see it: bytes from a place that they move. Its name is nothing to them, so none can be led to
 * open something else. What goes wrong is remembered in error. */
struct tr_file {
    int fd;
    uint64_t at, size;
    int error;        /* errno of a read that failed, or ENOMEM of a decoder that had no memory; 0: none */
    uint64_t mend_at; /* where four bytes are read as if they were those below; 0: nowhere */
    uint8_t mend[4];
};

/* Bytes read: 0 at the end, -1 with error set. */
ssize_t tr_file_read(struct tr_file *f, void *to, size_t size);

/* As lseek(): the new place, or -1. */
int64_t tr_file_seek(struct tr_file *f, int64_t offset, int whence);

/* What is in a file. */
struct tr_sound {
    int rate, channels;
    unsigned lanes;  /* samples per frame that read() gives: channels, or 1 if the decoder has mixed them */
    uint64_t frames; /* how many the header promises; 0: it does not, or may be wrong */
    uint64_t slack;  /* how many of them may be missing: containers round */
    double seconds;  /* how long it plays, maybe estimated; 0: not known */
    char format[16];
};

enum { TR_WHY = 160 }; /* bytes of a reason: "Format not recognised." */

struct tr_decoder {
    const char *name; /* for people */
    /* Whether it is worth a try, by what the header told; NULL: always. */
    bool (*wants)(const struct tr_header *h);
    /* Its own state, or NULL with a reason. The file stays the caller's. */
    void *(*open)(struct tr_file *f, const struct tr_header *h, struct tr_sound *out, char why[TR_WHY]);
    /* Frames read, each of `lanes` samples; 0 at the end, -1 with a reason. */
    long (*read)(void *state, float *to, size_t frames, char why[TR_WHY]);
    void (*close)(void *state);
};

extern const struct tr_decoder tr_mpg123, tr_sndfile, tr_ffmpeg;

/* tr_audio_open() with so many seconds ahead. */
int tr_audio_open_ahead(struct tr_audio **out, const char *path, unsigned ahead_s, char words[TR_WORDS]);

#endif
