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
 * with FFmpeg's libraries, if the build found them. Channels are averaged. Opening decodes the first TR_AHEAD seconds.
 * After the first read a separate thread keeps TR_AHEAD seconds decoded ahead, so that the reader never waits for a
 * disk.
 *
 * A fault in a file is found when reading reaches it, and described in an error message: no file, not audio, no
 * samples, no channels, truncated (shorter than the header promises). Errors that may be temporary have a separate code
 * (TR_UNREAD): a disk or a network that is unavailable, no memory, too many open files.
 */
#ifndef GD_TRANSCRIBE_AUDIO_AUDIO_H
#define GD_TRANSCRIBE_AUDIO_AUDIO_H

#include <stddef.h>

enum { TR_RATE = 16000, TR_AHEAD = 600 /* seconds */, TR_MESSAGE_MAX = 512 };

/* Why a file gave no samples. */
enum {
    TR_UNFIT = -1,  /* the file itself is bad: another attempt will fail too */
    TR_UNREAD = -2, /* the file could not be read this time: it may be good */
};

struct tr_audio;

/* Returns 0, or one of these codes with an error message in message. */
int tr_audio_open(struct tr_audio **out, const char *path, char message[TR_MESSAGE_MAX]);

/* Reads the next samples. Returns their number: max, or less at the end of the file, or 0 after the end. Returns
 * TR_UNFIT or TR_UNREAD with an error message if the rest can't be read. The samples returned before are good. */
long tr_audio_read(struct tr_audio *a, float *samples, size_t max, char message[TR_MESSAGE_MAX]);

double tr_audio_seconds(const struct tr_audio *a); /* duration, as the header says; 0: not known */
int tr_audio_rate(const struct tr_audio *a);       /* the file's own sample rate */
int tr_audio_channels(const struct tr_audio *a);
const char *tr_audio_format(const struct tr_audio *a); /* "WAV", "FLAC", ... */

/* Waits until the decoding thread has ended, which takes at most as long as one read of the file. *a may be NULL. */
void tr_audio_close(struct tr_audio **a);

#endif
