/* The chosen records of all journals, by number: see merge.h.
 *
 * Each journal has two buffers. Rows are taken from the first one, while a thread fills the second one with the next
 * rows. When the first one is empty, they change places. A heap has the journals by the number of their next row.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "journal/merge/merge.h"

enum { DESCRIPTORS = 3, DESCRIPTORS_LEFT = 128, MESSAGE = 1024 };
#ifdef GD_TEST_HOOKS
enum { BUFFERS = 1 << 14, BUFFER_LEAST = 1 << 9, BUFFER_MOST = 1 << 11 }; /* so that small tests fill many buffers */
#else
enum { BUFFERS = 96 << 20, BUFFER_LEAST = 32 << 10, BUFFER_MOST = 1 << 20 }; /* bytes; of all journals, and of each */
#endif

struct cursor {
    struct gd__merge_reader reader; /* belongs to the thread, unless `full` */
    struct gd__merge_buffer front, back;
    size_t at;            /* the next row of the front buffer */
    uint64_t number;      /* of that row */
    uint64_t last_number; /* of the row that was read last */
    bool full;            /* the back buffer was filled, or there are no more rows, or there was an error */
    int error;
    char message[MESSAGE];
};

struct gd__merge_rows {
    struct gd__merge *m;
    struct cursor *cursors;
    size_t *heap; /* the journals that have rows; the one with the lowest number is first */
    size_t n_heap;
    bool begun;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* protects everything below, and `full` of the cursors */
    pthread_cond_t wanted, filled;
    size_t *queue; /* the journals whose back buffers are to be filled: a ring of n + 1 elements */
    size_t first, end;
    bool stop;
};

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory to merge journals");
}

static struct gd__merge_row *row_at(const struct cursor *c)
{
    return (struct gd__merge_row *)(void *)(c->front.bytes + c->at);
}

/* --- the thread --- */

/* If there was no first pass: notes the keys of the rows that were read, and checks that the numbers ascend. */
static int note_keys(struct gd__merge *m, struct cursor *c)
{
    struct gd__merge_entry e = { .journal = (uint32_t)(c->reader.in - m->inputs) };
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < c->back.used;) {
        const struct gd__merge_row *row = (const struct gd__merge_row *)(const void *)(c->back.bytes + at);
        if (row->number < c->last_number)
            return GD__MERGE_NEEDS_CHOICE;
        c->last_number = row->number;
        memcpy(e.key, row->key, sizeof e.key);
        rc = gd__merge_keys_add(m->seen, &e);
        at += row->size;
    }
    return rc;
}

static void fill(struct gd__merge *m, struct cursor *c)
{
    c->error = 0;
    if (c->reader.in->unordered && !c->reader.in->order)
        c->error = gd__merge_order(c->reader.in);
    if (c->error == 0)
        c->error = gd__merge_read(&c->reader, &c->back);
    if (c->error == 0 && m->seen)
        c->error = note_keys(m, c);
    if (c->error < 0)
        snprintf(c->message, sizeof c->message, "%s", gd_error_text());
}

