/* Only one push at a time adds tasks to a queue: takes, keeps and releases the lock of queue/push/state.h.
 *
 * Why: a push reads which tasks the queue has, and then adds the others, some of them in bundles. The server refuses a
 * second message with the same subject, but two pushes could put the same task into different bundles.
 *
 * A thread gives a sign of life every few seconds. gd__push_lock_check() is called before each publication, and before
 * publications without an answer are sent again: it fails if another push has taken the lock, and gives a sign of life
 * itself if the last one is too old, because the process or its machine was suspended or cut off. One case remains:
 * a push that is suspended between the check and the publication for longer than GD__PUSH_DEAD_MS. Then tasks of a bundle
 * may be in the queue twice, and run twice.
 */
#ifndef GD_QUEUE_PUSH_LOCK_H
#define GD_QUEUE_PUSH_LOCK_H

#include <stdint.h>

#include "queue/call.h"

struct gd__push_lock;

struct gd__push_lock_config {
    const char *name; /* of the queue; copied */
    uint32_t wait_ms; /* how long to wait for another push */
    uint32_t beat_ms; /* 0: GD__PUSH_BEAT_MS. For tests */
    uint32_t look_ms; /* 0: 1000: how often to look while another push goes on. For tests */
    /* Called once if the lock is held by another push. May be NULL. */
    void (*on_wait)(void *user, const char *message);
    void *user;
};

/* Takes the lock. The stream of states must exist. Returns 0; GD_E_BUSY if another push goes on for longer than wait_ms,
 * with an error message that says which; or the error of a call. */
int gd__push_lock_take(struct gd__push_lock **out, struct gd__caller *c, const struct gd__push_lock_config *config);

/* Returns 0 if this push still has the lock; GD_E_BUSY if not; or the error of a call. On the thread of `c`. */
int gd__push_lock_check(struct gd__push_lock *lock);

/* Ends the thread. From now on, only gd__push_lock_check() gives signs of life, and it waits for nobody else. For the end
 * of a push that was stopped. */
void gd__push_lock_hurry(struct gd__push_lock *lock);

/* Releases the lock and frees it. Returns 0, or the error of a call: then others wait until the lock counts as dead.
 * NULL and *lock == NULL are allowed. */
int gd__push_lock_release(struct gd__push_lock **lock);

#endif
