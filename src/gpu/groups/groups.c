/* Divides the chosen devices into groups.
 *
 * Groups are formed one after the other. Each remaining device is tried as the first of a group. The group is completed
 * by adding, one by one, the device that is best connected to it. The best of these groups is kept. Groups are compared
 * by their worst connection, because the devices of a worker wait for each other, and then by the sum of their
 * connections. If both are equal, the group with fewer connections to the remaining devices is kept, so that the
 * remaining devices are still well connected with each other. Otherwise the group that was tried first is kept.
 */
#include "gpu/groups/groups.h"

#include <limits.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/groups/connection.h"
#include "gpu/list.h"

struct forming {
    size_t n, k;
    int *connections; /* n * n */
    bool *taken;
};

struct rating {
    int worst;
    long sum, outside;
};

/* --- connections --- */

static const struct gd__found *found(const struct gd_devices *list, const struct gd__chosen *c)
{
    return c->at < 0 ? NULL : &list->found.items[c->at];
}

/* NULL is a device that is not in the list and has only a number. Such devices can be grouped with each other. */
static int connection(const struct gd__found *a, const struct gd__found *b)
{
    if (!a || !b)
        return a || b ? GD__CONNECTION_NEVER : GD__CONNECTION_SYSTEM;
    return gd__connection(a, b);
}

static int between(const struct forming *f, size_t a, size_t b)
{
    return f->connections[a * f->n + b];
}

/* --- one group --- */

/* How well a device is connected to a group that it is not part of. */
static struct rating rate_device(const struct forming *f, const struct gd__group *g, size_t device)
{
    struct rating r = { .worst = INT_MAX };
    for (size_t i = 0; i < g->n; i++) {
        const int c = between(f, g->members[i], device);
        r.worst = c < r.worst ? c : r.worst;
        r.sum += c;
    }
    for (size_t i = 0; i < f->n; i++)
        if (!f->taken[i] && i != device && between(f, i, device) > 0)
            r.outside += between(f, i, device);
    r.outside -= r.sum;
    return r;
}

static bool is_better(const struct rating *a, const struct rating *b)
{
    if (a->worst != b->worst)
        return a->worst > b->worst;
    return a->sum != b->sum ? a->sum > b->sum : a->outside < b->outside;
}

static bool has(const struct gd__group *g, size_t device)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->members[i] == device)
            return true;
    return false;
}

/* Adds the device that is best connected to the group. False: none can be added. */
static bool grow(const struct forming *f, struct gd__group *g, struct rating *of_group)
{
    struct rating best = { .worst = GD__CONNECTION_NEVER };
    size_t which = SIZE_MAX;
    for (size_t i = 0; i < f->n; i++) {
        if (f->taken[i] || has(g, i))
            continue;
        const struct rating r = rate_device(f, g, i);
        if (r.worst > GD__CONNECTION_NEVER && (which == SIZE_MAX || is_better(&r, &best))) {
            best = r;
            which = i;
        }
    }
    if (which == SIZE_MAX)
        return false;
    of_group->worst = best.worst < of_group->worst ? best.worst : of_group->worst;
    of_group->sum += best.sum;
    g->members[g->n++] = which;
    return true;
}

static long outside(const struct forming *f, const struct gd__group *g)
{
    long sum = 0;
    for (size_t i = 0; i < f->n; i++)
        for (size_t m = 0; m < g->n && !f->taken[i] && !has(g, i); m++)
            if (between(f, i, g->members[m]) > 0)
                sum += between(f, i, g->members[m]);
    return sum;
}

static bool grow_from(const struct forming *f, size_t seed, struct gd__group *g, struct rating *r)
{
    *g = (struct gd__group){ .n = 1, .members = { seed } };
    *r = (struct rating){ .worst = INT_MAX };
    while (g->n < f->k)
        if (!grow(f, g, r))
            return false;
    r->outside = outside(f, g);
    return true;
}

static bool best_group(const struct forming *f, struct gd__group *out)
{
    struct gd__group g;
    struct rating best, r;
    bool any = false;
    for (size_t seed = 0; seed < f->n; seed++) {
        if (f->taken[seed] || !grow_from(f, seed, &g, &r) || (any && !is_better(&r, &best)))
            continue;
        best = r;
        *out = g;
        any = true;
    }
    return any;
}

/* --- all groups --- */

static void sort_members(struct gd__group *g)
{
    for (size_t i = 1; i < g->n; i++)
        for (size_t k = i; k > 0 && g->members[k - 1] > g->members[k]; k--) {
            const size_t m = g->members[k];
            g->members[k] = g->members[k - 1];
            g->members[k - 1] = m;
        }
}

static void sort_groups(struct gd__group *groups, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && groups[k - 1].members[0] > groups[k].members[0]; k--) {
            const struct gd__group g = groups[k];
            groups[k] = groups[k - 1];
            groups[k - 1] = g;
        }
}

