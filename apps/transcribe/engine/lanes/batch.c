/* SPDX-License-Identifier: MIT
 *
 * Slots and the lanes in them. Encoding is worth waiting for: the encoder takes a fixed number of windows, and unused
 * ones cost as much as others. So new windows wait until there are enough of them, or nothing else is to do, or some
 * rounds have passed.
 */
#include "apps/transcribe/engine/lanes/batch.h"

#include <stdlib.h>

#include "base/failure.h"

enum {
    PATIENCE = 8,   /* rounds that a window waits for others */
    SHORT_FEED = 4, /* tokens; fewer are fed one by one */
};

struct slot {
    struct tr_lane *lane;
    bool fresh; /* its window is not encoded yet */
};

struct list {
    struct tr_lane *first, *last;
};

struct tr_batch {
    struct tr_net *net;
    struct tr_net_shape shape;
    struct slot *slots;
    int32_t *tokens, *positions;
    struct tr_logits *logits;
    float *all, *feed_logits;
    struct list waiting, decoded;
    size_t n_waiting, n_lanes;
    int n_tokens; /* of the model */
    int waited;   /* rounds */
    struct tr_batch_counts counts;
};

int tr_batch_open(struct tr_batch **out, struct tr_net *net, const struct tr_net_shape *shape, int n_tokens)
{
    struct tr_batch *b = calloc(1, sizeof *b);
    if (!b)
        return gd__fail("no memory for the decoder");
    const size_t slots = (size_t)shape->slots;
    b->net = net;
    b->shape = *shape;
    b->n_tokens = n_tokens;
    b->slots = calloc(slots, sizeof *b->slots);
    b->tokens = calloc(slots, sizeof *b->tokens);
    b->positions = calloc(slots, sizeof *b->positions);
    b->logits = calloc(slots, sizeof *b->logits);
    b->all = calloc((size_t)n_tokens, sizeof *b->all);
    b->feed_logits = calloc(2 * (size_t)shape->windows * (size_t)n_tokens, sizeof *b->feed_logits);
    if (!b->slots || !b->tokens || !b->positions || !b->logits || !b->all || !b->feed_logits) {
        tr_batch_close(&b);
        return gd__fail("no memory for the decoder");
    }
    *out = b;
    return 0;
}

void tr_batch_close(struct tr_batch **batch)
{
    struct tr_batch *b = *batch;
    if (!b)
        return;
    free(b->slots);
    free(b->tokens);
    free(b->positions);
    free(b->logits);
    free(b->all);
    free(b->feed_logits);
    free(b);
    *batch = NULL;
}

/* --- lists ------------------------------------------------------------------------ */

static void append(struct list *list, struct tr_lane *l)
{
    l->next = NULL;
    if (list->last)
        list->last->next = l;
    else
        list->first = l;
    list->last = l;
}

static struct tr_lane *shift(struct list *list)
{
    struct tr_lane *l = list->first;
    if (l)
        list->first = l->next;
    if (!list->first)
        list->last = NULL;
    return l;
}

/* Returns whether the lane was in the list. */
static bool drop(struct list *list, const struct tr_lane *l)
{
    struct tr_lane *before = NULL;
    for (struct tr_lane *at = list->first; at; before = at, at = at->next) {
        if (at != l)
            continue;
        *(before ? &before->next : &list->first) = at->next;
        if (list->last == at)
            list->last = before;
        return true;
    }
    return false;
}

void tr_batch_add(struct tr_batch *b, struct tr_lane *l)
{
    append(&b->waiting, l);
    b->n_waiting++;
    b->n_lanes++;
}

void tr_batch_remove(struct tr_batch *b, struct tr_lane *l)
{
    if (drop(&b->decoded, l))
        return;
    b->n_lanes--;
    if (drop(&b->waiting, l)) {
        b->n_waiting--;
        return;
    }
    for (int i = 0; i < b->shape.slots; i++) {
        if (b->slots[i].lane == l)
            b->slots[i] = (struct slot){ 0 };
    }
}

size_t tr_batch_size(const struct tr_batch *b)
{
    return b->n_lanes;
}

size_t tr_batch_waiting(const struct tr_batch *b)
{
    return b->n_waiting;
}

struct tr_lane *tr_batch_take(struct tr_batch *b)
{
    return shift(&b->decoded);
}

struct tr_batch_counts tr_batch_counts(const struct tr_batch *b)
{
    return b->counts;
}

/* --- a round ------------------------------------------------------------------------ */

static void finish(struct tr_batch *b, struct tr_lane *l)
{
    b->n_lanes--;
    append(&b->decoded, l);
}

