/* The shard that a journal belongs to: see identity.h.
 *
 * A task belongs to a shard by the hash of its key and the number of shards. If the number changes, most tasks belong to
 * another shard, and their records are in the journals of the old shards. Such a run would run finished tasks again. So
 * it is refused, unless the user names the old journals in skip_done.
 *
 * Only journals that already exist are found. Two runs with different numbers of shards that start at the same moment are
 * not.
 */
#include "journal/identity.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/db.h"
#include "shard/names.h"

const char *gd__identity_text(struct gd_shard shard, char out[GD__SHARD_TEXT])
{
    if (shard.count == 0)
        return NULL;
    (void)snprintf(out, GD__SHARD_TEXT, "%u/%u", shard.index + 1, shard.count);
    return out;
}

bool gd__identity_parse(const char *text, struct gd_shard *out)
{
    struct gd__shard_spec spec;
    if (!text) {
        *out = (struct gd_shard){ 0, 0 };
        return true;
    }
    if (gd__shard_parse(&spec, text) < 0 || spec.automatic)
        return false;
    *out = spec.shard;
    return true;
}

int gd__identity_check(const char *path, struct gd_shard recorded, struct gd_shard shard)
{
    if (recorded.index == shard.index && recorded.count == shard.count)
        return 0;
    if (recorded.count == 0)
        return gd__error(GD_E_MISMATCH,
                         "%s has records of the whole list, but this run is shard %u of %u: give another journal. To "
                         "skip the tasks that are done there, name it in skip_done",
                         path, shard.index + 1, shard.count);
    if (shard.count == 0)
        return gd__error(GD_E_MISMATCH,
                         "%s has records of shard %u of %u, but this run has the whole list: run that shard, or give "
                         "another journal. To skip the tasks that are done there, name it in skip_done",
                         path, recorded.index + 1, recorded.count);
    return gd__error(
        GD_E_MISMATCH,
        "%s has records of shard %u of %u, but this run is shard %u of %u: run that shard, or give another "
        "journal",
        path, recorded.index + 1, recorded.count, shard.index + 1, shard.count);
}

/* --- other journals of the list --- */

/* Whether the file is one of the n files of skip_done. Paths may differ, so the files themselves are compared. */
static bool is_named(const char *path, const char *const *skip_done, size_t n)
{
    struct stat file, named;
    if (stat(path, &file) < 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (stat(skip_done[i], &named) == 0 && named.st_ino == file.st_ino && named.st_dev == file.st_dev)
            return true;
    return false;
}

/* Whether the file is a journal with records. Any other file with that name is not in the way. */
static bool has_records(const char *path)
{
    struct stat info;
    sqlite3 *db = NULL;
    int64_t any = 0;
    if (stat(path, &info) < 0 || gd__db_open_read(&db, path) < 0)
        return false;
    const bool has = gd__db_integer(db, "SELECT 1 FROM task LIMIT 1", &any) == SQLITE_OK && any;
    sqlite3_close(db);
    return has;
}

static int refuse_sibling(const char *path, struct gd_shard other, struct gd_shard shard)
{
    return gd__error(GD_E_MISMATCH,
                     "%s is a journal of the same list in %u shards, but this run has %u: use %u shards again. Or name "
                     "all journals of the %u shards in skip_done, so that tasks that are done there are skipped. Or "
                     "move them to another directory",
                     path, other.count, shard.count, other.count, other.count);
}

static int refuse_whole_list(const char *path, struct gd_shard other)
{
    return gd__error(
        GD_E_MISMATCH,
        "%s is a journal of the same list in %u shards, but this run has the whole list: run the shards, or "
        "name all journals of the %u shards in skip_done, so that tasks that are done there are skipped. Or "
        "move them to another directory",
        path, other.count, other.count);
}

int gd__identity_siblings(const char *base, struct gd_shard shard, const char *const *skip_done, size_t n)
{
    struct gd_shard *found;
    size_t n_found;
    struct stat info;
    if (shard.count == 0 && stat(base, &info) == 0)
        return 0; /* it is continued: perhaps the journals of the shards were merged into it */
    int rc = gd__shard_siblings(&found, &n_found, base);
    if (rc < 0 && shard.count == 0)
        return 0; /* the directory may be closed to readers. A wrong path is reported when the file is opened */
    for (size_t i = 0; rc == 0 && i < n_found; i++) {
        char *path = NULL;
        if (found[i].count == shard.count)
            continue;
        rc = gd__shard_path(&path, base, found[i]);
        if (rc == 0 && !is_named(path, skip_done, n))
            rc = shard.count > 0 ? refuse_sibling(path, found[i], shard) : refuse_whole_list(path, found[i]);
        gd__free(path);
    }
    gd__free(found);
    if (rc == 0 && shard.count > 0 && has_records(base) && !is_named(base, skip_done, n))
        return gd__error(GD_E_MISMATCH,
                         "%s has records of the same list, which was not divided, but this run is shard %u of %u: name "
                         "%s in skip_done, so that tasks that are done there are skipped, or give another journal",
                         base, shard.index + 1, shard.count, base);
    return rc;
}
