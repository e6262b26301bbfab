/* The simulator of the scheduler. One 64-bit seed determines the configuration, the plan of faults and every random
 * choice of a run, so a run can be repeated exactly.
 *
 *   plan.c    draws the configuration and the plan from the seed
 *   sim.c     virtual time: the event queue, the source, and the dispatcher's reaction to each event
 *   procs.c   virtual worker processes, and the table of effects through which the scheduler controls them
 *   deaths.c  when a worker must be given up
 *   runs.c    several runs with the same workers, and what happens between them
 *   check/    the conditions that must hold at each effect, after every event and at the end
 *   control.c pauses, cancelled tasks, changed limits and resizes, and the conditions that hold for them
 */
#ifndef GD_TESTS_SIM_H
#define GD_TESTS_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "core/internal.h"
#include "core/sched.h"
#include "sim/random.h"

/* --- the plan --- */

enum sim_task_kind { TASK_FINE, TASK_POISON, TASK_HANGS, TASK_HANGS_OBEDIENT, TASK_HANGS_ONCE, TASK_KINDS };

/* Probabilities are in thousandths. */
struct sim_plan {
    struct gd__sched_config config;
    unsigned fastest, slowest; /* the powers of ten, in microseconds, from which times are drawn */
    uint64_t n_tasks;          /* how many tasks the source gives */
    unsigned poison, hangs, error, error_final, out_of_memory, safe_batch, device_lost;
    unsigned ends_tasks; /* processes that can end their cancelled tasks by force */
    unsigned spawn_fails, setup_fails, setup_dies, setup_hangs, immortal, bad, lingers, fate;
    unsigned stops;    /* the part of these fates in which the process does not die, but stops for ever (SIGSTOP) */
    unsigned shortage; /* the part of errors and failed starts that is caused by a lack of processes */
    unsigned by_stop_signal; /* the part of deaths and errors by SIGTERM and the like, sent to one process only */
    uint64_t task_ns, setup_ns, message_ns, exit_ns, kill_ns, source_gap_ns, late_ns, cleanup_ns;
    uint64_t change_at, changed_ns; /* tasks from that number on take changed_ns instead of task_ns; 0: none do */
    uint64_t external_kill_gap_ns;  /* 0: no external kills */
    uint64_t shutdown_at, abort_at, source_cut_at;
    uint64_t stop_all_at, stop_all_gap_ns; /* SIGTERM to every process; the dispatcher gets it after the gap */
    uint64_t device_failure_gap_ns;
    uint64_t freeze_at, freeze_ns; /* when all processes are frozen, and for how long */
    unsigned external_kills, device_failures, source_burst, load_ahead;
    bool claim_races; /* every step of a claim is a separate event */
    bool lazy_pump;   /* all events of the same time are reported before a pump */
    bool tick_first;
    bool priorities;   /* tasks have different priorities */
    bool own_limits;   /* some tasks have their own time limits */
    unsigned controls; /* how many requests come from outside: see control.c */
    uint64_t control_gap_ns;
    unsigned drain, resize; /* the part of these requests that is a drain, or adds or removes a worker */
    unsigned n_runs;
    uint64_t rest_ns; /* the time between two runs */
    unsigned check_every;
};

void sim_plan_draw(struct sim_plan *p, uint64_t seed);
void sim_plan_free(struct sim_plan *p);

/* --- virtual processes --- */

enum proc_state { PROC_NONE, PROC_SETUP, PROC_LIVE, PROC_DEAD };
enum proc_phase { PHASE_IDLE, PHASE_LOOKED, PHASE_CLAIMED, PHASE_OWNED, PHASE_RUNNING, PHASE_HUNG, PHASE_LEAVING };
/* The point at which a process dies or stops by itself, after it has reached that point `fate_after` times. */
enum proc_fate {
    FATE_NONE,
    FATE_AFTER_READY,
    FATE_AFTER_LOOK,
    FATE_AFTER_CLAIM,
    FATE_AFTER_START,
    FATE_AFTER_RESULT,
    FATE_WHILE_LEAVING,
    FATE_COUNT
};
enum message_kind { MESSAGE_READY, MESSAGE_SETUP_FAILED, MESSAGE_BEGUN, MESSAGE_RESULT };

