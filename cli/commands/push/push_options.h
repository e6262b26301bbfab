/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch push`, as given on the command line.
 */
#ifndef GD_CLI_COMMANDS_PUSH_PUSH_OPTIONS_H
#define GD_CLI_COMMANDS_PUSH_PUSH_OPTIONS_H

#include <stdbool.h>

#include "cli/input/sources.h"
#include "cli/options.h"
#include "cli/queue/queue_options.h"

struct cli_push {
    struct cli_queue queue;
    unsigned lease_ms, replicas;

    /* input, as in `run` */
    struct cli_list arg_files, patterns;
    bool nul, jsonl, skip_blank, recursive, shuffle, seeded;
    const char *input_dir, *key;
    struct {
        bool given;
        enum gd_file_order order;
    } order;
    uint64_t seed;

    /* tasks */
    unsigned bundle; /* 0: auto */
    int priority;
    bool retry_failed;
    unsigned wait_ms;

    bool quiet, help, list_options;
    struct cli_sources sources; /* none: standard input, or nothing with retry_failed */
};

extern const struct cli_opts cli_push_options;

/* Reads the command line after "push". Returns 0, or -1 with gd__fail_text(). */
int cli_push_parse(struct cli_push *p, int argc, char **argv);
void cli_push_free(struct cli_push *p);

#endif
