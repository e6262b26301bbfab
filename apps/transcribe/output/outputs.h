/* SPDX-License-Identifier: MIT
 *
 * Where a file's outputs go, and how they get there: the folder layout of the input is mirrored, and a file is written
 * beside its place and renamed, so that one that is there is whole.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_OUTPUTS_H
#define GD_TRANSCRIBE_OUTPUT_OUTPUTS_H

#include <stdbool.h>

#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"

struct tr_places {
    const char *input_dir, *output_dir;
    unsigned formats; /* bits 1 << enum tr_format */
    bool full_names;  /* talk.wav becomes talk.wav.txt, not talk.txt */
    bool sync;        /* each is forced to the disk before it has its name, and the name after it */
};

/* The path of one output: output_dir, the path within input_dir (or the base name, for a file that lies elsewhere), the
 * format's extension. Replaces what is in out; NUL-terminated, which its size does not count. 0, or -1 with
 * gd__fail_text(). */
int tr_output_path(struct gd__buffer *out, const struct tr_places *p, const char *input, enum tr_format f);

/* Whether all outputs of an input are there, and none is older than it (a file that changed is transcribed again). */
bool tr_outputs_done(const struct tr_places *p, const char *input);

/* The outputs of a file on their way:
 *
 *     if (tr_outputs_begin(&o, places, input, seconds) == 0) ...      // they can be written
 *     tr_outputs_finish(o, transcript);
 *     tr_outputs_drop(&o);
 *
 * Begun, before hours are spent on the text, each is a .part beside its place, in folders that were made as needed,
 * with some room on the disk by how long the file plays (0: not known). Finished, all are written before the first is
 * renamed. Dropped, no .part is left. 0, or -1 with gd__fail_text(). The places and the input are borrowed. */
struct tr_outputs;
int tr_outputs_begin(struct tr_outputs **out, const struct tr_places *p, const char *input, double seconds);
int tr_outputs_finish(struct tr_outputs *o, const struct tr_transcript *t);
void tr_outputs_drop(struct tr_outputs **o); /* NULL is fine */

/* All of that at once. */
int tr_outputs_write(const struct tr_places *p, const char *input, const struct tr_transcript *t);

/* What can be told of a file's outputs before hours are spent on its text: they can have a name, and what is there
 * already may be replaced. 0, or -1 with gd__fail_text(). */
int tr_outputs_possible(const struct tr_places *p, const char *input);

/* Before a run: the folder can be made and written to, and there is some room; and parts that killed processes left in
 * it or below it (names .gd-PID-N.part that nobody holds a lock on) are removed. 0, or -1 with gd__fail_text(). */
int tr_outputs_check(const struct tr_places *p);

/* After a run: parts of workers that were killed in it are removed likewise. */
void tr_outputs_tidy(const struct tr_places *p);

#endif
