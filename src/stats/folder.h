/* The folder that holds the pages of a user's runs.
 *
 *   $GPU_DISPATCH_JOBS            if it is set, and nothing else
 *   $XDG_RUNTIME_DIR/gpu-dispatch if that is a folder of the user's own
 *   /dev/shm/gpu-dispatch-UID     where a run cannot use the first, and always looked at
 */
#ifndef GD_STATS_FOLDER_H
#define GD_STATS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

enum { GD__FOLDERS = 2, GD__PAGE_NAME = 96 };

/* The i-th folder, opened: a descriptor; GD_E_NO_JOB, without words, if there is none; another GD_E_... if it cannot be
 * had or is not the user's alone. make: it is made if it is not there. */
int gd__folder_open(unsigned i, bool make);

/* A file of the folder for a page: readable by its owner alone, of size bytes that are really there. Under a temporary
 * name, which is put into temporary, until gd__folder_commit(). A descriptor or GD_E_... */
int gd__folder_create(int folder, const char *name, size_t size, char temporary[GD__PAGE_NAME]);
int gd__folder_commit(int folder, const char *temporary, const char *name);

/* Opens a file of the folder for reading if it is a plain file of the user's. A descriptor, or -1. */
int gd__folder_read(int folder, const char *name);

/* Removes a file of the folder if it is still the one that fd is open on. */
void gd__folder_remove(int folder, const char *name, int fd);

#endif
