/* Which worker gets which task.
 *
 * A worker that has no task (idle) or few (hungry) is handed tasks from its own queue, if tasks were placed on it, and
 * otherwise from the backlog. Tasks that are handed out ahead may start out of order. So tasks are handed out ahead
 * only if they are known to be short. Then a worker is handed enough tasks for WINDOW_NS. A single worker keeps the
 * order anyway, so it always has one batch ahead. When the backlog is empty, an idle worker gets tasks of the worker
 * that has the most tasks: the later half, except tasks that have begun. order.c takes back tasks that wait too long.
 */
#include "base/error.h"
#include "core/internal.h"

#define WINDOW_NS (200 * GD__NS_PER_US)
#define SHARE_NS  GD__SHARE_NS
#define SHORT_NS  GD__NS_PER_MS        /* batches that take longer than this start in order */
#define LONG_NS   (10 * GD__NS_PER_MS) /* far longer than a wake-up, or than loading a task */

/* --- how much --- */

static uint64_t batch_unit(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    return w->concurrency > 1 ? 1 : gd__min64(s->config.batch_size, w->batch_limit);
}

/* Whether tasks may be handed out ahead of time. */
static bool may_be_ahead(const struct gd__sched *s, const struct gd__sched_worker *w, uint64_t b)
{
    /* A worker with fewer places than its concurrency would begin a task at once that is handed out ahead. */
    if (s->has_priorities || w->places < w->concurrency)
        return false;
    return s->config.n_workers == 1 || (w->mean_ns > 0 && w->mean_ns * b < SHORT_NS);
}

/* How many tasks a worker with tasks in flight is handed, so that it can load some ahead. */
static uint64_t loaded_in_flight(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    if (!w->loads || w->places < w->concurrency) /* it would begin them at once, see may_be_ahead() */
        return 0;
    return s->config.window_min_is_set ? s->config.window_min : w->places + s->config.window_min;
}

void gd__update_target(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t b = batch_unit(s, w);
    const uint64_t most = s->config.window_max / b * b;
    const uint64_t at_once = w->concurrency > 1 ? w->places : b;
    const uint64_t ahead = w->mean_ns == 0 ? 0 : at_once / b * WINDOW_NS / w->mean_ns;
    uint64_t wanted = may_be_ahead(s, w, b) ? at_once + b + ahead : at_once;
    if (w->concurrency > 1)
        wanted = gd__min64(gd__max64(wanted, loaded_in_flight(s, w)), at_once + most);
    else if (s->config.window > 0 && !s->has_priorities)
        wanted = gd__max64(s->config.window, b);
    else if (w->loads)
        wanted = gd__max64(wanted, s->config.window_min);
    if (s->config.start_gap_ns > 0)
        wanted = at_once;
    w->target = w->concurrency > 1 ? wanted : gd__min64(wanted, most);
    w->burst = w->mean_ns == 0 ? 1 : gd__min64(SHARE_NS / w->mean_ns, w->target / 2);
    w->target_mean = w->mean_ns;
}

void gd__sched_loads(struct gd__sched *s, unsigned i, bool loads)
{
    s->workers[i].loads = loads;
    gd__update_target(s, i);
}

/* Whether a worker that has tasks should be handed more. A free place is filled at once. */
static bool is_hungry(const struct gd__sched_worker *w, uint64_t load)
{
    if (w->concurrency == 1)
        return load <= w->target / 2;
    return load < w->places || (load < w->target && load <= w->places + (w->target - w->places) / 2);
}

/* How many more tasks the process of w may be handed: it ends after max_tasks tasks. */
static uint64_t allowance(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    const uint64_t most = s->config.max_tasks, used = w->served + gd__load(w);
    return most == 0 ? UINT64_MAX : most - gd__min64(used, most);
}

