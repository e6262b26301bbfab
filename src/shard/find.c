/* The public functions of shards: which shard this process is, and which tasks belong to it. */
#include <gpu_dispatch/shard.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "shard/deal.h"
#include "shard/environment.h"
#include "shard/slurm_step.h"

static const char *get_variable(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

static bool in_batch_script(void *user)
{
    (void)user;
    return gd__slurm_step_is_batch((uint64_t)getpid());
}

int gd_shard_find(struct gd_shard *out, const char *text, char *origin)
{
    static const struct gd__shard_environment environment = { .get = get_variable, .in_batch_script = in_batch_script };
    struct gd__shard_spec spec;
    if (!out || !text)
        return gd__error(GD_E_INVALID, "gd_shard_find: %s is NULL", out ? "text" : "out");
    const int rc = gd__shard_parse(&spec, text);
    return rc < 0 ? rc : gd__shard_find(out, origin, &spec, &environment);
}

bool gd_shard_owns(struct gd_shard shard, const void *key, size_t key_size)
{
    if (!key && key_size > 0)
        return false;
    return shard.count == 0 || gd__shard_of_key(key_size > 0 ? key : "", key_size, shard.count) == shard.index;
}
