/* SPDX-License-Identifier: MIT
 *
 * Finds the duration of an audio file, and whether it is complete, from its first bytes, without decoding it.
 *
 * WAV (RIFF, RF64), FLAC, Ogg (Vorbis, Opus) and MP3. Each file costs a few reads of a few KiB, so a directory of a
 * hundred thousand files can be sorted before the first is transcribed. Only an Ogg file of several streams, one after
 * the other, costs a read for each of its pages.
 */
#ifndef GD_TRANSCRIBE_AUDIO_HEADER_H
#define GD_TRANSCRIBE_AUDIO_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct tr_header {
    const char *format;      /* "WAV", "FLAC", "Ogg", "MP3"; NULL: another format */
    double seconds;          /* duration, as the header says; 0: not given */
    unsigned rate, channels; /* 0: not given */
    uint64_t bytes_wanted;   /* size of the complete file, by its header; 0: not given */
    uint64_t data_at;        /* offset of the samples in a WAV or MP3 file; 0: not known */
};

/* Parses a header in memory: the beginning of a file, its end (which may be the same bytes), and the size of the whole
 * file. Never fails: unknown values are 0. Reads nothing outside the given bytes, even if their contents are invalid.
 */
void tr_header_parse(struct tr_header *out, const void *begin, size_t begin_size, const void *end, size_t end_size,
                     uint64_t file_size);

/* Returns 0, or -1 with errno if the file can't be opened or read. A file that is not audio is not an error: format is
 * NULL. */
int tr_header_read(struct tr_header *out, const char *path);

/* The same for an open file. Its offset does not change. */
int tr_header_read_fd(struct tr_header *out, int fd);

/* The same for a part of the file: size bytes from the offset from on. Offsets in the header are those in the part. */
int tr_header_read_part(struct tr_header *out, int fd, uint64_t from, uint64_t size);

#endif
