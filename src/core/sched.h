/* The scheduler decides which worker gets which task, what the death of a process means, and when a deadline has
 * passed.
 *
 * It is a pure state machine. Its caller passes in events and the time, and the scheduler answers by calling functions
 * of the effects table. It makes no system call and reads no clock. So the dispatcher can drive it with real processes,
 * and tests/sim with simulated ones.
 *
 * A task is in exactly one state:
 *
 *   WAITING   in the backlog, in a worker's own queue (placed there), or set apart to run alone (SOLO)
 *   DELAYED   failed: will be tried again, or judged, at a given time
 *   HANDED    in the window of one worker
 *   BEGUN     in flight on a worker that can have several (flight.c)
 *   PARKED    done, waiting for its turn to be delivered (ordered runs)
 *   FREE      final: delivered, its slot is free
 *
 * A worker's window holds the tasks handed to it, in order, at positions head .. tail - 1 of its ring. Results come in
 * the same order. Positions count from 0 for each process.
 *
 * The death of a process is charged as follows. If one task had been started, that task is charged. It is run again
 * until it has crashed crash_limit times. If several tasks had been started (a batch, or tasks that were being loaded),
 * each is suspect and none is charged. Every suspect is run again alone, so that another death has only one possible
 * cause. Tasks that had not been started are handed out again at once, uncharged.
 *
 * A worker that dies death_limit times in a row without finishing a task is given up. If a task has failed because of
 * the deaths that it was charged with, these deaths no longer count, because the task was the cause. But if the task
 * ended only processes of this worker while there were other workers, the worker may be the cause, and the deaths
 * count. The death of a worker whose task was cancelled on request does not count.
 *
 * A stop uses up no attempts. A task that fails after the stop began is cancelled, whatever the cause of the failure.
 * systemd and Slurm send SIGTERM to every process at once, so a worker may receive it before the dispatcher does.
 * Therefore a task or worker that was ended by SIGTERM, SIGINT or SIGHUP is judged only after signal_wait_ns. Until
 * then the task is DELAYED and the worker is HELD.
 *
 * A shortage is not the fault of a task or a worker. If a process could not be started because no more processes or
 * memory were available, the task goes back to the backlog, uncharged. The worker then rests, longer after each
 * shortage in a row. Its state is SHORT, or RESTING if its own process could not be started. If nothing else ran for
 * shortage_wait_ns, the run ends and the remaining tasks are not done.
 *
 * Event functions return 0, or GD_E_PROTOCOL if a worker in that state cannot have sent that event. In that case call
 * gd__sched_broken(). After a group of events call gd__sched_pump(), which hands out work.
 */
#ifndef GD_CORE_SCHED_H
#define GD_CORE_SCHED_H

#include <gpu_dispatch/dispatcher.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "core/waiting.h"

/* What a DELAYED task is charged with when its delay is over. NONE: it is not charged, only run again. */
enum gd__verdict { GD__VERDICT_NONE, GD__VERDICT_FAILED, GD__VERDICT_CRASHED };

enum { GD__KILLED_SEVERAL = -2 };
/* Workers are numbered by int16_t and crashes by uint16_t in a task. */
enum { GD__WORKERS_MAX = 4096, GD__CRASHES_MAX = UINT16_MAX };

enum gd__task_state {
    GD__TASK_FREE,
    GD__TASK_WAITING,
    GD__TASK_DELAYED,
    GD__TASK_HANDED,
    GD__TASK_BEGUN,
    GD__TASK_PARKED
};

/* Two cache lines. For most tasks, only the first is read again after the task was added. */
struct gd__task {
    alignas(64) uint64_t id;
    uint64_t payload[4]; /* payload and tag belong to the dispatcher; the scheduler does not read them */
    union {
        struct {
            uint32_t next, child; /* in the list or heap it is on */
        };
        uint64_t position; /* while BEGUN: its position in its worker's ring */
    };
    uint32_t attempt; /* how often it was started */
    uint32_t errors;
    uint16_t crashes; /* at most GD__CRASHES_MAX */
    int16_t worker;   /* the last worker that it was handed to; -1: none */
    uint16_t batch;   /* while HANDED: number of tasks from this one to the end of its batch */
    uint8_t state;
    signed char priority : 4;     /* GD__PRIORITY_MIN .. GD__PRIORITY_MAX */
    unsigned char has_extras : 1; /* tag, timeout_ns or first_start_ns is not 0 */

