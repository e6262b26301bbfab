/* The scheduler: what goes where, what a death means, when a deadline has passed.
 *
 * It is a state machine and nothing else: it is told events and the time, and answers by calling the effects table. It
 * makes no system call and reads no clock, so the dispatcher drives it with processes and tests/sim with virtual ones.
 *
 * A task is in exactly one state:
 *
 *   WAITING   in the backlog, in a worker's own queue (placed there), or set apart to run alone (SOLO)
 *   DELAYED   failed: will be tried again, or judged, at a given time
 *   HANDED    in the window of one worker
 *   PARKED    done, waiting for its turn to be delivered (ordered runs)
 *   FREE      final: delivered, its slot is free
 *
 * A worker's window holds the tasks handed to it, in order, at positions head .. tail - 1 of its ring; results come in
 * that order. Positions count from 0 for each process.
 *
 * Who is to blame for a death. If one task had been started, that task: it is charged and run again up to crash_limit
 * times. If several had (a batch, or loads beside it), each is suspect and none is charged: every one is run again
 * alone, and a death then names its culprit. What had not been started is handed out again at once, uncharged.
 *
 * A stop uses up no tries. A task that fails after the stop began is cancelled, whatever it failed of. A stop may also
 * be sent to every process at once (SIGTERM by systemd or Slurm), and a worker may be hit before the dispatcher hears
 * of it: so the verdict on what SIGTERM, SIGINT or SIGHUP ended waits for signal_wait_ns, the task as DELAYED, the
 * worker as HELD.
 *
 * A shortage is the machine's. Where no process could be started for want of processes or memory, the task goes back
 * uncharged, and the worker rests (SHORT, or RESTING if it is the worker's own process) for longer each time. If
 * nothing else ran for shortage_wait_ns the run ends, and what is left is not done.
 *
 * Event functions return 0, or GD_E_PROTOCOL when a worker in that state cannot have said that: then call
 * gd__sched_broken(). After a group of events call gd__sched_pump(), which hands out work.
 */
#ifndef GD_CORE_SCHED_H
#define GD_CORE_SCHED_H

#include <gpu_dispatch/dispatcher.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

#define GD__NO_TASK UINT32_MAX

/* What a task is charged with when its time as DELAYED is over. NONE: nothing, it is tried again. */
enum gd__verdict { GD__VERDICT_NONE, GD__VERDICT_FAILED, GD__VERDICT_CRASHED };

enum gd__task_state { GD__TASK_FREE, GD__TASK_WAITING, GD__TASK_DELAYED, GD__TASK_HANDED, GD__TASK_PARKED };

struct gd__task {
    uint64_t id;
    uint64_t payload[4]; /* the dispatcher's, as is the tag: not looked at */
    uint64_t tag;
    uint64_t weight;
    uint64_t waiting_since;
    uint64_t first_start_ns; /* of the first attempt that has ended, while it is tried again; 0: none yet */
    uint32_t next;           /* in whichever list it is */
    uint32_t attempt;        /* how often it was started */
    uint32_t crashes;
    uint32_t errors;
    int32_t worker; /* that had it last; -1 */
    int32_t home;   /* worker it was placed on; -1: any */
    uint16_t batch; /* while handed: size of the batch from here to its end */
    uint8_t state;
    uint8_t verdict; /* enum gd__verdict */
    bool solo;
    struct gd__timer timer;
};

/* How an attempt ended. */
struct gd__outcome {
    enum gd_failure failure; /* NONE: success */
    bool final;              /* not to be retried */
    bool by_stop_signal;     /* SIGTERM, SIGINT or SIGHUP ended it: perhaps sent to every process of the run */
    bool shortage;           /* it was not begun: no process could be started */
    bool kept;               /* the bytes are a copy, made by hold() */
    int worker;              /* -1: none */
    int signal;
    int exit_code;
    uint64_t start_ns;
    uint64_t end_ns;
    const void *bytes; /* the result, or the words of the failure, */
    uint64_t size;
    uint64_t data_size; /* before which it may have left so many bytes of data */
    uint64_t handle;    /* the dispatcher's: where the bytes are */
};

/* A process that ended. */
struct gd__death {
    uint64_t started; /* positions below it had entered process (a batch counts whole) */
    uint64_t loading; /* positions below it had entered load; 0: there is no load */
    uint64_t start_ns;
    int signal;
    int exit_code;
    bool not_spawned;  /* it could not even be started, */
    bool shortage;     /* for want of processes or memory */
    const char *words; /* what happened, and the last words of its stderr */
};

/* What a worker is in the middle of, as far as is known. */
struct gd__probe {
    uint64_t started;
    uint64_t start_ns;
};

enum gd__run_end { GD__END_NATURAL, GD__END_SHUTDOWN, GD__END_SETUP, GD__END_NO_WORKERS, GD__END_SHORTAGE };

