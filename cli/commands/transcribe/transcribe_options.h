/* SPDX-License-Identifier: MIT
 *
 * The command line of `gpu-dispatch transcribe`.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_TRANSCRIBE_OPTIONS_H
#define GD_CLI_COMMANDS_TRANSCRIBE_TRANSCRIBE_OPTIONS_H

#include "apps/transcribe/engine/settings.h"
#include "cli/run/run_options.h"

#define CLI_USUAL_OUTPUT "data/outputs"

/* Its strings point into argv. */
struct cli_transcribe {
    struct cli_run run; /* devices, tasks, journal, display, patterns and recursion, as for `run` */

    const char *input_dir;  /* with --watch, the same directory */
    const char *input_base; /* with a queue: an address that files are fetched from */
    struct cli_list inputs; /* files and directories: the arguments */
    const char *output_dir;
    const char *format; /* as given */
    unsigned formats;   /* bits 1 << enum tr_format */
    bool full_names, dry_run, check;

    const char *model_size, *model, *model_dir; /* model_size NULL: the default */
    const char *language;                       /* NULL: detected */
    const char *vad;
    unsigned threads;
    bool translate, no_gpu;
    struct tr_settings settings; /* only the members of the decoding, of the audio and of the layout */
    bool fp16;                   /* was given; it has no effect */

    struct cli_list arg_files; /* files with paths, one on each line; "-" is standard input */
    char **listed;             /* the paths in them, which are in inputs too; NULL-terminated */
};

extern const struct cli_opts cli_transcribe_options;
extern const struct cli_opts cli_launcher_options; /* if the program is started as launcher_multigpu */

/* Arguments and options may be mixed. Returns 0, or -1 with gd__fail_text(). */
int cli_transcribe_parse(struct cli_transcribe *t, const struct cli_opts *o, int argc, char **argv);
void cli_transcribe_free(struct cli_transcribe *t);

#endif
