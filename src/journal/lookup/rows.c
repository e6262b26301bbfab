/* Reading the part of a record that resuming needs: see rows.h. */
#include "journal/lookup/rows.h"

#include <string.h>

#include "base/hash/key.h"
#include "journal/db.h"

uint64_t gd__row_version(const void *version, size_t size)
{
    unsigned char hash[GD__HASH_SIZE];
    uint64_t value;
    gd__key_hash(version, size, hash);
    memcpy(&value, hash, sizeof value);
    return value | 1;
}

static uint64_t version_of(sqlite3_stmt *s, int column)
{
    if (sqlite3_column_type(s, column) == SQLITE_NULL)
        return 0;
    /* Get the size first, because sqlite3_column_bytes() may move the value. */
    const size_t size = (size_t)sqlite3_column_bytes(s, column);
    return gd__row_version(sqlite3_column_blob(s, column), size);
}

bool gd__row_read(sqlite3_stmt *s, struct gd__row *out)
{
    const char *state = (const char *)sqlite3_column_text(s, 3);
    const int64_t id = sqlite3_column_int64(s, 0), attempts = sqlite3_column_int64(s, 4);
    if (id <= 0 || (uint64_t)id > GD__ROW_MOST || sqlite3_column_bytes(s, 1) != GD__HASH_SIZE || !state || attempts < 0)
        return false;
    memcpy(out->key, sqlite3_column_blob(s, 1), GD__HASH_SIZE);
    out->id = (uint64_t)id;
    out->version = version_of(s, 2);
    out->state = strcmp(state, "done") == 0 ? GD__FINAL_DONE : GD__FINAL_FAILED;
    out->attempts = attempts < GD__ATTEMPTS_MOST ? (uint32_t)attempts : GD__ATTEMPTS_MOST;
    return true;
}
