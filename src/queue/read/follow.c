/* Records as they appear.
 *
 * A link has no way to be told about new messages: a pull that waits takes messages of tasks away from nodes, and a read
 * of a stream answers at once. So the reader asks for the last sequences of the streams, which is one small request each,
 * after a delay that begins anew with each new record and grows to a second.
 */
#include "base/error.h"
#include "queue/read/reader.h"

enum { DELAY_FIRST_MS = 20, DELAY_MOST_MS = 1000 };

void gd_queue_reader_on_wait(struct gd_queue_reader *r, int (*fn)(void *user), void *user)
{
    if (!r)
        return;
    r->on_wait = fn;
    r->on_wait_user = user;
}

/* Reads and passes on what is new. Sets *is_done. */
static int look(struct gd_queue_reader *r, gd__reader_record_fn *fn, void *user, size_t *n, bool *is_done)
{
    struct gd__read_index *x = &r->index;
    bool push_is_open = false;
    int rc = gd__reader_push_is_open(r, &push_is_open);
    rc = rc < 0 ? rc : gd__reader_update(r);
    if (rc > 0)
        return gd__error(GD_E_FAILED,
                         "the server has lost messages of the queue \"%s\", or it was made anew: begin again", x->name);
    if (rc < 0)
        return rc;
    *n = x->n_new;
    *is_done = x->n == x->done + x->failed && !push_is_open;
    rc = gd__reader_emit(r, x->new_records, x->n_new, fn, user);
    x->n_new = 0;
    return rc;
}

static int follow(struct gd_queue_reader *r, gd__reader_record_fn *fn, void *user)
{
    uint32_t delay = DELAY_FIRST_MS;
    for (;;) {
        bool is_done = false;
        size_t n = 0;
        int rc = look(r, fn, user, &n, &is_done);
        if (rc != 0 || is_done)
            return rc;
        if (n == 0 && r->on_wait)
            rc = r->on_wait(r->on_wait_user);
        delay = n > 0 ? DELAY_FIRST_MS : delay;
        if (rc == 0)
            rc = gd__call_pause(r->caller, delay);
        if (rc != 0)
            return rc;
        delay = delay < DELAY_MOST_MS / 2 ? 2 * delay : DELAY_MOST_MS;
    }
}

int gd_queue_reader_follow(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_record *record),
                           void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_queue_reader_follow: the reader or the function is NULL");
    int rc = gd_queue_reader_each(r, fn, user);
    if (rc != 0)
        return rc;
    r->index.keep_new = true;
    rc = follow(r, fn, user);
    r->index.keep_new = false;
    r->index.n_new = 0;
    return rc;
}
