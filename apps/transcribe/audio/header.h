/* SPDX-License-Identifier: MIT
 *
 * What the first bytes of an audio file tell, without decoding it: how long it plays, and whether it is all there.
 *
 * WAV (RIFF, RF64), FLAC, Ogg (Vorbis, Opus) and MP3. A file costs one or two reads of a few KiB, so that a folder of
 * a hundred thousand can be put in order before the first is transcribed.
 */
#ifndef GD_TRANSCRIBE_AUDIO_HEADER_H
#define GD_TRANSCRIBE_AUDIO_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct tr_header {
    const char *format;      /* "WAV", "FLAC", "Ogg", "MP3"; NULL: none that is known here */
    double seconds;          /* how long it plays, as the header says; 0: it does not say */
    unsigned rate, channels; /* 0: not told */
    uint64_t bytes_wanted;   /* how long the file has to be by its header; 0: it does not say */
    uint64_t data_at;        /* where the sound of a WAV or MP3 file begins; 0: not told */
};

/* The same from bytes: the beginning of a file, its end (which may be the same bytes), and its whole length. Never
 * fails: what can't be told is 0. Reads nothing beyond what it is given, whatever it holds. */
void tr_header_parse(struct tr_header *out, const void *begin, size_t begin_size, const void *end, size_t end_size,
                     uint64_t file_size);

/* 0, or -1 with errno if the file can't be opened or read. A file that is no audio is no error: format is NULL. */
int tr_header_read(struct tr_header *out, const char *path);

/* The same of a file that is open; its offset is left alone. */
int tr_header_read_fd(struct tr_header *out, int fd);

#endif
