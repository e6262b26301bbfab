/* The conditions that the scheduler must meet: at each effect, after every event, and at the end of a run.
 *
 *   assign.c    what a worker may be handed, and the order in which tasks start
 *   deadline.c  when a task must be asked to stop, and when a process may be killed
 *   verdict.c   what the end of an attempt means for its task
 *   places.c    every task has one state and is in one place
 *   workers.c   no worker is idle while it could have a task
 *   flight.c    tasks in flight
 *   check.c     what is checked after every event, and at the end
 */
#ifndef GD_TESTS_SIM_CHECK_H
#define GD_TESTS_SIM_CHECK_H

#include "sim/sim.h"

/* Whether the dispatcher reacts to each timer at once, so that times can be checked exactly. */
static inline bool sim_is_on_time(const struct sim *s)
{
    return s->plan.late_ns == 0;
}

/* assign.c */
void check_assign(struct sim *s, unsigned w, const struct gd__task *t, unsigned attempt);
void check_begin(struct sim *s, unsigned w, uint64_t id); /* the process of w is about to start that task */

/* deadline.c */
void check_cancel(struct sim *s, unsigned w, uint64_t below);
void check_end_tasks(struct sim *s, unsigned w);
void check_timeout_kill(struct sim *s, unsigned w); /* the first task of its window did not stop */
void check_kill(struct sim *s, unsigned w);
void check_deadlines(struct sim *s);

/* verdict.c */
void check_charge(struct sim *s, unsigned w, const struct gd__task *t, const struct gd__death *d);
void check_tried(struct sim *s, const struct gd__task *t, const struct gd__outcome *o);
void check_put_off(struct sim *s, const struct gd__task *t, bool for_crash);
void check_timed_out(struct sim *s, uint64_t id); /* an attempt of that task was too slow */
void check_deliver(struct sim *s, const struct gd__task *t, const struct gd__outcome *o);
void check_before_exit(struct sim *s, unsigned w, const struct gd__death *d); /* finds the tasks to be charged */
/* How many of the tries that `retries` allows have failed. */
unsigned check_failed_tries(const struct sim *s, const struct sim_task *t);

/* places.c */
void check_before_pump(struct sim *s);
void check_places(struct sim *s);

/* workers.c */
void check_workers(struct sim *s);

/* flight.c */
void check_flight_result(struct sim *s, unsigned w, const struct gd__task *t, const struct message *m);
void check_cancel_place(struct sim *s, unsigned w, unsigned place, uint64_t position);
void check_flight_kill(struct sim *s, unsigned w);
void check_flight_exit(struct sim *s, unsigned w, const struct gd__death *d);
void check_flight_assign(struct sim *s, unsigned w, const struct gd__task *t);
void check_flight(struct sim *s, unsigned w);

/* check.c */
void check_after_event(struct sim *s);
void check_end(struct sim *s);

#endif
