/* What the files of the dispatcher share.
 *
 *   options.c     checks and copies the user's options
 *   choose.c      the devices of the run, their groups and workers
 *   claim.c       the locks on the devices
 *   devices.c     failures of the devices
 *   dispatcher.c  the public calls: open, run, shutdown, close
 *   runs.c        the source of a run, and what is kept from one run to the next
 *   monitor.c     the loop: results, new tasks, deadlines, sleeping
 *   records.c     reads the workers' records and checks them
 *   deliver.c     calls the user's callbacks
 *   stats.c       snapshots for other threads
 *   publish.c     snapshots for other processes
 *
 *   control/               requests to a running job: see control/control.h
 *   source/feeder.c        the thread that calls the source, and the queue of its tasks
 *   source/items.c         the items that the source fills: payloads, keys
 *   source/completed.c     tasks that are already final in the journal
 *   workers/supervisor.c   the scheduler's effects: starting, stopping and killing processes
 *   workers/start.c        how a process is started
 *   workers/exit.c         what happens when a process ends
 *   workers/strays.c       processes that a dead worker left running
 *   workers/suspend.c      stops and continues all workers, and measures how long the run was frozen
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
#include "dispatch/control/control.h"
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

/* Processes that a dead worker left running. They are killed and waited for: see strays.c. */
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

/* One worker's process and everything that belongs to it. It is reset for each new process. */
struct gd__seat {
    struct gd_dispatcher *d;
    unsigned index;
    bool live;         /* it has a channel: read its results */
    bool shortage;     /* it could not be started: no more processes or memory were available */
    bool spawn_failed; /* the loop reports it to the scheduler, because effects must not call back */
    bool broken;       /* it broke the protocol: read no more records */
    bool told_to_stop;
    bool ends_tasks; /* it can end a task by force */
    unsigned said;   /* which records came: a bit for each kind that a process sends only once */
    struct gd__channel channel;
    struct gd__child child;
    struct gd__exit exit;            /* how the last process ended */
    pid_t ended_pid;                 /* the process id of that process */
    char name[GD__PROCESS_NAME_MAX]; /* NAME=value for its environment: see strays.c */
    struct gd__strays strays;
    struct gd__fork_guard lifeline; /* our end of the boot socket */
    uint64_t announced;             /* on_task_start was called for all positions below this one */
    struct gd__output out, err;
    struct gd__watch pid_watch, bell_watch;
    char message[512]; /* the reason why it could not be started, or what it did wrong */
};

/* A GPU of the run. */
struct gd__run_gpu {
    int gpu_id;
    unsigned device; /* index of the device that it is, or is part of */
    int vendor;      /* enum gd_vendor */
    char name[96];
    struct gd__device_names names;
    _Atomic int news;     /* see devices.c */
    char message[160];    /* the error message of its failure */
    _Atomic bool restart; /* its workers must be started again */
};

/* A device of the run: what one worker sees. A GPU, or a group of them. */
struct gd__run_device {
    struct gd__worker_device how; /* how its workers are started */
    unsigned first_worker, n_workers;
    unsigned first_gpu; /* its how.n_gpus GPUs follow each other */
    int failed_gpu;     /* index of the GPU that the driver has reported; -1: none */
};

/* A GPU that was chosen but is not used. */
enum { GD__UNUSED_WHY_MAX = 192 };
struct gd__unused_gpu {
    int gpu_id;
    char why[GD__UNUSED_WHY_MAX];
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
    struct gd_queue_options *queue; /* NULL: no queue */
};

struct gd_dispatcher {
    struct gd_options o;
    struct gd__run_copy copy;
    unsigned n_workers; /* all, with n_spare workers that are started only on request; these come last */
    unsigned n_spare;
    struct gd__run_device *devices;
    struct gd__claim *claim; /* the locks on the devices; NULL: none */
    unsigned n_devices;
    unsigned *device_of; /* each worker's index in devices */
    struct gd__run_gpu *gpus;
    unsigned n_gpus;
    struct gd__unused_gpu *unused;
    size_t n_unused;
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
    uint64_t adding; /* position in the source of the task that is being added */
    uint32_t sleep_number;