    uint64_t tag;
    uint64_t weight;
    union {
        uint64_t waiting_since; /* while WAITING */
        uint64_t begin_ns;      /* while BEGUN: when it began */
    };
    uint64_t timeout_ns;       /* its own time limit; 0: that of the run */
    uint64_t first_start_ns;   /* start of the first attempt that has ended; 0: no attempt has ended */
    struct gd__timer timer;    /* DELAYED: the end of the delay; BEGUN: its deadline */
    int16_t home;              /* worker it was placed on; -1: any */
    int16_t solo_on;           /* the worker on which it runs alone; -1: any */
    int16_t killed;            /* the worker whose deaths it was charged with; -1: none; or GD__KILLED_SEVERAL */
    uint8_t verdict : 2;       /* enum gd__verdict */
    uint8_t group_deaths : 2;  /* how often its worker died with it and other tasks in flight; counts up to 2 */
    uint8_t asked_to_stop : 1; /* while in flight */
    uint8_t solo : 1;
    uint8_t cancel_asked : 1; /* gd__sched_cancel_task() was called: ends as cancelled, or with a result sent before */
};
_Static_assert(sizeof(struct gd__task) == 128, "a task is two cache lines");

/* How an attempt ended. */
struct gd__outcome {
    enum gd_failure failure; /* NONE: success */
    bool final;              /* must not be retried */
    bool by_stop_signal; /* ended by SIGTERM, SIGINT or SIGHUP, which may have been sent to every process of the run */
    bool shortage;       /* it did not begin, because no process could be started */
    bool kept;           /* the bytes are a copy, made by hold() */
    bool on_request;     /* cancelled by gd__sched_cancel_task(), not by the end of the run */
    int worker;          /* -1: none */
    int signal;
    int exit_code;
    uint64_t start_ns;
    uint64_t end_ns;
    const void *bytes; /* the result, or the error message */
    uint64_t size;
    uint64_t data_size; /* how many bytes of data come before the error message */
    uint64_t handle;    /* belongs to the dispatcher: where the bytes are */
};

/* A process that ended. */
struct gd__death {
    uint64_t started; /* process() had been called for all positions below this (a batch counts as a whole) */
    uint64_t loading; /* load() had been called for all positions below this; 0: the worker has no load() */
    uint64_t start_ns;
    int signal;
    int exit_code;
    bool not_spawned;    /* the process could not be started */
    bool shortage;       /* the reason was that no more processes or memory were available */
    const char *message; /* what happened to it ("exited with code 3"), and the end of its stderr */
};

/* What is known of a worker's progress. The fields are as in struct gd__death. */
struct gd__probe {
    uint64_t started;
    uint64_t start_ns;
};

enum gd__run_end { GD__END_NATURAL, GD__END_SHUTDOWN, GD__END_SETUP, GD__END_NO_WORKERS, GD__END_SHORTAGE };

/* These functions must not call back into the scheduler. */
struct gd__sched_effects {
    void (*spawn)(void *ctx, unsigned w); /* a failure is reported later, by gd__sched_exited() */
    void (*assign)(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt); /* append at tail */
    void (*publish)(void *ctx, unsigned w);                                            /* after some assigns */
    uint64_t (*take_back)(void *ctx, unsigned w, uint64_t keep); /* returns the new tail, >= keep */
    void (*probe)(void *ctx, unsigned w, uint64_t head, struct gd__probe *out);
    void (*cancel)(void *ctx, unsigned w, uint64_t below); /* ask tasks below that position to stop */
    /* The cancelled tasks of w have not stopped: asks w to end them by force and to report them, so that nothing they
     * have printed is lost. Returns false if w cannot do that. May be NULL. */
    bool (*end_tasks)(void *ctx, unsigned w);
    /* Asks one task in flight to stop. May be NULL if no worker has a concurrency of more than 1. */
    void (*cancel_place)(void *ctx, unsigned w, unsigned place, uint64_t position);
    void (*kill)(void *ctx, unsigned w);
    void (*stop)(void *ctx, unsigned w);    /* clean up and exit when the window is done */
    void (*abandon)(void *ctx, unsigned w); /* the process cannot be killed: forget it */
    /* A task is final. Its payload may be freed after this. */
    void (*deliver)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    /* The task will be delivered later: copy what o points to, and make o point to the copy. */
    void (*hold)(void *ctx, const struct gd__task *t, struct gd__outcome *o);
    /* The copy made by hold() will not be delivered and may be freed. */
    void (*drop)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    /* An attempt failed, and the task will be run again. May be NULL. */
    void (*tried)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    void (*setup_failed)(void *ctx, unsigned w, const char *message);
    void (*worker_died)(void *ctx, unsigned w, const char *message, bool given_up);
    /* No process could be started, either by w for a task or for w itself. It will be tried again. */
    void (*shortage)(void *ctx, unsigned w, const char *message, uint64_t size);
    /* The device of w is out of use. Called at most once for each device. message: the reason; NULL: the device has no
     * worker left. */
    void (*device_out)(void *ctx, unsigned w, const char *message);
};

