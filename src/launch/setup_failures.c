/* Groups workers that failed in setup by their error messages: see setup_failures.h. */
#include "launch/setup_failures.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { LINE_ROOM = 96 };

bool gd__setup_failures_add(struct gd__setup_failures *f, int worker_id, const char *error)
{
    for (size_t i = 0; i < f->n_causes; i++) {
        if (strcmp(f->causes[i].error, error) == 0) {
            f->causes[i].more++;
            return false;
        }
    }
    char *copy = f->n_causes < GD__SETUP_CAUSES ? gd__strdup(error) : NULL;
    if (copy)
        f->causes[f->n_causes++] = (struct gd__setup_cause){ .error = copy, .worker_id = worker_id };
    return true;
}

void gd__setup_failures_report(const struct gd__setup_failures *f,
                               void (*say)(void *user, const char *what, const char *why), void *user)
{
    char what[LINE_ROOM], why[LINE_ROOM];
    for (size_t i = 0; i < f->n_causes; i++) {
        const unsigned more = f->causes[i].more;
        if (more == 0)
            continue;
        snprintf(what, sizeof what, "%u more worker%s failed to set up", more, more == 1 ? "" : "s");
        snprintf(why, sizeof why, "the same error as worker %d", f->causes[i].worker_id);
        say(user, what, why);
    }
}

void gd__setup_failures_free(struct gd__setup_failures *f)
{
    for (size_t i = 0; i < f->n_causes; i++)
        gd__free(f->causes[i].error);
    *f = (struct gd__setup_failures){ .n_causes = 0 };
}
