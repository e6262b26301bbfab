/* Which tasks a queue has: a set of task keys, with the highest `again` of each. 32 to 64 bytes for each task, and half
 * as much again while it grows. */
#ifndef GD_QUEUE_PUSH_KNOWN_H
#define GD_QUEUE_PUSH_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/names/subject.h"

struct gd__known_task {
    unsigned char hash[GD__HASH_SIZE];
    uint32_t repeat;
    uint32_t again; /* the highest that was added */
    bool used;
    bool failed; /* for the user of the set: see retry.c */
    bool sent;   /* likewise */
};

/* A zeroed struct is empty. */
struct gd__known {
    struct gd__known_task *slots;
    size_t room; /* 0, or a power of two */
    size_t used;
};

/* Returns the task with the hash and repeat of this key, or NULL. */
struct gd__known_task *gd__known_find(const struct gd__known *k, const struct gd__queue_key *key);

/* Adds a task, or raises its `again`. *out, unless it is NULL, gets the entry, valid until the next call. Returns 0, or
 * GD_E_NO_MEMORY: then nothing has changed. */
int gd__known_add(struct gd__known *k, const struct gd__queue_key *key, struct gd__known_task **out);

void gd__known_free(struct gd__known *k); /* also makes it empty again */

#endif