void gd__update_hunger(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t load = gd__load(w);
    const bool ready = w->state == GD_WORKER_IDLE && !w->solo && !w->stuck && !w->leaving && !w->renew;
    w->ready = ready;
    enum gd__appetite now = GD__SATED;
    if (ready && load == 0)
        now = GD__STARVING;
    else if (ready && w->suspects.count == 0 && is_hungry(w, load) && allowance(s, w) > 0)
        now = GD__HUNGRY;
    if (now == w->appetite)
        return;
    w->appetite = (uint8_t)now;
    gd__bit_clear(s->idle, i);
    gd__bit_clear(s->hungry, i);
    if (now != GD__SATED)
        gd__bit_set(now == GD__STARVING ? s->idle : s->hungry, i);
}

/* --- where a task waits --- */

static bool is_out(const struct gd__sched_worker *w)
{
    return gd__is_gone(w->state) || w->leaving;
}

static int choose_home(struct gd__sched *s, const struct gd__task *t)
{
    const struct gd__sched_config *c = &s->config;
    const unsigned n_workers = c->n_workers - c->n_spare;
    int home = -1;
    if (c->placement == GD_PLACE_CHUNKS) {
        const uint64_t chunk = (c->total_tasks + n_workers - 1) / n_workers;
        home = chunk == 0 ? -1 : (int)gd__min64(t->id / chunk, n_workers - 1);
    } else if (c->placement == GD_PLACE_CUSTOM) {
        home = c->place(c->place_user, t->id, t->weight, n_workers);
    }
    return home < (int)n_workers ? home : -1;
}

