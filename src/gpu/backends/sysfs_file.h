/* Reads small files of sysfs. Tests and unusual installations may set another root than /sys: see GD__ENV_SYSFS. */
#ifndef GD_GPU_BACKENDS_SYSFS_FILE_H
#define GD_GPU_BACKENDS_SYSFS_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GD__SYSFS_PATH_MAX = 1024 };

/* Writes the path of directory/name below the root. name may be NULL. Returns false if the path is too long. */
bool gd__sysfs_path(char out[GD__SYSFS_PATH_MAX], const char *directory, const char *name);

/* Reads the file, without white space at its end. Returns false if it is empty, does not exist or cannot be read. */
bool gd__sysfs_read(const char *directory, const char *name, char *out, size_t size);

/* Reads a file that contains one number, decimal or 0x... */
bool gd__sysfs_number(const char *directory, const char *name, uint64_t *out);

/* Finds the line "key value" in the text of a file. */
bool gd__sysfs_property(const char *text, const char *key, uint64_t *out);

DIR *gd__sysfs_open(const char *directory); /* NULL: it does not exist */

/* Returns the number in a name that consists of `beginning` and digits. Example: 12, if name is "card12" and beginning
 * is "card". Returns -1 for any other name. */
int gd__sysfs_numbered(const char *name, const char *beginning);

#endif
