/* SPDX-License-Identifier: MIT
 *
 * The audio files of `gpu-dispatch transcribe`: found, checked, measured, put in order.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_AUDIO_FILES_H
#define GD_CLI_COMMANDS_TRANSCRIBE_AUDIO_FILES_H

#include <stdint.h>

#include <gpu_dispatch/launch.h>

#include "apps/transcribe/output/outputs.h"
#include "cli/commands/transcribe/transcribe_options.h"

/* What was left out, of which one is named: the first by name. Zeroed is none. */
struct cli_left_out {
    size_t n;
    char *path;
    char why[256];
};

/* Zeroed is none. */
struct cli_audio {
    struct gd_files *files;       /* the longest first; a file's "size" is how long it plays, in milliseconds */
    double seconds;               /* of all of them */
    size_t unsure;                /* how many have a length that was estimated from their size */
    size_t skipped;               /* done before, and not in the list */
    struct cli_left_out problems; /* folders and files that could not be looked at */
    struct cli_left_out others;   /* what has a name that matches, but is no file: pipes, sockets, devices */
};

/* Files of --input-dir and of the words, each once, by name. What was left out is told of. None at all is an error. 0,
 * or -1 with gd__fail_text(). */
int cli_audio_find(struct cli_audio *a, const struct cli_transcribe *t);

/* No two of them have the same output. */
int cli_audio_apart(const struct cli_audio *a, const struct tr_places *p);

/* Reads their headers, leaves out those that are done if skip_done, and puts them in order. */
int cli_audio_measure(struct cli_audio *a, const struct tr_places *p, bool skip_done);

/* On standard output: how long, which file, which outputs. */
int cli_audio_list(const struct cli_audio *a, const struct tr_places *p);

void cli_audio_free(struct cli_audio *a);

#endif
