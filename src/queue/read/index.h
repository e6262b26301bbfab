/* Which tasks a queue has, and where their payloads and records are: the join of the streams of tasks and records.
 *
 * Pure: the caller reads the streams and passes each message, those of tasks first. Messages are not kept, only where
 * they are: about 80 bytes for a task that travels alone, 50 for one in a bundle, and more while tables grow.
 *
 * A task may be in several messages: in a bundle, in the rest of a bundle that was split, in a message that was sent
 * again by a repair, and once more for each time it was added again after a failure. It is one task, at the place of its
 * first message. Its record is the one that names the highest `again` of its task messages: a task that was added again
 * has no record until it has ended again.
 *
 * Messages come from a server that others can write to. A message that cannot be used is skipped and counted, and the
 * first one is named. Positions in the hash table depend on a secret, so that nobody can choose keys that slow it down.
 */
#ifndef GD_QUEUE_READ_INDEX_H
#define GD_QUEUE_READ_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/messages/message.h"
#include "queue/names/subject.h"

enum { GD__READ_SKIPPED_ROOM = 512 };
#define GD__READ_NO_MESSAGE UINT32_MAX

struct gd__read_message {
    uint64_t sequence;
    uint32_t size;
    int8_t priority; /* of a task message */
};

struct gd__read_messages {
    struct gd__read_message *items; /* in order of sequence */
    uint32_t n, room;
    uint64_t last; /* the sequence of the last message that was passed, also of one that was skipped */
};

struct gd__read_task {
    unsigned char hash[GD__HASH_SIZE];
    uint32_t repeat, again;
    uint32_t task_message;   /* index into tasks_at: the last message that has this task */
    uint32_t record_message; /* index into records_at; GD__READ_NO_MESSAGE: no record yet */
    uint16_t task_item, record_item;
    uint8_t state; /* GD__QUEUE_DONE, GD__QUEUE_FAILED; 0: no record yet */
};

struct gd__read_index {
    char name[GD__QUEUE_NAME_MOST + 1];
    unsigned char secret[GD__HASH_SIZE];
    struct gd__read_task *tasks; /* in the order in which they were pushed */
    uint32_t n, room;
    uint32_t *slots; /* a hash table: index into tasks, plus 1; 0: free */
    size_t n_slots;  /* 0, or a power of two */
    struct gd__read_messages tasks_at, records_at;
    uint64_t done, failed; /* tasks */
    uint64_t busy_us;      /* of all records */
    uint64_t skipped;
    char first_skipped[GD__READ_SKIPPED_ROOM];
    /* The tasks that got their record since the caller has last set n_new to 0; only if keep_new is set. */
    bool keep_new;
    uint32_t *new_records;
    size_t n_new, new_room;
};

/* name: the queue. Returns 0 or GD_E_SYSTEM. */
int gd__read_index_open(struct gd__read_index *x, const char *name);
void gd__read_index_free(struct gd__read_index *x);

/* Add a message. Messages of a stream must come in order; one that has been passed before is ignored. subject and data
 * are as the server has sent them. Return 0, also if the message is skipped, or GD_E_NO_MEMORY. */
int gd__read_index_tasks(struct gd__read_index *x, uint64_t sequence, const char *subject, const void *data,
                         size_t size);
int gd__read_index_records(struct gd__read_index *x, uint64_t sequence, const char *subject, const void *data,
                           size_t size);

/* Counts a message that is skipped. The text of the last error says why. */
void gd__read_index_skip(struct gd__read_index *x, enum gd__queue_kind kind, uint64_t sequence);

/* How many tasks without a record are in the first `messages` messages of this priority that have such tasks. Servers
 * deliver in this order, so these are the tasks that nodes hold, if `messages` are delivered and not acknowledged.
 * Returns 0 or GD_E_NO_MEMORY. */
int gd__read_index_held(const struct gd__read_index *x, int priority, uint64_t messages, uint64_t *tasks);

#endif
