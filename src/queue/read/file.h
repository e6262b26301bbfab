/* Files of the spill directory, in which payloads and outputs are that are too large for messages. */
#ifndef GD_QUEUE_READ_FILE_H
#define GD_QUEUE_READ_FILE_H

#include "queue/messages/message.h"

/* Checks that the file of this data exists in the directory, and has the recorded size and contents. It may be new on a
 * network file system, and not visible as a whole yet. Returns 0, or a negative code with an error message that names
 * the file. */
int gd__read_file_check(const char *directory, const struct gd__queue_data *data);

#endif
