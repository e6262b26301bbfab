/* A node's part in a queue: which task messages it pulls, holds, runs, records and gives back.
 *
 * Pure: no system call, no clock, no thread. The caller reports events with the current time, and a node answers through
 * struct gd__node_effects. So the tests run thousands of nodes with the real scheduler in virtual time, on a model server
 * that drops, repeats and delays messages. A node that works with a real server has one thread that calls these functions
 * (src/queue/run/).
 *
 * The life of a task message is the state machine of queue/lease.h. One rule makes everything safe: a record is
 * published only if the task has no record yet, and the server checks this. Everything else (acknowledgements, leases, delivery counts) only saves work.
 *
 *   pull       enough messages for one waiting task per slot; more if tasks are short: about 200 ms of work. The
 *              highest priority first.
 *   look       before anything is run: does the record exist?
 *   mark       a suspect is a message that was delivered before. Most suspects are innocent: they were given back. So a
 *              marker is written first, and the suspect is begun together with other tasks. If it comes back after that,
 *              a bundle is split into its tasks, and a task is begun alone: a node has one such suspect at a time, and
 *              the marker counts these beginnings. A task that was begun crash_limit times is not run any more; its
 *              record is the failure "crash". Before a node gives a suspect back, it removes its marker. If the task
 *              has killed workers of this node, the node writes the number of these deaths into the marker instead.
 *              See markers.c.
 *   give       tasks go to the scheduler: as many as can run at once, and more if tasks are short.
 *   record     the records of all tasks of a message are published as one message. Before that the caller keeps it
 *              (effects.keep), so that a node that is cut off can publish it later.
 *   ack        only over the connection that the message was delivered on. If the connection was lost meanwhile, it is
 *              given back instead, even if it has a record: a server that lost data may have given its sequence to another message.
 *   extend     everything that is held: a notice after each third of the lease. Each priority has its own lease, and the
 *              shortest one counts for all.
 *   give back  what has not begun: when this node drains, and at the end of the list, when other nodes wait. A bundle
 *              that has begun is split: its record says which tasks ran and which have moved, then the rest is
 *              published under the key of its tasks, then the message is acknowledged. Every node that reads such
 *              a record repeats these steps before it acknowledges the message: after a look, and also if its own
 *              record was refused. Otherwise a node whose lease ran out could acknowledge a message although its rest
 *              was never published.
 *   repair     nothing is pending or unacknowledged, but there are task messages without a record: such a message is
 *              sent again, under the same key with the next number of GD__QUEUE_TASK subjects (gd__queue_subject.resend).
 *              Its record has the same subject as before, so the server still accepts only one.
 *   end        the queue is done if each key of a task message has a record, no consumer has a pending or unacknowledged
 *              message, and no push is open. The second condition counts too: a node that has split a bundle and died
 *              before the rest was published has left a record, but no acknowledgement. If only messages are left that
 *              this node cannot read, it ends with an error. See unreadable.c.
 */
#ifndef GD_QUEUE_NODE_NODE_H
#define GD_QUEUE_NODE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/link.h"
#include "queue/messages/message.h"

struct gd__node;
struct gd__node_message; /* a message that this node holds */

/* A task to be run. The task and what it points to stay valid until it is ended or returned. */
struct gd__node_task {
    struct gd__node_message *message;
    uint32_t index; /* in the message */
    uint32_t of;    /* how many tasks the message has */
    int priority;
    bool alone;       /* a suspect: the node gives no other suspect until this one has ended */
    uint32_t crashes; /* number of counted deaths of workers and nodes that it has caused */
    struct gd__queue_task task;
};

enum gd__node_end {
    GD__NODE_DONE = 1, /* the queue is done */
    GD__NODE_IDLE,     /* there was nothing to do for idle_ns */
    GD__NODE_DRAINED,  /* after gd__node_drain(): nothing is held any more */
    GD__NODE_CUT_OFF,  /* the server was not reached for lost_ns, and nothing runs any more; kept records may be left */
    GD__NODE_FAILED,   /* the server refuses to work with us, or only messages are left that we cannot read: text */
};

