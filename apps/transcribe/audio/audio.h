/* SPDX-License-Identifier: MIT
 *
 * Any audio file as 16 kHz mono samples, piece by piece, in bounded memory.
 *
 *     struct tr_audio *a;
 *     char words[TR_WORDS];
 *     if (tr_audio_open(&a, path, words) < 0) ...          // the first piece is decoded by now
 *     while ((n = tr_audio_read(a, room, max, words)) > 0) ...
 *     tr_audio_close(&a);
 *
 * libsndfile decodes (WAV, FLAC, Ogg, MP3, AIFF, ...), libsoxr resamples; what libsndfile can't read is tried with
 * FFmpeg's libraries where the build had them. Channels are averaged. Opening decodes the first TR_AHEAD seconds; once
 * somebody reads, a thread of its own keeps as many decoded ahead, so that who computes never waits for a disk.
 *
 * What is wrong with a file is found when it is reached and said in words for people: no file, not audio, no samples,
 * no channels, truncated (the header promises more than there is). It is told apart from what may pass: a disk or a
 * network that is away, no memory, too many open files.
 */
#ifndef GD_TRANSCRIBE_AUDIO_AUDIO_H
#define GD_TRANSCRIBE_AUDIO_AUDIO_H

#include <stddef.h>

enum { TR_RATE = 16000, TR_AHEAD = 600 /* seconds */, TR_WORDS = 512 };

/* Why there is no sound. */
enum {
    TR_UNFIT = -1,  /* the file is no good: it will not be tomorrow */
    TR_UNREAD = -2, /* it could not be read this time: it may be fine */
};

struct tr_audio;

/* 0, or one of those with words. */
int tr_audio_open(struct tr_audio **out, const char *path, char words[TR_WORDS]);

/* The next samples, max unless the end comes first; 0 at the end. TR_UNFIT, TR_UNREAD with words: what was read before
 * is good, but there is no more. */
long tr_audio_read(struct tr_audio *a, float *samples, size_t max, char words[TR_WORDS]);

double tr_audio_seconds(const struct tr_audio *a); /* how long it plays, as its header says; 0: not known */
int tr_audio_rate(const struct tr_audio *a);       /* of the file */
int tr_audio_channels(const struct tr_audio *a);
const char *tr_audio_format(const struct tr_audio *a); /* "WAV", "FLAC", ... */

void tr_audio_close(struct tr_audio **a); /* NULL is fine; not held up by the thread for longer than a read */

#endif
