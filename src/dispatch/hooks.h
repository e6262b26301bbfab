/* What the Python package and the command need of the loop, beyond the public interface: the Python package takes its
 * lock once per round instead of once per callback, and has its signal handlers run while the loop sleeps; the command
 * writes the output of a task on another thread, and the task's record has to wait for that.
 */
#ifndef GD_DISPATCH_HOOKS_H
#define GD_DISPATCH_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>

struct gd__journal_task;

struct gd__hooks {
    void *user;
    void (*after_round)(void *user); /* on the run's thread, after callbacks may have been made and before it sleeps */
    int fd;                          /* >= 0: watched; when it is readable, */
    void (*readable)(void *user);    /* this is called, which must empty it */

    /* Of the source's thread, with gd_options.user: it is about to be started (on the run's thread); and, on it or if
     * it could not be started, the source will not be called again. The second comes after the run's end if the source
     * was left to itself. */
    void (*source_hold)(void *user);
    void (*source_release)(void *user);
    unsigned source_grace_ms; /* > 0: a source that does not return is left to itself so soon after a shutdown */

    /* A payload as observers are to be shown it: writes at most room bytes, no NUL, and returns how many. On the run's
     * thread. NULL: the payload is text. */
    size_t (*describe)(void *user, const void *input, size_t size, char *out, size_t room);

    /* No process could be started for want of processes or memory; said once in a run. On the run's thread. */
    void (*shortage)(void *user, const char *words);

    /* On the run's thread: every task has had its callback. The journal is ended when this returns, so records that
     * were put off must be settled by then. */
    void (*before_end)(void *user);
};

/* Before the run. Copied. */
void gd__dispatcher_hook(struct gd_dispatcher *d, const struct gd__hooks *hooks);

/* What another part of the library hears of a run: the events of the program's callbacks, each right before the
 * callback is called, with the same arguments. So that part needs no callback of the program's. NULL: not wanted. */
struct gd__listener {
    void *user;
    void (*task_ended)(void *user, const struct gd_report *report); /* on_success, on_error, on_timeout */
    void (*setup_failed)(void *user, int worker_id, int gpu_id, const char *error);
    void (*cleanup_failed)(void *user, int worker_id, int gpu_id, const char *error);
    void (*worker_exited)(void *user, int worker_id, int gpu_id, const char *why, bool given_up);
    void (*device_out)(void *user, int gpu_id, const char *why);
};

/* Before the run. Copied. */
void gd__dispatcher_listen(struct gd_dispatcher *d, const struct gd__listener *listener);

/* gd_item_alloc() without waiting: NULL where it would. */
void *gd__item_try_alloc(struct gd_item *item, size_t size);

/* What was allocated for the item is about to be written, all of it: makes ready the pages that it lies in, which may
 * take long. Other than with gd_item_alloc() alone, memory that is not written after all is used up as well. */
void gd__item_fill(struct gd_item *item);
bool gd__item_would_fill(const struct gd_item *item); /* false: there is nothing to make ready */

/* Within the source: gives the item now and clears it for the next, which the source goes on to fill. False: there is
 * no room for more than one, or it is to stop: return 1 with it as it is. */
bool gd__item_give(struct gd_item *item);

/* Asks the journal before the item is given: by gd_item_key(), or if that was not called, by the payload, which must be
 * there then. 0: it is final already, counted, and cleared: go on with the next. 1: fill and give it, as without.
 * *number is the task's in either case. */
int gd__item_ask(struct gd_item *item, uint64_t *number);

/* Whether that may take long: the journal is read, some rows of it, or all to find tasks in another order. A source
 * that keeps others waiting, as with Python's lock, lets them go on meanwhile. */
bool gd__item_ask_reads(struct gd_item *item);

/* Nothing more is wanted of the source. */
bool gd__item_stopped(const struct gd_item *item);

/* Where the data of a report lies: the descriptor of the worker's result memory and the offset in it. False: somewhere
 * else (in a record, or copied because it had to wait for its turn). Within a callback only. */
bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset);

/* Within a callback: its record in the journal is to say this instead. What is cancelled has none, and is run again
 * when the run is resumed. words is borrowed until the callback has returned, and a little longer: until the next one.
 */
void gd__report_refuse(const struct gd_report *report, enum gd_failure failure, const char *words);

/* Within a callback: the task's record is not written when the callback returns but when gd__record_settle() is called
 * for what this returns. Until then the task is not done: a run that is killed runs it again. NULL: there is no
 * journal.
 */
struct gd__journal_task *gd__record_put_off(struct gd_dispatcher *d);

/* Any thread, one at a time, before before_end() returns. The report is the caller's copy. gd_journal_add_note() comes
 * before it, on the same thread; in a run that puts records off it puts off all of them. */
void gd__record_settle(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *report);

/* Instead: the task gets no record, and is run again when the run is resumed. */
void gd__record_drop(struct gd__journal_task *t);

/* Any thread: while this is on, no task is handed to a worker, and what workers print is not read for on_output. What
 * runs goes on, and so do time limits, signals and everything else. */
void gd__dispatcher_hold(struct gd_dispatcher *d, bool on);

#endif
