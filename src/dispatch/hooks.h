/* What a language binding needs of the loop, beyond the public interface: the Python package takes its lock once per
 * round instead of once per callback, and has its signal handlers run while the loop sleeps.
 */
#ifndef GD_DISPATCH_HOOKS_H
#define GD_DISPATCH_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>

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
};

/* Before the run. Copied. */
void gd__dispatcher_hook(struct gd_dispatcher *d, const struct gd__hooks *hooks);

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

/* Nothing more is wanted of the source. */
bool gd__item_stopped(const struct gd_item *item);

/* Where the data of a report lies: the descriptor of the worker's result memory and the offset in it. False: somewhere
 * else (in a record, or copied because it had to wait for its turn). Within a callback only. */
bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset);

/* Within a callback: its record in the journal is to say this instead. What is cancelled has none, and is run again
 * when the run is resumed. words is borrowed until the callback has returned, and a little longer: until the next one.
 */
void gd__report_refuse(const struct gd_report *report, enum gd_failure failure, const char *words);

#endif
