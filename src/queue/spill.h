/* Payloads and outputs that are too large for a message: files in a directory that all machines share.
 *
 * A file has the name HASH-NONCE: the hash of its contents, as 32 hexadecimal digits, and 16 random ones. It is written
 * under a name that begins with a dot, flushed to disk, and then renamed. So a file with a final name is complete, and
 * no two machines write the same file. A message is published only after that. On a network file system another machine
 * may still see less than all of it for a moment, so a reader compares size and hash with those in the message.
 *
 * A file that belongs to no message stays in the directory, if a program was killed after it had written the file.
 */
#ifndef GD_QUEUE_SPILL_H
#define GD_QUEUE_SPILL_H

#include <stddef.h>

#include "base/text/buffer.h"
#include "queue/messages/message.h"

enum { GD__SPILL_NAME_ROOM = 2 * GD__HASH_SIZE + 1 + 16 + 1 };

/* Checks that files can be made in the directory. Returns 0, or GD_E_SYSTEM with an error message for the user. */
int gd__spill_check(const char *directory);

/* Writes a file. *out describes it, for a message; out->file points to name. Returns 0 or a negative code. */
int gd__spill_write(const char *directory, const void *data, size_t size, struct gd__queue_data *out,
                    char name[GD__SPILL_NAME_ROOM]);

/* Appends the contents of a file to a buffer. directory: NULL is an error that tells the user to set it. Returns 0;
 * GD_E_SYSTEM if the file cannot be read; GD_E_CORRUPT if it is not, or not yet, what the message describes; or
 * GD_E_NO_MEMORY. After an error the buffer is as before. */
int gd__spill_read(const char *directory, const struct gd__queue_data *data, struct gd__buffer *out);

/* Writes the path of a file to out. Returns 0, or GD_E_INVALID if it does not fit. */
int gd__spill_path(char *out, size_t room, const char *directory, const struct gd__queue_data *data);

#endif
