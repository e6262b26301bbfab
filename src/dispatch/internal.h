/* A run: what the files of the dispatcher share.
 *
 *   options.c     checking and copying what the user asked for
 *   devices.c     which devices, and word of their failure
 *   dispatcher.c  the public calls: open, run, shutdown, close
 *   monitor.c     the loop: results, new tasks, deadlines, sleeping
 *   records.c     what a worker says, checked against what it was given
 *   deliver.c     the user's callbacks
 *   stats.c       snapshots for other threads
 *   publish.c     and for other processes
 *
 *   source/feeder.c        the thread that calls the source, and the queue of what it gives
 *   source/items.c         what the source fills: payloads, keys
 *   source/completed.c     what the journal knows already
 *   workers/supervisor.c   the scheduler's effects: starting, stopping and killing processes
 *   workers/start.c        how a process is started
 *   workers/exit.c         what happens when one ends
 *   workers/strays.c       what a dead worker had running
 *   workers/suspend.c      all of them stopped and continued, and time in which the run stood still
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

/* What a dead worker had running, killed and waited for: see strays.c. */
enum { GD__PROCESS_NAME_MAX = 96, GD__STRAYS_MOST = 64 /* at a time */, GD__SETUP_ERROR_MAX = 512 };
struct gd__strays {
    struct gd__stray {
        struct gd__watch watch; /* must be first */
        struct gd__seat *seat;
        int pidfd;
    } of[GD__STRAYS_MOST];
    size_t n, n_alive;
    int timer; /* a timerfd; -1: none */
    struct gd__watch timer_watch;
};

/* One worker's process and all that belongs to it; new with each process. */
struct gd__seat {
    struct gd_dispatcher *d;
    unsigned index;
    bool live;         /* there is a channel: read its results */
    bool shortage;     /* it could not be started for want of processes or memory */
    bool spawn_failed; /* told to the scheduler from the loop, since effects may not call back */
    bool broken;       /* it broke the protocol: read no more */
    bool told_to_stop;
    unsigned said; /* a bit for each kind of record that comes once in a process's life */
    struct gd__channel channel;
    struct gd__child child;
    struct gd__exit exit;            /* how it ended, */
    pid_t ended_pid;                 /* and what its number was */
    char name[GD__PROCESS_NAME_MAX]; /* NAME=value, for its environment: see strays.c */
    struct gd__strays strays;
    struct gd__fork_guard lifeline; /* our end of the boot socket */
    uint64_t announced;             /* positions below it were told to on_task_start */
    struct gd__output out, err;
    struct gd__watch pid_watch, bell_watch;
    char words[512]; /* why it could not be started, or what it did wrong */
};

/* A device of the run. */
struct gd__run_device {
    struct gd__worker_device how; /* its workers are started */
    unsigned first_worker, n_workers;
    int vendor; /* enum gd_vendor; and its name, for people */
    char name[96];
    _Atomic int news;     /* see devices.c */
    char words[160];      /* of its failure */
    _Atomic bool restart; /* its workers must be started again */
};

struct gd__work { /* gd_dispatcher_set_work() */
    double done, total;
};

struct gd__run_copy { /* what options point to, copied */
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
    unsigned *device_of; /* each worker's place in devices */
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
    unsigned spawn_failures; /* not yet told */
    unsigned window;         /* slots in a task ring */
    uint64_t spin_ns;
    bool crowded; /* more processes than processors */
    uint64_t now;
    uint64_t adding; /* number in the source of the task that is being taken in */
    uint32_t sleep_number;

    int wake_fd, signal_fd; /* eventfds */
    int signal_token;
    unsigned signals_seen;
    struct gd__watch wake_watch, signal_watch, hook_watch;
    unsigned number;                 /* of the dispatchers of this process */
    bool adopts;                     /* orphans are ours: see strays.c */
    struct gd__ended_children ended; /* word of their ends */
    struct gd__watch ended_watch;
    struct gd__hooks hooks;              /* a language binding's or the command's; all NULL: none */
    struct gd__listener listener;        /* the launcher's; all NULL: none */
    struct gd__journal_task *record_due; /* of the task whose callback is being made; NULL: none, or it was put off */
    _Atomic bool hold_wanted;            /* gd__dispatcher_hold() */
    bool held;                           /* the loop has heeded it */
    _Atomic int request;                 /* enum gd__request */

    pthread_mutex_t child_lock;     /* who writes to a seat's child, or signals it from another thread, has it */
    _Atomic uint64_t suspended_at;  /* when workers were stopped; 0: they are not */
    _Atomic uint64_t lost_ns;       /* stood still, and the scheduler does not know yet */
    _Atomic uint32_t suspend_turns; /* how often workers were stopped or continued, */
    uint32_t turns_seen;            /* as the run's thread has seen it */
    bool woke_late;                 /* from the last sleep: see suspend.c */

    uint64_t feeder_deadline; /* after it, a source that does not return is left to itself */
    bool source_over;
    bool cut_off;                          /* see gd__supervisor_cut_off() */
    char setup_error[GD__SETUP_ERROR_MAX]; /* of the first worker that failed in setup; "": none has */
    bool started;                          /* run was called */
    _Atomic bool running;
    pthread_t thread;

    pthread_mutex_t stats_lock;
    struct gd_stats stats;
    struct gd__work work;
    struct gd_worker_stats *worker_stats;
    uint64_t stats_at;
    bool shortage_told;
    bool stats_stale;                /* something may have changed since */
    unsigned look_in, look_every;    /* callbacks until the clock is read, see gd__stats_after_callback() */
    struct gd__publisher *publisher; /* NULL: the run has no page */
};

