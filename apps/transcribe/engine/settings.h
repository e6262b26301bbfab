/* SPDX-License-Identifier: MIT
 *
 * The worker's settings: the options of `gpu-dispatch transcribe`, as text, so that the plugin can be used without that
 * command:
 *
 *     gpu-dispatch run --worker transcribe.so --setup-args $'model=ggml-base.bin\noutput_dir=out' ::: *.wav
 *
 * One `name=value` on each line. A newline, a carriage return and a backslash in a value are written as \n, \r and \\.
 * A name that is unknown or comes twice is an error. A setting that is missing or empty has its default. The names are
 * those of the members below. Formats are written as for --format (default txt), switches as yes or no.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SETTINGS_H
#define GD_TRANSCRIBE_ENGINE_SETTINGS_H

#include <stdbool.h>

#include "apps/transcribe/output/outputs.h"
#include "base/text/buffer.h"

struct tr_settings {
    const char *model;       /* path of the file; required */
    const char *model_name;  /* for the JSON output; NULL: from the path */
    const char *language;    /* "en"; NULL: detected */
    struct tr_places places; /* output_dir NULL: no files are written, the text is only in the result */
    unsigned threads;        /* 0: cores divided by workers, at most 4 on a GPU */
    unsigned workers;        /* number of workers that share the cores of this machine; 0: 1 */
    unsigned beam_size;      /* 0, 1: greedy */
    double temperature;
    const char *prompt;
    const char *vad_model;  /* path; NULL: no VAD */
    unsigned piece_seconds; /* longer files are transcribed in pieces of this length; 0: TR_AHEAD */
    bool translate, word_timestamps, no_gpu;
};

/* Appends the settings as text. */
void tr_settings_write(struct gd__buffer *b, const struct tr_settings *s);

/* Reads that text. Strings point into *kept, which the caller frees after the last use of s. Returns 0, or -1 with
 * gd__fail_text(). */
int tr_settings_read(struct tr_settings *s, char **kept, const char *text, size_t size);

/* The same for a text whose lines were joined by blanks, in the order in which tr_settings_write() writes them. Only
 * for display: a value may contain text that looks like the next name. */
int tr_settings_read_line(struct tr_settings *s, char **kept, const char *line);

#endif
