/* Counts the tasks of a queue: see reader.h. */
#include "base/error.h"
#include "base/sized.h"
#include "queue/read/reader.h"

enum { COMMAND_MOST = 64 << 10 };

static int count_alive(void *user, const struct gd_queue_node *node)
{
    uint64_t *n = user;
    *n += !node->left && node->age_seconds <= GD__READER_ALIVE_SECONDS;
    return 0;
}

/* A server counts messages that were delivered and not acknowledged. They are the first ones that have no record, so the
 * tasks in them are known. */
static int count_held(struct gd_queue_reader *r, uint64_t *held)
{
    struct gd__queue_answer a;
    const struct gd__queue_request all = { .ask = GD__ASK_PRIORITIES };
    int rc = gd__call(r->caller, &all, NULL, NULL, &a);
    const uint32_t priorities = rc == 0 && a.kind == GD__ANSWER_OK ? a.priorities : 0;
    *held = 0;
    for (int p = GD_PRIORITY_MIN; rc == 0 && p <= GD_PRIORITY_MAX; p++) {
        uint64_t tasks = 0;
        const struct gd__queue_request one = { .ask = GD__ASK_CONSUMER, .priority = p };
        if (!(priorities & UINT32_C(1) << (p - GD_PRIORITY_MIN)))
            continue;
        rc = gd__call(r->caller, &one, NULL, NULL, &a);
        if (rc == 0 && a.kind == GD__ANSWER_OK)
            rc = gd__read_index_held(&r->index, p, a.consumer.unacknowledged, &tasks);
        *held += tasks;
    }
    return rc;
}

/* Reads what the nodes run. */
static int read_command(struct gd_queue_reader *r, const char **command)
{
    struct gd__queue_answer last;
    const int rc = gd__reader_state(r, "command", &last);
    *command = NULL;
    if (rc < 0 || last.kind != GD__ANSWER_OK)
        return rc;
    r->command.size = 0;
    gd__buffer_add(&r->command, last.data, last.size < COMMAND_MOST ? last.size : COMMAND_MOST);
    gd__buffer_add(&r->command, "", 1);
    if (r->command.failed)
        return gd__error(GD_E_NO_MEMORY, "no memory for the command of a queue");
    *command = r->command.data;
    return 0;
}

int gd_queue_reader_figures(struct gd_queue_reader *r, struct gd_queue_figures *out)
{
    struct gd_queue_figures f = { .size = sizeof f };
    if (!r || !out)
        return gd__error(GD_E_INVALID, "gd_queue_reader_figures: the reader or the figures are NULL");
    /* First whether a push is going on: if it has ended, all its tasks are in the stream that is read next. */
    int rc = gd__reader_push_is_open(r, &f.push_is_open);
    rc = rc < 0 ? rc : gd__reader_update(r);
    rc = rc < 0 ? rc : count_held(r, &f.held);
    rc = rc < 0 ? rc : gd_queue_reader_nodes(r, count_alive, &f.nodes);
    rc = rc < 0 ? rc : read_command(r, &f.command);
    if (rc < 0)
        return rc;
    f.tasks = r->index.n;
    f.done = r->index.done;
    f.failed = r->index.failed;
    f.waiting = f.tasks - f.done - f.failed - f.held;
    f.is_done = f.tasks == f.done + f.failed && !f.push_is_open;
    f.busy_seconds = (double)r->index.busy_us / 1e6;
    f.server_version = r->server.version;
    f.durable = r->server.durable;
    return gd__sized_write(out, &f, sizeof f, "gd_queue_figures");
}
