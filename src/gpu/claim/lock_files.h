/* Locks on devices that all processes of this machine see: flock() on small files in a directory that everybody can
 * write to.
 *
 *   directory   $GPU_DISPATCH_LOCKS; otherwise the first of /run/lock, /dev/shm and /tmp that belongs to root, is
 *               writable for everybody and sticky. The choice does not depend on who asks.
 *   file        gpu-dispatch.NAME.K, empty, mode 0444. NAME is the name of a device: its UUID. K is 0 to 9999.
 *
 * A device may have several files: each user who locked it has made one. To hold a lock means to hold it on every file
 * of the device. So a file that its owner removes or makes unreadable does not undo the locks of other users: each of
 * them also holds a file of his own, which nobody else can remove from a sticky directory.
 *
 * What else may lie in the directory does no harm. Links, directories, FIFOs and files that are not empty or not
 * readable for everybody are ignored, and if one of them has the name of a new file, the next K is used. Nothing that
 * exists is written to, changed or removed. A file that a dead process left has no lock: the kernel has released it.
 *
 * Threads: one thread at a time may use a struct.
 */
#ifndef GD_GPU_CLAIM_LOCK_FILES_H
#define GD_GPU_CLAIM_LOCK_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GD__ENV_LOCKS "GPU_DISPATCH_LOCKS" /* the directory of the locks */

enum { GD__LOCK_NAME_MAX = 128 };

/* The directory, open. */
struct gd__lock_directory {
    int fd; /* -1: closed */
    char path[PATH_MAX];
};

/* GD_E_SYSTEM if the directory does not exist or cannot be opened; the error message says what to do. */
int gd__lock_directory_open(struct gd__lock_directory *d);
void gd__lock_directory_close(struct gd__lock_directory *d); /* may be called twice */

/* The file that a lock could not be taken on. */
struct gd__lock_file_id {
    char name[GD__LOCK_NAME_MAX + 32]; /* in the directory */
    dev_t device;
    ino_t inode;
};

enum gd__lock_kind {
    GD__LOCK_SHARED,    /* several runs may hold it */
    GD__LOCK_EXCLUSIVE, /* one run may hold it, and no other holds it shared */
};

struct gd__lock_held; /* one descriptor */

/* The lock of one device. A zeroed struct holds nothing. */
struct gd__device_lock {
    struct gd__lock_held *first;
};

/* Takes the lock without waiting. Returns
 *
 *   0            it is held until gd__device_lock_release(), or until this process ends. Programs that this process
 *                starts do not inherit it, and forks of it close their copies.
 *   GD_E_BUSY    somebody else holds it; busy says on which file. There is no error message.
 *   otherwise    an error
 *
 * If no file can be made, an exclusive lock fails. A shared lock is then held on the files that exist, which may be
 * none. */
int gd__device_lock_take(struct gd__device_lock *lock, const struct gd__lock_directory *d, const char *name,
                         enum gd__lock_kind kind, struct gd__lock_file_id *busy);
void gd__device_lock_release(struct gd__device_lock *lock); /* may be called twice */

/* Calls fn for each file of the device until fn returns false. Opens none of them: closing a file wakes everybody who
 * waits for it. */
typedef bool gd__lock_file_fn(void *user, const struct gd__lock_file_id *file);
int gd__lock_files_each(const struct gd__lock_directory *d, const char *name, gd__lock_file_fn *fn, void *user);

#endif