struct gd__sched_config {
    unsigned n_workers;
    unsigned n_spare;   /* how many of them, the last ones, are started only by gd__sched_add_worker() */
    const int *gpu_ids; /* one for each worker; copied */
    uint64_t queue_size;
    uint64_t total_tasks;
    uint64_t task_timeout_ns; /* 0: none */
    uint64_t cancel_grace_ns;
    uint64_t end_wait_ns;      /* for a worker that was asked to end its tasks: see end_tasks() */
    uint64_t setup_timeout_ns; /* 0: none */
    uint64_t stop_grace_ns;    /* for running tasks, after a shutdown */
    uint64_t cleanup_grace_ns; /* for a worker that was asked to stop */
    uint64_t kill_wait_ns;     /* from the kill until a process that does not die is given up */
    uint64_t retry_delay_ns;
    uint64_t restart_delay_ns;
    uint64_t signal_wait_ns;   /* how long to wait for a stop after a death by SIGTERM, SIGINT or SIGHUP */
    uint64_t shortage_wait_ns; /* how long a shortage may last while nothing runs */
    uint64_t start_gap_ns;     /* minimum time between handing out two tasks; 0: none */
    unsigned retries;
    bool retry_timeouts; /* a time-out is retried like a failure */
    unsigned crash_limit;
    unsigned setup_attempts;
    unsigned setup_jobs; /* 0: all */
    unsigned death_limit;
    unsigned max_tasks;  /* a process that has finished this many tasks is replaced; 0: never */
    unsigned window;     /* 0: by task length */
    unsigned window_min; /* hand out at least this many to workers that load ahead */
    /* The user has set window_min: with tasks in flight, it includes them. Otherwise it is in addition to them. */
    bool window_min_is_set;
    unsigned window_max;  /* capacity of a worker's ring, a power of two */
    unsigned batch_size;  /* >= 1 */
    unsigned concurrency; /* the most tasks in flight on one worker; >= 1 */
    uint64_t batch_wait_ns;
    bool ordered;
    bool keep_workers; /* when all tasks are final, workers stay for another run: see gd__sched_again() */
    enum gd_placement placement;
    gd_place_fn *place;
    void *place_user;
};

struct gd__sched_counts {
    uint64_t taken, completed, failed, timeouts, cancelled, retried, setup_failures, restarts, crashes;
};

/* Three more worker states. HELD: the process was ended by a signal that may have been a stop; users see RESTING.
 * SHORT: the worker could not start a process for a task, and gets no task for a while; users see a ready worker.
 * SPARE: the worker was not started yet, or was removed. It can be added; users see OFF. */
enum { GD__WORKER_HELD = GD_WORKER_LOST + 1, GD__WORKER_SHORT, GD__WORKER_SPARE, GD__WORKER_STATES };

enum { GD__CHARGED_MOST = 32 };

/* Whether a worker is in one of the sets gd__sched.idle and .hungry. */
enum gd__appetite { GD__SATED, GD__HUNGRY, GD__STARVING };

