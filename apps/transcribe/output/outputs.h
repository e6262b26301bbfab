/* SPDX-License-Identifier: MIT
 *
 * The output files: where they go, and how they are written. The directory layout of the input is mirrored. A file is
 * written under a temporary name beside its final one and then renamed, so an output that exists is complete.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_OUTPUTS_H
#define GD_TRANSCRIBE_OUTPUT_OUTPUTS_H

#include <stdbool.h>

#include "apps/transcribe/output/formats/layout.h"
#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"

struct tr_places {
    const char *input_dir, *output_dir;
    unsigned formats;        /* bits 1 << enum tr_format */
    bool full_names;         /* talk.wav becomes talk.wav.txt, not talk.txt */
    bool sync;               /* each file is forced to the disk before the rename, and its directory after it */
    struct tr_layout layout; /* of srt and vtt */
};

/* The path of one output: output_dir, the path within input_dir (or the base name, for a file that is elsewhere), the
 * format's extension. Replaces the contents of out. Adds a NUL, which out->size does not count. Returns 0, or -1 with
 * gd__fail_text(). */
int tr_output_path(struct gd__buffer *out, const struct tr_places *p, const char *input, enum tr_format f);

/* Whether all outputs of an input exist, and none is older than the input (a file that changed is transcribed again).
 */
bool tr_outputs_done(const struct tr_places *p, const char *input);

/* The outputs of a file while they are made:
 *
 *     if (tr_outputs_begin(&o, places, input, seconds) == 0) ...      // they can be written
 *     tr_outputs_finish(o, transcript);
 *     tr_outputs_drop(&o);
 *
 * tr_outputs_begin() makes a .part beside the place of each output, before the long computation of the text. It makes
 * directories as needed, and reserves disk space according to the file's duration (0: not known). tr_outputs_finish()
 * writes all outputs before it renames the first. tr_outputs_drop() removes every .part that is left.
 * tr_outputs_begin() and tr_outputs_finish() return 0, or -1 with gd__fail_text(). The places and the input are
 * borrowed.
 */
struct tr_outputs;
int tr_outputs_begin(struct tr_outputs **out, const struct tr_places *p, const char *input, double seconds);
int tr_outputs_finish(struct tr_outputs *o, const struct tr_transcript *t);
void tr_outputs_drop(struct tr_outputs **o); /* NULL is fine */

/* All three steps in one call. */
int tr_outputs_write(const struct tr_places *p, const char *input, const struct tr_transcript *t);

/* The checks that need no text: the outputs can have a name, and existing files there may be replaced. Returns 0, or -1
 * with gd__fail_text(). */
int tr_outputs_possible(const struct tr_places *p, const char *input);

/* Before a run: checks that the output directory can be made and written to, and has some free space. Removes parts
 * that killed processes left in it or below it (files .gd-PID-N.part without a lock). Returns 0, or -1 with
 * gd__fail_text(). */
int tr_outputs_check(const struct tr_places *p);

/* After a run: removes the parts of workers that were killed in it. */
void tr_outputs_tidy(const struct tr_places *p);

#endif
