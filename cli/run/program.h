/* SPDX-License-Identifier: MIT
 *
 * The workers of a run: a command per task, a program that reads and writes JSON lines, a plugin, or a worker program
 * of the user. All are started by an argv.
 */
#ifndef GD_CLI_RUN_PROGRAM_H
#define GD_CLI_RUN_PROGRAM_H

#include "cli/output/task_end.h"
#include "cli/run/run_options.h"

/* A zeroed struct means no program. */
struct cli_program {
    struct gd_command *command; /* NULL: not a command */
    char **argv;                /* if the library made it; otherwise own_argv */
    char **own_argv;
    enum cli_result_kind kind;
};

/* Finds the program before any process is started. Returns 0, or -1 with gd__fail_text(). */
int cli_program_open(struct cli_program *p, const struct cli_run *r);
void cli_program_close(struct cli_program *p);

char *const *cli_program_argv(const struct cli_program *p);

#endif
