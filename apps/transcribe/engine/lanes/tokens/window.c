/* SPDX-License-Identifier: MIT
 *
 * One try at a window. */
#include "apps/transcribe/engine/lanes/tokens/window.h"

#include <math.h>

#include "apps/transcribe/text/compression.h"
#include "base/text/buffer.h"

void tr_window_begin(struct tr_window *w)
{
    w->n = w->kept = 0;
    w->frames = TR_WINDOW_FRAMES;
    w->timed = w->complete = w->failed = false;
    w->score = -INFINITY;
    w->entropy = 0;
}

struct tr_turn tr_window_turn(const struct tr_window *w, const struct tr_rules *r)
{
    const int times = r->vocabulary->times;
    return (struct tr_turn){
        .first = w->n == 0,
        .after_time = w->n > 0 && w->picks[w->n - 1].token >= times,
        .after_two_times = w->n < 2 || w->picks[w->n - 2].token >= times,
        .earliest = w->timed ? w->frames / 2 : 0,
    };
}

/* A time token. The first one, which is 0, says nothing. Returns false if it goes back in time. */
static bool reach(struct tr_window *w, int frames)
{
    if (w->timed && w->frames > frames && w->kept < w->n - 1)
        return false;
    w->frames = frames;
    w->kept = w->n;
    w->timed = true;
    return true;
}

/* The try ends: with a result, unless there was no time before the end of the recording. */
static void end(struct tr_window *w, const struct tr_rules *r, bool at_end)
{
    if (r->no_times) {
        w->kept = w->n;
        w->frames = TR_WINDOW_FRAMES;
    } else if (w->kept == 0 && at_end) {
        w->kept = w->n;
    } else if (w->kept == 0) {
        w->failed = true;
    }
    w->complete = !w->failed;
}

bool tr_window_add(struct tr_window *w, const struct tr_rules *r, const struct tr_view *view, const struct tr_pick *p)
{
    const struct tr_vocabulary *v = r->vocabulary;
    w->picks[w->n++] = *p;
    if (p->token > v->times && !reach(w, 2 * (p->token - v->times))) {
        w->failed = true;
        return false;
    }
    const bool at_end = view->at + w->frames + TR_LEAST_FRAMES >= view->end;
    if (p->token == v->eot || (w->timed && at_end)) {
        end(w, r, at_end);
        return false;
    }
    if (w->n < view->most_tokens)
        return true;
    /* The text probably repeats. */
    w->failed = w->kept == 0 || w->frames < TR_WINDOW_FRAMES / 2;
    return false;
}

/* If there is no memory for the text, nothing is known about it. */
bool tr_window_repeats(const struct tr_window *w, const struct tr_rules *r, double most_compression)
{
    struct gd__buffer text = { 0 };
    if (isinf(most_compression))
        return false;
    for (int i = 0; i < w->n; i++) {
        size_t size;
        const char *word = tr_vocabulary_text(r->vocabulary, w->picks[i].token, &size);
        if (w->picks[i].token < r->vocabulary->eot)
            gd__buffer_add(&text, word, size);
    }
    const bool repeats =
        text.size > 0 && !text.failed && tr_compresses_too_well(text.data, text.size, most_compression);
    gd__buffer_free(&text);
    return repeats;
}

/* How evenly the last tokens are distributed. */
static double entropy(const struct tr_window *w)
{
    enum { LAST = 32 };
    const int first = w->kept > LAST ? w->kept - LAST : 0, n = w->kept - first;
    double sum = 0;
    for (int i = first; i < w->kept; i++) {
        int same = 0, before = 0;
        for (int j = first; j < w->kept; j++) {
            const bool equal = w->picks[j].token == w->picks[i].token;
            same += equal;
            before += equal && j < i;
        }
        if (before == 0) { /* each token counts once */
            const double share = (double)same / n;
            sum -= share * log(share);
        }
    }
    return sum;
}

void tr_window_measure(struct tr_window *w)
{
    w->n = w->kept;
    if (w->kept == 0)
        return;
    double sum = 0;
    for (int i = 0; i < w->kept; i++)
        sum += (double)w->picks[i].log_probability;
    w->score = sum / w->kept;
    w->entropy = entropy(w);
}
