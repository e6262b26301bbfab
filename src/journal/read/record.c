/* Reading the columns of a record: see record.h. */
#include "journal/read/record.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash/siphash.h"
#include "journal/db.h"

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

static int within(int64_t n, int least, int most)
{
    return n < least ? least : n > most ? most : (int)n;
}

/* The number of a worker or a device; -1: none. */
static int number_or_none_at(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL ? -1 : within(sqlite3_column_int64(s, column), -1, INT_MAX);
}

static int code_at(sqlite3_stmt *s, int column)
{
    return within(sqlite3_column_int64(s, column), INT_MIN, INT_MAX);
}

static const unsigned char *key_at(sqlite3_stmt *s, int column)
{
    static const unsigned char no_key[GD__HASH_SIZE];
    const bool has = sqlite3_column_type(s, column) == SQLITE_BLOB && sqlite3_column_bytes(s, column) == GD__HASH_SIZE;
    return has ? sqlite3_column_blob(s, column) : no_key;
}

void gd__read_record(sqlite3_stmt *s, struct gd_journal_record *out)
{
    const char *state = text_at(s, 3), *input = text_at(s, 15), *last = text_at(s, 18);
    *out = (struct gd_journal_record){
        .id = (uint64_t)sqlite3_column_int64(s, 0), /* the query selects only ids above 0 */
        .key = key_at(s, 1),
        .version = text_at(s, 2),
        .done = state && strcmp(state, "done") == 0,
        .attempts = (unsigned)within(sqlite3_column_int64(s, 4), 0, INT_MAX),
        .number = gd__db_count(s, 5),
        .run = gd__db_count(s, 6),
        .started = gd__db_seconds(s, 7),
        .seconds = gd__db_seconds(s, 8),
        .worker_id = number_or_none_at(s, 9),
        .gpu_id = number_or_none_at(s, 10),
        .exit_code = code_at(s, 11),
        .signal = code_at(s, 12),
        .failure = text_at(s, 13),
        .input_full_size = gd__db_count(s, 14),
        .input = input ? input : "",
        .input_size = (size_t)sqlite3_column_bytes(s, 15),
        .output = text_at(s, 16),
        .error = text_at(s, 17),
        .stderr_end = last,
        .stderr_size = last ? (size_t)sqlite3_column_bytes(s, 18) : 0,
    };
}

struct gd_journal_record *gd__read_copy(const struct gd_journal_record *r, size_t *bytes)
{
    const struct {
        const void *from;
        size_t size;
    } parts[] = {
        { r->key, GD__HASH_SIZE },
        { r->input, r->input_size },
        { r->stderr_end, r->stderr_size },
        { r->version, r->version ? strlen(r->version) : 0 },
        { r->failure, r->failure ? strlen(r->failure) : 0 },
        { r->error, r->error ? strlen(r->error) : 0 },
        { r->output, r->output ? strlen(r->output) : 0 },
    };
    enum { N = sizeof parts / sizeof *parts };
    const char *at[N] = { NULL };
    size_t size = sizeof *r;
    for (size_t i = 0; i < N; i++)
        size += parts[i].size + 1;
    struct gd_journal_record *copy = gd__calloc(1, size);
    if (!copy)
        return NULL;
    *bytes += size;
    char *to = (char *)(copy + 1);
    for (size_t i = 0; i < N; to += parts[i].size + 1, i++) {
        at[i] = parts[i].from ? to : NULL;
        if (parts[i].size > 0)
            memcpy(to, parts[i].from, parts[i].size);
    }
    *copy = *r;
    copy->key = (const unsigned char *)at[0];
    copy->input = at[1];
    copy->stderr_end = at[2];
    copy->version = at[3];
    copy->failure = at[4];
    copy->error = at[5];
    copy->output = at[6];
    return copy;
}
