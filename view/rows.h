/* SPDX-License-Identifier: MIT
 *
 * The rows of the table: one per worker; where those are too many one per GPU; where even those are, one per status,
 * and then as many GPUs as there is room for, those with trouble first.
 */
#ifndef GD_TUI_ROWS_H
#define GD_TUI_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/observe.h>

/* In the order in which they are worth a line. */
enum tui_status {
    TUI_ERROR,
    TUI_QUARANTINED,
    TUI_RESTARTING,
    TUI_INITIALIZING,
    TUI_PROCESSING,
    TUI_IDLE,
    TUI_FINISHED,
    TUI_N_STATUSES,
};

/* "error", "quarantined", ... Static. */
const char *tui_status_name(enum tui_status status);

struct tui_row {
    char label[24];
    enum tui_status status;
    char task[160]; /* what it is at, or why it has nothing to do; not yet made fit for a terminal */
    size_t lead;    /* bytes of that which come before the task's input: "asked to stop: " */
    uint64_t done, failed, timeouts, restarts;
    double since_s, last_s; /* < 0: not known */
    uint64_t known;         /* enum gd_device_known */
    uint64_t memory_used, memory_total;
    unsigned utilization;
    int temperature;
    uint64_t power_mw;
    char name[96]; /* of its device */
};

struct tui_rows {
    struct tui_row *items;
    size_t n;
};

enum tui_status tui_status_of(const struct gd_snapshot *s, const struct gd_worker_view *w);

/* At most most rows, in r, which is empty before. 0, or -1: out of memory. */
int tui_rows_make(struct tui_rows *r, const struct gd_snapshot *s, size_t most, bool utf8);
void tui_rows_free(struct tui_rows *r);

#endif
