/* Payloads and outputs of tasks that are files in the spill directory. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "queue/run/internal.h"

enum {
    FILE_WAIT_MS = 3000, /* for a file that another machine has written; a network file system may show it late */
    FILE_AGAIN_MS = 200,
};

/* --- payloads, on the feeder's thread --- */

/* Waits for a moment. Returns false if there is no more time, or the run ends. */
static bool wait_again(struct gd__queue_run *r, uint64_t until)
{
    const uint64_t again = gd__now_ns() + FILE_AGAIN_MS * GD__NS_PER_MS;
    pthread_mutex_lock(&r->lock);
    while (!r->cancelled && gd__now_ns() < again)
        gd__queue_run_sleep(r, &r->changed, again);
    const bool goes_on = !r->cancelled && gd__now_ns() < until;
    pthread_mutex_unlock(&r->lock);
    return goes_on;
}

static int read_file(struct gd__queue_run *r, const struct gd__queue_data *data)
{
    const uint64_t until = gd__now_ns() + FILE_WAIT_MS * GD__NS_PER_MS;
    int rc;
    do {
        r->payload.size = 0;
        rc = gd__spill_read(r->queue->spill_dir, data, &r->payload);
    } while ((rc == GD_E_SYSTEM || rc == GD_E_CORRUPT) && wait_again(r, until));
    return rc;
}

/* The file of this task is missing or damaged, but others can be read. */
static void fail_task(struct gd__queue_run *r, struct gd__queue_given *given, const char *error)
{
    static const char failure[] = "input";
    const struct gd__queue_record record = { .state = GD__QUEUE_FAILED,
                                             .attempts = 1,
                                             .failure = { failure, sizeof failure - 1 },
                                             .error = { error, strlen(error) } };
    gd__queue_run_say(r, "a task has failed, because its input cannot be read: %s", error);
    gd__queue_run_end(r, given, &record);
    pthread_mutex_lock(&r->lock);
    r->unreadable++;
    pthread_mutex_unlock(&r->lock);
}

int gd__queue_run_payload(struct gd__queue_run *r, struct gd__queue_run_task *task)
{
    const struct gd__queue_data *data = &task->given->task->task.payload;
    char error[GD__QUEUE_RUN_TEXT];
    if (data->form != GD__QUEUE_FILE)
        return 1;
    if (!r->queue->spill_dir)
        return gd__error(GD_E_SOURCE,
                         "inputs of this queue are in files: run this node with --spill-dir DIR, the directory "
                         "that was given to gpu-dispatch push");
    const int rc = read_file(r, data);
    if (rc == 0) {
        task->data = r->payload.data;
        task->size = r->payload.size;
        return 1;
    }
    snprintf(error, sizeof error, "%s", gd_error_text());
    if (rc == GD_E_NO_MEMORY || gd__spill_check(r->queue->spill_dir) < 0)
        return gd__error(GD_E_SOURCE, "%s", gd_error_text());
    fail_task(r, task->given, error);
    return 0;
}

/* --- outputs --- */

/* The other half of a message is for the rest of each record. If outputs can be files, each task of a bundle has an equal
 * share, so that all fit. Without files the first ones may take more: what does not fit has failed. */
static size_t inline_most(const struct gd__queue_run *r, const struct gd__queue_given *given)
{
    const uint64_t tasks = r->queue->spill_dir && given->task ? given->task->of : 1;
    const uint64_t share = r->server.max_payload / 2 / tasks;
    const uint64_t most = r->queue->spill_dir ? GD__QUEUE_FILES_FROM : GD__QUEUE_INLINE_MOST;
    return (size_t)(share < most ? share : most);
}

int gd__queue_run_store(struct gd__queue_run *r, const struct gd__queue_given *given, const void *output, size_t size,
                        struct gd__queue_run_output *out)
{
    const size_t most = inline_most(r, given);
    if (size <= most) {
        out->data = (struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { size > 0 ? output : "", size } };
        return 0;
    }
    out->data = (struct gd__queue_data){ .form = GD__QUEUE_NOTHING };
    if (r->queue->spill_dir)
        return gd__spill_write(r->queue->spill_dir, output, size, &out->data, out->file);
    return gd__error(
        GD_E_TOO_LARGE,
        "the output has %zu bytes, but a record of this task can hold %zu: run all nodes with --spill-dir, a "
        "directory that all machines share",
        size, most);
}