struct message {
    enum message_kind kind;
    bool wrong; /* an impossible message, which the dispatcher or the scheduler must detect */
    uint64_t position;
    uint32_t attempt;
    unsigned safe_batch;
    unsigned place;       /* of a task in flight */
    unsigned concurrency; /* READY */
    struct gd__outcome outcome;
};

struct ring_slot {
    uint64_t task_id;
    uint32_t attempt;
    uint16_t batch;
    bool solo;
};

/* A task in flight. */
struct sim_flight {
    bool used, cancelled, obeys;
    uint64_t position, start_ns;
    struct ring_slot slot;
};

struct proc {
    enum proc_state state;
    enum proc_phase phase;
    uint32_t generation;
    bool ready_told, ready_seen, poisoned, stop, killed, frozen, immortal, cancelled, step_due, load_due, broken, bad;
    bool abandoned, lying;
    bool cold;        /* its worker has no process at the beginning of a run, and the next one is not a restart */
    bool older;       /* it was started in an earlier run */
    bool said_failed; /* its message that setup failed has arrived */
    bool productive;  /* it has finished a task */
    unsigned served;  /* how many tasks it has finished */
    bool ends_tasks;  /* it can end its cancelled tasks by force */
    enum proc_fate fate;
    unsigned fate_after;
    uint64_t tail, limit, claimed, started, loading, done, start_ns, cancel, looked;
    uint64_t run_begin; /* the running batch is run_begin .. started - 1 */
    struct ring_slot *ring;
    unsigned concurrency, n_flight;
    struct sim_flight *flight; /* by place; only with a concurrency of more than 1 */
    uint64_t loaded;           /* with tasks in flight: positions below this are loaded, or their load has begun */
    bool load_hangs;           /* the load of position loaded - 1 does not end */
    struct message *outbox;    /* a queue that grows */
    unsigned out_head, out_count, out_room;
    uint64_t last_arrival;
    struct gd__death death;
    /* For the checks. */
    bool on_request;       /* its task was asked to stop because of a request, not of a time limit */
    uint64_t pause_limit;  /* while the run is paused: it may start tasks below this position only */
    uint64_t cancelled_at; /* when the scheduler cancelled its task; 0: never */
    uint64_t ending_at;    /* when it was asked to end that task by force; 0: not yet */
    uint64_t killed_at, spawned_at;
};

/* --- tasks --- */

struct sim_task {
    uint32_t delivered, starts, charges, errors, timeouts, group_deaths, excused;
    uint64_t given_at; /* when the source gave it */
    uint64_t handed_at, taken_at, asked_at;
    uint64_t handed_behind; /* the first position of the window that it was handed to */
    unsigned handed_to;     /* the worker of that window */
    uint64_t begin_seen;    /* when the scheduler learned that it had begun */
    uint32_t flight_deaths; /* deaths with other tasks in flight */
    uint32_t seen;          /* the last round in which check/places.c found the task */
    uint64_t handle, deal;
    enum gd_failure last;
    bool has_result, held, suspect;
    bool cancel_asked; /* it must end with a result that was on its way, or as cancelled on request */
    bool after_stop;   /* an attempt failed after the stop began, which must not count */
    bool for_crash;    /* the verdict that is put off is for a death (true) or for an error (false) */
    uint64_t put_off;  /* until when the verdict is put off; 0: it is not */
    int killed;        /* 1 + the worker whose processes it has ended; 0: none; -1: several workers */
    bool guilty;       /* it has failed for that, so these deaths do not count for the workers */
    bool late_verdict; /* the verdict on such a death was put off */
};

