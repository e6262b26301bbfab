/* Locks a journal, so that only one run at a time writes to it, on one host or on several. See lock.c. */
#ifndef GD_JOURNAL_LOCK_LOCK_H
#define GD_JOURNAL_LOCK_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/process/fork.h"
#include "journal/lock/holder.h"

/* The heartbeat of a holder: see heart.c. */
struct gd__heart {
    pthread_t thread;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t wake;
    bool started, stop;
    uint64_t beat;
    uint64_t beaten_ns; /* when the last beat was written; this clock also counts while the machine sleeps */
    int error;          /* errno of the last beat; 0: it was written */
    bool replaced;      /* another file is in the place of the lock file, or none */
};

struct gd__journal_lock {
    struct gd__fork_guard file; /* its descriptor is -1 while not locked */
    char *path;
    struct gd__lock_holder me;
    struct gd__lock_settings settings;
    pid_t pid;      /* the process that took it */
    bool shared;    /* other hosts may use the file system, or it has no locks: there is a heartbeat */
    bool took_over; /* the holder before was given up, because its heartbeat stood still. It may still exist */
    char gone[GD__NONCE_MAX]; /* the nonce of the holder before, if it is certainly gone; otherwise "" */
    struct gd__heart heart;
};
#define GD__JOURNAL_LOCK_NONE       \
    {                               \
        .file = GD__FORK_GUARD_NONE \
    }

/* How to wait for the lock. */
struct gd__journal_lock_ask {
    unsigned wait_ms; /* 0: do not wait */
    int stop_fd;      /* a descriptor that ends the wait when it becomes readable; 0: none */
    /* Called once with a message, when the wait begins, and with NULL before each sleep. Not 0: ends the wait. NULL: no
     * function */
    int (*on_wait)(void *user, const char *message);
    void *user;
};

/* Locks the journal at that path. Returns GD_E_BUSY if another run has locked it. *h must not be moved in memory until
 * it is released. */
int gd__journal_lock_take(struct gd__journal_lock *h, const char *journal);
/* Likewise, but waits. Returns GD_E_INTERRUPTED if the wait was ended. */
int gd__journal_lock_wait(struct gd__journal_lock *h, const char *journal, const struct gd__journal_lock_ask *ask);
void gd__journal_lock_release(struct gd__journal_lock *h);

/* Whether the lock file was removed or replaced. If so, another run could lock the journal too. */
bool gd__journal_lock_is_lost(struct gd__journal_lock *h);
/* Called before a change is written. If the last heartbeat is old, it makes one and checks that the lock file is still
 * ours. Returns 0, or GD_E_SYSTEM if the lock is lost. */
int gd__journal_lock_check(struct gd__journal_lock *h);

/* Whether a run has locked the journal. *pid is its process id, or 0 if unknown. Takes no lock, so it does not keep a
 * run from starting. For a run on another host this is an estimate: it depends on the clocks. */
bool gd__journal_lock_test(const char *journal, uint64_t *pid);
struct gd__lock_seen {
    bool held;
    uint64_t pid;
    double quiet_seconds; /* since its last heartbeat, by our clock; 0: it makes none */
};
void gd__journal_lock_see(const char *journal, struct gd__lock_seen *out);

/* Shared with heart.c: begins and ends the heartbeat, and makes one beat. */
int gd__heart_start(struct gd__journal_lock *h);
void gd__heart_stop(struct gd__journal_lock *h);
void gd__heart_beat(struct gd__journal_lock *h);

/* wait.c: sleeps until something may have changed, at most `ms`. Returns 0, or GD_E_INTERRUPTED. */
int gd__lock_sleep(const char *path, const struct gd__lock_holder *holder, const struct gd__journal_lock_ask *ask,
                   unsigned ms);

#endif