/* None may call back into the scheduler. */
struct gd__sched_effects {
    void (*spawn)(void *ctx, unsigned w); /* failure is told by gd__sched_exited() later */
    void (*assign)(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt); /* append at tail */
    void (*publish)(void *ctx, unsigned w);                                            /* after some assigns */
    uint64_t (*take_back)(void *ctx, unsigned w, uint64_t keep); /* returns the new tail, >= keep */
    void (*probe)(void *ctx, unsigned w, uint64_t head, struct gd__probe *out);
    void (*cancel)(void *ctx, unsigned w, uint64_t below); /* ask tasks below that position to stop */
    void (*kill)(void *ctx, unsigned w);
    void (*stop)(void *ctx, unsigned w);    /* clean up and exit when the window is done */
    void (*abandon)(void *ctx, unsigned w); /* it will not die: let go of it */
    /* A task is final. Its payload may go after this. */
    void (*deliver)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    /* It will be delivered later: keep what o points to, update o, until then; */
    void (*hold)(void *ctx, const struct gd__task *t, struct gd__outcome *o);
    /* or it will not be, and what was kept may go. */
    void (*drop)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    /* An attempt failed, and the task will be run again. NULL: nobody wants to know. */
    void (*tried)(void *ctx, const struct gd__task *t, const struct gd__outcome *o);
    void (*setup_failed)(void *ctx, unsigned w, const char *words);
    void (*worker_died)(void *ctx, unsigned w, const char *words, bool given_up);
    /* No process could be started, by w or for it; it will be tried again. */
    void (*shortage)(void *ctx, unsigned w, const char *words, uint64_t size);
    /* The device of w is out of use; once. words: why, or NULL: it has no worker left. */
    void (*device_out)(void *ctx, unsigned w, const char *words);
};

struct gd__sched_config {
    unsigned n_workers;
    const int *gpu_ids; /* of each worker; copied */
    uint64_t queue_size;
    uint64_t total_tasks;
    uint64_t task_timeout_ns; /* 0: none */
    uint64_t cancel_grace_ns;
    uint64_t setup_timeout_ns; /* 0: none */
    uint64_t stop_grace_ns;    /* for running tasks, after a shutdown */
    uint64_t cleanup_grace_ns; /* for a worker that was told to stop */
    uint64_t kill_wait_ns;     /* from kill to giving up on a process that won't die */
    uint64_t retry_delay_ns;
    uint64_t restart_delay_ns;
    uint64_t signal_wait_ns;   /* how long a verdict waits for a stop, after a death by SIGTERM, SIGINT or SIGHUP */
    uint64_t shortage_wait_ns; /* how long nothing may run for want of processes */
    uint64_t start_gap_ns;     /* 0: none; least time from handing out one task to the next */
    unsigned retries;
    bool retry_timeouts; /* a task that took too long counts as one that failed */
    unsigned crash_limit;
    unsigned setup_attempts;
    unsigned setup_jobs; /* 0: all */
    unsigned death_limit;
    unsigned window;     /* 0: by task length */
    unsigned window_min; /* hand out at least this many (loading ahead) */
    unsigned window_max; /* capacity of a worker's ring, a power of two */
    unsigned batch_size; /* >= 1 */
    uint64_t batch_wait_ns;
    bool ordered;
    enum gd_placement placement;
    gd_place_fn *place;
    void *place_user;
};

struct gd__sched_counts {
    uint64_t taken, completed, failed, timeouts, cancelled, retried, setup_failures, restarts, crashes;
};

struct gd__list {
    uint32_t head, tail;
    uint64_t count;
};

/* A worker state that the world sees as RESTING: its process was ended by a signal that may have been a stop. */
/* And one that it sees as ready: it could not start what it needs for a task, and gets none for a while. */
enum { GD__WORKER_HELD = GD_WORKER_LOST + 1, GD__WORKER_SHORT, GD__WORKER_STATES };

struct gd__sched_worker {
    uint8_t state; /* enum gd_worker_state or HELD; IDLE stands for "ready", BUSY is derived */
    uint8_t kill_reason;
    bool given_up;    /* not to be started again */
    bool wants_start; /* waits for its turn to set up */
    bool solo;        /* the window holds one suspect: add nothing */
    bool no_steal;    /* everything it has is claimed, as of its last result */
    int gpu_id;
    unsigned device;      /* the first worker on the same GPU */
    unsigned lost_in_row; /* kept in that one: device losses since the last success, */
    bool device_out;      /* and whether it was said that the device is out of use */
    uint64_t head, tail;
    uint64_t cancel_below; /* tasks below it were asked to stop, */
    bool cancel_batch;     /* as one batch */
    uint32_t batch_left;   /* results still to come of the batch at head; 0: at its beginning */
    uint32_t *window;
    struct gd__list placed; /* tasks placed on it, waiting */
    uint64_t head_since;    /* when the task at head became the first */
    uint64_t run_position;  /* position + 1 whose start we have seen; 0: none */
    uint64_t run_start;
    uint64_t frozen_ns;    /* how long the run stood still since head_since, */
    uint64_t frozen_until; /* and when that last ended */
    uint64_t mean_ns;      /* of its tasks' durations */
    uint64_t target;       /* how many tasks it is to be handed, */
    uint64_t burst;        /* and how many at once are worth waking it, */
    uint64_t target_mean;  /* for tasks of this length */
    uint32_t batch_limit;
    uint32_t setup_tries, deaths_in_row;
    uint32_t shortages;   /* in a row, */
    uint64_t short_until; /* and until when it gets no task; while SHORT */
    uint64_t restarts;
    bool productive;    /* this process has finished a task */
    bool died_in_setup; /* while HELD: what is to be judged, */
    char *last_words;   /* and the error message; NULL: there was no memory for it */
    struct gd__timer timer;
    uint64_t completed, failed, timeouts, last_ns, busy_ns;
};

