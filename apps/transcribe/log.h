/* SPDX-License-Identifier: MIT
 *
 * What whisper.cpp says: warnings and errors go to standard error, the rest nowhere; its last error is kept, to be part
 * of ours.
 */
#ifndef GD_TRANSCRIBE_LOG_H
#define GD_TRANSCRIBE_LOG_H

#include <stdbool.h>

void tr_log_begin(void);        /* from now on; forgets the last error */
void tr_log_quiet(bool quiet);  /* while its errors are expected, or said by us */
const char *tr_log_error(void); /* the last error, NULL: none; valid until the next tr_log_begin() */

#endif
