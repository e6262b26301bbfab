/* The names of files that each shard has for itself.
 *
 *   run.db, shard 3 of 16       run.3-of-16.db
 *   a.b/run, shard 3 of 16      a.b/run.3-of-16
 *   run.db, 16 shards           run.of-16.deal      the deal of all shards: see deal_file.h
 *
 * The suffix of a name begins at its last dot. A dot at the beginning of a name does not begin a suffix.
 */
#ifndef GD_SHARD_NAMES_H
#define GD_SHARD_NAMES_H

#include <stddef.h>

#include "shard/spec.h"

/* Sets *out to the path of the shard's own file. The caller frees it with gd__free(). Returns 0, GD_E_INVALID if the
 * path does not end with the name of a file, or GD_E_NO_MEMORY. */
int gd__shard_path(char **out, const char *path, struct gd_shard shard);

/* The same for the deal that all shards read. */
int gd__shard_deal_path(char **out, const char *path, uint32_t count);

/* The reverse of gd__shard_path(): if the path is one of a shard, sets *base to the path that it was made from, which
 * the caller frees with gd__free(), and *shard, and returns 1. Otherwise returns 0, with *base NULL. Returns
 * GD_E_NO_MEMORY if there is no memory. */
int gd__shard_path_split(const char *path, char **base, struct gd_shard *shard);

/* Whether name, a name in a directory, is the name of a shard's own file for this path. The directory of the path is
 * ignored. */
bool gd__shard_is_sibling(const char *path, const char *name, struct gd_shard *shard);

/* Finds all files of shards for this path in its directory, in order of count and then index. Sets *out, which the
 * caller frees with gd__free(), and *n. A directory that does not exist has no files. Returns 0 or a GD_E_... code. */
int gd__shard_siblings(struct gd_shard **out, size_t *n, const char *path);

#endif
