/* The part of a record that resuming needs. */
#ifndef GD_JOURNAL_LOOKUP_ROWS_H
#define GD_JOURNAL_LOOKUP_ROWS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash/siphash.h"

#define GD__ROW_MOST      ((UINT64_C(1) << 40) - 1) /* the largest id */
#define GD__ATTEMPTS_MOST ((UINT32_C(1) << 20) - 1) /* more attempts count as this many */

struct gd__row {
    unsigned char key[GD__HASH_SIZE];
    uint64_t version; /* hash of the version; 0: none */
    uint64_t id;
    uint32_t attempts;
    uint8_t state; /* enum gd__final */
};

/* Columns: id, key, version, state, attempts. Returns false if the row is not valid. */
bool gd__row_read(sqlite3_stmt *s, struct gd__row *out);

/* The hash of a version that is not NULL. It is never 0. */
uint64_t gd__row_version(const void *version, size_t size);

#endif
