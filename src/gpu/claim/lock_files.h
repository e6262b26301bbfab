/* Locks on devices that all processes of this machine see: flock() on small files in a directory that all users can
 * write to.
 *
 *   directory   $GPU_DISPATCH_LOCKS; otherwise the first of /run/lock, /dev/shm and /tmp that belongs to root, is
 *               writable for all users, sticky, and on a local file system. So all users get the same directory. A
 *               file system that other machines may use is refused: its locks may be missing, and it may hang.
 *   file        gpu-dispatch.NAME.K, empty, mode 0444. NAME is the name of a device: its UUID. K is 0 to 9999.
 *
 * A device may have several files, because each user who locks it makes one. To lock a device means to lock all of its
 * files. So a user who removes a file, or makes it unreadable, does not undo the locks of other users. Each of them has
 * also locked a file that belongs to them, and other users cannot remove this file from a sticky directory.
 *
 * Other entries of the directory do no harm. Links, directories, FIFOs, and files that are not empty or not readable
 * for all users are ignored. If one of them has the name of a new file, the next K is used. An existing entry is never
 * written to, changed or removed. The file of a dead process is not locked, because the kernel has released the lock.
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

/* The open directory. */
struct gd__lock_directory {
    int fd; /* -1: closed */
    char path[PATH_MAX];
};

/* Returns 0 or a negative code: GD_E_SYSTEM if the directory does not exist or cannot be opened, GD_E_UNSUPPORTED if
 * other machines may use it. */
int gd__lock_directory_open(struct gd__lock_directory *d);
void gd__lock_directory_close(struct gd__lock_directory *d); /* may be called twice */

/* A lock file. */
struct gd__lock_file_id {
    char name[GD__LOCK_NAME_MAX + 32]; /* in the directory */
    dev_t device;
    ino_t inode;
};

enum gd__lock_kind {
    GD__LOCK_SHARED,    /* several runs may have it */
    GD__LOCK_EXCLUSIVE, /* only one run may have it, and no other run may have a shared lock */
};

struct gd__lock_held; /* one descriptor */

/* The lock of one device. A zeroed struct is unlocked. */
struct gd__device_lock {
    struct gd__lock_held *first;
};

/* Takes the lock without waiting. Returns
 *
 *   0            the device is locked until gd__device_lock_release(), or until this process ends. Programs that this
 *                process starts do not inherit the lock, and forks of this process close their copies.
 *   GD_E_BUSY    another process has the lock. *busy is the file that could not be locked. No error message is set.
 *   otherwise    an error
 *
 * If no file can be made, an exclusive lock fails. A shared lock then locks the files that exist, if there are any. */
int gd__device_lock_take(struct gd__device_lock *lock, const struct gd__lock_directory *d, const char *name,
                         enum gd__lock_kind kind, struct gd__lock_file_id *busy);
void gd__device_lock_release(struct gd__device_lock *lock); /* may be called twice */

/* Calls fn for each file of the device until fn returns false. Opens none of the files, because closing a file wakes
 * all processes that wait for it. */
typedef bool gd__lock_file_fn(void *user, const struct gd__lock_file_id *file);
int gd__lock_files_each(const struct gd__lock_directory *d, const char *name, gd__lock_file_fn *fn, void *user);

#endif
