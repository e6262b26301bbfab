/* How well two devices are connected. Their back end reports it. If it cannot, their NUMA nodes are compared. */
#include "gpu/groups/connection.h"

#include "base/error.h"

static bool may_be_grouped(const struct gd__found *f)
{
    return f->d.vendor != GD_VENDOR_CPU && !f->d.is_mig;
}

static bool same_node(const struct gd__found *a, const struct gd__found *b)
{
    return a->d.known & b->d.known & GD_KNOWN_NUMA && a->d.numa_node == b->d.numa_node;
}

int gd__connection(const struct gd__found *a, const struct gd__found *b)
{
    if (a->d.vendor != b->d.vendor || !may_be_grouped(a) || !may_be_grouped(b))
        return GD__CONNECTION_NEVER;
    const int known = a->backend && a->backend->connection ? a->backend->connection(a, b) : GD__CONNECTION_SYSTEM;
    return known == GD__CONNECTION_SYSTEM && same_node(a, b) ? GD__CONNECTION_NODE : known;
}

int gd__connection_check(const struct gd__found *a, const struct gd__found *b)
{
    const struct gd__found *wrong = may_be_grouped(a) ? b : a;
    if (wrong->d.is_mig)
        return gd__error(GD_E_INVALID,
                         "GPU %d is a MIG instance, and a process can use only one of those: a group needs whole GPUs",
                         wrong->d.id);
    if (wrong->d.vendor == GD_VENDOR_CPU)
        return gd__error(GD_E_INVALID, "workers of \"cpu\" have no device, so they cannot have a group of devices");
    if (a->d.vendor != b->d.vendor)
        return gd__error(GD_E_INVALID, "GPU %d (%s) and GPU %d (%s) cannot be in one group: use GPUs of one vendor",
                         a->d.id, gd_vendor_name((enum gd_vendor)a->d.vendor), b->d.id,
                         gd_vendor_name((enum gd_vendor)b->d.vendor));
    return 0;
}
