/* File systems that other machines may use: see shared.h.
 *
 * Everything that is not in the table counts as shared: a wrong "shared" costs speed, and a wrong "local" can destroy a
 * file. FUSE is not in the table, because anything can be behind it (sshfs, GlusterFS, virtiofs, an object store). The
 * same is true of file systems that lie over another one, such as eCryptfs.
 *
 * overlayfs is in the table although it lies over others: most containers have it as their root. What is written there
 * goes to its upper directory, which only one mount may use, so two machines never share the files of one overlay. The
 * kernel refuses an upper directory on NFS and most other network file systems, because it needs RENAME_WHITEOUT.
 */
#include "base/file/shared.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

/* From <linux/magic.h>, which does not have all of them. */
static const uint32_t local_types[] = {
    0x0000ef53, /* ext2, ext3, ext4 */
    0x58465342, /* XFS */
    0x9123683e, /* Btrfs */
    0x2fc12fc1, /* ZFS */
    0xca451a4e, /* bcachefs */
    0xf2f52010, /* F2FS */
    0x3153464a, /* JFS */
    0x52654973, /* ReiserFS */
    0x00003434, /* NILFS */
    0x01021994, /* tmpfs */
    0x858458f6, /* ramfs */
    0x794c7630, /* overlayfs */
    0x00004d44, /* FAT */
    0x2011bab0, /* exFAT */
    0x7366746e, /* NTFS (ntfs3) */
};

bool gd__file_type_is_shared(unsigned long type)
{
    for (size_t i = 0; i < sizeof local_types / sizeof *local_types; i++)
        if ((uint32_t)type == local_types[i]) /* the upper half may be a sign */
            return false;
    return true;
}

static bool is_forced(void)
{
    const char *text = getenv(GD__ENV_SHARED_FILES);
    return text && *text && strcmp(text, "0") != 0;
}

/* statfs() for the directory of a file that does not exist. */
static int statfs_directory(const char *path, struct statfs *out)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 1;
    if (snprintf(directory, sizeof directory, "%.*s", length, slash ? path : ".") >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return statfs(directory, out);
}

static bool find_type(const char *path, unsigned long *type)
{
    struct statfs info;
    if (statfs(path, &info) < 0 && (errno != ENOENT || statfs_directory(path, &info) < 0))
        return false;
    *type = (unsigned long)info.f_type;
    return true;
}

bool gd__file_is_shared(const char *path)
{
    unsigned long type;
    return is_forced() || !find_type(path, &type) || gd__file_type_is_shared(type);
}

bool gd__place_is_shared(const char *path)
{
    unsigned long type;
    return find_type(path, &type) && gd__file_type_is_shared(type);
}
