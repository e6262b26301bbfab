/* Records with their inputs and outputs. The index knows where the messages are, so they are read in windows: first the
 * messages of some tasks, and of their records, then the records are passed to the caller. So the memory does not depend
 * on the number of tasks, nor on the size of what they have written. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/read/fetch.h"
#include "queue/read/file.h"
#include "queue/read/reader.h"

enum { WINDOW_TASKS = 4096 };
/* Of messages, unless a single task has more. */
#ifdef GD_TEST_HOOKS
enum { WINDOW_BYTES = 1 << 20 };
#else
enum { WINDOW_BYTES = 16 << 20 };
#endif

/* --- one record --- */

/* Adds a text with a NUL. The buffer has room, so it does not move. */
static const char *keep(struct gd__buffer *b, struct gd__queue_text t)
{
    const char *at = b->data + b->size;
    gd__buffer_add(b, t.at, t.size);
    gd__buffer_add(b, "", 1);
    return at;
}

static const char *keep_if_any(struct gd__buffer *b, struct gd__queue_text t)
{
    return t.size > 0 ? keep(b, t) : NULL;
}

/* The path of a file; only its name if the directory is not known. */
static const char *keep_path(struct gd_queue_reader *r, const struct gd__queue_data *d)
{
    struct gd__buffer *b = &r->texts;
    const char *at = b->data + b->size;
    if (r->spill_dir) {
        gd__buffer_text(b, r->spill_dir);
        gd__buffer_text(b, "/");
    }
    (void)keep(b, d->file);
    return at;
}

static void set_input(struct gd_queue_reader *r, struct gd_queue_record *out, const struct gd__queue_data *d)
{
    if (d->form == GD__QUEUE_FILE) {
        out->input_file = keep_path(r, d);
    } else {
        out->input = d->bytes.size ? d->bytes.at : "";
        out->input_size = d->bytes.size;
    }
}

static void set_output(struct gd_queue_reader *r, struct gd_queue_record *out, const struct gd__queue_data *d)
{
    if (d->form == GD__QUEUE_INLINE) {
        out->output = d->bytes.size ? d->bytes.at : "";
        out->output_size = d->bytes.size;
    } else if (d->form == GD__QUEUE_FILE) {
        out->output_file = keep_path(r, d);
        if (gd__read_file_check(r->spill_dir, d) < 0) {
            (void)snprintf(r->file_error, sizeof r->file_error, "%s", gd_error_text());
            out->output_error = r->file_error;
        }
    }
}

static int fill(struct gd_queue_reader *r, struct gd_queue_record *out, const struct gd__queue_task *task,
                const struct gd__queue_record *record, struct gd__queue_text host)
{
    const size_t directory = r->spill_dir ? strlen(r->spill_dir) : 0;
    const size_t room = record->gpu.size + record->failure.size + record->error.size + record->stderr_end.size +
                        host.size + 2 * (directory + GD__QUEUE_FILE_MOST) + 16;
    struct gd__buffer *b = &r->texts;
    b->size = 0;
    if (!gd__buffer_reserve(b, room))
        return gd__error(GD_E_NO_MEMORY, "no memory for a record of a queue");
    *out = (struct gd_queue_record){ .number = record->number,
                                     .key = record->key.hash,
                                     .repeat = record->key.repeat,
                                     .again = record->key.again,
                                     .done = record->state == GD__QUEUE_DONE,
                                     .attempts = record->attempts,
                                     .error = keep_if_any(b, record->error),
                                     .stderr_end = keep_if_any(b, record->stderr_end),
                                     .exit_code = record->exit_code,
                                     .signal = record->signal,
                                     .host = keep(b, host),
                                     .gpu = keep(b, record->gpu),
                                     .started = (double)record->started_us / 1e6,
                                     .seconds = (double)record->run_us / 1e6 };
    if (!out->done)
        out->failure = keep(b, record->failure);
    set_input(r, out, &task->payload);
    set_output(r, out, &record->output);
    return 0;
}

/* --- a window --- */

struct window {
    const uint32_t *tasks; /* indices into the index */
    size_t n;
    uint32_t *list; /* of messages */
    struct gd__read_fetch task_messages, record_messages;
};

/* How many of the tasks are read at once. Tasks of one bundle follow each other. */
static size_t choose_size(const struct gd__read_index *x, const uint32_t *tasks, size_t n)
{
    uint32_t task_message = GD__READ_NO_MESSAGE, record_message = GD__READ_NO_MESSAGE;
    uint64_t bytes = 0;
    size_t i = 0;
    for (; i < n && i < WINDOW_TASKS; i++) {
        const struct gd__read_task *t = &x->tasks[tasks[i]];
        bytes += t->task_message != task_message ? x->tasks_at.items[t->task_message].size : 0;
        bytes += t->record_message != record_message ? x->records_at.items[t->record_message].size : 0;
        if (i > 0 && bytes > WINDOW_BYTES)
            break;
        task_message = t->task_message;
        record_message = t->record_message;
    }
    return i;
}