    int wake_fd, signal_fd; /* eventfds */
    int signal_token;
    bool signalled; /* SIGINT or SIGTERM came in this run */
    struct gd__watch wake_watch, signal_watch, hook_watch;
    unsigned number;                 /* number of this dispatcher in this process */
    bool adopts;                     /* orphans become children of this process: see strays.c */
    struct gd__ended_children ended; /* reports the orphans that have ended */
    struct gd__watch ended_watch;
    struct gd__hooks hooks;       /* set by a language binding or the command; all NULL: none */
    struct gd__listener listener; /* set by the launcher; all NULL: none */
    /* The journal's context of the task whose callback is running. NULL: there is no such task, or its record was put
     * off. */
    struct gd__journal_task *record_due;
    struct gd__queue_run *queue; /* this run takes its tasks from a queue; NULL: from a source */
    pthread_mutex_t queue_lock;  /* held to change `queue`, and by other threads that read it without a task */
    bool queue_stopped;          /* it pulls nothing more */
    bool queue_has_work;         /* the work (gd_dispatcher_set_work()) is that of the whole queue */
    uint64_t queue_failed;       /* gd__dispatcher_queue_failed() */
    char queue_page[512];        /* the address of this run's page; "": none */
    _Atomic bool hold_wanted;    /* gd__dispatcher_hold() */
    bool held;                   /* the loop has applied hold_wanted */
    _Atomic int request;         /* enum gd__request */
    _Atomic(char *) ends_for;    /* gd__dispatcher_end_for(): owned; NULL: not set */
    struct gd__control_queue control;
    struct gd__control_socket *control_socket; /* NULL: none */

    /* Protects the child of every seat. A thread holds it to change a child, and to signal one from another thread. */
    pthread_mutex_t child_lock;
    _Atomic uint64_t suspended_at;  /* when the workers were stopped; 0: they are not stopped */
    _Atomic uint64_t lost_ns;       /* how long the run was frozen; only time not yet reported to the scheduler */
    _Atomic uint32_t suspend_turns; /* how often workers were stopped or continued */
    uint32_t turns_seen;            /* the value of suspend_turns that the run's thread has seen */
    bool woke_late;                 /* the last sleep ended late: see suspend.c */

    uint64_t feeder_deadline; /* after this time, a source that does not return is abandoned */
    bool source_over;
    bool cut_off;                           /* see gd__supervisor_cut_off() */
    char setup_error[GD__SETUP_ERROR_MAX];  /* the message of the first setup that failed; "": none has failed */
    char device_error[GD__SETUP_ERROR_MAX]; /* why a device was taken out of use, with its number; "": none was */
    struct gd_source own;                   /* the source of gd_dispatcher_run(), from the options */
    unsigned runs;                          /* how many runs have begun */
    bool over;                              /* there can be no further run, and nothing is left of the last one */
    pid_t owner;                            /* the process that began the first run; only this one has the workers */
    _Atomic bool busy;                      /* a thread is in gd_dispatcher_run(), _run_source() or _stop_workers() */
    _Atomic bool running;                   /* as busy, and thread is that thread */
    pthread_t thread;

    pthread_mutex_t stats_lock;
    struct gd_stats stats;
    struct gd_shard shard;        /* of this run; count 0: all tasks */
    _Atomic uint64_t shard_total; /* how many tasks of the list belong to the shard; 0: not known */
    uint64_t skipped;             /* in the last run, after its end */
    struct gd__work work;
    struct gd_worker_stats *worker_stats;
    uint64_t stats_at;
    bool shortage_told;
    bool stats_stale;                /* something may have changed since the last update */
    unsigned look_in, look_every;    /* callbacks until the clock is read, see gd__stats_after_callback() */
    struct gd__publisher *publisher; /* NULL: the run has no page */
};

#define PUBLISH_EVERY_NS GD__NS_PER_MS

/* Whether each task of the run has a context for its record, in a journal or a queue. */
static inline bool gd__keeps_records(const struct gd_dispatcher *d)
{
    return d->o.journal || d->queue;
}

/* A task's number for users and workers: its position in the source, counted with the tasks that are skipped or belong to
 * other shards. The tag of a task is its context for the journal. In a run without a journal it is 0, or its number if
 * that differs from its id. Numbers are odd, and pointers are even. */
static inline uint64_t gd__number_tag(uint64_t number)
{
    return number << 1 | 1;
}
static inline struct gd__journal_task *gd__tagged_record(uint64_t tag)
{
    return tag & 1 ? NULL : (struct gd__journal_task *)(uintptr_t)tag;
}
static inline uint64_t gd__numbered(uint64_t id, uint64_t tag)
{
    const struct gd__journal_task *t = gd__tagged_record(tag);
    return t ? t->number : tag ? tag >> 1 : id;
}
static inline uint64_t gd__task_number(const struct gd__task *t)
{
    return t->has_extras ? gd__numbered(t->id, t->tag) : t->id;
}

