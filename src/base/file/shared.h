/* File systems that other machines may use at the same time: NFS, Lustre, GPFS, CIFS, FUSE and more.
 *
 * Memory that two processes map is the same only on one machine, and a file that was just written may look older on
 * another one. So some ways of using a file are safe only on a local file system.
 */
#ifndef GD_BASE_FILE_SHARED_H
#define GD_BASE_FILE_SHARED_H

#include <stdbool.h>

/* If this variable is set, and neither empty nor "0", every file system counts as shared. */
#define GD__ENV_SHARED_FILES "GPU_DISPATCH_SHARED_FILES"

/* Whether the file may be on a shared file system. The file may not exist yet: then its directory counts. Only types that
 * are known to be local return false. */
bool gd__file_is_shared(const char *path);

/* For files that must be local: pages of runs, sockets, locks of GPUs. The variable does not count, and a place about
 * which nothing is known is not shared, so that opening it reports the error. */
bool gd__place_is_shared(const char *path);

/* The same for the type in struct statfs. For tests. */
bool gd__file_type_is_shared(unsigned long type);

#endif
