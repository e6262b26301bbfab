/* Functions of the library for the Python extension and the command. They are not in the public headers. This is the
 * only private header of the library that they include, apart from the helpers in base/ and, in the command,
 * launch/run.h. It is not installed, and may change with any commit.
 *
 *   a run       hooks into its loop; records that are written later                  src/dispatch
 *   a source    allocating payloads without waiting; asking the journal early;
 *               tasks that were dealt to shards already                              src/dispatch/source/items.c
 *   a journal   followed files                                                       src/journal/follow.c
 *   a worker    waiting, loading, results; the host as a program                     src/worker
 *   devices     the numbers in a device list                                         src/gpu/spec.c
 *   observers   the view of a worker                                                 src/stats/snapshot.c
 *   memory      copying into memory that another process reads                       src/shm/copy.h
 */
#ifndef GD_BINDING_H
#define GD_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>

#include "shm/copy.h"

struct gd__journal_task;
struct gd_queue_node;
struct gd_queue_options;
struct gd_worker_view;

/* --- a run --- */

struct gd__hooks {
    void *user;
    /* Called on the run's thread in each round, after the callbacks and before the loop sleeps. */
    void (*after_round)(void *user);
    int fd;                       /* watched during the run if readable is not NULL */
    void (*readable)(void *user); /* called on the run's thread when fd is readable; must read until fd is empty */

    /* If true, on_task_start or on_timeout of gd_options is treated as NULL. Without on_task_start, workers do not
     * report the start of tasks. Without on_timeout, on_error gets timeouts. */
    bool without_task_start, without_timeout;

    /* Both are called with the source's user pointer. source_hold is called before the source's thread is started, on
     * the run's thread. source_release is called when the source will not be called again, on the source's thread, or
     * on the run's thread if the source's thread could not be started. If the run ended without waiting for the source,
     * source_release is called after the end of the run. */
    void (*source_hold)(void *user);
    void (*source_release)(void *user);
    void *source_user; /* not NULL: passed to the source and its callbacks instead of gd_options.user */
    /* > 0: how long after a shutdown the run waits for a source that does not return, if this is less than
     * gd_options.stop_grace_ms. */
    unsigned source_grace_ms;

    /* Describes a payload for observers. Writes at most room bytes, without a NUL, and returns their number. Called on
     * the run's thread. NULL: the payload is text. */
    size_t (*describe)(void *user, const void *input, size_t size, char *out, size_t room);

    /* Called if a process could not be started because no more processes or memory were available. Called at most once
     * in a run, on the run's thread. */
    void (*shortage)(void *user, const char *message);

    /* Called on the run's thread after the callbacks of all tasks. The journal is ended when this returns, so all
     * records that were put off must be settled by then. */
    void (*before_end)(void *user);

    /* In a run with a queue: a line for the user, about the connection, a repair, a damaged message. Called on any
     * thread. */
    void (*queue_note)(void *user, const char *line);
};

/* Sets the hooks, which are copied. Call it before the run. */
void gd__dispatcher_hook(struct gd_dispatcher *d, const struct gd__hooks *hooks);

/* While this is on, no task is handed to a worker, and the output of workers is not read for on_output. Running tasks,
 * time limits, signals and everything else go on. Any thread may call it. */
void gd__dispatcher_hold(struct gd_dispatcher *d, bool on);

/* Sets the reason why the run ends early, for the error messages of tasks that are cancelled for it: "not done: " and the
 * reason. The reason is copied. Only the first reason counts. Call it before the request that ends the run. Any thread
 * may call it. */
void gd__dispatcher_end_for(struct gd_dispatcher *d, const char *reason);

/* In a run with a queue: the address of the run's web page, without a token, for people who look at the queue. Copied.
 * Call it before the run. */
void gd__dispatcher_queue_page(struct gd_dispatcher *d, const char *address);

/* What a node knows about its queue. */
struct gd__queue_summary {
    bool connected;          /* to the server */
    uint64_t tasks, records; /* messages in the queue; 0: not known */
    uint64_t unpublished;    /* record messages of this node that the server has not confirmed */
};

/* During a run with a queue: sets *out, and calls fn with each node of the queue, this one included, until fn returns
 * something else than 0. The nodes are read from the server every few seconds, but only while somebody asks for them.
 * Returns 1; 0 if the nodes are not known, because the run has not begun or has ended, or because nobody has asked for them
 * lately; a negative code of fn, or GD_E_NO_MEMORY. Any thread may call it. */
