/* A shard: one of N parts of a list of tasks. Each part is run by another process, usually on another machine.
 *
 * People count shards from 1 (--shard 3/16, run.3-of-16.db). Code counts them from 0.
 */
#ifndef GD_SHARD_SPEC_H
#define GD_SHARD_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/shard.h>

enum { GD__SHARD_MOST = 1000000 }; /* the most shards */

/* What a user writes after --shard. */
struct gd__shard_spec {
    bool automatic;        /* "auto", "auto/N": gd__shard_find() in environment.h finds the index */
    struct gd_shard shard; /* if automatic: the index is 0, and the count is N, or 0 if the user wrote no N */
};

/* Parses "K/N" (K from 1 to N), "auto" or "auto/N". Returns 0 or GD_E_INVALID. The error message begins with the text. */
int gd__shard_parse(struct gd__shard_spec *out, const char *text);

/* Checks numbers that a program passes: index from 0. Returns 0 or GD_E_INVALID. */
int gd__shard_check(struct gd_shard shard);

/* Reads the decimal number at *at, at most `most`, and moves *at past its digits. Returns false, and leaves *at, if no
 * digit is there or the number is larger. */
bool gd__shard_number(const char **at, uint64_t most, uint64_t *out);

#endif