static void follow(struct tr_batch *b, struct slot *s, enum tr_next next)
{
    if (next == TR_NEXT_NONE) {
        finish(b, s->lane);
        *s = (struct slot){ 0 };
    }
    s->fresh = next == TR_NEXT_WINDOW;
}

static void fill_slots(struct tr_batch *b)
{
    for (struct slot *s = b->slots; s < b->slots + b->shape.slots; s++) {
        while (!s->lane && b->waiting.first) {
            struct tr_lane *l = shift(&b->waiting);
            b->n_waiting--;
            if (tr_lane_begin(l))
                *s = (struct slot){ l, true };
            else
                finish(b, l);
        }
    }
}

/* Feeds what comes before the text, at once. Short sequences are left to the steps. */
static int prefill(struct tr_batch *b, const int *slots, int n)
{
    const size_t row = (size_t)b->n_tokens;
    struct tr_feed feeds[TR_MOST_WINDOWS];
    int count = 0;
    for (int i = 0; i < n; i++) {
        const struct tr_lane *l = b->slots[slots[i]].lane;
        if (l->n_fed > SHORT_FEED && l->n_fed <= tr_net_longest_feed(b->net)) {
            float *room = b->feed_logits + 2 * row * (size_t)count;
            feeds[count++] = (struct tr_feed){ slots[i], l->fed, l->n_fed, l->n_fed - l->n_start, room, room + row };
        }
    }
    if (count == 0)
        return 0;
    if (tr_net_prefill(b->net, feeds, count) < 0)
        return -1;
    b->counts.prefills += (uint64_t)count;
    for (int i = 0; i < count; i++) {
        struct slot *s = &b->slots[feeds[i].slot];
        follow(b, s, tr_lane_hear_feed(s->lane, feeds[i].start_logits, feeds[i].last_logits));
    }
    return 0;
}

static int encode(struct tr_batch *b, const int *slots, int n)
{
    for (int i = 0; i < n; i++) {
        struct slot *s = &b->slots[slots[i]];
        tr_spectrum_window(&s->lane->spectrum, s->lane->at, tr_net_frames(b->net), tr_net_window(b->net, i));
        s->fresh = false;
    }
    b->counts.windows += (uint64_t)n;
    b->counts.encodings++;
    return tr_net_encode(b->net, n, slots) < 0 ? -1 : prefill(b, slots, n);
}

/* Encodes new windows, if it is time. */
static int encode_fresh(struct tr_batch *b)
{
    int slots[TR_MOST_WINDOWS], n = 0, fresh = 0, running = 0;
    for (int i = 0; i < b->shape.slots; i++) {
        fresh += b->slots[i].lane && b->slots[i].fresh;
        running += b->slots[i].lane && !b->slots[i].fresh;
    }
    if (fresh == 0 || (fresh < b->shape.windows && running > 0 && b->waited++ < PATIENCE))
        return 0;
    b->waited = 0;
    for (int i = 0; i < b->shape.slots && n < b->shape.windows; i++) {
        if (b->slots[i].lane && b->slots[i].fresh)
            slots[n++] = i;
    }
    return encode(b, slots, n);
}

static int hear(struct tr_batch *b, int i)
{
    struct slot *s = &b->slots[i];
    enum tr_next next;
    if (tr_lane_wants_all(s->lane)) {
        if (tr_net_all_logits(b->net, i, b->all) < 0)
            return -1;
        next = tr_lane_hear(s->lane, NULL, b->all);
    } else {
        next = tr_lane_hear(s->lane, &b->logits[i], NULL);
    }
    b->counts.tokens++;
    follow(b, s, next);
    return 0;
}

static int step(struct tr_batch *b)
{
    int running = 0;
    for (int i = 0; i < b->shape.slots; i++) {
        const struct slot *s = &b->slots[i];
        const bool used = s->lane && !s->fresh;
        b->tokens[i] = used ? tr_lane_token(s->lane) : 0;
        b->positions[i] = used ? s->lane->position : 0;
        running += used;
    }
    if (running == 0)
        return 0;
    if (tr_net_step(b->net, b->tokens, b->positions, b->logits) < 0)
        return -1;
    b->counts.steps++;
    for (int i = 0; i < b->shape.slots; i++) {
        if (b->slots[i].lane && !b->slots[i].fresh && hear(b, i) < 0)
            return -1;
    }
    return 0;
}

int tr_batch_round(struct tr_batch *b)
{
    fill_slots(b);
    return encode_fresh(b) < 0 ? -1 : step(b);
}
