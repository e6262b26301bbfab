/* What resuming needs to know of a record. */
#ifndef GD_JOURNAL_ROWS_H
#define GD_JOURNAL_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "journal/siphash.h"

#define GD__ROW_MOST      ((UINT64_C(1) << 40) - 1) /* ids are no larger */
#define GD__ATTEMPTS_MOST ((UINT32_C(1) << 20) - 1) /* and no more are counted */

struct gd__row {
    unsigned char key[GD__HASH_SIZE];
    uint64_t version; /* a hash of it; 0: none */
    uint64_t id;
    uint32_t attempts;
    uint8_t state; /* enum gd__final */
};

#endif
