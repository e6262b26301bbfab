/* Reads what is new in a queue: see reader.h. */
#include "queue/read/reader.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static int no_queue(const struct gd_queue_reader *r)
{
    return gd__error(GD_E_SOURCE,
                     "the server has no queue \"%s\": check the name, or push tasks to it (gpu-dispatch push)",
                     r->index.name);
}

/* Sets *last to the last sequence of the stream. A queue without a stream of records is one that is just being created: no
 * task has ended. */
static int find_last(struct gd_queue_reader *r, enum gd__queue_kind kind, uint64_t *last)
{
    struct gd__queue_answer a;
    const struct gd__queue_request q = { .ask = GD__ASK_STREAM, .stream = kind };
    const int rc = gd__call(r->caller, &q, NULL, NULL, &a);
    if (rc == 0 && a.kind != GD__ANSWER_OK && kind == GD__QUEUE_TASK)
        return no_queue(r);
    *last = rc == 0 && a.kind == GD__ANSWER_OK ? a.stream.last_sequence : 0;
    return rc;
}

static int learn_server(struct gd_queue_reader *r)
{
    struct gd__queue_answer a;
    const struct gd__queue_request q = { .ask = GD__ASK_SERVER };
    const int rc = gd__call(r->caller, &q, NULL, NULL, &a);
    if (rc == 0)
        r->server = a.server;
    r->server.version[sizeof r->server.version - 1] = '\0';
    return rc;
}

int gd__reader_new(struct gd_queue_reader **out, struct gd__caller *caller, const char *name, const char *spill_dir)
{
    struct gd_queue_reader *r = gd__calloc(1, sizeof *r);
    uint64_t last;
    *out = NULL;
    if (!r) {
        gd__caller_close(&caller);
        return gd__error(GD_E_NO_MEMORY, "no memory to read a queue");
    }
    r->caller = caller;
    int rc = gd__read_index_open(&r->index, name);
    if (rc == 0 && spill_dir && !(r->spill_dir = gd__strdup(spill_dir)))
        rc = gd__error(GD_E_NO_MEMORY, "no memory to read a queue");
    rc = rc < 0 ? rc : learn_server(r);
    rc = rc < 0 ? rc : find_last(r, GD__QUEUE_TASK, &last);
    if (rc < 0)
        gd_queue_reader_close(&r);
    *out = r;
    return rc;
}

void gd_queue_reader_close(struct gd_queue_reader **reader)
{
    struct gd_queue_reader *r = reader ? *reader : NULL;
    if (!r)
        return;
    gd__caller_close(&r->caller);
    gd__read_index_free(&r->index);
    gd__buffer_free(&r->command);
    gd__buffer_free(&r->texts);
    gd__free(r->spill_dir);
    gd__free(r);
    *reader = NULL;
}

uint64_t gd_queue_reader_skipped(struct gd_queue_reader *r, const char **first)
{
    if (first)
        *first = r && r->index.skipped > 0 ? r->index.first_skipped : NULL;
    return r ? r->index.skipped : 0;
}

/* --- what is new --- */

static int add_tasks(void *user, const struct gd__queue_answer *a)
{
    struct gd_queue_reader *r = user;
    const int rc = gd__read_index_tasks(&r->index, a->sequence, a->subject, a->data, a->size);
    r->is_incomplete = rc < 0;
    return rc;
}

/* Returns 1 to stop. */
static int add_records(void *user, const struct gd__queue_answer *a)
{
    struct gd_queue_reader *r = user;
    if (a->sequence > r->records_until)
        return 1;
    const int rc = gd__read_index_records(&r->index, a->sequence, a->subject, a->data, a->size);
    r->is_incomplete = rc < 0;
    return rc;
}

/* A server that is not durable may lose its last messages in a power loss, and a queue may be deleted and made anew. Then
 * the same sequences belong to other messages. */
static int begin_anew(struct gd_queue_reader *r)
{
    char name[sizeof r->index.name];
    const uint64_t skipped = r->index.skipped;
    char first[sizeof r->index.first_skipped];
    memcpy(name, r->index.name, sizeof name);
    memcpy(first, r->index.first_skipped, sizeof first);
    gd__read_index_free(&r->index);
    const int rc = gd__read_index_open(&r->index, name);
    memcpy(r->index.name, name, sizeof name); /* also after an error, so that the next call can try again */
    r->index.skipped = skipped;
    memcpy(r->index.first_skipped, first, sizeof first);
    r->is_incomplete = rc < 0;
    return rc;
}

int gd__reader_update(struct gd_queue_reader *r)
{
    struct gd__read_index *x = &r->index;
    uint64_t tasks = 0;
    bool anew = false;
    /* The records first: the task of each of them is in the stream by now, so its task is found when all are read. */
    int rc = find_last(r, GD__QUEUE_RECORD, &r->records_until);
    rc = rc < 0 ? rc : find_last(r, GD__QUEUE_TASK, &tasks);
    if (rc == 0 && (r->is_incomplete || r->records_until < x->records_at.last || tasks < x->tasks_at.last)) {
        rc = begin_anew(r);
        anew = true;
    }
    if (rc == 0)
        rc = gd__call_read_all(r->caller, GD__QUEUE_TASK, x->tasks_at.last + 1, tasks, add_tasks, r);
    if (rc == 0)
        rc = gd__call_read_all(r->caller, GD__QUEUE_RECORD, x->records_at.last + 1, r->records_until, add_records, r);
    return rc < 0 ? rc : anew;
}

/* --- states --- */

int gd__reader_state(struct gd_queue_reader *r, const char *state, struct gd__queue_answer *last)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__queue_request q = { .ask = GD__ASK_LAST,
                                         .stream = GD__QUEUE_STATE,
                                         .subject = gd__queue_state_text(subject, r->index.name, state),
                                         .by_leader = true };
    return gd__call(r->caller, &q, NULL, NULL, last);
}

int gd__reader_clock(struct gd_queue_reader *r, uint64_t *now_us)
{
    struct gd__queue_answer a;
    const struct gd__queue_request q = { .ask = GD__ASK_STREAM, .stream = GD__QUEUE_STATE };
    const int rc = gd__call(r->caller, &q, NULL, NULL, &a);
    *now_us = rc == 0 && a.kind == GD__ANSWER_OK ? a.time_us : 0;
    return rc;
}

/* A push that died leaves its message. Whoever looks only once knows its age from the server: both times are by the clock
 * of the server. */
int gd__reader_push_is_open(struct gd_queue_reader *r, bool *is_open)
{
    struct gd__queue_answer last;
    uint64_t now_us = 0;
    int rc = gd__reader_state(r, "push", &last);
    *is_open = rc == 0 && gd__push_is_open(&r->push, gd__now_ns(), &last, NULL);
    if (!*is_open || last.time_us == 0)
        return rc;
    rc = gd__reader_clock(r, &now_us);
    if (now_us > last.time_us && now_us - last.time_us > GD__PUSH_DEAD_MS * UINT64_C(1000))
        *is_open = false;
    return rc;
}