struct gd__sched {
    struct gd__sched_config config;
    const struct gd__sched_effects *fx;
    void *ctx;

    struct gd__task *tasks;
    uint32_t n_slots;
    uint32_t n_used; /* slots that were ever in use: the first ones */
    uint32_t free_head;
    struct gd__list backlog, solo;
    uint32_t *by_size; /* heap of waiting tasks, largest first */
    uint64_t by_size_count;
    uint64_t next_id;
    uint64_t outstanding; /* taken and not final */
    uint64_t finals;
    uint64_t running; /* sum over workers of min(window, batch) */
    uint64_t allowed;

    uint64_t next_delivery; /* ordered runs */
    uint32_t *parked;
    struct gd__outcome *held; /* of each task that is PARKED, or DELAYED with a verdict to come */
    uint64_t parked_mask;
    uint64_t n_parked;

    struct gd__sched_worker *workers;
    uint32_t window_mask;
    uint64_t *idle, *hungry; /* bit sets of workers */
    unsigned n_words, rotate, n_ready, n_starting, n_alive;
    uint64_t n_placed;    /* tasks in workers' own queues */
    uint64_t hold_until;  /* when to pump again: a batch is held back, or something may be worth sharing then */
    uint64_t short_since; /* since when nothing ended but in a shortage; 0: not so */
    uint64_t next_start;  /* with a gap between starts: when the next task may go */

    struct gd__heap heap;
    struct gd__timer batch_timer, stop_timer;
    bool source_ended, stopping, workers_stopped;
    enum gd__run_end end;
    struct gd__sched_counts counts;
};

int gd__sched_open(struct gd__sched *s, const struct gd__sched_config *c, const struct gd__sched_effects *fx,
                   void *ctx);
void gd__sched_close(struct gd__sched *s);

/* --- events --- */
void gd__sched_start(struct gd__sched *s, uint64_t now);
/* A task was taken from the source; its number is returned. payload: four words, kept, as is the tag. */
uint64_t gd__sched_add(struct gd__sched *s, uint64_t now, const uint64_t payload[4], uint64_t weight, uint64_t tag);
void gd__sched_source_end(struct gd__sched *s, uint64_t now);
int gd__sched_ready(struct gd__sched *s, uint64_t now, unsigned w);
int gd__sched_setup_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *words);
/* The result of the task at head. safe_batch: 0, or the largest batch that fitted. */
int gd__sched_result(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__outcome *o, unsigned safe_batch);
/* Its results have been read. */
void gd__sched_exited(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d);
/* It broke the protocol: it is killed and replaced. */
void gd__sched_broken(struct gd__sched *s, uint64_t now, unsigned w);
/* The device of worker w has failed, as its driver says: it is taken out of use with all its workers. */
void gd__sched_device_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *words);
/* Its driver says that what runs on the device of worker w must be restarted: its workers are killed and replaced, and
 * no task is charged. */
void gd__sched_device_restart(struct gd__sched *s, uint64_t now, unsigned w);
void gd__sched_shutdown(struct gd__sched *s, uint64_t now);
void gd__sched_abort(struct gd__sched *s, uint64_t now);
/* The run stood still for lost_ns, until now: that counts towards no time limit, grace or delay. */
void gd__sched_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns);
void gd__sched_tick(struct gd__sched *s, uint64_t now); /* fires what is due */
void gd__sched_pump(struct gd__sched *s, uint64_t now);

/* --- questions --- */
uint64_t gd__sched_deadline(const struct gd__sched *s); /* when to call tick; GD__NEVER */
bool gd__sched_finished(const struct gd__sched *s);     /* every task final, source ended, every worker gone */
/* How many tasks may have been taken in all, so that no more than queue_size wait: never goes back. */
static inline uint64_t gd__sched_allowed(const struct gd__sched *s)
{
    return s->allowed;
}
bool gd__sched_has_idle(const struct gd__sched *s); /* a worker is ready and has nothing */
/* The task at the head of w's window, or NULL. */
const struct gd__task *gd__sched_head(const struct gd__sched *s, unsigned w);
/* The task at a position of w's window, or NULL if it is not there. */
const struct gd__task *gd__sched_at(const struct gd__sched *s, unsigned w, uint64_t position);
enum gd_worker_state gd__sched_worker_state(const struct gd__sched *s, unsigned w);
/* Why w's process was killed, in words; NULL: it was not. */
const char *gd__sched_kill_words(const struct gd__sched *s, unsigned w);

#endif