int gd__dispatcher_queue_nodes(struct gd_dispatcher *d, struct gd__queue_summary *out,
                               int (*fn)(void *user, const struct gd_queue_node *node), void *user);

/* If other users can read a file with a secret that the options or the environment name, writes a warning for the user;
 * otherwise "". Errors are left to the functions that connect. */
void gd__queue_secrets_warning(const struct gd_queue_options *o, char *out, size_t room);

/* After a run with a queue: how many tasks this node has recorded as failures without running them, and so without a
 * callback. Their former nodes have died of them, or their inputs could not be read. */
uint64_t gd__dispatcher_queue_failed(const struct gd_dispatcher *d);

/* Finds the data of a report in shared memory. Sets *fd to the descriptor of the worker's result memory and *offset to
 * the offset in it. Returns false if the data is not there (it is in a record, or was copied because it had to wait for
 * its turn). Call it only in a callback. */
bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset);

/* Replaces the failure and the message in the task's journal record. If the failure is GD_FAILURE_CANCELLED, the task
 * gets no record, and is run again when the run is resumed. The message is borrowed until the next callback. Call it
 * only in a callback. */
void gd__report_refuse(const struct gd_report *report, enum gd_failure failure, const char *message);

/* Puts off the task's record. It is not written when the callback returns, but when gd__record_settle() is called with
 * the value that this function returns. Until then the task is not done: if the run is killed, the next run runs the
 * task again. Returns NULL if there is no journal and no queue. Call it only in a callback. */
struct gd__journal_task *gd__record_put_off(struct gd_dispatcher *d);

/* What the record of a task in a queue has that the report does not. Everything is copied. */
struct gd__record_note {
    const void *output; /* instead of the report's data, which is used if this note is NULL */
    size_t output_size;
    const char *failure; /* the class of the failure; NULL: gd_failure_name() */
    const char *stderr_end;
    size_t stderr_size;
    int exit_code, signal;
    bool not_done; /* the output could not be written: write no record, another node runs the task */
};

/* Writes a record that was put off. The report is the caller's copy. May be called on any thread, but not on two at the
 * same time, until before_end() returns. note: in a run with a queue; NULL: none. To add a note to a journal, call
 * gd_journal_add_note() first, on the same thread. A run that puts off one record must put off all of them. */
void gd__record_settle(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *report,
                       const struct gd__record_note *note);

/* Drops a record that was put off, instead of gd__record_settle(). The task gets no record, and is run again when the
 * run is resumed. */
void gd__record_drop(struct gd__journal_task *t);

/* --- a source, within its call --- */

/* Like gd_item_alloc(), but returns NULL instead of waiting. */
void *gd__item_try_alloc(struct gd_item *item, size_t size);

/* Prepares the pages of the memory that was allocated for the item, which may take long. Call it before you write, and
 * only if you will write all of that memory. After this call the pages use physical memory, even if they are never
 * written. After gd_item_alloc() alone, only written pages do. */
void gd__item_fill(struct gd_item *item);
bool gd__item_would_fill(const struct gd_item *item); /* false: there is nothing to prepare */

/* Adds the item to the queue at once and clears it, so that the source can fill it with the next task in the same call.
 * Returns false if the item could not be added at once. Then it has not changed, and the source returns 1 with this
 * item, as usual. The reasons: there is no room for another task after it, it has a large payload outside shared
 * memory, or the source must stop. */
bool gd__item_give(struct gd_item *item);

/* Looks the task up in the journal before the source returns it. The task is found by the key of gd_item_key(). Without
 * a key it is found by its payload, which must then be set. Returns
 *
 *   0   the task is final already, or belongs to another shard. It has been counted, and the item is cleared: continue
 *       with the next task.
 *   1   the task must be run: fill the item and return it, as without this call.
 *
 * In both cases *number is the number of the task. */
int gd__item_ask(struct gd_item *item, uint64_t *number);

/* Returns true if gd__item_ask() may take long because it reads the journal: some rows, or all of them if tasks come in
 * a different order than before. A caller that holds a lock, such as Python's, should release it during the call. */
bool gd__item_ask_reads(struct gd_item *item);

/* For a source that divides its list among the shards itself, by size. Without these calls, the hash of the key decides.
 * gd__item_dealt(): the current task belongs to this shard. Call it before gd__item_ask() and gd__item_give().
 * gd__item_drop(): the current task belongs to another shard. Its position in the list is counted, and the item is
 * cleared: continue with the next task. */
