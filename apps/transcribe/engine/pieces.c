/* SPDX-License-Identifier: MIT
 *
 * Transcribes long files in pieces. The audio of segments that were dropped at the end of a piece is moved to the front
 * and transcribed again with the audio that follows. A clip is transcribed as if it were a file of its own, but the text
 * before it is its context. */
#include "apps/transcribe/engine/pieces.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

int tr_pieces_possible(unsigned seconds)
{
    if (seconds == 0 || (seconds >= TR_LEAST_PIECE && seconds <= 24 * 3600))
        return 0;
    return gd__fail("a piece cannot be %u s long: use %d s to 86400 s (a day)", seconds, TR_LEAST_PIECE);
}

int tr_pieces_open(struct tr_pieces *p, unsigned seconds, const char *clips)
{
    const unsigned length = seconds > 0 ? seconds : TR_AHEAD;
    if (tr_pieces_possible(seconds) < 0 || tr_clips_parse(&p->clips, "clip_timestamps", clips) < 0)
        return -1;
    p->most = (size_t)length * TR_RATE;
    p->samples = malloc((p->most + 1) * sizeof *p->samples);
    return p->samples ? 0 : gd__fail("no memory for %u s of audio", length);
}

void tr_pieces_close(struct tr_pieces *p)
{
    free(p->samples);
    tr_clips_free(&p->clips);
    *p = (struct tr_pieces){ 0 };
}

/* Decides which segments are kept, and where the next piece begins. After the last kept segment there may be silence,
 * up to the first dropped segment. It is skipped, but not beyond the point that is one minute before the end of the
 * piece. A dropped segment ends in the last half minute and lasts at most half a minute, so before that point there is
 * only silence. */
struct tr_cut tr_pieces_cut(const struct tr_span *spans, size_t n, double length)
{
    struct tr_cut cut = { 0, 0 };
    while (cut.kept < n && spans[cut.kept].end <= length - TR_TAIL)
        cut.at = spans[cut.kept++].end;
    const double quiet = length - 2 * TR_TAIL, next = cut.kept < n ? spans[cut.kept].start : length;
    if (cut.at < quiet)
        cut.at = next < quiet ? next : quiet;
    /* A segment can last longer than half a minute if silence was left out of it. If that puts the cut into the first
     * eighth of the piece, the whole piece is kept. */
    return cut.at < length / 8 ? (struct tr_cut){ n, length } : cut;
}

static int add_segments(struct tr_engine *e, size_t n, double offset, struct tr_transcript *t)
{
    for (size_t i = 0; i < n; i++) {
        if (tr_engine_add(e, i, offset, t) < 0)
            return gd__fail("no memory for a file's text");
    }
    return 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Fills the piece, and one sample more if the file has more before end. A file with a bad part returns its good samples
 * before the error, so a short read must not be taken for the end of the file. Returns 0, or the code of tr_audio_read()
 * with an error message. */
static int fill(struct tr_pieces *p, struct tr_audio *a, size_t end, size_t *have, char message[TR_MESSAGE_MAX])
{
    while (*have <= p->most && p->position < end) {
        const size_t wanted = smaller(p->most + 1 - *have, end - p->position);
        const long got = tr_audio_read(a, p->samples + *have, wanted, message);
        if (got <= 0)
            return (int)got;
        *have += (size_t)got;
        p->position += (size_t)got;
    }
    return 0;
}

static enum tr_outcome unread(int code)
{
    return code == TR_UNREAD ? TR_FILE_AWAY : TR_BAD_FILE;
}

static void on_reached(void *user, double seconds)
{
    const struct tr_pieces *p = user;
    if (p->reached)
        p->reached(p->user, (double)p->before / TR_RATE + seconds);
}

/* Transcribes the file from its position to end. */
static enum tr_outcome hear_part(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, size_t end,
                                 struct tr_transcript *t, char message[TR_MESSAGE_MAX])
{
    size_t have = 0; /* samples in the piece */
    p->before = p->position;
    for (;;) {
        const int filled = fill(p, a, end, &have, message);
        if (filled < 0)
            return unread(filled);
        const bool last = have <= p->most;
        const size_t n = last ? have : p->most;
        const enum tr_outcome outcome = tr_engine_hear(e, p->samples, n);
        if (outcome != TR_HEARD)
            return outcome;
        const struct tr_span *spans;
        const size_t count = tr_engine_spans(e, &spans);
        const struct tr_cut cut = last ? (struct tr_cut){ count, 0 } : tr_pieces_cut(spans, count, (double)n / TR_RATE);
        if (add_segments(e, cut.kept, (double)p->before / TR_RATE, t) < 0)
            return TR_NO_MEMORY;
        if (last)
            return TR_HEARD;
        const size_t done = (size_t)(cut.at * TR_RATE);
        memmove(p->samples, p->samples + done, (have - done) * sizeof *p->samples);
        have -= done;
        p->before += done;
    }
}

/* Reads up to this position, or to the end of the file, and drops the samples. */
static enum tr_outcome skip_to(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, size_t position,
                               char message[TR_MESSAGE_MAX])
{
    while (p->position < position) {
        const long got = tr_audio_read(a, p->samples, smaller(p->most, position - p->position), message);
        if (got < 0)
            return unread((int)got);
        if (got == 0)
            break;
        if (tr_engine_stopped(e))
            return TR_CANCELLED;
        p->position += (size_t)got;
    }
    return TR_HEARD;
}

static size_t sample_at(double seconds)
{
    const double at = round(seconds * TR_RATE);
    return at < (double)(SIZE_MAX / 2) ? (size_t)at : SIZE_MAX;
}

enum tr_outcome tr_pieces_hear(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, struct tr_transcript *t,
                               char message[TR_MESSAGE_MAX])
{
    static const struct tr_clip whole = { 0, INFINITY };
    const struct tr_clip *clips = p->clips.n > 0 ? p->clips.items : &whole;
    const size_t n = p->clips.n > 0 ? p->clips.n : 1;
    enum tr_outcome outcome = TR_HEARD;
    p->position = 0;
    tr_engine_watch(e, on_reached, p);
    for (size_t i = 0; outcome == TR_HEARD && i < n; i++) {
        outcome = skip_to(p, e, a, sample_at(clips[i].start), message);
        if (outcome == TR_HEARD)
            outcome = hear_part(p, e, a, sample_at(clips[i].end), t, message);
    }
    if (outcome == TR_HEARD)
        outcome = skip_to(p, e, a, SIZE_MAX, message);
    t->duration = (double)p->position / TR_RATE;
    return outcome;
}
