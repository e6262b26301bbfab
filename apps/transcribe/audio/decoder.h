/* SPDX-License-Identifier: MIT
 *
 * Decoders: the libraries with which source.c reads files. All have the same interface. Private to this directory.
 */
#ifndef GD_TRANSCRIBE_AUDIO_DECODER_H
#define GD_TRANSCRIBE_AUDIO_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/audio/header.h"
#include "base/text/buffer.h"

/* The file as decoders see it: bytes, and a position that the decoder moves. It may be a part of the real file. Decoders
 * do not get the name of the file, so a file cannot make them open other files. Errors are kept in `error`. */
struct tr_file {
    int fd;
    uint64_t from; /* offset of the part in the real file */
    uint64_t at, size;
    int error;        /* errno of a failed read, or ENOMEM if a decoder had no memory; 0: no error */
    uint64_t mend_at; /* offset of four bytes that are read as `mend` instead; 0: none */
    uint8_t mend[4];
};

/* Returns the number of bytes read, 0 at the end, or -1 with error set. */
ssize_t tr_file_read(struct tr_file *f, void *to, size_t size);

/* Like lseek(): returns the new position, or -1. */
int64_t tr_file_seek(struct tr_file *f, int64_t offset, int whence);

/* A decoder's description of a file. */
struct tr_sound {
    int rate, channels;
    unsigned lanes;  /* samples in each frame that read() returns: channels, or 1 if the decoder mixes them */
    uint64_t frames; /* number of frames that the header promises; 0: not known, or not reliable */
    uint64_t slack;  /* how many frames may be missing without an error, because containers round */
    double seconds;  /* duration, maybe estimated; 0: not known */
    char format[16];
};

enum { TR_WHY = 160 }; /* size of a reason: "Format not recognised." */

struct tr_decoder {
    const char *name; /* for error messages */
    /* Returns whether to try this decoder, judging by the header. NULL: always try it. */
    bool (*wants)(const struct tr_header *h);
    /* Returns the decoder's state, or NULL with a reason. The file still belongs to the caller. */
    void *(*open)(struct tr_file *f, const struct tr_header *h, struct tr_sound *out, char why[TR_WHY]);
    /* Returns the number of frames read, each of `lanes` samples; 0 at the end, -1 with a reason. */
    long (*read)(void *state, float *to, size_t frames, char why[TR_WHY]);
    void (*close)(void *state);
    /* Appends the version of the library, and the usual extensions of files that it reads: "wav, flac". */
    void (*about)(struct gd__buffer *version, struct gd__buffer *formats);
};

extern const struct tr_decoder tr_mpg123, tr_sndfile, tr_ffmpeg;

#endif