/* The functions of a node must not be called from within these. */
struct gd__node_effects {
    void *user;
    /* Each request gets exactly one answer that ends it, also if it could not be sent: GD__ANSWER_LOST. */
    void (*ask)(void *user, const struct gd__queue_request *request);
    void (*tell)(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms);
    /* Run the task. Ends with gd__node_ended() or gd__node_returned(). */
    void (*give)(void *user, const struct gd__node_task *task);
    /* Keep the record message until forget() is called with the same key. Returns 0 or a negative code: then the record
     * is published all the same. A record that was kept with the same key is replaced, and forget() may be called for a
     * key that is not kept any more: a record of an earlier run may have the key of a message that was delivered again. */
    int (*keep)(void *user, const struct gd__queue_key *key, const void *message, size_t size);
    void (*forget)(void *user, const struct gd__queue_key *key);
    /* The record of this task: it counts (won), or another attempt was faster. Called once for each ended task, unless the
     * node finishes without an answer of the server (GD__NODE_CUT_OFF, GD__NODE_FAILED). */
    void (*decided)(void *user, const struct gd__node_task *task, bool won);
    /* The node has nothing more to do, and asks nothing more. Called once. */
    void (*finished)(void *user, enum gd__node_end end, const char *text);
    /* A line for the user: a message that is damaged, a poisonous task, a repair. */
    void (*say)(void *user, const char *line);
    uint64_t (*random)(void *user); /* for nonces and jitter */
};

struct gd__node_config {
    const char *name; /* the queue; copied */
    const char *host; /* for records; copied */
    unsigned slots;   /* tasks that can run at once: workers, times concurrency or batch size */
    unsigned crash_limit;
    uint32_t lease_ms;    /* the shortest of the consumers of these priorities; the node asks for those of later ones */
    uint64_t max_payload; /* of the server */
    uint64_t idle_ns;     /* leave after so long without work, if the queue is not done; UINT64_MAX: never */
    bool stay;            /* do not leave when the queue is done */
    uint64_t lost_ns;     /* give up after so long without the server; UINT64_MAX: never */
    uint32_t priorities;  /* gd__queue_answer.priorities. The node asks from time to time whether there are more */
};

/* Returns 0 or GD_E_NO_MEMORY. The node begins to pull at the first gd__node_tick(). */
int gd__node_open(struct gd__node **out, const struct gd__node_config *config, const struct gd__node_effects *effects);
void gd__node_close(struct gd__node **node); /* says nothing to the server: leases of what is held run out */

/* --- events --- */

void gd__node_answer(struct gd__node *n, uint64_t now_ns, const struct gd__queue_answer *answer);
void gd__node_connected(struct gd__node *n, uint64_t now_ns, bool is_connected);
/* It will not be connected again: the node ends with this text, when its tasks have ended. */
void gd__node_closed(struct gd__node *n, uint64_t now_ns, const char *text);

/* A task has ended. The record is copied; its key, number and state MOVED are set by the node. */
void gd__node_ended(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task,
                    const struct gd__queue_record *record);
/* A task was not run, or was interrupted, and has no record: another node shall run it. */
void gd__node_returned(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task);
/* The same, after it has killed workers of this node. crashes: as in struct gd__node_task, with these deaths. */
void gd__node_charged(struct gd__node *n, uint64_t now_ns, const struct gd__node_task *task, uint32_t crashes);

/* A record message that an earlier run of this node has kept: publish it. Call it before the first tick. */
int gd__node_publish_kept(struct gd__node *n, const struct gd__queue_key *key, const void *message, size_t size);

/* The number of tasks that can run at once has changed: workers say only when they are ready how many they take. */
void gd__node_set_slots(struct gd__node *n, unsigned slots);

/* Pull nothing more, give back what has not begun, record what ends, then finish. */
void gd__node_drain(struct gd__node *n, uint64_t now_ns);

/* Does what is due, and returns when to call it again at the latest (UINT64_MAX: never). Call it after each event. */
uint64_t gd__node_tick(struct gd__node *n, uint64_t now_ns);

/* --- figures --- */

struct gd__node_figures {
    uint64_t held;                        /* messages */
    uint64_t given;                       /* tasks that the scheduler has */
    uint64_t won, lost, returned, failed; /* tasks */
    uint64_t convicted;                   /* tasks of `failed` that this node has recorded as crashes, and not run */
    uint64_t unpublished;                 /* record messages that the server has not confirmed */
    uint64_t tasks, records;              /* messages in the queue when they were last counted */
    bool connected, draining;
};
void gd__node_figures(const struct gd__node *n, struct gd__node_figures *out);

#endif