void gd__item_dealt(struct gd_item *item);
void gd__item_drop(struct gd_item *item);

/* Sets how many tasks of the list belong to this shard, including those that are final already, if the source knows it.
 * Otherwise gd_stats.total is 0 until the source has ended. Call it before the run, or from any thread during the run.
 * Without a shard, call gd_dispatcher_set_total() instead. */
void gd__dispatcher_set_shard_total(struct gd_dispatcher *d, uint64_t total);

/* Returns true if the source must return no more tasks. */
bool gd__item_stopped(const struct gd_item *item);

/* --- a journal --- */

/* Returns what gd_journal_follow() would return for the file of that name, which need not exist. The file is not
 * changed, so several files can be checked before the first one is cut. Call it before the run. */
int gd__journal_check_file(struct gd_journal *j, const char *path);

/* Like gd_journal_follow(), but empties the file, and records it as a new one. Open the file without O_TRUNC: a run that
 * another run has replaced must not empty the file of that run, and only this function can tell. */
int gd__journal_follow_empty(struct gd_journal *j, const char *path, int fd);

/* Call it after the run if followed files may still be written to. Then the next run expects data beyond their recorded
 * lengths, and cuts it off. */
void gd__journal_files_may_grow(struct gd_journal *j);

/* Whether the run may still change the journal and its files, after the run: nothing has failed, and no other run has
 * taken the journal over. */
bool gd__journal_is_ours(struct gd_journal *j);

/* Whether another run has taken the journal over, because it could not tell that this run was still alive. Then all files
 * that are made from the journal belong to that run. */
bool gd__journal_was_taken_over(struct gd_journal *j);

/* --- a worker --- */

/* Returns true if this process was started as a worker, whether or not its main calls gd_worker_main(). A dispatcher in
 * such a process would start copies of itself for ever. */
bool gd__in_worker_process(void);

/* The worker host as a program. gpu-dispatch-host runs it. The command also runs it if the command was started as a
 * worker. The arguments are described in worker/host_main.c. */
bool gd__host_wanted(void);
int gd__host_main(int argc, char **argv);

/* Hooks for a language with its own interpreter lock. Set them before gd_worker_main(). Each may be NULL. */
struct gd__wait_hooks {
    void (*before)(void);         /* called before the main thread waits for the dispatcher or an I/O thread */
    void (*after)(void);          /* called after the main thread has waited */
    void (*io_thread_ends)(void); /* called on an I/O thread that is about to end */
    /* Stops the loads of tasks before position gd__host_cancel_below(). Called on the main thread, between after() and
     * before(). */
    void (*interrupt_loads)(void);
};
extern struct gd__wait_hooks gd__wait_hooks;

/* The tasks of a worker have positions, in the order in which the worker got them. */
uint64_t gd__host_cancel_below(const struct gd_worker *w); /* tasks before this position are cancelled */
uint64_t gd__thread_loads(void);                           /* the position of the task that this I/O thread loads */

/* Finds a task's payload in shared memory. Sets *fd to the descriptor of the payload memory and *offset to the offset
 * in it. Returns false if the payload is not there. */
bool gd__task_locate(const struct gd_worker *w, const struct gd_task *task, int *fd, uint64_t *offset);

bool gd__result_is_success(const struct gd_result *r); /* no failure was reported for the task */

/* Prepares the pages of the memory that was allocated for a result, which may take long. Call it before you write, and
 * only if you will write all of that memory. */
void gd__result_fill(struct gd_result *r);
bool gd__result_would_fill(const struct gd_result *r); /* false: there is nothing to prepare */

/* --- devices --- */

/* Calls fn with each number of a device list such as "0,2-3", until fn returns false. Returns
 *
 *   1          fn was called for all numbers
 *   0          fn returned false, or the text contains something else than numbers ("auto", a UUID)
 *   negative   the text is not a valid device list
 */
typedef bool gd__number_fn(void *user, int number);
int gd__spec_numbers(const char *text, gd__number_fn *fn, void *user);

/* Returns true for "free" and "free:N": a run waits for these devices, and they are not known before. */
bool gd__spec_is_free(const char *text);

/* --- observers --- */

/* Copies all fields that both structs have. */
void gd__worker_view_fill(struct gd_worker_view *to, const struct gd_worker_stats *from);

#endif
