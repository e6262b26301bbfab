/* SPDX-License-Identifier: MIT
 *
 * whisper.cpp's log: warnings and errors go to standard error, other messages are dropped. The first error is kept as
 * part of our error message, because later errors are only its consequences. If whisper.cpp ends the process, the first
 * error is printed last.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LOG_H
#define GD_TRANSCRIBE_ENGINE_LOG_H

#include <stdbool.h>

void tr_log_begin(void);        /* begins logging; clears the last error */
void tr_log_quiet(bool quiet);  /* true while errors are expected, or are reported by our code */
const char *tr_log_error(void); /* the first error, or NULL; valid until the next call */

#endif