static void *fill_all(void *arg)
{
    struct gd__merge_rows *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (r->first == r->end) {
            pthread_cond_wait(&r->wanted, &r->lock);
            continue;
        }
        struct cursor *c = &r->cursors[r->queue[r->first]];
        r->first = (r->first + 1) % (r->m->n + 1);
        pthread_mutex_unlock(&r->lock);
        fill(r->m, c);
        pthread_mutex_lock(&r->lock);
        c->full = true;
        pthread_cond_signal(&r->filled);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The caller holds the lock. */
static void want(struct gd__merge_rows *r, size_t journal)
{
    r->cursors[journal].full = false;
    r->queue[r->end] = journal;
    r->end = (r->end + 1) % (r->m->n + 1);
    pthread_cond_signal(&r->wanted);
}

/* Waits for the next rows of a journal. *any is false if there are no more. */
static int next_buffer(struct gd__merge_rows *r, size_t journal, bool *any)
{
    struct cursor *c = &r->cursors[journal];
    pthread_mutex_lock(&r->lock);
    while (!c->full)
        pthread_cond_wait(&r->filled, &r->lock);
    const int error = c->error;
    if (error == 0) {
        const struct gd__merge_buffer front = c->front;
        c->front = c->back;
        c->back = front;
        c->at = 0;
        if (!c->reader.ended)
            want(r, journal);
        else
            c->back.used = 0; /* it stays full, and empty */
    }
    pthread_mutex_unlock(&r->lock);
    *any = error == 0 && c->front.used > 0;
    if (error < 0) {
        r->m->at = journal;
        return gd__error(error, "%s", c->message);
    }
    return 0;
}

/* --- the heap --- */

static bool is_before(const struct gd__merge_rows *r, size_t a, size_t b)
{
    const uint64_t x = r->cursors[a].number, y = r->cursors[b].number;
    return x != y ? x < y : a < b;
}

/* Moves the journal at that place down to where it belongs. */
static void sink(struct gd__merge_rows *r, size_t at)
{
    const size_t journal = r->heap[at];
    for (size_t child; (child = 2 * at + 1) < r->n_heap; at = child) {
        child += child + 1 < r->n_heap && is_before(r, r->heap[child + 1], r->heap[child]);
        if (is_before(r, journal, r->heap[child]))
            break;
        r->heap[at] = r->heap[child];
    }
    r->heap[at] = journal;
}

static int begin(struct gd__merge_rows *r)
{
    int rc = 0;
    r->begun = true;
    for (size_t i = 0; rc == 0 && i < r->m->n; i++) {
        bool any;
        rc = next_buffer(r, i, &any);
        if (any) {
            r->cursors[i].number = row_at(&r->cursors[i])->number;
            r->heap[r->n_heap++] = i;
        }
    }
    for (size_t i = r->n_heap; rc == 0 && i-- > 0;)
        sink(r, i);
    return rc;
}

/* Goes on to the next row of the first journal in the heap. */
static int advance(struct gd__merge_rows *r)
{
    struct cursor *c = &r->cursors[r->heap[0]];
    int rc = 0;
    bool any = true;
    c->at += row_at(c)->size;
    if (c->at == c->front.used)
        rc = next_buffer(r, r->heap[0], &any);
    if (any)
        c->number = row_at(c)->number;
    else
        r->heap[0] = r->heap[--r->n_heap];
    if (rc == 0 && r->n_heap > 0)
        sink(r, 0);
    return rc;
}

static void point_to_bytes(struct gd__merge_row *row)
{
    const char *bytes = (const char *)(row + 1);
    for (int i = 0; i < GD__MERGE_VALUES; i++) {
        struct gd__merge_value *v = &row->values[i];
        if (v->type == SQLITE_TEXT || v->type == SQLITE_BLOB) {
            v->bytes = bytes;
            bytes += v->size;
        }
    }
}

int gd__merge_rows_next(struct gd__merge_rows *r, const struct gd__merge_row **out)
{
    const int rc = r->begun ? (r->n_heap > 0 ? advance(r) : 0) : begin(r);
    if (rc < 0 || r->n_heap == 0)
        return rc;
    struct gd__merge_row *row = row_at(&r->cursors[r->heap[0]]);
    point_to_bytes(row);
    *out = row;
    return 1;
}

/* --- opening and closing --- */

/* A journal takes three descriptors: the file, its write-ahead log, and the index of that. */
static bool can_stay_open(size_t n)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > DESCRIPTORS_LEFT &&
           n < (limit.rlim_cur - DESCRIPTORS_LEFT) / DESCRIPTORS;
}

static int start(struct gd__merge_rows *r)
{
    const size_t n = r->m->n, share = BUFFERS / 2 / n;
    const size_t enough = share < BUFFER_LEAST ? BUFFER_LEAST : share > BUFFER_MOST ? BUFFER_MOST : share;
    const bool stay_open = can_stay_open(n);
    for (size_t i = 0; i < n; i++) {
        struct cursor *c = &r->cursors[i];
        c->reader.in = &r->m->inputs[i];
        c->reader.stay_open = stay_open;
        c->front.enough = c->back.enough = enough;
        want(r, i);
    }
    const int error = gd__thread_start(&r->thread, "gd-merge", fill_all, r);
    r->started = error == 0;
    errno = error;
    return error == 0 ? 0 : gd__error_errno("cannot start a thread to merge journals");
}

int gd__merge_rows_open(struct gd__merge_rows **out, struct gd__merge *m)
{
    struct gd__merge_rows *r = *out = gd__calloc(1, sizeof *r);
    if (!r)
        return no_memory();
    r->m = m;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wanted, NULL);
    pthread_cond_init(&r->filled, NULL);
    r->cursors = gd__calloc(m->n, sizeof *r->cursors);
    r->heap = gd__calloc(m->n, sizeof *r->heap);
    r->queue = gd__calloc(m->n + 1, sizeof *r->queue);
    return r->cursors && r->heap && r->queue ? start(r) : no_memory();
}

void gd__merge_rows_close(struct gd__merge_rows **rp)
{
    struct gd__merge_rows *r = *rp;
    *rp = NULL;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->wanted);
    pthread_mutex_unlock(&r->lock);
    if (r->started)
        pthread_join(r->thread, NULL);
    for (size_t i = 0; r->cursors && i < r->m->n; i++) {
        gd__merge_reader_close(&r->cursors[i].reader);
        gd__free(r->cursors[i].front.bytes);
        gd__free(r->cursors[i].back.bytes);
    }
    pthread_cond_destroy(&r->wanted);
    pthread_cond_destroy(&r->filled);
    pthread_mutex_destroy(&r->lock);
    gd__free(r->cursors);
    gd__free(r->heap);
    gd__free(r->queue);
    gd__free(r);
}