static void by_size_push(struct gd__sched *s, uint32_t slot)
{
    uint32_t *h = s->by_size;
    uint64_t i = s->by_size_count++;
    while (i > 0 && gd__goes_first(s, slot, h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = slot;
}

static uint32_t by_size_pop(struct gd__sched *s)
{
    uint32_t *h = s->by_size;
    const uint32_t top = h[0], last = h[--s->by_size_count];
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= s->by_size_count)
            break;
        if (child + 1 < s->by_size_count && gd__goes_first(s, h[child + 1], h[child]))
            child++;
        if (!gd__goes_first(s, h[child], last))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

static void by_size_remove(struct gd__sched *s, uint32_t slot)
{
    const uint64_t n = s->by_size_count;
    s->by_size_count = 0;
    for (uint64_t i = 0; i < n; i++) /* entry i is read before it can be overwritten */
        if (s->by_size[i] != slot)
            by_size_push(s, s->by_size[i]);
}

/* The queue for a task with that home. home < 0, or a worker that gets no more tasks: the backlog. */
static struct gd__waiting *queue_of(struct gd__sched *s, uint32_t slot, int home)
{
    if (home < 0 || is_out(&s->workers[home]))
        home = -1;
    s->tasks[slot].home = (int16_t)home;
    s->n_placed += home >= 0;
    return home < 0 ? &s->backlog : &s->workers[home].placed;
}

void gd__place_new(struct gd__sched *s, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    t->state = GD__TASK_WAITING;
    if (t->priority != 0 && !s->has_priorities)
        gd__order_by_priority(s);
    if (s->config.placement == GD_PLACE_DYNAMIC)
        gd__waiting_append(s, &s->backlog, slot);
    else if (s->config.placement == GD_PLACE_BY_SIZE)
        by_size_push(s, slot);
    else
        gd__waiting_append(s, queue_of(s, slot, choose_home(s, t)), slot);
}

/* Places a task that must run alone on a certain worker. If that worker is gone, another worker is used. */
static void place_suspect(struct gd__sched *s, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    for (unsigned k = 0; k < s->config.n_workers && is_out(&s->workers[t->solo_on]); k++)
        t->solo_on = (int16_t)k;
    if (is_out(&s->workers[t->solo_on])) { /* no worker is left: the task is cancelled with the others */
        gd__list_push_front(s, &s->solo, slot);
        return;
    }
    gd__list_push_back(s, &s->workers[t->solo_on].suspects, slot);
    s->n_suspects++;
    gd__update_hunger(s, (unsigned)t->solo_on);
}

void gd__place_again(struct gd__sched *s, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    t->state = GD__TASK_WAITING;
    t->waiting_since = 0; /* it is not held back for a fuller batch again */
    if (s->stopping || t->cancel_asked)
        gd__task_cancel(s, slot);
    else if (t->solo && t->solo_on >= 0)
        place_suspect(s, slot);
    else if (t->solo)
        gd__list_push_front(s, &s->solo, slot);
    else
        gd__waiting_insert(s, queue_of(s, slot, t->home), slot);
}

/* A task that waits to be dealt by size is only in the heap by_size. It has no home, like a task of the backlog. */
void gd__place_remove(struct gd__sched *s, uint32_t slot)
{
    const struct gd__task *t = &s->tasks[slot];
    const uint64_t dealt = s->by_size_count;
    if (gd__list_remove(s, &s->solo, slot))
        return;
    if (t->solo && t->solo_on >= 0 && gd__list_remove(s, &s->workers[t->solo_on].suspects, slot)) {
        s->n_suspects--;
        gd__update_hunger(s, (unsigned)t->solo_on); /* without suspects it may have other tasks */
        return;
    }
    if (dealt > 0)
        by_size_remove(s, slot);
    if (s->by_size_count != dealt)
        return;
    gd__waiting_remove(s, t->home < 0 ? &s->backlog : &s->workers[t->home].placed, slot);
    s->n_placed -= t->home >= 0;
}

void gd__place_release(struct gd__sched *s, unsigned i)
{
    struct gd__waiting *q = &s->workers[i].placed;
    while (q->count > 0) {
        const uint32_t slot = gd__waiting_pop(s, q);
        s->n_placed--;
        gd__waiting_insert(s, queue_of(s, slot, -1), slot);
    }
    struct gd__list *suspects = &s->workers[i].suspects;
    while (suspects->count > 0) {
        s->n_suspects--;
        place_suspect(s, gd__list_pop(s, suspects));
    }
}

/* --- handing out --- */

static void hand(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot, uint64_t batch)
{
    struct gd__sched_worker *w = &s->workers[i];
    struct gd__task *t = &s->tasks[slot];
    if (w->tail == w->head)
        gd__head_changed(w, now);
    t->state = GD__TASK_HANDED;
    t->worker = (int16_t)i;
    t->batch = (uint16_t)batch;
    w->no_steal = false;
    w->window[w->tail++ & s->window_mask] = slot;
    if (s->has_limits || (s->config.task_timeout_ns > 0 && !gd__timer_armed(&w->timer)))
        gd__arm_head_limit(s, now, i);
    s->fx->assign(s->ctx, i, t, t->attempt + 1);
}

/* Whether start_gap_ns allows the next task to be handed out now. */
static bool may_start(struct gd__sched *s, uint64_t now)
{
    if (s->config.start_gap_ns == 0)
        return true;
    if (now < s->next_start) {
        s->hold_until = gd__min64(s->hold_until, s->next_start);
        return false;
    }
    return true;
}

/* Hands a suspect to a worker without tasks. Returns true if the worker must get no other task. */
static bool hand_solo(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (gd__load(w) > 0 || w->suspects.count + s->solo.count == 0)
        return w->suspects.count > 0;
    s->n_suspects -= w->suspects.count > 0;
    hand(s, now, i, gd__list_pop(s, w->suspects.count > 0 ? &w->suspects : &s->solo), 1);
    w->solo = true;
    return true;
}

struct oldest {
    const struct gd__sched *s;
    uint64_t since;
};

static void look_at_age(void *ctx, uint32_t slot)
{
    struct oldest *o = ctx;
    o->since = gd__min64(o->since, o->s->tasks[slot].waiting_since);
}

/* When the first of these tasks began to wait. That task may be anywhere in the queue. */
static uint64_t oldest(const struct gd__sched *s, const struct gd__waiting *q)
{
    struct oldest o = { s, GD__NEVER };
    gd__waiting_each(s, q, look_at_age, &o);
    return o.since;
}

/* Whether a batch that is not full may be handed out, because no more tasks can come or because one has waited long
 * enough. */
static bool may_go_short(struct gd__sched *s, uint64_t now, const struct gd__waiting *q)
{
    if (s->config.batch_wait_ns == 0 || s->source_ended || s->next_id >= s->allowed)
        return true;
    const uint64_t until = oldest(s, q) + s->config.batch_wait_ns;
    if (until <= now)
        return true;
    s->hold_until = gd__min64(s->hold_until, until);
    return false;
}

/* How many of the waiting tasks a worker may take at once. A single worker may take all. If there are more workers,
 * each may take half its share of the backlog, so that tasks remain for the others. */
static uint64_t fair_part(const struct gd__sched *s, const struct gd__waiting *q)
{
    const uint64_t part = q == &s->backlog && s->n_ready > 1 ? q->count / (2 * s->n_ready) : q->count;
    return gd__max64(part, 1);
}

/* Whether the worker's tasks take so long that the last few are left for the workers that become free first. A task
 * that a worker has begun to load ahead can't be taken back, so it would wait behind a long task while other workers
 * are idle. If the worker has not finished a task yet, the duration is unknown. Then tasks are left for workers that
 * are still starting. */
static bool is_long(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    return w->mean_ns == 0 || (s->source_ended && w->mean_ns >= LONG_NS);
}

static bool may_be_kept_for_others(const struct gd__sched *s, const struct gd__sched_worker *w,
                                   const struct gd__waiting *q)
{
    return q == &s->backlog && is_long(s, w);
}

/* Whether the rest of the backlog is left for other workers: one batch (or as many tasks as can be in flight) for each
 * worker, and a second one for each worker that has no task. */
static bool is_kept_for_others(const struct gd__sched *s, unsigned i, const struct gd__waiting *q)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const uint64_t b = w->concurrency > 1 ? w->places : batch_unit(s, w);
    const bool needs_more = w->concurrency > 1 ? !w->loads || gd__load(w) < w->places : gd__load(w) == 0;
    if (needs_more || q->count >= 2 * b * s->config.n_workers)
        return false;
    uint64_t others = 0;
    for (unsigned k = 0; k < s->config.n_workers; k++) {
        if (k != i && !is_out(&s->workers[k]))
            others += gd__load(&s->workers[k]) == 0 ? 2 : 1;
    }
    return others > 0 && q->count < b * (others + 1);
}

static void hand_from(struct gd__sched *s, uint64_t now, unsigned i, struct gd__waiting *q)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t allowed = allowance(s, w), b = gd__min64(batch_unit(s, w), allowed);
    const uint64_t load = gd__load(w), length = gd__window_length(w);
    if (allowed == 0)
        return;
    uint64_t left = gd__max64(gd__max64(fair_part(s, q), w->burst), b);
    if (w->concurrency > 1 && load < w->places) /* fill_places() fills the other places */
        left = load == 0;
    uint64_t room = gd__min64(w->target - gd__min64(w->target, load), s->config.window_max - length);
    room = gd__min64(room, allowed);
    const bool may_keep = may_be_kept_for_others(s, w, q);
    for (; left > 0 && q->count > 0 && room >= b && !(may_keep && is_kept_for_others(s, i, q)); room -= b) {
        uint64_t n = gd__min64(b, q->count);
        const bool is_short = n < b;
        if (is_short && (gd__load(w) > 0 || !may_go_short(s, now, q)))
            return;
        left -= gd__min64(left, n);
        for (; n > 0; n--) {
            s->n_placed -= q != &s->backlog;
            hand(s, now, i, gd__waiting_pop(s, q), n);
        }
    }
}

