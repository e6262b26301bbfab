/* CPUs near a device. */
#ifndef GD_GPU_NUMA_H
#define GD_GPU_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

struct gd__found;

/* "0-3,8,10-11" as the kernel writes it, blanks around it allowed. False if it is anything else; an empty list is none.
 * CPUs that a cpu_set_t cannot hold are left out. */
bool gd__cpulist_parse(const char *text, cpu_set_t *out);

/* The other way. False if it does not fit. */
bool gd__cpulist_format(const cpu_set_t *set, char *out, size_t size);

/* Fills in NUMA node and CPUs from a device's folder in sysfs (see sysfs_file.h); leaves them unknown if it has no node
 * of its own. */
void gd__numa_read(struct gd__found *f, const char *folder);

/* Sets the CPUs near it, in both forms. */
void gd__numa_set_cpus(struct gd__found *f, const cpu_set_t *cpus);

/* Those near it that this process may run on. False: none, or not known. */
bool gd__numa_bind(const struct gd__found *f, cpu_set_t *out);

#endif
