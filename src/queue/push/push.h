/* A push: adds tasks to a queue. The parts of struct gd_queue_push, for the files of this directory.
 *
 *   push.c     the public functions
 *   learn.c    what the queue has: streams, consumers, known tasks, recorded durations
 *   send.c     from items to messages: keys, files for large payloads, bundles, publications
 *   retry.c    tasks that have failed
 *   lock.c     one push at a time
 *
 * A push can be killed at any point and repeated. The order makes that safe: a payload's file is complete before its
 * message is published, a consumer exists before the first task of its priority, and the server's answers decide what is
 * added. Tasks are recognised by their keys, which depend on the list alone.
 */
#ifndef GD_QUEUE_PUSH_PUSH_H
#define GD_QUEUE_PUSH_PUSH_H

#include <gpu_dispatch/queue.h>

#include "queue/call.h"
#include "queue/messages/message.h"
#include "queue/names/address.h"
#include "queue/names/repeats.h"
#include "queue/push/bundle.h"
#include "queue/push/known.h"
#include "queue/push/lock.h"

enum {
    GD__PUSH_LANES = GD_PRIORITY_MAX - GD_PRIORITY_MIN + 1,
};

/* A task that is not sent yet. */
struct gd__push_task {
    struct gd__queue_task task;
    int priority;
    size_t size; /* about that in a message */
    char bytes[];
};

/* The tasks of one priority that wait for their bundle, in order. */
struct gd__push_lane {
    struct gd__push_task **tasks;
    size_t first, n, room; /* the waiting ones are tasks[first .. first + n) */
    size_t bytes;
};

/* For tests: how long a request is repeated, in ms, instead of GD__CALL_PATIENCE_MS. */
#define GD__ENV_PATIENCE "GPU_DISPATCH_PUSH_PATIENCE"

struct gd_queue_push {
    struct gd__caller *caller;
    struct gd__push_lock *lock;
    char name[GD__QUEUE_NAME_MOST + 1];
    char *spill_dir; /* NULL: none */
    uint32_t lease_ms, replicas;
    struct gd_queue_push_options options;
    struct gd__queue_server_facts server;
    size_t most_bytes; /* of a message's contents */

    uint32_t priorities; /* that have a consumer */
    struct gd__known known;
    struct gd__queue_repeats repeats;
    struct gd__bundling bundling;
    uint64_t number; /* of the next task */

    struct gd__push_lane lanes[GD__PUSH_LANES];
    struct gd__push_lane all; /* by_weight: everything, until the end */
    struct gd_queue_push_counts counts;
    int rc; /* the first error after which nothing more can be sent */
};

/* Opens a push. open_link() opens the connection to the server; it gets `user`. */
int gd__push_open(struct gd_queue_push **out, const struct gd_queue_options *queue,
                  const struct gd_queue_push_options *options, gd__link_open_fn *open_link, void *user);

/* learn.c. All return 0 or a negative code. */
int gd__push_learn_server(struct gd_queue_push *p);
int gd__push_make_streams(struct gd_queue_push *p);
int gd__push_learn_tasks(struct gd_queue_push *p);     /* after the lock was taken */
int gd__push_learn_durations(struct gd_queue_push *p); /* sets p->bundling */
/* Reads all messages of a stream. */
int gd__push_read_all(struct gd_queue_push *p, enum gd__queue_kind kind, gd__call_item_fn *each, void *user);

/* send.c. */
int gd__push_lane_add(struct gd__push_lane *l,
                      struct gd__push_task *task); /* takes over the task, also after an error */
void gd__push_lane_free(struct gd__push_lane *l);  /* also makes it empty again */
/* A task with copies of all that it points to. Returns 0 or GD_E_NO_MEMORY. */
int gd__push_copy_task(struct gd__push_task **out, const struct gd__queue_task *task, int priority);
/* Takes over the task, also after an error. */
int gd__push_enqueue(struct gd_queue_push *p, struct gd__push_task *task);
/* Publishes a message with one task, as it is. */
int gd__push_send_alone(struct gd_queue_push *p, const struct gd__queue_task *task, int priority);
int gd__push_send_rest(struct gd_queue_push *p); /* all that waits */
void gd__push_free_tasks(struct gd_queue_push *p);
/* Makes a task from an item. *out is NULL if the queue has it already. */
int gd__push_make_task(struct gd_queue_push *p, const struct gd_queue_item *item, struct gd__push_task **out);

/* A gd__published_fn. */
int gd__push_count(void *user, const struct gd__published *published);

#endif
