/* Reads messages at known places: see fetch.h. */
#include "queue/read/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Messages that nobody wants are read along, if that saves a request. */
enum { GAP_MESSAGES = 32, GAP_BYTES = 32 << 10 };

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory for messages of a queue");
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_and_unite(uint32_t *list, size_t n)
{
    size_t kept = 0;
    qsort(list, n, sizeof *list, compare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[kept++] = list[i];
    return kept;
}

/* --- opening --- */

/* Remembers where each item is, so that items can be found in any order. */
static int note_items(struct gd__read_fetched *m, struct gd__queue_reader *r, enum gd__queue_kind kind)
{
    struct gd__queue_task task;
    struct gd__queue_record record;
    m->items = gd__calloc(r->items, sizeof *m->items);
    if (!m->items)
        return no_memory();
    m->host = r->host;
    m->n_items = r->items;
    for (uint32_t i = 0; i < m->n_items; i++) {
        m->items[i] = (uint32_t)(r->at - m->data);
        if (kind == GD__QUEUE_TASK)
            (void)gd__queue_tasks_next(r, &task);
        else
            (void)gd__queue_records_next(r, &record);
    }
    return 0;
}

/* The message was checked when it was indexed. But what the server sends now may be something else. */
static int open_message(struct gd__read_fetched *m, enum gd__queue_kind kind)
{
    struct gd__queue_reader r;
    const int rc = kind == GD__QUEUE_TASK ? gd__queue_tasks_open(&r, m->data, m->size, NULL)
                                          : gd__queue_records_open(&r, m->data, m->size, NULL);
    if (rc == 0)
        return note_items(m, &r, kind);
    gd__free(m->data);
    m->data = NULL;
    return 0;
}

/* --- reading --- */

struct reading {
    struct gd__read_fetch *f;
    const struct gd__read_messages *messages;
    enum gd__queue_kind kind;
    size_t next;     /* the next wanted message */
    uint64_t passed; /* the last sequence that came */
};

static uint64_t sequence_of(const struct reading *g, size_t i)
{
    return g->messages->items[g->f->items[i].message].sequence;
}

static int take(void *user, const struct gd__queue_answer *a)
{
    struct reading *g = user;
    g->passed = a->sequence;
    while (g->next < g->f->n && sequence_of(g, g->next) < a->sequence)
        g->next++; /* missing */
    if (g->next == g->f->n || sequence_of(g, g->next) != a->sequence)
        return 0;
    struct gd__read_fetched *m = &g->f->items[g->next++];
    m->data = gd__memdup(a->data, a->size);
    m->size = a->size;
    return m->data ? open_message(m, g->kind) : no_memory();
}

/* Returns the number of messages from `first` on that come with one request. */
static size_t run_length(const struct gd__read_fetch *f, const struct gd__read_messages *messages, size_t first)
{
    size_t n = 1;
    for (; first + n < f->n; n++) {
        const uint32_t a = f->items[first + n - 1].message, b = f->items[first + n].message;
        uint64_t bytes = 0;
        if (b - a > GAP_MESSAGES)
            break;
        for (uint32_t i = a + 1; i < b; i++)
            bytes += messages->items[i].size;
        if (bytes > GAP_BYTES)
            break;
    }
    return n;
}

/* Reads the wanted messages from `first` to `last`. A server may send fewer messages than it was asked for. If it sends
 * none, the replica that has answered may be behind: the leader knows whether they are gone. */
static int read_run(struct reading *g, struct gd__caller *c, size_t first, size_t last)
{
    const uint64_t end = sequence_of(g, last);
    uint64_t from = sequence_of(g, first);
    bool by_leader = false;
    g->next = first;
    while (from <= end) {
        const uint64_t many = end - from + 1;
        struct gd__queue_answer answer;
        const struct gd__queue_request request = { .ask = GD__ASK_READ,
                                                   .stream = g->kind,
                                                   .from = from,
                                                   .most = many < GD__CALL_READ_MESSAGES ? (uint32_t)many
                                                                                         : GD__CALL_READ_MESSAGES,
                                                   .most_bytes = GD__CALL_READ_BYTES,
                                                   .by_leader = by_leader };
        g->passed = 0;
        const int rc = gd__call(c, &request, take, g, &answer);
        if (rc < 0)
            return rc;
        const bool none = g->passed < from;
        if (none && by_leader)
            return 0;
        from = none ? from : g->passed + 1;
        by_leader = none;
    }
    return 0;
}

int gd__read_fetch(struct gd__read_fetch *f, struct gd__caller *c, const struct gd__read_messages *messages,
                   enum gd__queue_kind kind, uint32_t *list, size_t n)
{
    struct reading g = { .f = f, .messages = messages, .kind = kind };
    *f = (struct gd__read_fetch){ 0 };
    const size_t wanted = sort_and_unite(list, n);
    f->items = gd__calloc(wanted, sizeof *f->items);
    if (!f->items)
        return no_memory();
    f->n = wanted;
    for (size_t i = 0; i < wanted; i++)
        f->items[i].message = list[i];
    int rc = 0;
    for (size_t i = 0, run; rc == 0 && i < wanted; i += run) {
        run = run_length(f, messages, i);
        rc = read_run(&g, c, i, i + run - 1);
    }
    return rc;
}

void gd__read_fetch_free(struct gd__read_fetch *f)
{
    for (size_t i = 0; i < f->n; i++) {
        gd__free(f->items[i].data);
        gd__free(f->items[i].items);
    }
    gd__free(f->items);
    *f = (struct gd__read_fetch){ 0 };
}

/* --- items --- */

static int compare_message(const void *key, const void *item)
{
    const uint32_t a = *(const uint32_t *)key, b = ((const struct gd__read_fetched *)item)->message;
    return (a > b) - (a < b);
}

/* A reader at this item. */
static const struct gd__read_fetched *find(const struct gd__read_fetch *f, uint32_t message, uint32_t item,
                                           struct gd__queue_reader *r)
{
    const struct gd__read_fetched *m =
        f->n ? bsearch(&message, f->items, f->n, sizeof *f->items, compare_message) : NULL;
    if (!m || !m->data || item >= m->n_items)
        return NULL;
    *r = (struct gd__queue_reader){ .at = m->data + m->items[item], .left = m->size - m->items[item], .items = 1 };
    return m;
}

bool gd__read_fetched_task(const struct gd__read_fetch *f, uint32_t message, uint32_t item, struct gd__queue_task *out)
{
    struct gd__queue_reader r;
    return find(f, message, item, &r) && gd__queue_tasks_next(&r, out);
}

bool gd__read_fetched_record(const struct gd__read_fetch *f, uint32_t message, uint32_t item,
                             struct gd__queue_record *out, struct gd__queue_text *host)
{
    struct gd__queue_reader r;
    const struct gd__read_fetched *m = find(f, message, item, &r);
    if (!m || !gd__queue_records_next(&r, out))
        return false;
    *host = m->host;
    return true;
}
