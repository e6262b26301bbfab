/* SPDX-License-Identifier: MIT
 *
 * Stores how the counts of a run grew. Samples contain counts, not rates. So when some samples are dropped, the mean
 * rate between any two others is still right. */
#include "web/live/history.h"

#include "base/text/buffer.h"

/* Samples are taken once a second. The step is shorter, because two samples may be a little closer together. */
static const double FIRST_STEP = 0.9;

static void thin_out(struct web_history *h)
{
    for (size_t i = 0; i < WEB_HISTORY_ROOM / 2; i++)
        h->samples[i] = h->samples[2 * i];
    h->n = WEB_HISTORY_ROOM / 2;
    h->step *= 2;
}

void web_history_add(struct web_history *h, const struct web_sample *s)
{
    if (h->step <= 0) {
        h->step = FIRST_STEP;
        h->n = 1; /* at 0 seconds all counts are 0 */
    }
    if (h->n > 0 && s->seconds < h->samples[h->n - 1].seconds + h->step)
        return;
    if (h->n == WEB_HISTORY_ROOM)
        thin_out(h);
    h->samples[h->n++] = *s;
}

void web_history_json(const struct web_history *h, struct gd__buffer *b)
{
    gd__buffer_format(b, "{\"step\":%.1f,\"columns\":[\"seconds\",\"completed\",\"failed\",\"running\"],\"samples\":[",
                      h->step);
    for (size_t i = 0; i < h->n; i++) {
        const struct web_sample *s = &h->samples[i];
        gd__buffer_format(b, "%s[%.2f,%llu,%llu,%llu]", i ? "," : "", s->seconds, (unsigned long long)s->completed,
                          (unsigned long long)s->failed, (unsigned long long)s->running);
    }
    gd__buffer_text(b, "]}\n");
}
