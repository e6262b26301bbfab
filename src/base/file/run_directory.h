/* The private directory of a user's runs: the library keeps the pages for observers there, the command the address of a
 * web page with its token.
 *
 *   $GPU_DISPATCH_JOBS              if it is set, and nothing else
 *   $XDG_RUNTIME_DIR/gpu-dispatch   if that is a directory of the user's own
 *   /dev/shm/gpu-dispatch-UID       if the first cannot be used; readers look there too
 */
#ifndef GD_BASE_FILE_RUN_DIRECTORY_H
#define GD_BASE_FILE_RUN_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

enum { GD__RUN_DIRECTORIES = 2 };

/* Opens the i-th one. make: it is made if it does not exist. A descriptor; GD_E_NO_JOB, without an error message, if
 * there is none; another GD_E_... if it cannot be opened or is not the user's alone. path gets its name, unless it is
 * NULL. */
int gd__run_directory_open(unsigned i, bool make, char path[PATH_MAX]);

#endif
