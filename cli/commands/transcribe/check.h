/* SPDX-License-Identifier: MIT
 *
 * What `gpu-dispatch transcribe --check` prints.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_CHECK_H
#define GD_CLI_COMMANDS_TRANSCRIBE_CHECK_H

#include "apps/transcribe/model/model.h"
#include "base/text/buffer.h"

struct cli_check {
    const char *plugin;             /* path */
    const struct gd__buffer *about; /* what the plugin says about itself */
    const struct tr_model *model;   /* NULL: none was named */
    const char *gpus;               /* as given */
    const char *devices;            /* in words: "2 GPUs" */
};

/* Prints the report on standard output. Returns 0, or -1 with gd__fail_text(). */
int cli_transcribe_report(const struct cli_check *c);

#endif