/* options.c */
int gd__options_copy(struct gd_dispatcher *d, const struct gd_options *o);
int gd__options_check_placement(const struct gd_options *o); /* called again when the run begins */
/* Sets *out to the shard of a run with this journal, which may be NULL. Returns 0 or GD_E_INVALID. */
int gd__options_shard(struct gd_shard *out, const struct gd_options *o, const struct gd_journal *journal);
void gd__options_free(struct gd_dispatcher *d);

/* choose.c */
int gd__devices_resolve(struct gd_dispatcher *d); /* fills devices, gpus, unused, device_of, n_workers, copy.gpu_ids */
void gd__devices_free(struct gd_dispatcher *d);

/* claim.c */
int gd__devices_claim(struct gd_dispatcher *d, struct gd_devices *list); /* may wait */
void gd__devices_release(struct gd_dispatcher *d);                       /* releases the locks; may be called twice */

/* devices.c */
void gd__devices_watch(struct gd_dispatcher *d); /* failures are recorded until unwatch; may be called twice */
void gd__devices_unwatch(struct gd_dispatcher *d);
void gd__devices_take_news(struct gd_dispatcher *d);     /* reports the failures to the scheduler */
void gd__devices_report_unused(struct gd_dispatcher *d); /* calls on_device_idle */
void gd__devices_report_out(struct gd_dispatcher *d, unsigned w, const char *why); /* the device of that worker */

/* monitor.c */
int gd__monitor_open(struct gd_dispatcher *d);
void gd__monitor_run(struct gd_dispatcher *d);
/* Between two runs: stops the workers, and returns when they are gone. */
void gd__monitor_stop_workers(struct gd_dispatcher *d);
/* Passes all tasks that the source has given on to the scheduler. */
void gd__monitor_take_all(struct gd_dispatcher *d);
/* Carries out the requests of signals and other threads. Call it before a worker is charged with a failure, because the
 * failure may come from a stop. */
void gd__monitor_obey(struct gd_dispatcher *d);

/* records.c */
/* Reads a worker's records, up to a limit. Returns true if there was at least one. */
bool gd__records_drain(struct gd_dispatcher *d, struct gd__seat *seat);

/* Returns a message if the record cannot be correct in the state of worker w, otherwise NULL. Has no side effects. */
const char *gd__record_check(const struct gd__sched *s, unsigned w, const struct gd__result_slot *r);

/* workers/supervisor.c */
int gd__supervisor_open(struct gd_dispatcher *d);
void gd__supervisor_close(struct gd_dispatcher *d);
extern const struct gd__sched_effects gd__effects;

/* workers/start.c */
int gd__seat_start(struct gd__seat *seat);       /* on failure call gd__seat_undo_start() */
void gd__seat_undo_start(struct gd__seat *seat); /* also ends its process, if it has one */
/* Releases all resources of a process that has ended or was never started. */
void gd__seat_clear(struct gd__seat *seat);

/* workers/exit.c */
void gd__seat_process_ended(struct gd__watch *w, uint32_t events); /* the callback of seat->pid_watch */
/* Reports to the scheduler that the process and all processes that it left running have ended. */
void gd__seat_ended(struct gd__seat *seat);
void gd__seat_broken(struct gd__seat *seat, const char *why);
void gd__supervisor_tell_failures(struct gd_dispatcher *d); /* reports the processes that could not be started */
/* Called if the event loop has failed, because then the end of a worker would not be noticed. Aborts the run, and
 * returns after all workers have ended. */
void gd__supervisor_cut_off(struct gd_dispatcher *d);

/* workers/suspend.c */
/* Hold this lock while a child is started, reaped or forgotten, because another thread may stop and continue the
 * workers. */
void gd__children_lock(struct gd_dispatcher *d);
void gd__children_unlock(struct gd_dispatcher *d);
void gd__child_started(struct gd__seat *seat); /* the lock is held; stops the child if all workers are stopped */
bool gd__is_suspended(const struct gd_dispatcher *d);
/* Sleeps until something happens or until until_ns, and notices if this process was frozen meanwhile. */
void gd__sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* Reports that the run had nothing to do between since and now, and called no callback. If that time is long, this
 * process was frozen. */
void gd__note_gap(struct gd_dispatcher *d, uint64_t since, uint64_t now);
/* Reports to the scheduler how long the run was frozen. */
void gd__tell_lost(struct gd_dispatcher *d);

/* workers/strays.c */
void gd__strays_name(struct gd__seat *seat); /* names the process that is about to be started */
/* Call it after the seat's process has ended. Returns true if there are processes to end. gd__seat_ended() is then
 * called after they have ended. */
