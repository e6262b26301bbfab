/* A node as part of a run: the link to the server, the node (queue/node/node.h) with a thread that drives it, the spool
 * file and the status that others see.
 *
 *   the feeder's thread            gd__queue_run_take
 *   the thread that ends tasks     gd__queue_run_end, gd__queue_run_return
 *   the run's thread               gd__queue_run_open, _finish, _close
 *   any thread                     gd__queue_run_cancel, _note, _figures, _nodes
 *
 * A run that begins checks that the queue exists, creates consumers that are missing, and compares the command of the run
 * with the one that is stored in the queue.
 *
 * When a run ends early, gd__queue_run_cancel() stops the pulling, and gives back what the feeder has not taken. When all
 * its tasks have ended, gd__queue_run_finish() gives back those without a record, and waits until the server has all
 * records.
 */
#ifndef GD_QUEUE_RUN_QUEUE_RUN_H
#define GD_QUEUE_RUN_QUEUE_RUN_H

#include <gpu_dispatch/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include "queue/connect.h"
#include "queue/link.h"
#include "queue/messages/message.h"
#include "queue/spill.h"

struct gd__queue_run;
struct gd__queue_given;

/* How to connect. Returns 0, or a negative code with an error message. */
typedef int gd__queue_connect_fn(struct gd__queue_link **out, const struct gd_queue_options *queue,
                                 const struct gd__queue_listener *listener, const struct gd__queue_patience *patience);

/* How a run connects to the server of its queue. Tests replace it. */
extern gd__queue_connect_fn *gd__queue_run_connect;

struct gd__queue_run_spec {
    const struct gd_queue_options *queue; /* copied */
    gd__queue_connect_fn *connect;
    unsigned workers;
    unsigned slots; /* tasks that can run at once */
    unsigned crash_limit;
    const char *http; /* the address of its page, for people who look at the queue; "": none. Copied */
    /* A line for the user. Called on any thread. NULL: not wanted */
    void (*say)(void *user, const char *line);
    /* How many messages of tasks and of records the queue has, from all nodes. Called now and then, on a thread of the
     * link. NULL: not wanted */
    void (*counted)(void *user, uint64_t tasks, uint64_t records);
    void *user;
};

/* Checks the options, as far as that is possible without a server, and copies them with their strings. NULL may be
 * freed. */
int gd__queue_options_copy(struct gd_queue_options **out, const struct gd_queue_options *o);
void gd__queue_options_free(struct gd_queue_options *o);

/* Connects, and begins to pull. Returns 0, or a negative code with an error message. With GD_QUEUE_IDLE_NEVER, a
 * server that does not answer and a queue that does not exist yet are no errors: the node waits for them. */
int gd__queue_run_open(struct gd__queue_run **out, const struct gd__queue_run_spec *spec);

/* The source holds it until it will not be called again, which may be after the end of the run. */
void gd__queue_run_hold(struct gd__queue_run *r);
void gd__queue_run_release(struct gd__queue_run *r);

/* --- tasks --- */

struct gd__queue_run_task {
    struct gd__queue_given *given; /* for the functions below */
    const void *data;              /* the payload; valid until the next call, or until the task is ended or returned */
    size_t size;
    uint64_t weight;
    uint32_t timeout_ms;
    int priority;
    uint32_t crashes; /* how often it has killed a worker or a node before */
};

/* Waits for the next task. Returns 1; 0 if there are no more tasks for this node; or a negative code with an error
 * message. */
int gd__queue_run_take(struct gd__queue_run *r, struct gd__queue_run_task *out);

/* A task has ended: its record is copied, and published later. Of the record, key and number are not used. */
void gd__queue_run_end(struct gd__queue_run *r, struct gd__queue_given *given, const struct gd__queue_record *record);
/* A task has no record, and another node shall run it. crashes: how often it has killed a worker or a node, with those
 * before; 0: nothing to add. */
void gd__queue_run_return(struct gd__queue_run *r, struct gd__queue_given *given, uint32_t crashes);

/* The number of tasks that can run at once has changed. */
void gd__queue_run_set_slots(struct gd__queue_run *r, unsigned slots);

/* Where the output of a task is stored: in its record, or in a file if it is large. */
struct gd__queue_run_output {
    struct gd__queue_data data; /* for the record */
    char file[GD__SPILL_NAME_ROOM];
};
/* Stores an output. Returns 0, or a negative code with an error message if no record can have it. */
int gd__queue_run_store(struct gd__queue_run *r, const struct gd__queue_given *given, const void *output, size_t size,
                        struct gd__queue_run_output *out);

/* --- the end --- */

/* No more tasks for this node: gd__queue_run_take() returns 0 from now on. reason: why this node leaves, for people who
 * look at the queue; NULL: nothing to say. */
void gd__queue_run_cancel(struct gd__queue_run *r, const char *reason);

/* Call it when all tasks have ended. Returns all tasks that are left, and waits until the server has the records; at most
 * lost_ms while there is no connection, or while the server takes nothing. Returns 0, or a negative code with an error
 * message. */
int gd__queue_run_finish(struct gd__queue_run *r, uint64_t lost_ms);

/* Ends the thread and the connection, and releases the run's hold. */
void gd__queue_run_close(struct gd__queue_run **r);

/* --- for observers --- */

void gd__queue_run_note(struct gd__queue_run *r, const char *note); /* for people who look at the queue */

struct gd__queue_run_figures {
    bool connected;
    uint64_t tasks, records; /* messages in the queue; 0: not known */
    uint64_t unpublished;    /* record messages that the server has not confirmed */
    uint64_t failed_unrun;   /* tasks that this node has recorded as failures, but not run */
};
void gd__queue_run_figures(struct gd__queue_run *r, struct gd__queue_run_figures *out);

/* Calls fn with each node of the queue, this one included, until fn returns something else than 0. The nodes are read from
 * the server every few seconds, but only while this function is called at least every ten minutes. Nodes that were not seen
 * for an hour are left out. Returns 1; 0 if they are not known yet; a negative code of fn, or GD_E_NO_MEMORY. */
int gd__queue_run_nodes(struct gd__queue_run *r, int (*fn)(void *user, const struct gd_queue_node *node), void *user);

/* Keeps the memory for the functions of this section, while another thread closes the run. Release with
 * gd__queue_run_unshare(). */
void gd__queue_run_share(struct gd__queue_run *r);
void gd__queue_run_unshare(struct gd__queue_run *r);

#endif
