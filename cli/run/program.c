/* SPDX-License-Identifier: MIT
 *
 * Finds the worker program and builds its argv. Commands, stream programs and plugins are run by this same program,
 * which then acts as the worker's host (main.c). A worker program of the user is started directly.
 */
#include "cli/run/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/gpu_dispatch.h>

#include "base/failure.h"

/* This program itself. Started as a worker, it is the worker's host. */
#define SELF "/proc/self/exe"

/* Without a command, the inputs are commands, as in GNU parallel. */
static int open_command(struct cli_program *p, const struct cli_run *r)
{
    const struct gd_command_spec spec = { .size = sizeof spec,
                                          .words = r->words,
                                          .quote = r->quote,
                                          .dry_run = r->dry_run,
                                          .ungroup = r->ungroup,
                                          .host = SELF };
    p->kind = CLI_RESULT_COMMAND;
    if (gd_command_open(&p->command, &spec) < 0)
        return -1;
    if (!spec.dry_run && gd_command_check(p->command) < 0)
        return -1;
    p->argv = gd_command_worker(&spec);
    return p->argv ? 0 : -1;
}

/* Returns 0 if the program can be found. The error message is the same as for a command. */
static int check_program(const char *program)
{
    const char *const words[] = { program, NULL };
    const struct gd_command_spec spec = { .size = sizeof spec, .words = words, .quote = true };
    struct gd_command *command;
    int rc = gd_command_open(&command, &spec);
    if (rc == 0) {
        rc = gd_command_check(command);
        gd_command_close(&command);
    }
    return rc;
}

static int open_stream(struct cli_program *p, const struct cli_run *r)
{
    const struct gd_stream_spec spec = { .size = sizeof spec, .words = r->words, .json = r->jsonl, .host = SELF };
    p->kind = CLI_RESULT_JSON;
    if (check_program(r->words[0]) < 0)
        return -1;
    p->argv = gd_stream_worker(&spec);
    return p->argv ? 0 : -1;
}

/* Copies the program's arguments. If first is not NULL, it comes before them. */
static int copy_argv(struct cli_program *p, const struct cli_run *r, const char *first)
{
    size_t n = 0;
    p->own_argv = calloc(r->n_words + 2, sizeof *p->own_argv);
    if (!p->own_argv)
        return gd__fail("out of memory");
    if (first)
        p->own_argv[n++] = strdup(first);
    for (size_t i = 0; i < r->n_words; i++)
        p->own_argv[n++] = strdup(r->words[i]);
    for (size_t i = 0; i < n; i++) {
        if (!p->own_argv[i])
            return gd__fail("out of memory");
    }
    return 0;
}

static void free_argv(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

static int open_worker(struct cli_program *p, const struct cli_run *r)
{
    p->kind = r->own.json ? CLI_RESULT_JSON : CLI_RESULT_BYTES;
    if (!cli_is_plugin(r->words[0]))
        return check_program(r->words[0]) < 0 ? gd__fail("%s", gd_error_text()) : copy_argv(p, r, NULL);
    if (r->n_words > 1)
        return gd__fail("a plugin takes no arguments (\"%s\"): use --setup-args TEXT", r->words[1]);
    if (access(r->words[0], R_OK) < 0)
        return gd__fail("cannot read worker plugin %s: %s", r->words[0], strerror(errno));
    return copy_argv(p, r, SELF);
}

int cli_program_open(struct cli_program *p, const struct cli_run *r)
{
    if (r->worker)
        return open_worker(p, r);
    if ((r->stream ? open_stream(p, r) : open_command(p, r)) < 0)
        return gd__fail("%s", gd_error_text());
    return 0;
}

void cli_program_close(struct cli_program *p)
{
    gd_command_close(&p->command);
    gd_argv_free(p->argv);
    free_argv(p->own_argv);
}

char *const *cli_program_argv(const struct cli_program *p)
{
    return p->argv ? p->argv : p->own_argv;
}
