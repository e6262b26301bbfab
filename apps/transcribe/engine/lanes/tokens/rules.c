/* SPDX-License-Identifier: MIT
 *
 * The choice of a token. Sums of probabilities are computed relative to the largest logit, so that nothing overflows.
 */
#include "apps/transcribe/engine/lanes/tokens/rules.h"

#include <math.h>

#define NEGLIGIBLE 25 /* a logit that is smaller by this is not added: e^-25 is below the precision of a float */

/* The times that may be chosen: from `low` to before `high`, counted from the first time. */
struct range {
    int low, high;
};

static struct range allowed_times(const struct tr_rules *r, const struct tr_turn *turn)
{
    const int n = r->vocabulary->size - r->vocabulary->times;
    struct range t = { turn->earliest, n };
    if (r->no_times || (turn->after_time && turn->after_two_times))
        t.high = t.low;
    else if (turn->first && r->latest_first_time >= 0 && r->latest_first_time + 1 < n)
        t.high = r->latest_first_time + 1;
    return t;
}

static bool text_allowed(const struct tr_turn *turn)
{
    return !turn->after_time || turn->after_two_times;
}

static bool end_allowed(const struct tr_rules *r, const struct tr_turn *turn)
{
    return !(turn->first && r->suppress_blank);
}

static float add_logs(float a, float b)
{
    const float high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1pf(expf(low - high));
}

/* The sums over times: the most likely one and the log of the sum of e^logit. */
struct times {
    int best;
    float best_logit, log_sum;
};

static struct times sum_times(const float *logits, struct range range)
{
    struct times t = { range.low, -INFINITY, -INFINITY };
    for (int i = range.low; i < range.high; i++) {
        if (logits[i] > t.best_logit) {
            t.best_logit = logits[i];
            t.best = i;
        }
    }
    if (t.best_logit == -INFINITY)
        return t;
    float sum = 0;
    for (int i = range.low; i < range.high; i++) {
        if (logits[i] > t.best_logit - NEGLIGIBLE)
            sum += expf(logits[i] - t.best_logit);
    }
    t.log_sum = t.best_logit + logf(sum);
    return t;
}

struct tr_pick tr_rules_best(const struct tr_rules *r, const struct tr_turn *turn, const struct tr_logits *l)
{
    const struct tr_vocabulary *v = r->vocabulary;
    const struct times t = sum_times(l->others + (v->times - v->eot), allowed_times(r, turn));
    const float end = end_allowed(r, turn) ? l->others[0] : -INFINITY;
    const float text = text_allowed(turn) ? l->text_logit : -INFINITY;
    const float text_sum = text_allowed(turn) ? l->text_log_sum : -INFINITY;
    const float all = add_logs(add_logs(text_sum, end), t.log_sum);
    struct tr_pick p = { .time = v->times + t.best };
    float logit;
    if (t.log_sum > (text > end ? text : end)) {
        p.token = p.time;
        logit = t.best_logit;
    } else {
        p.token = text >= end ? l->text : v->eot;
        logit = text >= end ? text : end;
    }
    p.log_probability = logit - all;
    p.probability = expf(p.log_probability);
    p.all_times_probability = t.log_sum == -INFINITY ? 0 : expf(t.log_sum - all);
    p.time_probability = t.log_sum == -INFINITY ? 0 : expf(t.best_logit - t.log_sum);
    if (p.token >= v->times)
        p.time_probability = p.probability;
    return p;
}

static bool is_forbidden(const struct tr_rules *r, const struct tr_turn *turn, int token)
{
    return (r->forbidden && r->forbidden[token]) || (turn->first && r->suppress_blank && token == r->vocabulary->blank);
}

struct tr_logits tr_rules_shorten(const struct tr_rules *r, const struct tr_turn *turn, const float *all)
{
    const int n = r->vocabulary->eot;
    struct tr_logits l = { 0, -INFINITY, -INFINITY, all + n };
    for (int i = 0; i < n; i++) {
        if (all[i] > l.text_logit && !is_forbidden(r, turn, i)) {
            l.text_logit = all[i];
            l.text = i;
        }
    }
    if (l.text_logit == -INFINITY)
        return l;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (all[i] > l.text_logit - NEGLIGIBLE && !is_forbidden(r, turn, i))
            sum += (double)expf(all[i] - l.text_logit);
    }
    l.text_log_sum = l.text_logit + (float)log(sum);
    return l;
}

/* The token at which the sum of probabilities reaches `random`. */
static int draw(const struct tr_rules *r, const struct tr_turn *turn, const float *all, float log_sum, bool text,
                double random)
{
    const struct tr_vocabulary *v = r->vocabulary;
    const struct range range = allowed_times(r, turn);
    double sum = 0;
    int last = -1;
    for (int i = 0; text && text_allowed(turn) && i < v->eot; i++) {
        if (is_forbidden(r, turn, i))
            continue;
        sum += exp((double)(all[i] - log_sum));
        last = i;
        if (sum > random)
            return i;
    }
    if (text && end_allowed(r, turn)) {
        sum += exp((double)(all[v->eot] - log_sum));
        last = v->eot;
        if (sum > random)
            return last;
    }
    for (int i = range.low; i < range.high; i++) {
        sum += exp((double)(all[v->times + i] - log_sum));
        last = v->times + i;
        if (sum > random)
            return last;
    }
    return last; /* the sum is a little less than 1 */
}

struct tr_pick tr_rules_draw(const struct tr_rules *r, const struct tr_turn *turn, float *all, float temperature,
                             double random)
{
    const struct tr_vocabulary *v = r->vocabulary;
    for (int i = 0; i < v->size; i++)
        all[i] /= temperature;
    const struct tr_logits l = tr_rules_shorten(r, turn, all);
    struct tr_pick p = tr_rules_best(r, turn, &l);
    const bool only_times = p.token >= v->times;
    const float log_sum = all[p.token] - p.log_probability; /* of all tokens that the rules allow */
    const float drawn_sum = only_times ? log_sum + logf(p.all_times_probability) : log_sum;
    p.token = draw(r, turn, all, drawn_sum, !only_times, random);
    p.log_probability = all[p.token] - log_sum;
    p.probability = expf(p.log_probability);
    if (p.token >= v->times) {
        p.time = p.token;
        p.time_probability = p.probability;
    }
    return p;
}

float tr_rules_probability(const struct tr_rules *r, const float *all, int token)
{
    const int n = r->vocabulary->size;
    float most = -INFINITY;
    for (int i = 0; i < n; i++)
        most = all[i] > most ? all[i] : most;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += all[i] > most - NEGLIGIBLE ? (double)expf(all[i] - most) : 0;
    return (float)((double)expf(all[token] - most) / sum);
}