static void handed_out(struct gd__sched *s, uint64_t now, unsigned i)
{
    s->next_start = now + s->config.start_gap_ns;
    gd__window_changed(s, i);
    gd__order_note(s, now, i);
    s->fx->publish(s->ctx, i);
}

static void hand_out(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t tail = w->tail;
    if (!may_start(s, now))
        return;
    if (!hand_solo(s, now, i)) {
        if (w->placed.count > 0)
            hand_from(s, now, i, &w->placed);
        if (s->backlog.count > 0)
            hand_from(s, now, i, &s->backlog);
    }
    if (w->tail != tail)
        handed_out(s, now, i);
}

/* Hands out tasks to each worker of the set, beginning with worker s->rotate. */
static void serve(struct gd__sched *s, uint64_t now, const uint64_t *set)
{
    for (unsigned k = 0; k <= s->n_words; k++) {
        const unsigned word = (s->rotate / 64 + k) % s->n_words;
        uint64_t bits = set[word];
        const uint64_t below = (UINT64_C(1) << (s->rotate % 64)) - 1;
        if (k == 0)
            bits &= ~below;
        else if (k == s->n_words)
            bits &= below;
        while (bits) {
            if (s->backlog.count + s->solo.count + s->n_placed + s->n_suspects == 0)
                return;
            hand_out(s, now, word * 64 + (unsigned)__builtin_ctzll(bits));
            bits &= bits - 1;
        }
    }
}

