/* SPDX-License-Identifier: MIT
 *
 * Prints which shard the environment means, as "2/3 task 2 of 3 of srun", or "error: " and the message. A test starts it
 * in jobs. */
#include <stdio.h>

#include "gpu_dispatch/error.h"
#include "gpu_dispatch/shard.h"

int main(int argc, char **argv)
{
    struct gd_shard shard;
    char origin[GD_SHARD_ORIGIN];
    if (gd_shard_find(&shard, argc > 1 ? argv[1] : "auto", origin) < 0)
        printf("error: %s\n", gd_error_text());
    else
        printf("%u/%u %s\n", shard.index + 1, shard.count, origin);
    return 0;
}
