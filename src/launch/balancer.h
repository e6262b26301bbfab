/* The fields of a balancer: balancer.c counts, balancer_print.c prints. */
#ifndef GD_LAUNCH_BALANCER_H
#define GD_LAUNCH_BALANCER_H

#include <gpu_dispatch/launch.h>

#include "launch/figures/busy_time.h"

enum { GD__ERRORS_KEPT = 100, GD__ERROR_ROOM = 320, GD__FAILURES = GD_FAILURE_NO_WORKER + 1 };

struct gd__gpu_row {
    int gpu_id; /* -1: the row of tasks without a GPU */
    unsigned workers;
    uint64_t done, failed, timeouts, restarts;
    uint64_t timed;   /* tasks whose times are known */
    uint64_t busy_ns; /* sum of the times of its tasks */
    struct gd__busy_time working;
    double media_seconds;
    char label[24]; /* all GPUs of a group: "0+1"; empty: the number */
};

struct gd_balancer {
    struct gd__gpu_row *rows;
    size_t n_rows, room;
    struct gd__gpu_row nowhere;
    unsigned workers_per_gpu;
    uint64_t total;
    uint64_t finished; /* done or failed */
    uint64_t cancelled, retried;
    uint64_t failures[GD__FAILURES];
    uint64_t first_ns, last_ns; /* first start and last end of a task; first_ns > last_ns: no task yet */
    gd_progress_fn *on_progress;
    void *user;
    uint64_t interval_ns, next_ns; /* next_ns: when on_progress is called next */
    size_t n_errors;
    char errors[GD__ERRORS_KEPT][GD__ERROR_ROOM]; /* stored here, so that an error needs no allocation */
};

/* Labels the row of a GPU with all GPUs of its group. */
void gd__balancer_label(struct gd_balancer *b, const int64_t *gpus, size_t n);

/* The time in which at least one task of a row was in flight. */
double gd__row_seconds(const struct gd__gpu_row *row);

/* How busy the workers of a row were, in percent of the elapsed time. */
double gd__balancer_percent(const struct gd_balancer *b, const struct gd__gpu_row *row);

#endif