/* --- events --- */

enum event_kind {
    EVENT_SETUP,
    EVENT_STEP,
    EVENT_FINISH, /* of one task in flight */
    EVENT_LOAD,
    EVENT_DIE,
    EVENT_MESSAGE,
    EVENT_EXIT,
    EVENT_SOURCE,
    EVENT_SOURCE_END,
    EVENT_SHUTDOWN,
    EVENT_ABORT,
    EVENT_STOP_ALL,
    EVENT_EXTERNAL_KILL,
    EVENT_DEVICE_FAILED,
    EVENT_FREEZE,
    EVENT_CONTROL,
    EVENT_KINDS
};

struct event {
    uint64_t at, serial;
    enum event_kind kind;
    unsigned w;
    uint32_t generation;
    unsigned place; /* FINISH */
    uint64_t position;
};

struct sim {
    uint64_t seed, chance, now;
    bool trace;
    struct sim_plan plan;
    struct gd__sched sched;
    bool open;
    unsigned run;      /* the number of the current run, from 0 */
    uint64_t run_seed; /* determines its tasks */
    uint64_t began_at; /* when it began */

    struct event *events; /* a heap; the first index is 1 */
    uint64_t n_events, room, serial, handled;
    volatile uint64_t *progress; /* the number of the current event, for a watcher; may be NULL */

    struct proc *procs;
    struct sim_task *tasks;
    uint64_t handles;

    uint64_t taken;
    bool source_waiting, source_over, source_end_due, source_stopped;
    uint64_t tick_for, tick_at, ticks_in_a_row;
    uint64_t kills_left, device_failures_left;
    uint64_t frozen_at; /* when all processes were frozen for plan.freeze_ns; 0: not yet */
    uint64_t controls_left;
    uint64_t limit_changed_at; /* when the time limit of tasks was changed; 0: never */
    uint64_t stop_due;         /* after a shutdown: when the last task must have ended; 0: there was none */
    bool paused, draining;
    bool *removed;         /* by worker: it must get no task and no process */
    unsigned *long_in_row; /* by worker: how many of its last tasks took long, see note_duration() in sim.c */
    uint64_t last_start;   /* when a task was last handed out; 0: never */
    bool *device_out;      /* by the first worker of a device: the device was reported as out */

    uint64_t results[8]; /* the number of deliveries, by failure */
    uint64_t spawns, first_spawns, deaths_told, setup_failures_told;
    bool *setup_failed;
    struct sim_deaths *deaths; /* by worker */
    uint64_t *held_until;      /* by worker: its death by a stop signal must not be reported before this time */
    uint64_t peak_allowed, next_in_order, peak_slots, walked, deals;
    uint32_t round;

    jmp_buf failed;
    char words[400];
};

/* Returns 0 if the run passed. Otherwise s->words is the error message. */
int sim_run(struct sim *s, uint64_t seed, bool trace, volatile uint64_t *progress);

void sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_put(struct sim *s, const struct event *new);
struct event sim_next(struct sim *s);
void sim_handle(struct sim *s, const struct event *e);
void sim_settle(struct sim *s);
void sim_plan_source(struct sim *s); /* begins the source of a run */
void sim_finish(struct sim *s);      /* until gd__sched_finished() */
void sim_at(struct sim *s, uint64_t at, enum event_kind kind, unsigned w);
void sim_at_place(struct sim *s, uint64_t at, unsigned w, unsigned place, uint64_t position); /* EVENT_FINISH */

#define LLU(x) ((unsigned long long)(x))
#define SIM_MUST(s, cond, ...)          \
    do {                                \
        if (!(cond))                    \
            sim_fail((s), __VA_ARGS__); \
    } while (0)

/* sim.c */
void sim_fail_device(struct sim *s, unsigned w); /* the device of w fails */