bool gd__strays_end(struct gd__seat *seat);
void gd__strays_forget(struct gd__seat *seat); /* may be called if there are none */
int gd__strays_open(struct gd_dispatcher *d);  /* called on the run's thread, in each run */
void gd__strays_rest(struct gd_dispatcher *d); /* at the end of a run, on the same thread; orphans are still adopted */
void gd__strays_close(struct gd_dispatcher *d);

/* deliver.c: effects that call the user's callbacks */
void gd__deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o);
void gd__deliver_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_shortage(void *ctx, unsigned w, const char *message, uint64_t size);
void gd__deliver_try(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
void gd__deliver_setup_failed(void *ctx, unsigned w, const char *message);
void gd__deliver_cleanup_failed(const struct gd_dispatcher *d, unsigned w, const char *message);
void gd__deliver_device_out(void *ctx, unsigned w, const char *message);
void gd__deliver_worker_died(void *ctx, unsigned w, const char *message, bool given_up);

/* queue_node.c: a run that takes its tasks from a queue */
int gd__queue_begin(struct gd_dispatcher *d);        /* does nothing if there is no queue */
void gd__queue_count_slots(struct gd_dispatcher *d); /* a worker has said how many tasks it takes, or has ended */
void gd__queue_stop(struct gd_dispatcher *d);        /* the run ends early: pull nothing more. May be called twice */
/* Call it after the callbacks of all tasks. rc: the result of the run, whose error message is set. Gives back the tasks
 * that have no record, and waits until the server has the others. Returns the result of the run. */
int gd__queue_finish(struct gd_dispatcher *d, int rc);
void gd__queue_end(struct gd_dispatcher *d); /* leaves the queue; may be called twice */
/* Records the end of a task, or gives it back, and frees its context. note may be NULL. */
void gd__queue_put(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *r,
                   const struct gd__record_note *note);

/* runs.c */
void gd__runs_open(struct gd_dispatcher *d); /* call it after the options were copied */
/* Makes the calling thread the run's thread. Returns 0, or a negative code if the dispatcher cannot run now. */
int gd__runs_begin(struct gd_dispatcher *d, const struct gd_source *source);
/* Ends the run, except for its thread. If there can be no further run, releases everything that it used. */
void gd__runs_rest(struct gd_dispatcher *d);
void gd__runs_end(struct gd_dispatcher *d); /* the calling thread is no longer the run's thread */
/* Between two runs of a dispatcher with keep_workers. */
bool gd__runs_resting(const struct gd_dispatcher *d);
bool gd__runs_forked(const struct gd_dispatcher *d); /* this is a fork of the process that has the workers */

/* dispatcher.c */
void gd__dispatcher_wake(struct gd_dispatcher *d); /* any thread: wakes the loop for another round */

/* stats.c */
int gd__stats_open(struct gd_dispatcher *d);
void gd__stats_publish(struct gd_dispatcher *d, bool now);
/* Publishes the figures, unless they were published a moment ago. Returns when to wake up: to publish them, or at
 * until_ns. */
uint64_t gd__stats_before_sleep(struct gd_dispatcher *d, uint64_t until_ns);
/* Publishes the figures if it is time. Called during a round too, because one round may make many callbacks, and each
 * may take long. */
void gd__stats_look(struct gd_dispatcher *d);
static inline void gd__stats_after_callback(struct gd_dispatcher *d)
{
    if (--d->look_in == 0)
        gd__stats_look(d);
}

/* publish.c. All functions may be called for a run without a page, except where noted. */
void gd__publish_open(struct gd_dispatcher *d); /* creates the page, if the user asked for one and it is possible */
void gd__publish_close(struct gd_dispatcher *d);
/* Call it after d->worker_stats has been brought up to date. */
void gd__publish(struct gd_dispatcher *d, const struct gd_stats *stats, const struct gd__work *work);
/* The next two are only for a run with a page. */
void gd__publish_try(struct gd_dispatcher *d, const struct gd__task *t, const struct gd__outcome *o);
void gd__publish_final(struct gd_dispatcher *d, int worker, const struct gd_report *r);
/* Adds a request to the job, and its outcome. Observers see it after the next gd__publish(). */
void gd__publish_request(struct gd_dispatcher *d, const char *what, int code);
void gd__publish_awake(struct gd_dispatcher *d, uint64_t since_ns); /* 0: about to sleep */
void gd__publish_end(struct gd_dispatcher *d);
/* The descriptor of the directory that holds the page, and the page's name. Returns -1 if it has none. The descriptor
 * belongs to the page. */
int gd__publish_place(const struct gd_dispatcher *d, const char **name);
/* When to check for changes, even during a sleep. */
uint64_t gd__publish_look_again(const struct gd_dispatcher *d);

#endif
