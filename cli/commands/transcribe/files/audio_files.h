/* SPDX-License-Identifier: MIT
 *
 * The audio files of `gpu-dispatch transcribe`: finding, checking, measuring and sorting them.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FILES_AUDIO_FILES_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FILES_AUDIO_FILES_H

#include <stdint.h>

#include <gpu_dispatch/launch.h>

#include "apps/transcribe/output/outputs.h"
#include "cli/commands/transcribe/transcribe_options.h"

/* Files that were left out. Only the path that sorts first is kept. A zeroed struct is empty. */
struct cli_left_out {
    size_t n;
    char *path;
    char why[256];
};

/* A zeroed struct is empty. */
struct cli_audio {
    struct gd_files *files;       /* the longest first; a file's "size" is its duration in milliseconds */
    double seconds;               /* the total duration */
    size_t mono;                  /* how many have one channel, according to their header */
    size_t unsure;                /* how many durations were estimated from the file's size */
    size_t skipped;               /* files that were done before, and are not in the list */
    size_t in_all_shards;         /* the number of files before those of other shards were left out */
    struct cli_left_out problems; /* directories and files that could not be read */
    struct cli_left_out others;   /* names that match but are not files: pipes, sockets, devices */
};

/* Finds the files of --input-dir and of the arguments, each once, sorted by name. Reports files that were left out.
 * Finding no file is an error. Returns 0, or -1 with gd__fail_text(). */
int cli_audio_find(struct cli_audio *a, const struct cli_transcribe *t);

/* Leaves out the files of other shards. They are divided by their size in bytes, because reading the headers of all
 * files in every shard would take too long. dir: the directory that is searched; NULL: none. Does nothing without
 * --shard. Returns 0, or -1 with gd__fail_text(). */
int cli_audio_divide(struct cli_audio *a, const struct cli_transcribe *t, const char *dir);

/* Checks that no two files have the same output. */
int cli_audio_apart(const struct cli_audio *a, const struct tr_places *p);

/* Reads the headers, leaves out files that are done if skip_done is set, and sorts the list. */
int cli_audio_measure(struct cli_audio *a, const struct tr_places *p, bool skip_done);

/* Prints the duration, name and outputs of each file on standard output. */
int cli_audio_list(const struct cli_audio *a, const struct tr_places *p);

/* The duration of a file, from its header or estimated from its size. */
uint64_t cli_audio_milliseconds(const char *path);

/* The format whose names are compared to find files with the same output. */
enum tr_format cli_audio_first_format(const struct tr_places *p);

void cli_audio_free(struct cli_audio *a);

#endif