static int read_window(struct gd_queue_reader *r, struct window *w)
{
    const struct gd__read_index *x = &r->index;
    for (size_t i = 0; i < w->n; i++)
        w->list[i] = x->tasks[w->tasks[i]].task_message;
    int rc = gd__read_fetch(&w->task_messages, r->caller, &x->tasks_at, GD__QUEUE_TASK, w->list, w->n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < w->n; i++)
        w->list[i] = x->tasks[w->tasks[i]].record_message;
    return gd__read_fetch(&w->record_messages, r->caller, &x->records_at, GD__QUEUE_RECORD, w->list, w->n);
}

static bool is_of(const struct gd__queue_key *key, const struct gd__read_task *t)
{
    return key->repeat == t->repeat && key->again == t->again && memcmp(key->hash, t->hash, GD__HASH_SIZE) == 0;
}

/* The messages may not be those that were indexed: the server may have lost them since. */
static bool find_task(const struct window *w, const struct gd__read_task *t, struct gd__queue_task *out)
{
    return gd__read_fetched_task(&w->task_messages, t->task_message, t->task_item, out) && is_of(&out->key, t);
}

static bool find_record(const struct window *w, const struct gd__read_task *t, struct gd__queue_record *out,
                        struct gd__queue_text *host)
{
    return gd__read_fetched_record(&w->record_messages, t->record_message, t->record_item, out, host) &&
           is_of(&out->key, t) && out->state == t->state;
}

static int emit_one(struct gd_queue_reader *r, const struct window *w, const struct gd__read_task *t,
                    gd__reader_record_fn *fn, void *user)
{
    struct gd__read_index *x = &r->index;
    struct gd__queue_task task;
    struct gd__queue_record record;
    struct gd__queue_text host;
    struct gd_queue_record out;
    const bool has_task = find_task(w, t, &task);
    if (!has_task || !find_record(w, t, &record, &host)) {
        (void)gd__error(GD_E_CORRUPT, "the server does not have it any more");
        gd__read_index_skip(x, has_task ? GD__QUEUE_RECORD : GD__QUEUE_TASK,
                            has_task ? x->records_at.items[t->record_message].sequence
                                     : x->tasks_at.items[t->task_message].sequence);
        return 0;
    }
    const int rc = fill(r, &out, &task, &record, host);
    return rc < 0 ? rc : fn(user, &out);
}

static int emit_window(struct gd_queue_reader *r, struct window *w, gd__reader_record_fn *fn, void *user)
{
    int rc = read_window(r, w);
    for (size_t i = 0; rc == 0 && i < w->n; i++)
        rc = emit_one(r, w, &r->index.tasks[w->tasks[i]], fn, user);
    gd__read_fetch_free(&w->task_messages);
    gd__read_fetch_free(&w->record_messages);
    return rc;
}

int gd__reader_emit(struct gd_queue_reader *r, const uint32_t *tasks, size_t n, gd__reader_record_fn *fn, void *user)
{
    struct window w = { .tasks = tasks, .list = gd__calloc(WINDOW_TASKS, sizeof *w.list) };
    int rc = w.list ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for records of a queue");
    for (size_t left = n; rc == 0 && left > 0; left -= w.n, w.tasks += w.n) {
        w.n = choose_size(&r->index, w.tasks, left);
        rc = emit_window(r, &w, fn, user);
    }
    gd__free(w.list);
    return rc;
}

int gd__reader_emit_all(struct gd_queue_reader *r, gd__reader_record_fn *fn, void *user)
{
    uint32_t *tasks = gd__calloc(WINDOW_TASKS, sizeof *tasks);
    int rc = 0;
    if (!tasks)
        return gd__error(GD_E_NO_MEMORY, "no memory for records of a queue");
    for (uint32_t i = 0; rc == 0 && i < r->index.n;) {
        size_t n = 0;
        for (; i < r->index.n && n < WINDOW_TASKS; i++)
            if (r->index.tasks[i].state != 0)
                tasks[n++] = i;
        rc = gd__reader_emit(r, tasks, n, fn, user);
    }
    gd__free(tasks);
    return rc;
}

int gd_queue_reader_each(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_record *record),
                         void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_queue_reader_each: the reader or the function is NULL");
    const int rc = gd__reader_update(r);
    return rc < 0 ? rc : gd__reader_emit_all(r, fn, user);
}
