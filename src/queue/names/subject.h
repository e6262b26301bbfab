/* Names on the server of a queue: subjects, streams, consumers, and the keys in them.
 *
 *   gd.NAME.t.PRIORITY.KEY    a task message: one task, or a bundle of several
 *   gd.NAME.t.PRIORITY.KEY.2  the same message, sent again for the second time, because the first two got stuck
 *   gd.NAME.r.KEY             the record message for the task messages with this key
 *   gd.NAME.s.marker.KEY      how many times a suspect was begun; written before it is started
 *   gd.NAME.s.alive.NONCE     a sign of life of the node that has begun the suspect with this marker alone
 *   gd.NAME.s.push            the push that is going on
 *   gd.NAME.s.command         what the nodes run
 *   gd.NAME.s.node.ID         the status of a node
 *   gd_NAME_t, _r, _s         the streams of these subjects
 *   priority_P                the consumer of the tasks with priority P
 *
 *   KEY   HASH                the first task with this key: 32 hexadecimal digits, as gd__key_hash() computes them
 *         HASH-3              the task with the same key that has 3 such tasks before it in its list
 *         HASH_1, HASH-3_1    the same tasks, added once more because they had failed
 *         bundle-HASH-200     a bundle of 200 tasks. HASH is computed from their keys: gd__queue_bundle_key()
 *
 * A name has exactly one valid form, so that equal names are equal bytes: small letters, no zeros before a number.
 *
 * A server fences by subject: a subject holds at most one message. The priority is in the subject of a task because a
 * consumer selects its tasks by subject. So the server does NOT refuse a second push of a key with another priority:
 * `push` must read which keys are known. Subjects of records have no priority, so there is one record in any case.
 *
 * The number of tasks of a bundle is in its key, so that tasks can be counted from a list of subjects, without reading
 * messages.
 */
#ifndef GD_QUEUE_NAMES_SUBJECT_H
#define GD_QUEUE_NAMES_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash/key.h"
#include "queue/names/address.h"

enum {
    GD__QUEUE_KEY_ROOM = 56,       /* the longest key, with a NUL: 32 digits, "-", 10 digits, "_", 10 digits */
    GD__QUEUE_NODE_ROOM = 33,      /* the id of a node, with a NUL: 32 hexadecimal digits */
    GD__QUEUE_SUBJECT_ROOM = 160,  /* the longest subject, filter or name of a stream or consumer, with a NUL */
    GD__QUEUE_BUNDLE_MOST = 65536, /* tasks in one message */
};

enum gd__queue_kind {
    GD__QUEUE_TASK = 't',
    GD__QUEUE_RECORD = 'r',
    GD__QUEUE_STATE = 's', /* in a struct gd__queue_subject: a marker */
};

/* Compare keys with gd__queue_key_same(): the struct may have padding. */
struct gd__queue_key {
    unsigned char hash[GD__HASH_SIZE];
    uint32_t repeat; /* of a task: how many tasks with an equal hash are before it in its list */
    uint32_t again;  /* of a task: how many times it was added once more because it had failed */
    uint32_t tasks; /* of a bundle: how many tasks it has, 2 to GD__QUEUE_BUNDLE_MOST; the others are 0. Of a task: 1 */
};

struct gd__queue_subject {
    enum gd__queue_kind kind;
    int priority; /* GD_PRIORITY_MIN to GD_PRIORITY_MAX; 0 unless kind is GD__QUEUE_TASK */
    struct gd__queue_key key;
    uint32_t resend; /* how many times the task message was sent again; 0 unless kind is GD__QUEUE_TASK */
};

/* The key of a task. bytes: its payload, or what the source has set as its key. */
struct gd__queue_key gd__queue_task_key(const void *bytes, size_t size, uint32_t repeat);

/* The key of a message with these tasks, in this order. For one task it is the key of the task. The rest of a bundle,
 * pushed again by whoever drained it, gets the same key on every machine. Returns 0, or GD_E_INVALID if n is 0 or more
 * than GD__QUEUE_BUNDLE_MOST, or if one of the keys is that of a bundle. */
int gd__queue_bundle_key(struct gd__queue_key *out, const struct gd__queue_key *tasks, size_t n);

/* The same key, computed task by task: begin with the number of tasks, then add each of them in order. Only a caller that
 * has checked the number and the keys may use these. */
void gd__queue_bundle_begin(struct gd__queue_key *b, uint32_t n);
void gd__queue_bundle_add(struct gd__queue_key *b, const struct gd__queue_key *task);

bool gd__queue_key_same(const struct gd__queue_key *a, const struct gd__queue_key *b);

/* Each function returns out. A name, key or priority that is out of range is an error of the caller. */
char *gd__queue_key_text(char out[GD__QUEUE_KEY_ROOM], const struct gd__queue_key *key);
char *gd__queue_subject_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const struct gd__queue_subject *s);
char *gd__queue_stream_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, enum gd__queue_kind kind);
char *gd__queue_consumer_text(char out[GD__QUEUE_SUBJECT_ROOM], int priority);

/* All subjects of a stream: "gd.NAME.t.>". */
char *gd__queue_stream_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, enum gd__queue_kind kind);

/* The tasks of one priority: "gd.NAME.t.PRIORITY.>". */
char *gd__queue_priority_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, int priority);

/* All task messages that were sent again: "gd.NAME.t.*.*.*". */
char *gd__queue_resend_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name);

/* A state: "push", "command", "node.ID", or "alive.NONCE" (see node/markers.c). */
char *gd__queue_state_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const char *state);

/* Parse what a server has sent. Return 0, or GD_E_CORRUPT if it is not a key, or not a subject of this queue. */
int gd__queue_key_parse(struct gd__queue_key *out, const char *text);
int gd__queue_subject_parse(struct gd__queue_subject *out, const char *name, const char *text);

#endif
