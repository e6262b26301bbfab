/* CPUs near a device.
 *
 * For each PCI device the kernel reports its NUMA node and the CPUs that are local to it. Node -1 means that the node
 * is unknown. Then the list has all CPUs, and workers are not bound. A scheduler or `taskset` may have restricted this
 * process to fewer CPUs. Then a worker is bound to the local CPUs among them. If there are none, it is not bound.
 */
#include "gpu/numa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backends/backend.h"
#include "gpu/backends/sysfs_file.h"

/* Reads a number at *at and moves *at past it. A number that is too large for a set becomes a number that no set can
 * hold. */
static bool read_number(const char **at, unsigned *out)
{
    if (!isdigit((unsigned char)**at))
        return false;
    unsigned n = 0;
    for (; isdigit((unsigned char)**at); (*at)++)
        n = n > CPU_SETSIZE ? n : n * 10 + (unsigned)(**at - '0');
    *out = n;
    return true;
}

static bool read_range(const char **at, cpu_set_t *out)
{
    unsigned first, last;
    if (!read_number(at, &first))
        return false;
    last = first;
    if (**at == '-') {
        (*at)++;
        if (!read_number(at, &last) || last < first)
            return false;
    }
    for (unsigned i = first; i <= last && i < CPU_SETSIZE; i++)
        CPU_SET(i, out);
    return true;
}

bool gd__cpulist_parse(const char *text, cpu_set_t *out)
{
    const char *at = text + strspn(text, " \t");
    CPU_ZERO(out);
    for (;;) {
        if (!read_range(&at, out))
            return false;
        if (*at != ',')
            break;
        at++;
    }
    return at[strspn(at, " \t\n")] == '\0';
}

bool gd__cpulist_format(const cpu_set_t *set, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, set))
            continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        const char *comma = used ? "," : "";
        const int n = last > first ? snprintf(out + used, size - used, "%s%d-%d", comma, first, last)
                                   : snprintf(out + used, size - used, "%s%d", comma, first);
        if (n < 0 || (size_t)n >= size - used)
            return false;
        used += (size_t)n;
        first = last;
    }
    return true;
}

void gd__numa_set_cpus(struct gd__found *f, const cpu_set_t *cpus)
{
    f->cpus = *cpus;
    f->has_cpus = CPU_COUNT(cpus) > 0;
    if (f->has_cpus && gd__cpulist_format(cpus, f->d.cpus, sizeof f->d.cpus))
        f->d.known |= GD_KNOWN_CPUS;
    else
        f->d.cpus[0] = '\0'; /* half a list would be wrong */
}

void gd__numa_read(struct gd__found *f, const char *directory)
{
    char text[4096];
    if (!gd__sysfs_read(directory, "numa_node", text, sizeof text))
        return;
    char *end;
    const long node = strtol(text, &end, 10);
    if (end == text || node < 0 || node > 65535)
        return;
    f->d.numa_node = (int)node;
    f->d.known |= GD_KNOWN_NUMA;
    cpu_set_t cpus;
    if (gd__sysfs_read(directory, "local_cpulist", text, sizeof text) && gd__cpulist_parse(text, &cpus))
        gd__numa_set_cpus(f, &cpus);
}

bool gd__numa_bind(const struct gd__found *f, cpu_set_t *out)
{
    cpu_set_t ours;
    if (!f->has_cpus || sched_getaffinity(0, sizeof ours, &ours) < 0)
        return false;
    CPU_AND(out, &ours, &f->cpus);
    return CPU_COUNT(out) > 0;
}
