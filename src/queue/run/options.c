/* A copy of the user's options of a queue, with the strings that they point to. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/connect.h"
#include "queue/run/internal.h"

/* All strings of the options. */
static const char **strings_of(struct gd_queue_options *o, size_t i)
{
    const char **all[] = { &o->url,     &o->creds,     &o->nkey,  &o->tls_ca, &o->tls_cert,
                           &o->tls_key, &o->spill_dir, &o->spool, &o->command };
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

int gd__queue_options_copy(struct gd_queue_options **out, const struct gd_queue_options *o)
{
    *out = NULL;
    struct gd_queue_options *copy = gd__calloc(1, sizeof *copy);
    if (!copy)
        return gd__error(GD_E_NO_MEMORY, "no memory for the options of a queue");
    struct gd__queue_address address;
    int rc = gd__queue_options_read(copy, o);
    copy->size = sizeof *copy;
    if (rc == 0)
        rc = gd__queue_address_parse(&address, copy->url);
    const char **s;
    for (size_t i = 0; (s = strings_of(copy, i)); i++) {
        const char *text = *s;
        *s = text && rc == 0 ? gd__strdup(text) : NULL; /* what is not copied must not be freed */
        if (text && !*s && rc == 0)
            rc = gd__error(GD_E_NO_MEMORY, "no memory for the options of a queue");
    }
    if (rc < 0) {
        gd__queue_options_free(copy);
        return rc;
    }
    *out = copy;
    return 0;
}

void gd__queue_options_free(struct gd_queue_options *o)
{
    const char **s;
    for (size_t i = 0; o && (s = strings_of(o, i)); i++)
        gd__free((char *)(uintptr_t)*s);
    gd__free(o);
}
