/* SPDX-License-Identifier: MIT
 *
 * Transcribes long files in pieces. The audio of segments that were dropped at the end of a piece is moved to the front
 * and transcribed again with the audio that follows. */
#include "apps/transcribe/engine/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

int tr_pieces_open(struct tr_pieces *p, unsigned seconds)
{
    const unsigned length = seconds > 0 ? seconds : TR_AHEAD;
    if (length < TR_LEAST_PIECE || length > 24 * 3600)
        return gd__fail("a piece cannot be %u s long: use %d s to 86400 s (a day)", length, TR_LEAST_PIECE);
    p->most = (size_t)length * TR_RATE;
    p->samples = malloc((p->most + 1) * sizeof *p->samples);
    return p->samples ? 0 : gd__fail("no memory for %u s of audio", length);
}

void tr_pieces_close(struct tr_pieces *p)
{
    free(p->samples);
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

/* Fills the piece, and one sample more if the file has more. A file with a bad part returns its good samples before the
 * error, so a short read must not be taken for the end of the file. Returns 0, or the code of tr_audio_read() with an
 * error message. */
static int fill(const struct tr_pieces *p, struct tr_audio *a, size_t *have, char message[TR_MESSAGE_MAX])
{
    while (*have <= p->most) {
        const long got = tr_audio_read(a, p->samples + *have, p->most + 1 - *have, message);
        if (got <= 0)
            return (int)got;
        *have += (size_t)got;
    }
    return 0;
}

enum tr_outcome tr_pieces_hear(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, struct tr_transcript *t,
                               char message[TR_MESSAGE_MAX])
{
    size_t have = 0, before = 0; /* samples in the piece; samples of the file before the piece */
    for (;;) {
        const int filled = fill(p, a, &have, message);
        if (filled < 0)
            return filled == TR_UNREAD ? TR_FILE_AWAY : TR_BAD_FILE;
        const bool last = have <= p->most;
        const size_t n = last ? have : p->most;
        const enum tr_outcome outcome = tr_engine_hear(e, p->samples, n);
        if (outcome != TR_HEARD)
            return outcome;
        const struct tr_span *spans;
        const size_t count = tr_engine_spans(e, &spans);
        const struct tr_cut cut = last ? (struct tr_cut){ count, 0 } : tr_pieces_cut(spans, count, (double)n / TR_RATE);
        t->duration = (double)(before + have) / TR_RATE;
        if (add_segments(e, cut.kept, (double)before / TR_RATE, t) < 0)
            return TR_NO_MEMORY;
        if (last)
            return TR_HEARD;
        const size_t done = (size_t)(cut.at * TR_RATE);
        memmove(p->samples, p->samples + done, (have - done) * sizeof *p->samples);
        have -= done;
        before += done;
    }
}