struct gd__sched_worker {
    uint8_t state; /* enum gd_worker_state, HELD or SHORT; IDLE stands for "ready", BUSY is derived */
    uint8_t kill_reason;
    uint8_t appetite; /* enum gd__appetite */
    bool ready;       /* its state is IDLE, and nothing else keeps it from getting tasks */
    bool given_up;    /* it is not started again */
    bool wants_start; /* waits for its turn to set up */
    bool solo;        /* the window holds one suspect: hand it no other task */
    bool no_steal;    /* no task could be taken back from it, and it has sent no result since then */
    bool stuck;       /* its first task takes long: it is handed no other task before its next result */
    bool leaving;     /* it was removed: it gets no more tasks, and becomes SPARE when it has finished those it began */
    bool comes_back;  /* while leaving: it was added again, after its process was asked to stop */
    bool was_used;    /* it was started at least once */
    bool loads;       /* it loads tasks before it begins them */
    int gpu_id;
    unsigned device;      /* the first worker on the same GPU */
    unsigned lost_in_row; /* device losses since the last success; kept in the device's first worker */
    bool device_out;      /* the device was reported as out of use; kept in the device's first worker */
    uint64_t head, tail;
    uint32_t concurrency;  /* how many tasks it can have in flight; 1: one task or batch at a time */
    uint32_t places;       /* how many it is given; less than its concurrency after it ran out of memory */
    uint32_t places_limit; /* the most that it is given; kept when its process is replaced */
    uint32_t n_flight;
    uint32_t *flight;         /* for each place: the slot of the task there, or GD__NO_TASK */
    uint32_t guilty;          /* the task for whose time limit it is being killed; GD__NO_TASK: none */
    uint64_t busy_since;      /* when the first of the tasks in flight began */
    uint64_t counted_running; /* its part of gd__sched.running */
    struct gd__list suspects; /* tasks that run alone on it */
    uint64_t cancel_below;    /* tasks below this position were asked to stop */
    bool cancel_batch;        /* those tasks are one batch */
    bool ends_tasks;          /* it was asked to end those tasks by force */
    bool cancel_asked;        /* the reason was gd__sched_cancel_task(), not a time limit */
    uint32_t batch_left; /* how many more results of the current batch will come; 0: the next result begins a batch */
    uint32_t *window;
    struct gd__waiting placed; /* tasks placed on it */
    uint64_t head_since;       /* when the task at head became the first */
    uint64_t run_position;     /* 1 + the position whose start was seen; 0: none */
    uint64_t run_start;
    uint64_t frozen_ns;    /* how long the run was frozen since head_since */
    uint64_t frozen_until; /* when the last such time ended */
    uint64_t mean_ns;      /* mean duration of its tasks */
    uint64_t target;       /* how many tasks its window should hold */
    uint64_t burst;        /* how many tasks justify waking it */
    uint64_t target_mean;  /* the mean_ns for which target and burst were computed */
    uint32_t batch_limit;
    uint32_t setup_tries;
    uint32_t deaths_in_row;             /* deaths since a process finished a task, without those in `charged` */
    uint32_t n_charged;                 /* deaths that were charged to a task, for as long as they count */
    uint64_t charged[GD__CHARGED_MOST]; /* the numbers of the tasks that these deaths were charged to */
    bool death_charged;                 /* the last death was charged to a task */
    uint32_t shortages;                 /* number of shortages in a row */
    uint64_t short_until;               /* while SHORT: until when it gets no task */
    uint64_t restarts;
    uint64_t restarts_before; /* the value of restarts when the run began */
    bool productive;          /* this process has finished a task */
    bool is_older;            /* this process was started in an earlier run */
    bool renew;               /* it has finished max_tasks tasks, so it ends */
    unsigned served;          /* how many tasks this process has finished */
    bool died_in_setup;       /* while HELD: whether it died in setup */
    char *last_message;       /* while HELD: the error message; NULL: no memory for it */
    struct gd__timer timer;
    uint64_t completed, failed, timeouts, last_ns, busy_ns;
};

struct gd__sched {
    struct gd__sched_config config;
    const struct gd__sched_effects *fx;
    void *ctx;

    struct gd__task *tasks;
    uint32_t n_slots;
    uint32_t n_used; /* slots below this have been used at least once */
    uint32_t free_head;
    struct gd__waiting backlog;
    struct gd__list solo;
    uint32_t *by_size; /* heap of waiting tasks, largest first */
    uint64_t by_size_count;
    uint64_t next_id;
    uint64_t outstanding; /* taken and not final */
    uint64_t finals;
    uint64_t running; /* sum over all workers of min(length of the window, batch size) */
    uint64_t allowed;

    uint64_t next_delivery; /* ordered runs */
    uint32_t *parked;
    struct gd__outcome *held; /* outcome of each task that is PARKED, or DELAYED with a verdict */
    uint64_t parked_mask;
    uint64_t n_parked;

