/* The private directory of a user's runs. The library keeps the pages for observers there, and the command keeps the
 * address of its web page and the token there.
 *
 *   $GPU_DISPATCH_JOBS              if it is set; then no other directory is used
 *   $XDG_RUNTIME_DIR/gpu-dispatch   if the user owns $XDG_RUNTIME_DIR, and it is on a local file system
 *   /dev/shm/gpu-dispatch-UID       if the first cannot be used; readers look there too
 *
 * The directory is never on a file system that other machines may use (base/file/shared.h). The run maps its page, so it
 * would hang when the network does. And a machine would remove the pages of other machines' runs: it sees no processes
 * with their numbers.
 */
#ifndef GD_BASE_FILE_RUN_DIRECTORY_H
#define GD_BASE_FILE_RUN_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

enum { GD__RUN_DIRECTORIES = 2 };

/* Opens the i-th directory. If make is true, creates it if it does not exist. Returns a descriptor. Returns
 * GD_E_NO_JOB, without an error message, if there is no such directory. Returns
 * GD_E_UNSUPPORTED if other machines may use it. Returns another GD_E_... if it cannot be opened or other users have
 * access to it. Stores its name in path, unless path is NULL. */
int gd__run_directory_open(unsigned i, bool make, char path[PATH_MAX]);

#endif
