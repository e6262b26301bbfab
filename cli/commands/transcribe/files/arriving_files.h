/* SPDX-License-Identifier: MIT
 *
 * The audio files of `gpu-dispatch transcribe --watch`. Each is checked when it arrives: whether it is done already, how
 * long it is, and whether its output belongs to another file.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FILES_ARRIVING_FILES_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FILES_ARRIVING_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "apps/transcribe/output/outputs.h"
#include "cli/input/arrivals/versions.h"

/* places and skip_done are set by the caller; the rest is zero at first. */
struct cli_arriving {
    const struct tr_places *places;
    bool skip_done;              /* files that have their output are left out */
    struct cli_versions outputs; /* which input each output belongs to */
    atomic_size_t refused;       /* files that were left out because their output belongs to another one */
};

/* For struct cli_source: user is a struct cli_arriving. The weight becomes the duration in milliseconds. */
bool cli_arriving_accept(void *user, const char *path, uint64_t *weight);
void cli_arriving_free(struct cli_arriving *a);

#endif
