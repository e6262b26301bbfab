/* What the Python extension and the command need from the library beyond its public headers. This is the only private
 * header of the library that they include, apart from the helpers in base/ and, in the command, launch/run.h. It is not
 * installed, and may change with any commit.
 *
 *   of a run       hooks into its loop, records that are written later                  src/dispatch
 *   of a source    payloads without waiting, asking the journal early                   src/dispatch/source/items.c
 *   of a journal   followed files                                                       src/journal/follow.c
 *   of a worker    waiting, loading, results; the host as a program                     src/worker
 *   of devices     the numbers in a list                                                src/gpu/spec.c
 *   of memory      copying into what another process reads                              src/shm/copy.h
 */
#ifndef GD_BINDING_H
#define GD_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>

#include "shm/copy.h"

struct gd__journal_task;

/* --- a run --- */

struct gd__hooks {
    void *user;
    void (*after_round)(void *user); /* on the run's thread, after callbacks may have been made and before it sleeps */
    int fd;                          /* >= 0: watched; when it is readable, */
    void (*readable)(void *user);    /* this is called, which must empty it */

    /* Callbacks of gd_options that are not wanted after all. Workers announce the start of tasks only if somebody wants
     * to know, and without on_timeout on_error gets timeouts. */
    bool without_task_start, without_timeout;

    /* Of the source's thread, with gd_options.user: it is about to be started (on the run's thread); and, on it or if
     * it could not be started, the source will not be called again. The second comes after the run's end if the source
     * was left to itself. */
    void (*source_hold)(void *user);
    void (*source_release)(void *user);
    void *source_user;        /* not NULL: what the source and the calls about it get instead of gd_options.user */
    unsigned source_grace_ms; /* > 0: a source that does not return is left to itself so soon after a shutdown */

    /* A payload as observers are to be shown it: writes at most room bytes, no NUL, and returns how many. On the run's
     * thread. NULL: the payload is text. */
    size_t (*describe)(void *user, const void *input, size_t size, char *out, size_t room);

    /* No process could be started for want of processes or memory. Called once in a run, on its thread. */
    void (*shortage)(void *user, const char *message);

    /* On the run's thread: every task has had its callback. The journal is ended when this returns, so records that
     * were put off must be settled by then. */
    void (*before_end)(void *user);
};

/* Before the run. Copied. */
void gd__dispatcher_hook(struct gd_dispatcher *d, const struct gd__hooks *hooks);

/* Any thread: while this is on, no task is handed to a worker, and what workers print is not read for on_output. What
 * runs goes on, and so do time limits, signals and everything else. */
void gd__dispatcher_hold(struct gd_dispatcher *d, bool on);

/* Where the data of a report lies: the descriptor of the worker's result memory and the offset in it. False: somewhere
 * else (in a record, or copied because it had to wait for its turn). Within a callback only. */
bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset);

/* Within a callback: the task's record in the journal gets this failure and message instead. A cancelled task has no
 * record, and is run again when the run is resumed. The message is borrowed until the next callback. */
void gd__report_refuse(const struct gd_report *report, enum gd_failure failure, const char *message);

/* Within a callback: the task's record is not written when the callback returns but when gd__record_settle() is called
 * for what this returns. Until then the task is not done: a run that is killed runs it again. NULL: there is no
 * journal. */
struct gd__journal_task *gd__record_put_off(struct gd_dispatcher *d);

/* Any thread, one at a time, before before_end() returns. The report is the caller's copy. gd_journal_add_note() comes
 * before it, on the same thread. A run that puts off one record puts off all of them. */
void gd__record_settle(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *report);

/* Use it instead of gd__record_settle(): the task gets no record, and is run again when the run is resumed. */
void gd__record_drop(struct gd__journal_task *t);

/* --- a source, within its call --- */

/* Like gd_item_alloc(), but returns NULL instead of waiting. */
void *gd__item_try_alloc(struct gd_item *item, size_t size);

/* What was allocated for the item is about to be written, all of it: makes ready the pages that it lies in, which may
 * take long. Unlike with gd_item_alloc() alone, memory that is not written after all is used up as well. */
void gd__item_fill(struct gd_item *item);
bool gd__item_would_fill(const struct gd_item *item); /* false: there is nothing to make ready */

/* Gives the item now and clears it for the next, which the source goes on to fill. False: there is no room for more
 * than one, or the source is to stop: return 1 with the item as it is. */
bool gd__item_give(struct gd_item *item);

/* Asks the journal before the item is given: by gd_item_key(), or if that was not called, by the payload, which must be
 * there then. 0: the task is final already, counted, and the item is cleared: go on with the next. 1: fill and give it,
 * as without. *number is the task's in either case. */
int gd__item_ask(struct gd_item *item, uint64_t *number);

/* Whether that may take long: the journal is read, some rows of it, or all to find tasks in another order. A source
 * that keeps others waiting, as with Python's lock, lets them go on meanwhile. */
bool gd__item_ask_reads(struct gd_item *item);

/* Returns true if the source must give no more tasks. */
bool gd__item_stopped(const struct gd_item *item);

/* --- a journal --- */

/* Before the run: what gd_journal_follow() would say of the file of that name, which need not exist. The file is not
 * changed. So several files can be checked before the first is cut. */
int gd__journal_check_file(struct gd_journal *j, const char *path);

/* After the run: somebody may go on writing to followed files. So data beyond their recorded lengths is
 * expected, and the next run cuts it off. */
void gd__journal_files_may_grow(struct gd_journal *j);

/* --- a worker --- */

/* This process was started as a worker, whether or not its main calls gd_worker_main(): a dispatcher here would start
 * itself without end. */
bool gd__in_worker_process(void);

/* The worker host as a program: what gpu-dispatch-host does, and the command when it is started as a worker. The
 * arguments are in worker/host_main.c. */
bool gd__host_wanted(void);
int gd__host_main(int argc, char **argv);

/* For a language with a lock of its own: called on the main thread before it waits for the dispatcher or an I/O thread,
 * and after; and on an I/O thread before it ends. NULL: nothing. Set before gd_worker_main(). */
struct gd__wait_hooks {
    void (*before)(void);
    void (*after)(void);
    void (*io_thread_ends)(void);
    /* On the main thread, between after() and before(): loads of tasks below gd__host_cancel_below() are to stop. */
    void (*interrupt_loads)(void);
};
extern struct gd__wait_hooks gd__wait_hooks;

/* Tasks of a worker have positions, in the order in which it got them. */
uint64_t gd__host_cancel_below(const struct gd_worker *w); /* those before this one are cancelled */
uint64_t gd__thread_loads(void);                           /* the one that this I/O thread loads */

/* Where a task's payload lies: the descriptor of the payloads' memory and the offset in it. False: elsewhere. */
bool gd__task_locate(const struct gd_worker *w, const struct gd_task *task, int *fd, uint64_t *offset);

bool gd__result_is_success(const struct gd_result *r); /* no failure was reported for the task */

/* The room that was allocated for a result is about to be written, all of it: makes its pages ready, which may take
 * long. */
void gd__result_fill(struct gd_result *r);
bool gd__result_would_fill(const struct gd_result *r); /* false: there is nothing to make ready */

/* --- devices --- */

/* Calls fn with each number of a list such as "0,2-3", until it returns false. 1: it was called for all of them; 0: the
 * list is not made of numbers alone, or fn returned false; negative: it is not a list of devices at all. */
typedef bool gd__number_fn(void *user, int number);
int gd__spec_numbers(const char *text, gd__number_fn *fn, void *user);

#endif