/* procs.c */
extern const struct gd__sched_effects sim_effects;
int sim_priority(const struct sim *s, uint64_t id);
uint64_t sim_limit(const struct sim *s, uint64_t id); /* its own time limit; 0: that of the run */
enum sim_task_kind sim_task_kind(const struct sim *s, uint64_t id);
void proc_say(struct sim *s, unsigned w, const struct message *m);
uint64_t proc_soon(struct sim *s, uint64_t mean_ns);
struct ring_slot *proc_slot(struct sim *s, struct proc *p, uint64_t position);
bool proc_meets_fate(struct sim *s, unsigned w, enum proc_fate here); /* true: the process goes no further */
bool proc_is_stuck(const struct proc *p);                             /* even a kill does not end it */
uint64_t proc_task_ns(const struct sim *s, uint64_t id);              /* the mean time that this task takes */
void proc_draw_outcome(struct sim *s, unsigned w, struct message *m);
void proc_wake(struct sim *s, unsigned w);
void proc_setup_done(struct sim *s, unsigned w);
void proc_step(struct sim *s, unsigned w);
void proc_load(struct sim *s, unsigned w);
void proc_die(struct sim *s, unsigned w, int signal, int exit_code);
void proc_gone(struct sim *s, unsigned w);

/* control.c */
void sim_control_draw(struct sim_plan *p, uint64_t *r);
void sim_control(struct sim *s); /* one request from outside */
void check_control(struct sim *s);
void check_control_start(struct sim *s, unsigned w); /* the process of w has started a batch */
void check_control_assign(struct sim *s, unsigned w, const struct gd__task *t);
/* flight.c */
void flight_open(struct sim *s, struct proc *p);
bool flight_has_room(const struct proc *p);
void flight_begin(struct sim *s, unsigned w);
void flight_finish(struct sim *s, unsigned w, unsigned place, uint64_t position);
void flight_cancel(struct sim *s, unsigned w, unsigned place, uint64_t position);
bool flight_may_load(struct sim *s, struct proc *p); /* another task may be claimed and loaded */
void flight_load(struct sim *s, unsigned w);         /* the next claimed task; begins it, if it is loaded */
void flight_stop_load(struct sim *s, unsigned w);    /* the first task that has not begun was asked to stop */

/* runs.c */
void sim_runs_draw(struct sim_plan *p, uint64_t *r);
bool sim_run_again(struct sim *s); /* begins another run, unless that was the last one */
void sim_stop_workers(struct sim *s);
void check_kept(struct sim *s, unsigned w); /* w is about to be told to stop */

/* deaths.c */
void deaths_open(struct sim *s);
void deaths_close(struct sim *s);
void deaths_noticed(struct sim *s, unsigned w);             /* call it before the event is reported to the scheduler */
void deaths_charge(struct sim *s, unsigned w, uint64_t id); /* that death is charged to a task */
void deaths_task_failed(struct sim *s, uint64_t id);        /* the task is final, because of a crash or a timeout */
void deaths_forget(struct sim *s, unsigned w);              /* the worker was removed */
void deaths_ready(struct sim *s, unsigned w);               /* its setup has ended */
void deaths_setup_failed(struct sim *s, unsigned w);
void deaths_spawn(struct sim *s, unsigned w);
void deaths_next_run(struct sim *s, unsigned w); /* the numbers of the tasks begin anew */
void deaths_told(struct sim *s, unsigned w, bool given_up);

/* Whether the process has finished as many tasks as it may. */
static inline bool sim_is_worn(const struct sim *s, unsigned w)
{
    return s->plan.config.max_tasks > 0 && s->procs[w].served >= s->plan.config.max_tasks;
}

/* Whether the process may be handed another task. */
static inline bool sim_may_get(const struct sim *s, unsigned w)
{
    const unsigned most = s->plan.config.max_tasks;
    return most == 0 || s->procs[w].served + gd__load(&s->sched.workers[w]) < most;
}

#endif
