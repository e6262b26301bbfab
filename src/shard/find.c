/* gd_shard_find(): a shard from a text and the environment of this process. */
#include <gpu_dispatch/shard.h>

#include <stdlib.h>

#include "base/error.h"
#include "shard/environment.h"

static const char *get_variable(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

int gd_shard_find(struct gd_shard *out, const char *text, char *origin)
{
    static const struct gd__shard_environment environment = { .get = get_variable };
    struct gd__shard_spec spec;
    if (!out || !text)
        return gd__error(GD_E_INVALID, "gd_shard_find: %s is NULL", out ? "text" : "out");
    const int rc = gd__shard_parse(&spec, text);
    return rc < 0 ? rc : gd__shard_find(out, origin, &spec, &environment);
}
