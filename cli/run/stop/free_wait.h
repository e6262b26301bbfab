/* SPDX-License-Identifier: MIT
 *
 * Prints notes before a run, and handles Ctrl-C while the run waits for free devices (--gpus free) or for its journal
 * (--lock-wait).
 * Signals are handled from the first note until cli_free_wait_end(). There is one wait at a time. */
#ifndef GD_CLI_RUN_STOP_FREE_WAIT_H
#define GD_CLI_RUN_STOP_FREE_WAIT_H

/* For gd_options.on_device_note and gd_journal_options.on_wait. */
int cli_free_wait_note(void *user, const char *message);

/* Signals have their usual effect again. Returns the signal that came meanwhile, or 0. May be called twice. */
int cli_free_wait_end(void);

#endif
