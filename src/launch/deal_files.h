/* Which files of a directory belong to a shard.
 *
 * A file is identified by its path within the directory, because the directory may have another name on each machine.
 * With a journal, the files are dealt so that all shards get about the same number of bytes: the first shard writes the
 * deal beside the journal, and all others read it. Files that are found later, and all files without a journal, go by the
 * hash of their path.
 */
#ifndef GD_LAUNCH_DEAL_FILES_H
#define GD_LAUNCH_DEAL_FILES_H

#include <gpu_dispatch/launch.h>
#include <gpu_dispatch/shard.h>

struct gd__file_deal;

/* journal: the path that the program gave for the journal, without the shard; NULL: no journal. The files have their
 * sizes. dir is borrowed. Returns 0 or a GD_E_... code. */
int gd__file_deal_open(struct gd__file_deal **out, const struct gd_files *files, const char *dir, struct gd_shard shard,
                       const char *journal);
void gd__file_deal_close(struct gd__file_deal **d); /* NULL is allowed */

/* The path within the directory. */
const char *gd__file_deal_key(const struct gd__file_deal *d, const char *path);
bool gd__file_deal_owns(const struct gd__file_deal *d, const char *path);
uint64_t gd__file_deal_count(const struct gd__file_deal *d); /* how many of the files belong to this shard */

#endif