/* --- places for tasks in flight --- */

/* The worker that has free places and the fewest tasks. *room: how many tasks it may be handed before another worker
 * has fewer. */
static struct gd__sched_worker *most_free(struct gd__sched *s, uint64_t *room)
{
    struct gd__sched_worker *best = NULL;
    uint64_t second = UINT64_MAX;
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        const bool is_served = ((s->idle[i / 64] | s->hungry[i / 64]) >> (i % 64)) & 1;
        if (!is_served || w->concurrency == 1 || gd__load(w) >= w->places || w->suspects.count > 0 ||
            gd__window_length(w) >= s->config.window_max || w->placed.count + s->backlog.count == 0)
            continue;
        if (!best || gd__load(w) < gd__load(best)) {
            second = best ? gd__load(best) : second;
            best = w;
        } else {
            second = gd__min64(second, gd__load(w));
        }
    }
    if (best)
        *room = gd__min64(gd__max64(1, gd__min64(second, best->places) - gd__min64(second, gd__load(best))),
                          allowance(s, best));
    return best;
}

/* Fills the free places of all workers, those with the fewest tasks first. */
static void fill_places(struct gd__sched *s, uint64_t now)
{
    struct gd__sched_worker *w;
    uint64_t room = 0;
    while (s->backlog.count + s->n_placed > 0 && may_start(s, now) && (w = most_free(s, &room))) {
        const unsigned i = (unsigned)(w - s->workers);
        if (s->config.start_gap_ns > 0)
            room = 1;
        for (; room > 0 && gd__load(w) < w->places && gd__window_length(w) < s->config.window_max; room--) {
            struct gd__waiting *q = w->placed.count > 0 ? &w->placed : &s->backlog;
            if (q->count == 0)
                break;
            s->n_placed -= q != &s->backlog;
            hand(s, now, i, gd__waiting_pop(s, q), 1);
        }
        handed_out(s, now, i);
    }
}

/* --- by size --- */

static bool any_set(const struct gd__sched *s, const uint64_t *set)
{
    for (unsigned k = 0; k < s->n_words; k++)
        if (set[k])
            return true;
    return false;
}

/* The next worker that may get tasks, in turn. If there is none, any worker. */
static int next_in_turn(struct gd__sched *s)
{
    unsigned i = s->rotate;
    for (unsigned tries = 1; tries < s->config.n_workers && is_out(&s->workers[i]); tries++)
        i = (i + 1) % s->config.n_workers;
    s->rotate = (i + 1) % s->config.n_workers;
    return (int)i;
}

/* Deals all waiting tasks, largest first, to the workers in turn. Does nothing until a worker is idle or no more tasks
 * can come. */
