/* What the files of the dispatcher share.
 *
 *   options.c     checks and copies the user's options
 *   devices.c     the devices of the run, and their failures
 *   dispatcher.c  the public calls: open, run, shutdown, close
 *   monitor.c     the loop: results, new tasks, deadlines, sleeping
 *   records.c     the workers' records, checked against the tasks they were given
 *   deliver.c     calls the user's callbacks
 *   stats.c       snapshots for other threads
 *   publish.c     snapshots for other processes
 *
 *   source/feeder.c        the thread that calls the source, and the queue of its tasks
 *   source/items.c         the items that the source fills: payloads, keys
 *   source/completed.c     tasks that the journal has already
 *   workers/supervisor.c   the scheduler's effects: starting, stopping and killing processes
 *   workers/start.c        how a process is started
 *   workers/exit.c         what happens when a process ends
 *   workers/strays.c       processes that a dead worker left running
 *   workers/suspend.c      stops and continues all workers, and measures time in which the run stood still
 */
#ifndef GD_DISPATCH_INTERNAL_H
#define GD_DISPATCH_INTERNAL_H

#include <gpu_dispatch/dispatcher.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/process/fork.h"
#include "binding.h"
#include "core/sched.h"
#include "dispatch/listener.h"
#include "dispatch/source/feeder.h"
#include "gpu/device.h"
#include "proc/child.h"
#include "proc/loop.h"
#include "proc/orphans.h"
#include "proc/output.h"
#include "shm/channel.h"

enum gd__request { GD__REQUEST_NONE, GD__REQUEST_SHUTDOWN, GD__REQUEST_ABORT };

struct gd__seat;

/* Processes that a dead worker left running; they are killed and waited for: see strays.c. */
enum { GD__PROCESS_NAME_MAX = 96, GD__STRAYS_MOST = 64 /* at a time */, GD__SETUP_ERROR_MAX = 512 };
struct gd__strays {
    struct gd__stray {
        struct gd__watch watch; /* must be first */
        struct gd__seat *seat;
        int pidfd;
    } of[GD__STRAYS_MOST];
    size_t n, n_alive;
    int timer; /* a timerfd; -1: no timer */
    struct gd__watch timer_watch;
};

/* One worker's process and everything that belongs to it. It is set up anew for each process. */
struct gd__seat {
    struct gd_dispatcher *d;
    unsigned index;
    bool live;         /* it has a channel: read its results */
    bool shortage;     /* it could not be started: too few processes or too little memory */
    bool spawn_failed; /* the loop reports it to the scheduler, since effects may not call back */
    bool broken;       /* it broke the protocol: read no more records */
    bool told_to_stop;
    unsigned said; /* a bit for each kind of record that comes once in a process's life */
    struct gd__channel channel;
    struct gd__child child;
    struct gd__exit exit;            /* how it ended, */
    pid_t ended_pid;                 /* and its process id */
    char name[GD__PROCESS_NAME_MAX]; /* NAME=value, for its environment: see strays.c */
    struct gd__strays strays;
    struct gd__fork_guard lifeline; /* our end of the boot socket */
    uint64_t announced;             /* on_task_start was called for all positions below this one */
    struct gd__output out, err;
    struct gd__watch pid_watch, bell_watch;
    char message[512]; /* why it could not be started, or what it did wrong */
};

/* A device of the run. */
struct gd__run_device {
    struct gd__worker_device how; /* how its workers are started */
    unsigned first_worker, n_workers;
    int vendor; /* enum gd_vendor; and its name, for people */
    char name[96];
    _Atomic int news;     /* see devices.c */
    char message[160];    /* the error message of its failure */
    _Atomic bool restart; /* its workers must be started again */
};

struct gd__work { /* gd_dispatcher_set_work() */
    double done, total;
};

struct gd__run_copy { /* copies of what the options point to */
    int *gpu_ids;     /* one per worker */
    char *plugin;
    char **worker_argv;
    char **env;
    void *setup_args;
};

struct gd_dispatcher {
    struct gd_options o;
    struct gd__run_copy copy;
    unsigned n_workers;
    struct gd__run_device *devices;
    unsigned n_devices;
    unsigned *device_of; /* each worker's index in devices */
    int health_token;
    _Atomic bool device_news;
    char **spawn_argv;
    const char *spawn_path;

