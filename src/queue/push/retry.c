/* Adds tasks once more whose last record is a failure.
 *
 * The record with the highest `again` counts. A task that failed with `again` N is added with N + 1, unless the queue has
 * such a task already: another push has added it, and it has no record yet. The key with N + 1 is a subject, so if two
 * pushes did this at once, the server would take one of the two messages. A task that was in a bundle travels alone now,
 * so it gets a subject of its own.
 */
#include <string.h>

#include "base/error.h"
#include "queue/push/push.h"

struct retrying {
    struct gd_queue_push *p;
    struct gd__known ends;       /* of tasks that failed or were added again; `again`: that of the record that counts */
    struct gd__push_lane failed; /* tasks to be sent */
};

/* Remembers the record if it is the one that counts so far. Most tasks succeed at once: these are not stored. */
static int learn_end(struct retrying *r, const struct gd__queue_record *e)
{
    struct gd__known_task *end = gd__known_find(&r->ends, &e->key);
    const bool failed = e->state == GD__QUEUE_FAILED;
    if (e->state == GD__QUEUE_MOVED || (!end && !failed && e->key.again == 0))
        return 0;
    const bool is_new = !end;
    if (is_new) {
        const int rc = gd__known_add(&r->ends, &e->key, &end);
        if (rc < 0)
            return rc;
    }
    if (is_new || e->key.again > end->again) {
        end->again = e->key.again;
        end->failed = failed;
    } else if (e->key.again == end->again && !failed) {
        end->failed = false; /* the task was in two messages, and succeeded once */
    }
    return 0;
}

static int learn_record(void *user, const struct gd__queue_answer *item)
{
    struct retrying *r = user;
    struct gd__queue_reader reader;
    struct gd__queue_record e;
    struct gd__queue_subject s;
    if (gd__queue_subject_parse(&s, r->p->name, item->subject) < 0)
        return 0;
    int rc = gd__queue_records_open(&reader, item->data, item->size, &s.key);
    if (rc < 0)
        return rc == GD_E_VERSION ? rc : 0;
    while (rc == 0 && gd__queue_records_next(&reader, &e))
        rc = learn_end(r, &e);
    return rc;
}

static int take_task(struct retrying *r, const struct gd__queue_task *task, int priority)
{
    struct gd__known_task *end = gd__known_find(&r->ends, &task->key);
    const struct gd__known_task *known = gd__known_find(&r->p->known, &task->key);
    struct gd__push_task *copy;
    if (!end || !end->failed || end->sent || end->again == UINT32_MAX || (known && known->again > end->again))
        return 0;
    end->sent = true;
    const int rc = gd__push_copy_task(&copy, task, priority);
    if (rc < 0)
        return rc;
    copy->task.key.again = end->again + 1;
    return gd__push_lane_add(&r->failed, copy);
}

/* Finds the payloads of the tasks that failed. Each task keeps its priority. */
static int take_message(void *user, const struct gd__queue_answer *item)
{
    struct retrying *r = user;
    struct gd__queue_subject s;
    struct gd__queue_reader reader;
    struct gd__queue_task task;
    if (gd__queue_subject_parse(&s, r->p->name, item->subject) < 0)
        return 0;
    if (s.key.tasks == 1 && !gd__known_find(&r->ends, &s.key))
        return 0; /* saves checking the whole message */
    int rc = gd__queue_tasks_open(&reader, item->data, item->size, &s.key);
    if (rc < 0)
        return rc == GD_E_VERSION ? rc : 0;
    while (rc == 0 && gd__queue_tasks_next(&reader, &task))
        rc = take_task(r, &task, s.priority);
    return rc;
}

static int send_failed(struct retrying *r)
{
    const struct gd__push_lane *l = &r->failed;
    int rc = 0;
    for (size_t i = 0; i < l->n && rc == 0; i++) {
        const struct gd__push_task *t = l->tasks[l->first + i];
        rc = gd__push_send_alone(r->p, &t->task, t->priority);
        if (rc == 0)
            rc = gd__known_add(&r->p->known, &t->task.key, NULL);
    }
    return rc;
}

int gd_queue_push_retry_failed(struct gd_queue_push *p)
{
    if (!p)
        return gd__error(GD_E_INVALID, "gd_queue_push_retry_failed: the push is NULL");
    struct retrying r = { .p = p };
    if (p->rc == 0)
        p->rc = gd__push_read_all(p, GD__QUEUE_RECORD, learn_record, &r);
    if (p->rc == 0 && r.ends.used > 0)
        p->rc = gd__push_read_all(p, GD__QUEUE_TASK, take_message, &r);
    if (p->rc == 0)
        p->rc = send_failed(&r);
    gd__known_free(&r.ends);
    gd__push_lane_free(&r.failed);
    return p->rc;
}