static void deal_by_size(struct gd__sched *s)
{
    if (!any_set(s, s->idle) && !s->source_ended && s->next_id < s->allowed)
        return;
    while (s->by_size_count > 0) {
        const uint32_t slot = by_size_pop(s);
        gd__waiting_insert(s, queue_of(s, slot, next_in_turn(s)), slot);
    }
}

/* --- taking back --- */

/* Whether it is worth moving the worker's tasks. Tasks that take less time than a wake-up end sooner if they stay. The
 * estimate uses past durations, so it is made again if the first task takes longer than SHARE_NS. */
static bool is_worth_taking_from(struct gd__sched *s, uint64_t now, const struct gd__sched_worker *w)
{
    const uint64_t look_again = w->head_since + SHARE_NS;
    if (w->mean_ns == 0 || w->mean_ns * gd__window_length(w) >= SHARE_NS || look_again <= now)
        return true;
    s->hold_until = gd__min64(s->hold_until, look_again);
    return false;
}

static struct gd__sched_worker *longest_window(struct gd__sched *s, uint64_t now)
{
    struct gd__sched_worker *best = NULL;
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        if (!gd__can_take_from(s, w) || !is_worth_taking_from(s, now, w))
            continue;
        if (!best || gd__window_length(w) > gd__window_length(best))
            best = w;
    }
    return best;
}

/* Puts the later half of w's tasks back into the backlog, in whole batches. Returns false if w has begun all of
 * them. */
static bool take_half_back(struct gd__sched *s, struct gd__sched_worker *w)
{
    const unsigned i = (unsigned)(w - s->workers);
    const uint64_t length = gd__window_length(w), old_tail = w->tail;
    uint64_t keep = gd__first_spare(s, w);
    for (uint64_t b; keep < w->head + length / 2; keep += b) {
        b = s->tasks[w->window[keep & s->window_mask]].batch;
        if (keep + b >= old_tail)
            break; /* the last batch is more than half of the window, and is taken back too */
    }
    return gd__window_take_back(s, i, keep);
}

static void take_from_busy_workers(struct gd__sched *s, uint64_t now)
{
    while (s->backlog.count == 0 && any_set(s, s->idle)) {
        struct gd__sched_worker *from = longest_window(s, now);
        if (!from)
            return;
        if (take_half_back(s, from))
            serve(s, now, s->idle);
    }
    if (s->backlog.count > 0 && s->solo.count == 0 && s->config.concurrency > 1)
        fill_places(s, now);
    if (s->backlog.count > 0 && s->solo.count == 0) /* no worker is idle any more */
        serve(s, now, s->hungry);
}

void gd__sched_pump(struct gd__sched *s, uint64_t now)
{
    if (s->stopping || s->paused || s->n_ready == 0)
        return;
    s->hold_until = GD__NEVER;
    gd__order_restore(s, now);
    if (s->by_size_count > 0)
        deal_by_size(s);
    if (s->backlog.count + s->solo.count + s->n_placed + s->n_suspects > 0) {
        serve(s, now, s->idle);
        if (s->config.concurrency > 1 && s->solo.count == 0)
            fill_places(s, now);
        if (s->solo.count == 0) /* a suspect (see sched.h) runs alone, so let a worker finish its tasks first */
            serve(s, now, s->hungry);
        if (s->config.placement != GD_PLACE_BY_SIZE)
            s->rotate = (s->rotate + 1) % s->config.n_workers;
    }
    if (s->config.placement == GD_PLACE_DYNAMIC && s->backlog.count == 0) {
        take_from_busy_workers(s, now);
        if (s->has_priorities && s->backlog.count > 0 &&
            s->solo.count == 0) { /* a task of the backlog may have to start before others */
            gd__order_restore(s, now);
            serve(s, now, s->hungry);
        }
    }
    s->hold_until = gd__min64(s->hold_until, s->order_at);
    if (s->hold_until != GD__NEVER)
        gd__heap_arm(&s->heap, &s->batch_timer, s->hold_until);
    if (s->outstanding == 0) /* a cancelled task that was taken back may have been the last one */
        gd__check_done(s, now);
}