    struct gd__sched sched;
    struct gd__loop loop;
    struct gd__feeder *feeder;
    struct gd__seat *seats;
    unsigned *live; /* indices of live seats */
    unsigned n_live;
    unsigned spawn_failures; /* not yet reported to the scheduler */
    unsigned window;         /* slots in a task ring */
    uint64_t spin_ns;
    bool crowded; /* more processes than processors */
    uint64_t now;
    uint64_t adding; /* number in the source of the task that is being added */
    uint32_t sleep_number;

    int wake_fd, signal_fd; /* eventfds */
    int signal_token;
    unsigned signals_seen;
    struct gd__watch wake_watch, signal_watch, hook_watch;
    unsigned number;                 /* of this dispatcher, among those of the process */
    bool adopts;                     /* orphans become our children: see strays.c */
    struct gd__ended_children ended; /* reports the orphans that have ended */
    struct gd__watch ended_watch;
    struct gd__hooks hooks;       /* set by a language binding or the command; all NULL: none */
    struct gd__listener listener; /* set by the launcher; all NULL: none */
    /* The record of the task whose callback is running. NULL: no such task, or its record was put off. */
    struct gd__journal_task *record_due;
    _Atomic bool hold_wanted; /* gd__dispatcher_hold() */
    bool held;                /* the loop has applied it */
    _Atomic int request;      /* enum gd__request */

    /* Held by every thread that changes a seat's child, and by other threads that signal it. */
    pthread_mutex_t child_lock;
    _Atomic uint64_t suspended_at;  /* when workers were stopped; 0: they are not */
    _Atomic uint64_t lost_ns;       /* time in which the run stood still, not yet reported to the scheduler */
    _Atomic uint32_t suspend_turns; /* how often workers were stopped or continued, */
    uint32_t turns_seen;            /* the value that the run's thread has seen */
    bool woke_late;                 /* the last sleep ended late: see suspend.c */

    uint64_t feeder_deadline; /* after it, a source that does not return is abandoned */
    bool source_over;
    bool cut_off;                          /* see gd__supervisor_cut_off() */
    char setup_error[GD__SETUP_ERROR_MAX]; /* of the first worker whose setup failed; "": no setup has failed */
    bool started;                          /* run was called */
    _Atomic bool running;
    pthread_t thread;

    pthread_mutex_t stats_lock;
    struct gd_stats stats;
    struct gd__work work;
    struct gd_worker_stats *worker_stats;
    uint64_t stats_at;
    bool shortage_told;
    bool stats_stale;                /* something may have changed since the last update */
    unsigned look_in, look_every;    /* callbacks until the clock is read, see gd__stats_after_callback() */
    struct gd__publisher *publisher; /* NULL: the run has no page */
};

#define PUBLISH_EVERY_NS GD__NS_PER_MS

/* A task's number as users and workers see it: its position in the source, skipped tasks included. */
static inline uint64_t gd__numbered(uint64_t id, uint64_t tag)
{
    return tag ? ((const struct gd__journal_task *)(uintptr_t)tag)->number : id;
}
static inline uint64_t gd__task_number(const struct gd__task *t)
{
    return gd__numbered(t->id, t->tag);
}

/* options.c */
int gd__options_copy(struct gd_dispatcher *d, const struct gd_options *o);
int gd__options_check_placement(const struct gd_options *o); /* again, when the total is known for certain */
void gd__options_free(struct gd_dispatcher *d);

/* devices.c */
int gd__devices_resolve(struct gd_dispatcher *d); /* fills devices, device_of, n_workers and copy.gpu_ids */
void gd__devices_free(struct gd_dispatcher *d);
void gd__devices_watch(struct gd_dispatcher *d); /* failures are recorded from here until unwatch */
void gd__devices_unwatch(struct gd_dispatcher *d);
void gd__devices_take_news(struct gd_dispatcher *d); /* reports the failures to the scheduler */

/* monitor.c */
int gd__monitor_open(struct gd_dispatcher *d);
void gd__monitor_run(struct gd_dispatcher *d);
/* Obeys the requests of signals and other threads. Call this before you blame a worker: its failure may be a stop. */
void gd__monitor_obey(struct gd_dispatcher *d);

/* records.c */
/* Reads a worker's records, up to a limit. True: there was at least one. */
bool gd__records_drain(struct gd_dispatcher *d, struct gd__seat *seat);

/* What is wrong with a record, given the state of worker w. NULL: nothing. Pure. */
const char *gd__record_check(const struct gd__sched *s, unsigned w, const struct gd__result_slot *r);

/* workers/supervisor.c */
int gd__supervisor_open(struct gd_dispatcher *d);
void gd__supervisor_close(struct gd_dispatcher *d);
extern const struct gd__sched_effects gd__effects;

