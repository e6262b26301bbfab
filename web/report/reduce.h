/* SPDX-License-Identifier: MIT
 *
 * Reduces a journal to an amount of data that can be drawn, in two passes over its records. The first pass finds the
 * runs with their times, the workers and the GPUs. The second pass counts tasks and selects those to draw.
 *
 * The runs of a journal are drawn one after the other, without the time between them. For example, if a run was killed
 * in the evening and resumed in the morning, the night is not shown as idle time. Runs of several machines may overlap:
 * then only the time in which no machine had a run is left out.
 */
#ifndef GD_WEB_REPORT_REDUCE_H
#define GD_WEB_REPORT_REDUCE_H

#include <gpu_dispatch/journal.h>

#include "base/text/buffer.h"
#include "web/report/report.h"

enum {
    WEB_MOST_RUNS = 10000,
    WEB_MOST_PLACES = 4096,
    WEB_MOST_LANES = 4096, /* workers that are stored */
    WEB_DRAWN_LANES = 128, /* workers that are drawn */
    WEB_MOST_CLASSES = 32, /* classes of failures; the last one, "other", is for the rest */
    WEB_SHOWN_FAILURES = 30,
    WEB_MOST_BARS = 20000, /* approximate: at least one for each worker in each step */
};

struct web_span {
    double first, last; /* Unix time; first 0: no task ran */
    double offset;      /* where the run begins on the page */
    int place;          /* index into web_reduced.places */
};

/* A machine. If it had several shards of the list, each of them is a place, because their workers have the same
 * numbers. */
struct web_place {
    char *host; /* "": not known */
    struct gd_shard shard;
};

struct web_gpu {
    int gpu, place;
    uint64_t workers, done, failed;
    double busy_seconds;
    double busy[WEB_REPORT_STEPS]; /* seconds, summed over its workers */
};

struct web_bar {
    uint64_t number;
    double start, seconds; /* seconds < 0: this element is empty */
    int failure;           /* index of its class of failure; -1: it succeeded */
};

struct web_lane {
    int gpu, worker, place;
    size_t gpu_at;        /* index into web_reduced.gpus */
    struct web_bar *bars; /* for each step the tasks that are drawn, the longest first; NULL: not drawn */
};

struct web_class {
    char name[64];
    uint64_t count, shown;
    struct gd__buffer json; /* the records that are shown, separated by commas */
};

struct web_reduced {
    struct web_span *runs;
    size_t n_runs;
    struct web_place *places;
    size_t n_places;
    struct web_gpu *gpus;
    size_t n_gpus;
    struct web_lane *lanes;
    size_t n_lanes, n_drawn;
    int *
        lane_table; /* a hash table by place, GPU and worker, with 2 * WEB_MOST_LANES slots: index into lanes + 1; 0: free */
    size_t bars_per_step;
    double seconds, step;
    uint64_t done, failed, attempts;
    double busy_seconds;
    uint64_t ended_done[WEB_REPORT_STEPS], ended_failed[WEB_REPORT_STEPS];
    struct web_class classes[WEB_MOST_CLASSES];
    size_t n_classes;
    uint64_t bars_left_out;
    bool no_memory;
};

/* Returns 0, or -1 with gd__fail_text(). d must be freed in either case. */
int web_reduce(struct web_reduced *d, const struct web_records *r);
void web_reduced_free(struct web_reduced *d);

/* The position on the page at which a record's task began. */
double web_reduced_start(const struct web_reduced *d, const struct gd_journal_record *r);

/* Adds the beginning of a text as JSON. A long text is cut between two characters and ends in three dots. NULL counts
 * as "". */
void web_add_beginning(struct gd__buffer *b, const char *text, size_t size, size_t most);

/* Adds a record as an object. */
void web_add_record(struct gd__buffer *b, const struct web_reduced *d, const struct gd_journal_record *r);

#endif
