/* Tasks to the scheduler and back, and how long they take. */
#include <string.h>

#include "base/alloc.h"
#include "queue/node/internal.h"

enum {
    SHORT_MS = 50,    /* of shorter tasks, a few more are given than can run at once */
    GIVEN_MS = 20,    /* so much work more */
    GIVEN_MOST = 256, /* for each slot */
    MEASURED = 32,    /* tasks that the average is made of, roughly */
};

/* --- giving --- */

/* A task that was given cannot be given back before it has begun. So a few short tasks are not enough: the next ones may
 * be long. */
static uint64_t give_most(const struct gd__node *n)
{
    if (n->measured < MEASURED || n->task_ns >= (double)SHORT_MS * GD__NODE_MS)
        return n->slots;
    const double more = (double)GIVEN_MS * GD__NODE_MS / (n->task_ns + 1);
    return n->slots + (uint64_t)(n->slots * (more < 1 ? 1 : more > GIVEN_MOST ? GIVEN_MOST : more));
}

static void give_next(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__node_entry *e = &m->entries[m->next++];
    if (m->next == m->count)
        gd__node_list_remove(&m->ready);
    e->state = GD__TASK_GIVEN;
    e->task.alone = m->alone;
    e->task.crashes = m->before.alone;
    m->given++;
    n->given_tasks++;
    n->waiting_tasks--;
    n->effects.give(n->effects.user, &e->task);
}

/* The message of this priority whose tasks are given next; NULL: none. Only this one may have begun. */
static struct gd__node_message *first_ready(const struct gd__node *n, int p)
{
    return gd__node_list_empty(&n->ready[p]) ? NULL : GD__NODE_OF(n->ready[p].next, struct gd__node_message, ready);
}

bool gd__node_has_begun(const struct gd__node *n)
{
    for (int p = 0; p < GD__NODE_PRIORITIES; p++) {
        const struct gd__node_message *m = first_ready(n, p);
        if (m && m->next > 0)
            return true;
    }
    return n->given_tasks > 0;
}

static void give_ready(struct gd__node *n, bool only_begun)
{
    const uint64_t most = gd__node_is_cut_off(n) ? 0 : give_most(n);
    for (int p = GD__NODE_PRIORITIES - 1; p >= 0; p--) {
        struct gd__node_message *m;
        while (n->given_tasks < most && (m = first_ready(n, p)) && (m->next > 0 || !only_begun))
            give_next(n, m);
    }
}

/* Other nodes may have time for what cannot begin here. Without a connection it stays: nobody would be told. */
static void give_back_unbegun(struct gd__node *n)
{
    for (int p = 0; p < GD__NODE_PRIORITIES && n->connected; p++) {
        struct gd__node_list *next;
        for (struct gd__node_list *l = n->ready[p].next; l != &n->ready[p]; l = next) {
            struct gd__node_message *m = GD__NODE_OF(l, struct gd__node_message, ready);
            next = l->next;
            if (m == n->alone || m->next > 0)
                continue;
            gd__node_list_remove(&m->ready);
            m->nak_delay_ms = n->pull[p].waiting > 0 ? (uint32_t)gd__node_jitter(n, 1000) : 0; /* not to our own pull */
            n->returned += m->count;
            gd__node_step(n, m, GD__LEASE_NOT_RUN);
        }
    }
}

/* A suspect that runs exclusively: bundles that have begun end first, and nothing else is begun until it has ended. */
static void give_exclusive(struct gd__node *n)
{
    give_back_unbegun(n);
    if (gd__node_has_begun(n))
        give_ready(n, true);
    else if (n->alone->state == GD__LEASE_MARKED && n->alone->next == 0 && !gd__node_is_cut_off(n))
        give_next(n, n->alone);
}

void gd__node_give(struct gd__node *n)
{
    if (n->draining)
        return;
    if (gd__node_is_exclusive(n))
        give_exclusive(n);
    else
        give_ready(n, false);
    if (n->given_tasks < n->slots)
        n->starved = true;
}

/* --- measuring --- */

/* If all slots were in use since the last end, the time between two ends tells how long a slot is busy with a task,
 * including what happens between two tasks. */
