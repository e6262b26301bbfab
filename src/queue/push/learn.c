/* What a push must know before it adds tasks: the server, the streams, the tasks and durations of the queue. */
#include <string.h>

#include "base/error.h"
#include "queue/push/push.h"

/* --- the server and the streams --- */

int gd__push_learn_server(struct gd_queue_push *p)
{
    struct gd__queue_answer a;
    const int rc = gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_SERVER }, NULL, NULL, &a);
    if (rc < 0)
        return rc;
    p->server = a.server;
    p->counts.durable = a.server.durable;
    const uint64_t most =
        a.server.max_payload < GD__QUEUE_MESSAGE_MOST ? a.server.max_payload : (uint64_t)GD__QUEUE_MESSAGE_MOST;
    if (most < 2 * (uint64_t)GD__QUEUE_HEADERS_MOST)
        return gd__error(GD_E_FAILED,
                         "the server accepts messages of %u bytes only: set a higher max_payload in its "
                         "configuration",
                         (unsigned)most);
    p->most_bytes = (size_t)most - GD__QUEUE_HEADERS_MOST;
    return 0;
}

/* A stream that exists keeps its number of replicas. Creating it once more checks its other settings. */
static int make_stream(struct gd_queue_push *p, enum gd__queue_kind kind)
{
    struct gd__queue_answer a;
    int rc = gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_STREAM, .stream = kind }, NULL, NULL, &a);
    if (rc < 0)
        return rc;
    const bool exists = a.kind == GD__ANSWER_OK;
    return gd__call(
        p->caller,
        &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM,
                                     .stream = kind,
                                     .replicas = exists && a.stream.replicas > 0 ? a.stream.replicas : p->replicas },
        NULL, NULL, NULL);
}

int gd__push_make_streams(struct gd_queue_push *p)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    struct gd__queue_answer a;
    int rc = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && rc == 0; i++)
        rc = make_stream(p, kinds[i]);
    if (rc == 0)
        rc = gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_PRIORITIES }, NULL, NULL, &a);
    if (rc == 0)
        p->priorities = a.kind == GD__ANSWER_OK ? a.priorities : 0;
    return rc;
}

/* The leader tells which messages there are: a replica that answers may be behind, and a task that this push does not know
 * would be added twice. */
int gd__push_read_all(struct gd_queue_push *p, enum gd__queue_kind kind, gd__call_item_fn *each, void *user)
{
    struct gd__queue_answer a;
    const int rc =
        gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_STREAM, .stream = kind }, NULL, NULL, &a);
    return rc < 0 || a.kind != GD__ANSWER_OK
               ? rc
               : gd__call_read_all(p->caller, kind, 1, a.stream.last_sequence, each, user);
}

/* --- known tasks --- */

struct learning {
    struct gd_queue_push *p;
    bool has_bundles;
    uint64_t tasks, run_us;
};

/* A subject that is not one of ours is ignored: it cannot be that of a task that is pushed now. */
static int learn_subject(void *user, const struct gd__queue_answer *item)
{
    struct learning *l = user;
    struct gd__queue_subject s;
    if (gd__queue_subject_parse(&s, l->p->name, item->subject) < 0 || s.kind != GD__QUEUE_TASK)
        return 0;
    if (s.key.tasks == 1)
        return gd__known_add(&l->p->known, &s.key, NULL);
    l->has_bundles = true;
    return 0;
}

/* The keys of a bundle are in its message. Tasks of a damaged message cannot be run, so they may be added again. */
static int learn_bundle(void *user, const struct gd__queue_answer *item)
{
    struct learning *l = user;
    struct gd__queue_subject s;
    struct gd__queue_reader r;
    struct gd__queue_task task;
    if (gd__queue_subject_parse(&s, l->p->name, item->subject) < 0 || s.key.tasks == 1)
        return 0;
    int rc = gd__queue_tasks_open(&r, item->data, item->size, &s.key);
    if (rc < 0)
        return rc == GD_E_VERSION ? rc : 0;
    while (rc == 0 && gd__queue_tasks_next(&r, &task))
        rc = gd__known_add(&l->p->known, &task.key, NULL);
    return rc;
}

int gd__push_learn_tasks(struct gd_queue_push *p)
{
    struct learning l = { .p = p };
    int rc = gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK },
                      learn_subject, &l, NULL);
    if (rc == 0 && l.has_bundles)
        rc = gd__push_read_all(p, GD__QUEUE_TASK, learn_bundle, &l);
    return rc;
}

/* --- durations --- */

static int learn_record(void *user, const struct gd__queue_answer *item)
{
    struct learning *l = user;
    struct gd__queue_reader r;
    struct gd__queue_record record;
    if (gd__queue_records_open(&r, item->data, item->size, NULL) < 0)
        return 0;
    while (gd__queue_records_next(&r, &record)) {
        if (record.state == GD__QUEUE_DONE) {
            l->tasks++;
            l->run_us += record.run_us;
        }
    }
    return 0;
}

int gd__push_learn_durations(struct gd_queue_push *p)
{
    struct learning l = { .p = p };
    struct gd__queue_answer a;
    p->bundling = gd__bundling_fixed(p->options.bundle);
    gd__bundling_limit(&p->bundling, gd__queue_bundle_most(p->server.max_payload, GD__QUEUE_RECORD_LEAST));
    if (p->options.bundle > 0)
        return 0;
    int rc = gd__call(p->caller, &(struct gd__queue_request){ .ask = GD__ASK_STREAM, .stream = GD__QUEUE_RECORD }, NULL,
                      NULL, &a);
    if (rc < 0 || a.kind != GD__ANSWER_OK || a.stream.messages == 0)
        return rc;
    const uint64_t last = a.stream.last_sequence;
    rc = gd__call_read(p->caller, GD__QUEUE_RECORD, NULL, /* the newest ones may be missing */
                       last >= GD__BUNDLE_RECORDS ? last - GD__BUNDLE_RECORDS + 1 : 1, learn_record, &l);
    p->bundling = gd__bundling_auto(l.tasks, l.run_us);
    gd__bundling_limit(&p->bundling, gd__queue_bundle_most(p->server.max_payload, GD__BUNDLE_RECORD_BYTES));
    return rc;
}