    struct gd__sched_worker *workers;
    uint32_t window_mask;
    uint64_t *idle, *hungry; /* bit sets of workers */
    unsigned n_words, rotate, n_ready, n_starting, n_alive;
    uint64_t n_suspects;  /* tasks in workers' lists of suspects */
    uint64_t n_placed;    /* tasks in workers' own queues */
    uint64_t hold_until;  /* when to pump again: a batch is held back, or tasks may be worth taking back */
    uint64_t order_at;    /* when to look next for tasks that wait behind a long one; GD__NEVER: not now */
    uint64_t short_since; /* since when every attempt has ended in a shortage; 0: there is no shortage */
    uint64_t limit_since; /* when gd__sched_set_timeout() was last called; 0: never */
    uint64_t next_start;  /* with start_gap_ns: when the next task may be handed out */

    struct gd__heap heap;
    struct gd__timer batch_timer, stop_timer;
    bool source_ended, stopping, workers_stopped;
    bool has_priorities; /* some task had a priority other than 0 */
    bool has_limits;     /* some task had its own time limit */
    bool has_cancels;    /* some task was cancelled after it had begun */
    bool paused;         /* gd__sched_pause() */
    bool draining;       /* stopping, without a time limit for running tasks */
    bool resting;        /* the run has ended, and its workers wait for another one */
    enum gd__run_end end;
    struct gd__sched_counts counts;
};

int gd__sched_open(struct gd__sched *s, const struct gd__sched_config *c, const struct gd__sched_effects *fx,
                   void *ctx);
void gd__sched_close(struct gd__sched *s);

/* --- events --- */
void gd__sched_start(struct gd__sched *s, uint64_t now);

/* Prepares for another run, after gd__sched_finished() was true. Tasks are numbered from 0 again, and all counts begin
 * anew, except the number of setups that failed, because those workers stay out of use. Workers whose processes were
 * stopped will get new ones. Returns false if no worker is left. After this call, report what happened to the workers
 * since the end of the last run, then call gd__sched_start(). The death of a process that had no task is not counted
 * against its worker. */
bool gd__sched_again(struct gd__sched *s, uint64_t now);
bool gd__sched_can_run_again(const struct gd__sched *s); /* what gd__sched_again() would return */
/* Between two runs: stops the workers. They are gone when gd__sched_finished() is true again. */
void gd__sched_stop_workers(struct gd__sched *s, uint64_t now);

/* A task was taken from the source. Returns its number. payload is copied. */
struct gd__new_task {
    const uint64_t *payload; /* four words */
    uint64_t weight, tag;
    uint64_t timeout_ns; /* 0: the time limit of the run */
    int priority;        /* GD__PRIORITY_MIN .. GD__PRIORITY_MAX */
    unsigned crashes;    /* deaths that it was charged with elsewhere; it gets one attempt in any case */
};
uint64_t gd__sched_add(struct gd__sched *s, uint64_t now, const struct gd__new_task *task);
void gd__sched_source_end(struct gd__sched *s, uint64_t now);
/* Whether w loads tasks before it begins them. If so, it is handed at least window_min tasks. Call this before
 * gd__sched_ready(). */
void gd__sched_loads(struct gd__sched *s, unsigned w, bool loads);
/* concurrency: how many tasks the worker can have in flight. */
int gd__sched_ready(struct gd__sched *s, uint64_t now, unsigned w, unsigned concurrency);
int gd__sched_setup_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *message);
/* The result of the task at head. safe_batch: 0, or the largest batch that fitted. */
int gd__sched_result(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__outcome *o, unsigned safe_batch);
/* w, with a concurrency of more than 1, has begun the task at the head of its window. */
struct gd__begin {
    uint64_t position, start_ns;
    unsigned place;
};
int gd__sched_begun(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__begin *b);
/* The result of a task in flight. */
int gd__sched_finish(struct gd__sched *s, uint64_t now, unsigned w, unsigned place, uint64_t position,
                     const struct gd__outcome *o);
/* The process of w has ended. Call this after its results have been read. */
void gd__sched_exited(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d);
/* w broke the protocol: it is killed and replaced. */
void gd__sched_broken(struct gd__sched *s, uint64_t now, unsigned w);
/* The driver reports that the device of worker w has failed: it is taken out of use with all its workers. */
void gd__sched_device_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *message);
/* The driver reports that programs on the device of worker w must be restarted: its workers are killed and replaced,
 * and no task is charged. */
