/* How many tasks travel in one message. Pure.
 *
 * A server that writes each message to disk handles about a thousand messages per second. So tasks below 2 s travel in
 * bundles of about 10 s of work, if the queue has records from which their duration is known. Towards the end of the list
 * bundles shrink, so that many machines share the last tasks. A fixed number is used as it is,
 * unless the records of so many tasks would not fit into a message.
 */
#ifndef GD_QUEUE_PUSH_BUNDLE_H
#define GD_QUEUE_PUSH_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GD__BUNDLE_SHORT_US = 2000000,  /* tasks of this duration or more travel alone */
    GD__BUNDLE_WORK_US = 10000000,  /* of one bundle */
    GD__BUNDLE_AUTO_MOST = 10000,   /* tasks of a bundle whose size was chosen */
    GD__BUNDLE_RECORD_BYTES = 1024, /* room for the record of each task of a bundle whose size was chosen */
    GD__BUNDLE_RECORDS = 1000,      /* record messages that are read to learn durations */
    GD__BUNDLE_SHARES = 64,         /* at the end of the list, a bundle is at most this part of what is left */
    GD__BUNDLE_KEPT = 32,           /* bundles that are kept until the end of the list is known */
};

struct gd__bundling {
    uint32_t target; /* tasks in a message, at least 1 */
    bool shrinks;
};

struct gd__bundling gd__bundling_fixed(uint32_t tasks);
/* From the number of recorded tasks and the sum of their durations. */
struct gd__bundling gd__bundling_auto(uint64_t tasks, uint64_t run_us);

/* The records of all tasks of a message travel in one message too, so a message has at most as many tasks as this:
 * gd__queue_bundle_most(). */
void gd__bundling_limit(struct gd__bundling *b, uint32_t most);

/* How many of the waiting tasks form the next message; 0: wait for more tasks. bytes: the size of the waiting tasks;
 * most_bytes: of a message; is_end: there are no more tasks. The caller may put fewer tasks into the message. */
size_t gd__bundling_next(const struct gd__bundling *b, size_t waiting, size_t bytes, size_t most_bytes, bool is_end);

#endif