#define PUBLISH_EVERY_NS GD__NS_PER_MS

/* A task's number as users and workers see it: its place in the source, with those counted that were skipped. */
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
void gd__devices_watch(struct gd_dispatcher *d); /* from here to unwatch, failures are noted */
void gd__devices_unwatch(struct gd_dispatcher *d);
void gd__devices_take_news(struct gd_dispatcher *d); /* and here told to the scheduler */

/* monitor.c */
int gd__monitor_open(struct gd_dispatcher *d);
void gd__monitor_run(struct gd_dispatcher *d);
/* Does what was asked for by signals and other threads: before somebody is blamed for what may be a stop. */
void gd__monitor_obey(struct gd_dispatcher *d);

/* records.c */
/* Reads what a worker has said, up to a bound. True: there was something. */
bool gd__records_drain(struct gd_dispatcher *d, struct gd__seat *seat);

/* What is wrong with a record in the present state of worker w; NULL: nothing. Pure. */
const char *gd__record_check(const struct gd__sched *s, unsigned w, const struct gd__result_slot *r);

/* workers/supervisor.c */
int gd__supervisor_open(struct gd_dispatcher *d);
void gd__supervisor_close(struct gd_dispatcher *d);
extern const struct gd__sched_effects gd__effects;

/* workers/start.c */
int gd__seat_start(struct gd__seat *seat);       /* 0; if negative, gd__seat_undo_start() it */
void gd__seat_undo_start(struct gd__seat *seat); /* ends its process, if it has one, here and now */
void gd__seat_clear(struct gd__seat *seat);      /* everything of a process that is gone, or never came to be */

/* workers/exit.c */
void gd__seat_process_ended(struct gd__watch *w, uint32_t events); /* of seat->pid_watch */
/* The process has ended, and so has what it had running: the scheduler is told. */
void gd__seat_ended(struct gd__seat *seat);
void gd__seat_broken(struct gd__seat *seat, const char *why);
void gd__supervisor_tell_failures(struct gd_dispatcher *d); /* of processes that could not be started */
/* The loop is broken, so that no worker's end would be heard of: aborts the run, and ends all of them here and now. */
void gd__supervisor_cut_off(struct gd_dispatcher *d);

/* workers/suspend.c */
/* Around what starts, reaps or forgets a child: workers may be stopped and continued by another thread. */
void gd__children_lock(struct gd_dispatcher *d);
void gd__children_unlock(struct gd_dispatcher *d);
void gd__child_started(struct gd__seat *seat); /* with the lock: stops it, if all are */
bool gd__is_suspended(const struct gd_dispatcher *d);
/* Sleeps until something happens or until_ns, and notices if all of us stood still meanwhile. */
void gd__sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* Nothing was to be done from since to now, and no user was called: if that took long we stood still. */
void gd__note_gap(struct gd_dispatcher *d, uint64_t since, uint64_t now);
/* Has the scheduler know for how long that was. */
void gd__tell_lost(struct gd_dispatcher *d);

/* workers/strays.c */
void gd__strays_name(struct gd__seat *seat); /* gives the process that is about to be started its name */
/* After the end of its process. True: something is being ended; gd__seat_ended() is called when that is done. */
bool gd__strays_end(struct gd__seat *seat);
void gd__strays_forget(struct gd__seat *seat); /* fine if there is nothing */
int gd__strays_open(struct gd_dispatcher *d);  /* for the time of the run, on its thread */
void gd__strays_close(struct gd_dispatcher *d);

/* deliver.c: effects that call the user */
void gd__deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o);
void gd__deliver_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_shortage(void *ctx, unsigned w, const char *words, uint64_t size);
void gd__deliver_try(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_setup_failed(void *ctx, unsigned w, const char *words);
void gd__deliver_cleanup_failed(const struct gd_dispatcher *d, unsigned w, const char *words);
void gd__deliver_device_out(void *ctx, unsigned w, const char *words);
void gd__deliver_worker_died(void *ctx, unsigned w, const char *words, bool given_up);

/* dispatcher.c */
void gd__dispatcher_wake(struct gd_dispatcher *d); /* any thread: makes the loop go round */

/* stats.c */
int gd__stats_open(struct gd_dispatcher *d);
void gd__stats_publish(struct gd_dispatcher *d, bool now);
/* Publishes, or if that was done a moment ago, says when to wake up for it: at until_ns at the latest. */
uint64_t gd__stats_before_sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* Callbacks may take long, and many be made in one round: publishes when it is time. */
void gd__stats_look(struct gd_dispatcher *d);
static inline void gd__stats_after_callback(struct gd_dispatcher *d)
{
    if (--d->look_in == 0)
        gd__stats_look(d);
}

/* publish.c; all are fine for a run without a page */
void gd__publish_open(struct gd_dispatcher *d); /* makes it, if one is asked for and can be had */
void gd__publish_close(struct gd_dispatcher *d);
/* worker_stats is up to date, too */
void gd__publish(struct gd_dispatcher *d, const struct gd_stats *stats, const struct gd__work *work);
void gd__publish_try(struct gd_dispatcher *d, const struct gd__task *t, const struct gd__outcome *o); /* likewise */
void gd__publish_final(struct gd_dispatcher *d, int worker, const struct gd_report *r); /* of a run that has one */
void gd__publish_awake(struct gd_dispatcher *d, uint64_t since_ns);                     /* 0: about to sleep */
void gd__publish_end(struct gd_dispatcher *d);
uint64_t gd__publish_look_again(const struct gd_dispatcher *d); /* when there may be something new, though asleep */

#endif