static void measure(struct gd__node *n, uint64_t run_us)
{
    double sample = (double)run_us * 1000 + 1;
    if (!n->starved && n->measured > 0) {
        const double slot_ns = (double)(n->now_ns - n->last_end_ns) * n->slots;
        sample = n->measured < MEASURED && slot_ns < sample ? sample : slot_ns + 1;
    }
    n->measured++;
    n->task_ns += (sample - n->task_ns) / (double)(n->measured < MEASURED ? n->measured : MEASURED);
    n->last_end_ns = n->now_ns;
    n->starved = false;
}

/* --- ends --- */

static size_t text_size(const struct gd__queue_record *r)
{
    return r->gpu.size + r->failure.size + r->error.size + r->stderr_end.size + r->output.bytes.size +
           r->output.file.size;
}

static void copy_text(struct gd__queue_text *t, char **to)
{
    if (t->size > 0)
        memcpy(*to, t->at, t->size);
    t->at = *to;
    *to += t->size;
}

static struct gd__node_result *copy_record(const struct gd__queue_record *record)
{
    struct gd__node_result *copy = gd__calloc(1, sizeof *copy + text_size(record));
    if (!copy)
        return NULL;
    char *to = copy->bytes;
    copy->record = *record;
    copy_text(&copy->record.gpu, &to);
    copy_text(&copy->record.failure, &to);
    copy_text(&copy->record.error, &to);
    copy_text(&copy->record.stderr_end, &to);
    copy_text(&copy->record.output.bytes, &to);
    copy_text(&copy->record.output.file, &to);
    return copy;
}

/* The entry of a task that is given at present; NULL: the caller has made a mistake. */
static struct gd__node_entry *given_entry(struct gd__node *n, const struct gd__node_task *task)
{
    struct gd__node_message *m = task->message;
    if (n->finished || task->index >= m->count || m->entries[task->index].state != GD__TASK_GIVEN)
        return NULL;
    m->given--;
    n->given_tasks--;
    return &m->entries[task->index];
}

static void give_back(struct gd__node *n, struct gd__node_entry *e)
{
    e->state = GD__TASK_RETURNED;
    e->task.message->returned++;
    n->returned++;
}

void gd__node_ended(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task,
                    const struct gd__queue_record *record)
{
    struct gd__node_entry *e = given_entry(n, task);
    if (!e)
        return;
    struct gd__node_message *m = e->task.message;
    n->now_ns = now_ns;
    e->result = copy_record(record);
    if (e->result) {
        e->state = GD__TASK_ENDED;
        e->result->record.key = e->task.task.key;
        e->result->record.number = e->task.task.number;
        m->ended++;
        measure(n, record->run_us);
    } else {
        gd__node_say(n, "no memory for the record of a task: it is given back to the queue and will run again");
        give_back(n, e);
    }
    gd__node_settle(n, m);
}

void gd__node_returned(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task)
{
    struct gd__node_entry *e = given_entry(n, task);
    if (!e)
        return;
    n->now_ns = now_ns;
    give_back(n, e);
    gd__node_settle(n, e->task.message);
}

void gd__node_charged(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task, uint32_t crashes)
{
    struct gd__node_message *m = task->message;
    if (!n->finished && crashes > task->crashes && crashes > m->crashes)
        m->crashes = crashes;
    gd__node_returned(n, now_ns, task);
}

static void go_back(struct gd__node *n, struct gd__node_message *m)
{
    gd__node_step(n, m, m->crashes > 0 ? GD__LEASE_CHARGED : GD__LEASE_NOT_RUN);
}

void gd__node_settle(struct gd__node *n, struct gd__node_message *m)
{
    if (m->given > 0 || (m->next < m->count && !n->draining))
        return;
    if (n->alone == m && !m->exclusive) /* an exclusive one stays until the server has its record: see markers.c */
        n->alone = NULL;
    if (m->ended == 0) {
        /* Not back to this node at once, if it has returned a task. */
        m->nak_delay_ms = m->returned > 0 && !n->draining ? (uint32_t)gd__node_jitter(n, 1000) : 0;
        go_back(n, m);
        return;
    }
    m->verdict = GD__VERDICT_RAN;
    if (gd__node_record_build(n, m) == 0) {
        gd__node_step(n, m, GD__LEASE_RAN);
        return;
    }
    gd__node_decide(n, m, false);
    go_back(n, m);
}