void gd__sched_device_restart(struct gd__sched *s, uint64_t now, unsigned w);
void gd__sched_shutdown(struct gd__sched *s, uint64_t now);
/* Like a shutdown, but running tasks may take as long as they need. A shutdown after this limits their time. */
void gd__sched_drain(struct gd__sched *s, uint64_t now);
void gd__sched_abort(struct gd__sched *s, uint64_t now);
/* The run was frozen for lost_ns, until now. That time does not count towards time limits, grace periods and delays. */
void gd__sched_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns);
void gd__sched_tick(struct gd__sched *s, uint64_t now); /* fires the timers that are due */
void gd__sched_pump(struct gd__sched *s, uint64_t now);

/* --- events from outside (control.c) --- */
/* Hands out nothing until gd__sched_resume(). Tasks that workers have not begun are taken back. Returns false if the
 * run is ending. */
bool gd__sched_pause(struct gd__sched *s);
void gd__sched_resume(struct gd__sched *s);

enum gd__cancel {
    GD__CANCEL_UNKNOWN, /* no such task: it has ended, or was not added yet */
    GD__CANCEL_DONE,    /* its result is there and waits for its turn (ordered runs) */
    GD__CANCEL_ENDED,   /* it had not begun, and is cancelled now */
    GD__CANCEL_ASKED,   /* it runs and was asked to stop, or will be asked when the task before it has ended */
};
/* Cancels one task. If it is part of a batch that has begun, the batch is asked to stop, and the other tasks of the
 * batch that fail are run again, uncharged. */
enum gd__cancel gd__sched_cancel_task(struct gd__sched *s, uint64_t now, uint64_t id);

/* Changes config.task_timeout_ns, also for running tasks. */
void gd__sched_set_timeout(struct gd__sched *s, uint64_t now, uint64_t timeout_ns);

/* Why a worker cannot be added or removed. */
enum gd__resize {
    GD__RESIZE_ENDING = -1, /* the run is ending */
    GD__RESIZE_OUT = -2,    /* the device is out of use */
    GD__RESIZE_NONE = -3,   /* the device has no worker that could be added (all are in use) or removed */
    GD__RESIZE_LAST = -4,   /* it is the last worker of the run */
};
/* Add or remove one worker of a device, which is identified by the index of any of its workers. Return the index of the
 * worker that was added or removed, or an enum gd__resize. */
int gd__sched_add_worker(struct gd__sched *s, uint64_t now, unsigned w);
int gd__sched_remove_worker(struct gd__sched *s, uint64_t now, unsigned w);

/* --- queries --- */
uint64_t gd__sched_deadline(const struct gd__sched *s); /* when to call gd__sched_tick(), or GD__NEVER */
bool gd__sched_finished(const struct gd__sched *s);     /* tasks final, source ended, workers gone or kept */
/* How many tasks may be taken in all so that no more than queue_size wait. It never decreases. */
static inline uint64_t gd__sched_allowed(const struct gd__sched *s)
{
    return s->allowed;
}
bool gd__sched_has_idle(const struct gd__sched *s); /* a worker is ready and has no task */
/* The task that w has had for the longest time: the first one in flight, or else the head of its window. May be NULL. */
const struct gd__task *gd__sched_oldest(const struct gd__sched *s, unsigned w);
/* The task in flight at that place of w, or NULL. */
const struct gd__task *gd__sched_in_flight(const struct gd__sched *s, unsigned w, unsigned place);
/* The task at the head of w's window, or NULL. */
const struct gd__task *gd__sched_head(const struct gd__sched *s, unsigned w);
/* The task at a position of w's window, or NULL if the window does not hold that position. */
static inline const struct gd__task *gd__sched_at(const struct gd__sched *s, unsigned w, uint64_t position)
{
    const struct gd__sched_worker *worker = &s->workers[w];
    if (position < worker->head || position >= worker->tail)
        return NULL;
    return &s->tasks[worker->window[position & s->window_mask]];
}
enum gd_worker_state gd__sched_worker_state(const struct gd__sched *s, unsigned w);
/* The reason why w's process was killed, as a message. NULL: it was not killed. */
const char *gd__sched_kill_message(const struct gd__sched *s, unsigned w);

#endif
