/* SPDX-License-Identifier: MIT
 *
 * The figures of a journal, and how `status` prints them, for one journal or for several.
 */
#ifndef GD_CLI_COMMANDS_JOURNALS_STATUS_PARTS_H
#define GD_CLI_COMMANDS_JOURNALS_STATUS_PARTS_H

#include <stdio.h>

#include <gpu_dispatch/journal.h>

#include "base/text/buffer.h"
#include "view/remaining.h"

enum { STATUS_SLOWEST = 5, STATUS_WIDEST_INPUT = 48, STATUS_WIDEST_WORD = 32, STATUS_MOST_CLASSES = 20 };

struct status_figures {
    struct gd_journal_summary s;
    double seconds; /* duration of the last run, until now or until its last write to the journal */
    double rate;    /* tasks per second in that run; 0: not known */
    struct view_remaining remaining;
    double eta; /* seconds; < 0: not known */
};

/* Computes the other figures from the summary. */
void status_work_out(struct status_figures *f);
/* "running", "killed", "not begun", or how the last run ended. */
const char *status_state(const struct gd_journal_summary *s);

/* These write to out and return it. */
const char *status_grouped(char *out, size_t size, uint64_t n); /* "1,234,567" */
const char *status_task_time(char *out, size_t size, double seconds);
const char *status_moment(char *out, size_t size, double unix_time);

void status_print_text(FILE *out, const char *text, size_t size, size_t widest);
void status_print_command(FILE *out, const char *command); /* NULL: prints nothing */
void status_print_count(FILE *out, const char *what, uint64_t n, const char *more);
void status_print_slow(FILE *out, double seconds, const char *input, size_t input_size, const char *where,
                       const char *failure);

/* Add members of a JSON object, each with a comma before it. */
void status_put_text(struct gd__buffer *b, const char *name, const char *text);
void status_put_command(struct gd__buffer *b, const char *command);
void status_put_number(struct gd__buffer *b, const char *name, bool known, double value, int digits);
/* The members of a journal. The first one has no comma before it. */
void status_put_members(struct gd__buffer *b, const struct status_figures *f);

#endif
