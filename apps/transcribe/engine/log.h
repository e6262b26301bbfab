/* SPDX-License-Identifier: MIT
 *
 * What whisper.cpp says: warnings and errors go to standard error, the rest nowhere; its first error is kept, to be
 * part of ours: those that follow tell what came of it. Where it ends the process, that error is its last words.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LOG_H
#define GD_TRANSCRIBE_ENGINE_LOG_H

#include <stdbool.h>

void tr_log_begin(void);        /* from now on; forgets the error */
void tr_log_quiet(bool quiet);  /* while its errors are expected, or said by us */
const char *tr_log_error(void); /* the first error, NULL: none; valid until the next call */

#endif
