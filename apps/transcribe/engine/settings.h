/* SPDX-License-Identifier: MIT
 *
 * What the worker is told: the options of `gpu-dispatch transcribe`, as text, so that the plugin can be used without
 * it:
 *
 *     gpu-dispatch run --worker transcribe.so --setup-args $'model=ggml-base.bin\noutput_dir=out' ::: *.wav
 *
 * One `name=value` per line; in a value \n, \r and \\ are written so. A name that is not known, or comes twice, is an
 * error; what is left out, or empty, has its default. The names are those of the members below; formats are written as
 * for --format (default txt), switches as yes or no.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SETTINGS_H
#define GD_TRANSCRIBE_ENGINE_SETTINGS_H

#include <stdbool.h>

#include "apps/transcribe/output/outputs.h"
#include "base/text/buffer.h"

struct tr_settings {
    const char *model;       /* path of the file; must be given */
    const char *model_name;  /* for the json; NULL: from the path */
    const char *language;    /* "en"; NULL: detected */
    struct tr_places places; /* output_dir NULL: nothing is written, the text is in the result alone */
    unsigned threads;        /* 0: chosen by the worker: cores divided by workers, at most 4 on a GPU */
    unsigned workers;        /* how many there are on this machine, for that; 0: 1 */
    unsigned beam_size;      /* 0, 1: greedy */
    double temperature;
    const char *prompt;
    const char *vad_model;  /* path; NULL: no VAD */
    unsigned piece_seconds; /* longer files are heard in pieces of so many; 0: TR_AHEAD */
    bool translate, word_timestamps, no_gpu;
};

/* Adds the text. */
void tr_settings_write(struct gd__buffer *b, const struct tr_settings *s);

/* The other way; strings point into *kept, which is released after them. 0, or -1 with gd__fail_text(). */
int tr_settings_read(struct tr_settings *s, char **kept, const char *text, size_t size);

/* The same of a text whose lines, in the order in which they are written, were joined by blanks. For people to look at:
 * a value may hold what looks like the next name. */
int tr_settings_read_line(struct tr_settings *s, char **kept, const char *line);

#endif