/* workers/start.c */
int gd__seat_start(struct gd__seat *seat);       /* 0, or negative: then call gd__seat_undo_start() */
void gd__seat_undo_start(struct gd__seat *seat); /* if it has a process, ends it before it returns */
/* Releases everything of a process that has ended or was never started. */
void gd__seat_clear(struct gd__seat *seat);

/* workers/exit.c */
void gd__seat_process_ended(struct gd__watch *w, uint32_t events); /* the callback of seat->pid_watch */
/* The process and everything that it left running have ended: reports that to the scheduler. */
void gd__seat_ended(struct gd__seat *seat);
void gd__seat_broken(struct gd__seat *seat, const char *why);
void gd__supervisor_tell_failures(struct gd_dispatcher *d); /* reports the processes that could not be started */
/* For an event loop that has failed, so that no worker's end would be noticed: aborts the run and ends all workers
 * before it returns. */
void gd__supervisor_cut_off(struct gd_dispatcher *d);

/* workers/suspend.c */
/* Held while a child is started, reaped or forgotten: another thread may stop and continue the workers. */
void gd__children_lock(struct gd_dispatcher *d);
void gd__children_unlock(struct gd_dispatcher *d);
void gd__child_started(struct gd__seat *seat); /* the lock is held; stops the child if all workers are stopped */
bool gd__is_suspended(const struct gd_dispatcher *d);
/* Sleeps until something happens or until_ns, and notices if this process stood still meanwhile. */
void gd__sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* The run had nothing to do between since and now, and no callback was called. If that time is long, this process stood
 * still. */
void gd__note_gap(struct gd_dispatcher *d, uint64_t since, uint64_t now);
/* Tells the scheduler how long the run stood still. */
void gd__tell_lost(struct gd_dispatcher *d);

/* workers/strays.c */
void gd__strays_name(struct gd__seat *seat); /* names the process that is about to be started */
/* Call it after the seat's process has ended. True: processes are being ended, and gd__seat_ended() is called once that
 * is done. */
bool gd__strays_end(struct gd__seat *seat);
void gd__strays_forget(struct gd__seat *seat); /* may be called without any strays */
int gd__strays_open(struct gd_dispatcher *d);  /* lasts as long as the run; called on the run's thread */
void gd__strays_close(struct gd_dispatcher *d);

/* deliver.c: effects that call the user */
void gd__deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o);
void gd__deliver_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_shortage(void *ctx, unsigned w, const char *message, uint64_t size);
void gd__deliver_try(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_setup_failed(void *ctx, unsigned w, const char *message);
void gd__deliver_cleanup_failed(const struct gd_dispatcher *d, unsigned w, const char *message);
void gd__deliver_device_out(void *ctx, unsigned w, const char *message);
void gd__deliver_worker_died(void *ctx, unsigned w, const char *message, bool given_up);

/* dispatcher.c */
void gd__dispatcher_wake(struct gd_dispatcher *d); /* any thread: wakes the loop for another round */

/* stats.c */
int gd__stats_open(struct gd_dispatcher *d);
void gd__stats_publish(struct gd_dispatcher *d, bool now);
/* Publishes. If that was done a moment ago, returns when to wake up for it: until_ns at the latest. */
uint64_t gd__stats_before_sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* Publishes when it is time. One round may make many callbacks, and each may take long. */
void gd__stats_look(struct gd_dispatcher *d);
static inline void gd__stats_after_callback(struct gd_dispatcher *d)
{
    if (--d->look_in == 0)
        gd__stats_look(d);
}

/* publish.c; all may be called for a run without a page */
void gd__publish_open(struct gd_dispatcher *d); /* creates the page, if the user asked for one and it is possible */
void gd__publish_close(struct gd_dispatcher *d);
/* worker_stats must be up to date, too */
void gd__publish(struct gd_dispatcher *d, const struct gd_stats *stats, const struct gd__work *work);
/* worker_stats must be up to date, too */
void gd__publish_try(struct gd_dispatcher *d, const struct gd__task *t, const struct gd__outcome *o);
void gd__publish_final(struct gd_dispatcher *d, int worker, const struct gd_report *r); /* only for a run with a page */
void gd__publish_awake(struct gd_dispatcher *d, uint64_t since_ns);                     /* 0: about to sleep */
void gd__publish_end(struct gd_dispatcher *d);
/* When to look for something new, even during a sleep. */
uint64_t gd__publish_look_again(const struct gd_dispatcher *d);

#endif
