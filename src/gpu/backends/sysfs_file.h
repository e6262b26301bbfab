/* Small files of sysfs, below a root that tests and odd installations may move: see GD__ENV_SYSFS. */
#ifndef GD_GPU_BACKENDS_SYSFS_FILE_H
#define GD_GPU_BACKENDS_SYSFS_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GD__SYSFS_PATH_MAX = 1024 };

/* The path of folder/name below the root; name may be NULL. False if it is too long. */
bool gd__sysfs_path(char out[GD__SYSFS_PATH_MAX], const char *folder, const char *name);

/* What is in it, without line ends behind. False if it is not there or cannot be read. */
bool gd__sysfs_read(const char *folder, const char *name, char *out, size_t size);

/* A number, decimal or 0x..., alone in its file. */
bool gd__sysfs_number(const char *folder, const char *name, uint64_t *out);

/* The value of a line "key value" in such a file's text. */
bool gd__sysfs_property(const char *text, const char *key, uint64_t *out);

DIR *gd__sysfs_open(const char *folder); /* NULL: not there */

/* The number in a name made of a beginning and digits alone ("card", "card12"): or -1. */
int gd__sysfs_numbered(const char *name, const char *beginning);

#endif
