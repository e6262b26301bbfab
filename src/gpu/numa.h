/* CPUs near a device. */
#ifndef GD_GPU_NUMA_H
#define GD_GPU_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

struct gd__found;

/* Parses "0-3,8,10-11" as the kernel writes it, with optional blanks around it. Returns false for any other text, even
 * an empty list. CPUs that a cpu_set_t cannot hold are left out. */
bool gd__cpulist_parse(const char *text, cpu_set_t *out);

/* Writes such a list. Returns false if it does not fit. */
bool gd__cpulist_format(const cpu_set_t *set, char *out, size_t size);

/* Fills in NUMA node and CPUs from the device's directory in sysfs (see sysfs_file.h). Leaves them unknown if the
 * kernel reports no node. */
void gd__numa_read(struct gd__found *f, const char *directory);

/* Sets the CPUs near the device, as a set and as text. */
void gd__numa_set_cpus(struct gd__found *f, const cpu_set_t *cpus);

/* Finds the CPUs near the device that this process may run on. Returns false if there are none or they are not
 * known. */
bool gd__numa_bind(const struct gd__found *f, cpu_set_t *out);

#endif
