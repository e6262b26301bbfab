/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models`: its command line, and its parts.
 */
#ifndef GD_CLI_COMMANDS_MODELS_MODELS_H
#define GD_CLI_COMMANDS_MODELS_MODELS_H

#include <stdbool.h>

#include "cli/options.h"

#define CLI_MODELS_URL "GPU_DISPATCH_MODEL_URL"

enum { CLI_MODELS_FAILED = 1 };

/* Its strings point into argv. */
struct cli_models {
    struct cli_list words; /* the arguments; the first one names the part */
    const char *model_dir, *base, *assets;
    bool json, check, help, list_options;
};

/* Each returns the exit status. */
int cli_models_list(const struct cli_models *m);
int cli_models_download(const struct cli_models *m);
int cli_models_convert(const struct cli_models *m);

#endif
