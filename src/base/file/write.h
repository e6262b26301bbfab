/* Writing to files. */
#ifndef GD_BASE_FILE_WRITE_H
#define GD_BASE_FILE_WRITE_H

#include <stddef.h>

/* Writes everything, despite partial writes, interruptions and a full non-blocking pipe. Returns 0, or -1 with
 * errno. */
int gd__write_all(int fd, const void *data, size_t size);

/* Flushes the directory of path to disk, so that a new name in it survives a power loss. Returns 0, or -1 with
 * errno. */
int gd__sync_directory_of(const char *path);

/* Sets the error message for a file that could not be opened for writing: "cannot write a/b: the directory a does not
 * exist". error: the errno of the failed call. Returns -1, as gd__fail() does. */
int gd__fail_to_write(const char *path, int error);

#endif
