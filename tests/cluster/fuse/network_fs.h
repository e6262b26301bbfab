/* SPDX-License-Identifier: MIT
 *
 * A file system for tests that stands in for a network file system. It shows a local directory, the backing directory,
 * at a mount point. Two mounts of the same backing directory are two clients of one server, as if on two machines.
 *
 *     network_fs [OPTION]... DIRECTORY MOUNT_POINT
 *
 *     --locks shared        all mounts of the directory see each other's locks, as on NFS and GPFS (the default)
 *     --locks local         each mount has its own locks, as on NFS with nolock and Lustre with localflock
 *     --locks none          every lock fails with ENOSYS, as on Lustre without flock
 *     --cache SECONDS       attributes and names are cached that long, and data until the file is opened again or
 *                           locked, as on NFS. Otherwise nothing is cached
 *     --cache-missing       that a name does not exist is cached too
 *     --no-rename-flags     renameat2() with flags fails with EINVAL, as on NFS
 *     --no-links            link() fails with EPERM, as on some CIFS and FUSE file systems
 *     --repeat-links        each link() is carried out twice, as if NFS had lost the first reply: it succeeds on the
 *                           server, and reports EEXIST
 *     --stale               a file that was removed through another mount fails with ESTALE, as on NFS. Otherwise it can
 *                           be used as long as it is open
 *
 * The program prints "mounted" when the mount can be used. Then it reads commands from its standard input, one in a
 * line, and answers each with "done". The mount also ends when the standard input ends.
 *
 *     cut                   every operation of this mount waits, as on a machine that has lost its network
 *     cut-at N              cuts the mount when the Nth operation begins that writes, flushes, or changes a name or an
 *                           attribute (from 1), and prints "reached"
 *     fail                  every operation of this mount fails with EIO
 *     mend                  the mount works again, and operations that wait go on
 *     end                   the mount ends, and operations that wait fail
 *
 * "done" after cut or fail means that no operation is running any more.
 *
 * The parts: network_fs.c (options, commands), gate.c (cut and mend), nodes.c (inodes), operations.c, directories.c,
 * locks.c.
 */
#ifndef GD_TESTS_CLUSTER_FUSE_NETWORK_FS_H
#define GD_TESTS_CLUSTER_FUSE_NETWORK_FS_H

#define FUSE_USE_VERSION 34
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_mode { LOCKS_SHARED, LOCKS_LOCAL, LOCKS_NONE };

struct settings {
    const char *directory, *mount_point;
    enum lock_mode locks;
    double cache_s;
    bool cache_missing, no_rename_flags, no_links, repeat_links, stale;
};

extern struct settings settings;
extern struct fuse_session *session;

/* --- gate.c: every operation is between gate_enter() and gate_leave(). --- */

enum gate { GATE_OPEN, GATE_CUT, GATE_FAIL };

/* Both wait while the mount is cut. They return 0, or EIO: the operation must not be carried out, and gate_leave() must
 * not be called. */
int gate_enter(void);
int gate_enter_change(void);
void gate_leave(void);
void gate_cut_at(unsigned change);
void gate_set(enum gate to); /* returns when no operation is running, unless the gate is open */

/* --- nodes.c: the inodes that the kernel knows. Their numbers are the addresses of nodes. --- */

struct node {
    struct node *next;
    int fd; /* O_PATH */
    dev_t dev;
    ino_t ino;
    uint64_t lookups; /* how often the kernel must forget it */
    bool removed;     /* a name of it was removed through this mount */
};

void nodes_open(const char *directory);
struct node *node_of(fuse_ino_t ino);

/* They return 0 or an errno. node_find() counts a lookup, if it succeeds. */
int node_find(fuse_ino_t parent, const char *name, struct fuse_entry_param *out);
int node_reopen(fuse_ino_t ino, int flags, int *fd);
int node_enter(fuse_ino_t ino, bool change);                 /* gate_enter(), for an operation on a file */
void node_mark_removed(fuse_ino_t parent, const char *name); /* the name will be removed */
void node_forget(fuse_ino_t ino, uint64_t lookups);

/* --- locks.c --- */

void locks_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock);
void locks_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait);
void locks_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op);
void locks_drop_owner(fuse_ino_t ino, uint64_t owner); /* a process has closed the file */
void locks_drop_file(uint64_t fh);                     /* the last descriptor of the open file is closed */

/* --- operations.c, directories.c: they fill in their part of the table. --- */

void operations_add(struct fuse_lowlevel_ops *to);
void directories_add(struct fuse_lowlevel_ops *to);

#endif
