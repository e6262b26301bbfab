/* SPDX-License-Identifier: MIT
 *
 * The subcommands. Each gets the arguments after its name and returns the exit status.
 */
#ifndef GD_CLI_COMMANDS_H
#define GD_CLI_COMMANDS_H

int cli_run_main(int argc, char **argv);
int cli_gpus_main(int argc, char **argv);
int cli_estimate_main(int argc, char **argv);
int cli_status_main(int argc, char **argv);
int cli_export_main(int argc, char **argv);
int cli_merge_main(int argc, char **argv);
int cli_push_main(int argc, char **argv);
int cli_top_main(int argc, char **argv);
int cli_report_main(int argc, char **argv);
int cli_transcribe_main(int argc, char **argv);
int cli_models_main(int argc, char **argv);
int cli_launcher_main(int argc, char **argv); /* launcher_multigpu */
int cli_help_main(int argc, char **argv);

/* The short usage, printed if no command was given. */
extern const char cli_usage[];

#endif
