/* SPDX-License-Identifier: MIT
 *
 * The worker's settings: the options of `gpu-dispatch transcribe`, as text, so that the plugin can be used without that
 * command:
 *
 *     gpu-dispatch run --worker transcribe.so --setup-args $'model=ggml-base.bin\noutput_dir=out' ::: *.wav
 *
 * One `name=value` on each line. A newline, a carriage return and a backslash in a value are written as \n, \r and \\.
 * A name that is unknown or comes twice is an error. A setting that is missing or empty has its default. The names are
 * those of the members below, and of those of places.layout. A layout of subtitles turns word_timestamps on. Formats are
 * written as for --format (default txt), switches as yes or no.
 *
 * All settings of the decoding are here, for every engine. An engine that cannot do what a setting asks for refuses it.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SETTINGS_H
#define GD_TRANSCRIBE_ENGINE_SETTINGS_H

#include <stdbool.h>

#include "apps/transcribe/output/outputs.h"
#include "base/text/buffer.h"

/* A zeroed struct is not valid: begin with tr_settings_defaults. In the text, "none" stands for the value that the
 * comment calls none. */
struct tr_settings {
    const char *model;       /* path of the file; required */
    const char *model_name;  /* for the JSON output; NULL: from the path */
    const char *language;    /* "en"; NULL: detected */
    struct tr_places places; /* output_dir NULL: no files are written, the text is only in the result */
    unsigned threads;        /* 0: cores divided by workers, at most 4 on a GPU */
    unsigned workers;        /* number of workers that share the cores of this machine; 0: 1 */
    unsigned piece_seconds;  /* longer files are transcribed in pieces of this length; 0: TR_AHEAD */
    bool translate, word_timestamps, no_gpu;
    bool accept_truncated; /* transcribe what there is of a truncated file */
    bool diarize_channels; /* each channel is transcribed by itself, and is a speaker */
    const char
        *decoder; /* "lanes", which decode many recordings at once, "whisper.cpp", or "auto" (NULL): lanes if they
                              can do what the settings ask for (decoding/limits.h) */
    unsigned batch_size; /* number of recordings that lanes decode at once; 0: chosen from the free memory */
    unsigned
        halvings; /* how often that number is halved. Not in the text: the worker sets it after set-ups that died */
    const char *split; /* lanes: "never": a long file is not cut into parts that are decoded at once; NULL, "auto" */
    const char *input_base; /* "https://host/directory": files are fetched from there; NULL: they are opened */

    /* Search. A window (30 s of audio) is decoded at the first temperature. If the result is bad, the temperature is
     * raised by the increment, and the window is decoded again, up to a temperature of 1. */
    unsigned beam_size;                       /* 0, 1: greedy; at most 8; used at temperature 0 */
    unsigned best_of;                         /* candidates above temperature 0; 0: 5, or 1 with a beam search */
    double temperature;                       /* the first one, 0 to 1; default 0 */
    double temperature_increment_on_fallback; /* default 0.2; none (0): a window is decoded only once */
    double length_penalty;                    /* alpha of ((5 + length) / 6) ** alpha, by which the log probability of a
                                                 candidate is divided; none (-1, the default): divided by its length */

    /* When a result is bad. */
    double entropy_threshold;           /* entropy of its last 32 tokens below this; default 2.4; none: 0 */
    double compression_ratio_threshold; /* text length / compressed length above this; none: INFINITY, the default */
    double logprob_threshold;           /* mean log probability of its tokens below this; default -1; none: -INFINITY */
    double no_speech_threshold; /* with a probability of no speech above this and a log probability below its threshold,
                                   a window is silent; default 0.6; none: INFINITY */

    /* What the decoder gets before a window: hotwords, prompt, previous text, together at most half of its context. */
    const char *prompt;              /* for the first window; it stays part of the previous text */
    bool carry_initial_prompt;       /* the prompt is put before every window */
    const char *hotwords;            /* words that are put before every window, and before the prompt */
    bool condition_on_previous_text; /* default yes */

    /* Which tokens are possible. */
    const char *suppress_tokens;  /* list of ids (decoding/lists.h), -1: symbols that are not speech; NULL: none */
    bool suppress_blank;          /* a window does not begin with a blank or the end; default yes */
    bool without_timestamps;      /* the model gives no times: a segment is as long as a window */
    double max_initial_timestamp; /* the latest begin of the first segment of a window; default 1; none: INFINITY */

    /* Which audio is transcribed. */
    const char *clip_timestamps;          /* list of seconds (decoding/lists.h); NULL: everything */
    const char *vad_model;                /* path; NULL: no VAD, and the members below are not used */
    double vad_threshold;                 /* probability of speech above this is speech; default 0.5 */
    unsigned vad_min_speech_duration_ms;  /* shorter speech is dropped; default 250 */
    unsigned vad_min_silence_duration_ms; /* shorter silence does not end speech; default 100 */
    double vad_max_speech_duration_s;     /* longer speech is split; none: INFINITY, the default */
    unsigned vad_speech_pad_ms;           /* added before and after speech; default 30 */
};

extern const struct tr_settings tr_settings_defaults;

/* Appends the settings as text. Settings that newer versions have added are left out if they have their default. */
void tr_settings_write(struct gd__buffer *b, const struct tr_settings *s);

/* Reads that text. Strings point into *kept, which the caller frees after the last use of s. Returns 0, or -1 with
 * gd__fail_text(). */
int tr_settings_read(struct tr_settings *s, char **kept, const char *text, size_t size);

/* The same for a text whose lines were joined by blanks, in the order in which tr_settings_write() writes them. Only
 * for display: a value may contain text that looks like the next name. */
int tr_settings_read_line(struct tr_settings *s, char **kept, const char *line);

/* Sets one member. value is borrowed by members that are strings. An empty value changes nothing. shown is the name in
 * error messages: "--best-of". Returns 0, or -1 with gd__fail_text(). */
int tr_settings_set(struct tr_settings *s, const char *name, const char *shown, const char *value);

/* Appends the settings that newer versions have added, as options: " --best-of 3". Those at their default are left out.
 */
void tr_settings_options(struct gd__buffer *b, const struct tr_settings *s);

#endif