static bool all_alike(const struct forming *f)
{
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->n; k++)
            if (i != k && (between(f, i, k) != between(f, 0, 1) || between(f, i, k) < 0))
                return false;
    return true;
}

/* Groups of devices that follow each other: the result for devices that are all connected alike. */
static size_t in_order(const struct forming *f, struct gd__group *groups)
{
    size_t n = 0;
    for (size_t i = 0; i + f->k <= f->n; i += f->k, n++) {
        groups[n] = (struct gd__group){ .n = f->k };
        for (size_t m = 0; m < f->k; m++)
            groups[n].members[m] = i + m;
    }
    return n;
}

static size_t form(const struct forming *f, struct gd__group *groups)
{
    size_t n = 0;
    if (all_alike(f))
        return in_order(f, groups);
    while (best_group(f, &groups[n])) {
        for (size_t i = 0; i < groups[n].n; i++)
            f->taken[groups[n].members[i]] = true;
        sort_members(&groups[n++]);
    }
    sort_groups(groups, n);
    return n;
}

static void measure(const struct forming *f, const struct gd_devices *list, const struct gd__chosen *chosen)
{
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < i; k++)
            f->connections[i * f->n + k] = f->connections[k * f->n + i] =
                connection(found(list, &chosen[i]), found(list, &chosen[k]));
}

static int form_groups(struct gd__group *groups, const struct gd_devices *list, const struct gd__chosen *chosen,
                       size_t n, unsigned k)
{
    struct forming f = { .n = n, .k = k };
    f.connections = gd__calloc(n * n + 1, sizeof *f.connections);
    f.taken = gd__calloc(n + 1, sizeof *f.taken);
    int rc = GD_E_NO_MEMORY;
    if (f.connections && f.taken) {
        measure(&f, list, chosen);
        rc = (int)form(&f, groups);
    } else {
        gd__error(rc, "no memory for groups of %zu devices", n);
    }
    gd__free(f.connections);
    gd__free(f.taken);
    return rc;
}

/* --- groups that the user wrote --- */

unsigned gd__groups_written(const struct gd_devices *list, const struct gd__chosen *chosen)
{
    return chosen->at < 0 ? 0 : found(list, chosen)->group;
}

static bool any_written(const struct gd_devices *list, const struct gd__chosen *chosen, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (gd__groups_written(list, &chosen[i]) > 0)
            return true;
    return false;
}

/* Devices of a written group follow each other. */
static int written_groups(struct gd__group *groups, const struct gd_devices *list, const struct gd__chosen *chosen,
                          size_t n, unsigned k)
{
    size_t n_groups = 0;
    for (size_t i = 0, next; i < n; i = next) {
        const unsigned group = gd__groups_written(list, &chosen[i]);
        for (next = i + 1; group > 0 && next < n && gd__groups_written(list, &chosen[next]) == group;)
            next++;
        if (k > 0 && next - i != k)
            return gd__error(GD_E_INVALID,
                             "the group of GPU %d has %zu device%s, but gpus_per_worker is %u: make all groups of the "
                             "list that large, or leave out gpus_per_worker",
                             chosen[i].id, next - i, next - i == 1 ? "" : "s", k);
        if (next - i > GD__GROUP_MOST)
            return gd__error(GD_E_INVALID, "the group of GPU %d has %zu devices: at most %d are possible", chosen[i].id,
                             next - i, GD__GROUP_MOST);
        struct gd__group *g = &groups[n_groups++];
        for (g->n = 0; i + g->n < next; g->n++)
            g->members[g->n] = i + g->n;
    }
    return (int)n_groups;
}

/* --- */

static int check(const struct gd_devices *list, const struct gd__chosen *chosen, size_t n, unsigned k)
{
    int rc = 0;
    if (k > GD__GROUP_MOST)
        return gd__error(GD_E_INVALID, "gpus_per_worker is %u: it must be at most %d", k, GD__GROUP_MOST);
    for (size_t i = 0; k > 1 && i < n && rc == 0; i++)
        if (chosen[i].at >= 0) /* a device of another vendor is possible: it goes to another group */
            rc = gd__connection_check(found(list, &chosen[i]), found(list, &chosen[i]));
    return rc;
}

int gd__groups_form(struct gd__group *groups, int *group_of, const struct gd_devices *list,
                    const struct gd__chosen *chosen, size_t n, unsigned k)
{
    int rc = check(list, chosen, n, k);
    if (rc < 0)
        return rc;
    rc = k <= 1 || any_written(list, chosen, n) ? written_groups(groups, list, chosen, n, k)
                                                : form_groups(groups, list, chosen, n, k);
    for (size_t i = 0; rc >= 0 && i < n; i++)
        group_of[i] = -1;
    for (int g = 0; g < rc; g++)
        for (size_t i = 0; i < groups[g].n; i++)
            group_of[groups[g].members[i]] = g;
    return rc;
}
