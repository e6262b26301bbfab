/* SPDX-License-Identifier: MIT
 *
 * Reads any audio file as 16 kHz mono samples, piece by piece, in bounded memory.
 *
 *     struct tr_audio *a;
 *     char message[TR_MESSAGE_MAX];
 *     if (tr_audio_open(&a, path, message) < 0) ...          // the beginning is now decoded
 *     while ((n = tr_audio_read(a, room, max, message)) > 0) ...
 *     tr_audio_close(&a);
 *
 * libsndfile decodes (WAV, FLAC, Ogg, MP3, AIFF, ...) and libsoxr resamples. Files that libsndfile can't read are tried
 * with FFmpeg's libraries, if the build found them. Channels are averaged, or one of them is chosen. Opening decodes the
 * first TR_AHEAD seconds. After the first read a separate thread keeps TR_AHEAD seconds decoded ahead, so that the reader never waits for a
 * disk. An Ogg file of several streams, one after the other, is read to its end.
 *
 * A fault in a file is found when reading reaches it, and described in an error message: no file, not audio, no
 * samples, no channels, truncated (shorter than the header promises). Errors that may be temporary have a separate code
 * (TR_UNREAD): a disk or a network that is unavailable, no memory, too many open files, a file that changed while it
 * was being read.
 */
#ifndef GD_TRANSCRIBE_AUDIO_AUDIO_H
#define GD_TRANSCRIBE_AUDIO_AUDIO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

enum { TR_RATE = 16000, TR_AHEAD = 600 /* seconds */, TR_MESSAGE_MAX = 512 };

/* Why a file gave no samples. */
enum {
    TR_UNFIT = -1,  /* the file itself is bad: another attempt will fail too */
    TR_UNREAD = -2, /* the file could not be read this time: it may be good */
};

struct tr_audio;

/* Returns 0, or one of these codes with an error message in message. */
int tr_audio_open(struct tr_audio **out, const char *path, char message[TR_MESSAGE_MAX]);

/* What tr_audio_open() does, in detail. */
struct tr_audio_how {
    const char *path;
    bool has_fd;           /* the file is open already; the path is used in messages only */
    int fd;                /* closed with the audio, and also after an error */
    unsigned ahead_s;      /* how many seconds are decoded ahead; 0: TR_AHEAD */
    bool accept_truncated; /* read what there is of a truncated file: see tr_audio_warning() */
    unsigned channel;      /* read only this one, from 1; 0: the average of all. One that is missing is an error */
};

int tr_audio_open_how(struct tr_audio **out, const struct tr_audio_how *how, char message[TR_MESSAGE_MAX]);

/* Reads the next samples. Returns their number: max, or less at the end of the file, or 0 after the end. Returns
 * TR_UNFIT or TR_UNREAD with an error message if the rest can't be read. The samples returned before are good. */
long tr_audio_read(struct tr_audio *a, float *samples, size_t max, char message[TR_MESSAGE_MAX]);

/* What is wrong with a file that was read anyway, or NULL. To be called after the end of the file was read. Valid until
 * the audio is closed. */
const char *tr_audio_warning(const struct tr_audio *a);

/* Duration, as the header says; 0: not known. If opening has decoded the whole file, this is the true duration. */
double tr_audio_seconds(const struct tr_audio *a);
int tr_audio_rate(const struct tr_audio *a); /* the file's own sample rate; if it has several streams, of the first */
int tr_audio_channels(const struct tr_audio *a);
const char *tr_audio_format(const struct tr_audio *a); /* "WAV", "FLAC", ... */

/* Appends a line for each library that decodes, "libsndfile\t1.2.0: wav, flac, ...\n", and for FFmpeg if it is missing. */
void tr_audio_about(struct gd__buffer *b);

/* Waits until the decoding thread has ended, which takes at most as long as one read of the file. *a may be NULL. */
void tr_audio_close(struct tr_audio **a);

#endif
