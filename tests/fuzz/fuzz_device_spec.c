/* SPDX-License-Identifier: MIT
 *
 * Parses text that users and schedulers write: device specs, variables such as CUDA_VISIBLE_DEVICES, lists of CPUs,
 * GPU_DISPATCH_SIM. The first byte of an input chooses one of these. The rest is the text. */
#include <gpu_dispatch/devices.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backends/sim.h"
#include "gpu/groups/groups.h"
#include "gpu/numa.h"
#include "gpu/spec.h"
#include "gpu/visible_list.h"

#define MUST(cond)   \
    do {             \
        if (!(cond)) \
            abort(); \
    } while (0)

enum { MOST = 8192, MOST_DEVICES = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that each device is in one group, or is left over. */
static void try_groups(const struct gd_devices *list, const int *ids, size_t n, unsigned k)
{
    static struct gd__group groups[MOST_DEVICES];
    static struct gd__chosen chosen[MOST_DEVICES];
    int group_of[MOST_DEVICES];
    size_t in_groups = 0, left = 0;
    for (size_t i = 0; i < n; i++)
        chosen[i] = (struct gd__chosen){ .id = ids[i], .at = (int)i };
    const int n_groups = gd__groups_form(groups, group_of, list, chosen, n, k);
    for (int g = 0; g < n_groups; g++) {
        in_groups += groups[g].n;
        MUST(groups[g].n > 0 && (k == 0 || groups[g].n == k));
        for (size_t i = 0; i < groups[g].n; i++)
            MUST(groups[g].members[i] < n && group_of[groups[g].members[i]] == g);
    }
    for (size_t i = 0; n_groups >= 0 && i < n; i++)
        left += group_of[i] < 0;
    MUST(n_groups < 0 || in_groups + left == n);
    MUST(k > 0 || n_groups >= 0);
}

static void try_spec(const char *text)
{
    struct gd_devices *list = NULL;
    setenv(GD__ENV_SIM, "4,mig=0/2/on/0", 1);
    const int rc = gd_devices_open(&list, text);
    MUST((rc == 0) == (list != NULL));
    int ids[MOST_DEVICES];
    const size_t n = gd_devices_count(list);
    MUST(n <= MOST_DEVICES);
    for (size_t i = 0; i < n; i++) {
        struct gd_device d = { .size = sizeof d };
        MUST(gd_devices_get(list, i, &d) == 0);
        ids[i] = d.id;
        const int first = gd_devices_group(list, i);
        MUST(first >= 0 && (size_t)first <= i && gd_devices_group(list, (size_t)first) == first);
    }
    MUST(gd_devices_validate(list, ids, n) == 0); /* fails if a number is there twice */
    for (unsigned k = 0; list && k <= 3; k++)
        try_groups(list, ids, n, k);
    gd_devices_close(&list);
    unsetenv(GD__ENV_SIM);
}

static void try_sim(const char *text)
{
    struct gd__found_list made = { 0 };
    setenv(GD__ENV_SIM, text, 1);
    const int rc = gd__sim_make(&made, 0);
    MUST(rc < 0 || !gd__sim_wanted() || (made.n >= 1 && made.n <= GD__SPEC_MOST * 7));
    for (size_t i = 0; i < made.n; i++)
        MUST(made.items[i].d.memory_free <= made.items[i].d.memory_total);
    gd__found_clear(&made);
    unsetenv(GD__ENV_SIM);
}

static void try_visible(const char *text, enum gd__visible_rules rules)
{
    static struct gd__found_list made;
    size_t order[8], seen[8] = { 0 };
    if (made.n == 0) {
        setenv(GD__ENV_SIM, "4,mig=0/2/3/0", 1);
        MUST(gd__sim_make(&made, 0) == 0 && made.n == 7);
        unsetenv(GD__ENV_SIM);
    }
    const size_t n = gd__visible_list(text, rules, made.items, made.n, order);
    MUST(n <= made.n);
    for (size_t i = 0; i < n; i++)
        MUST(order[i] < made.n && seen[order[i]]++ == 0);
}

static void try_cpus(const char *text)
{
    cpu_set_t set, again;
    char written[MOST];
    if (!gd__cpulist_parse(text, &set) || !gd__cpulist_format(&set, written, sizeof written) || CPU_COUNT(&set) == 0)
        return;
    MUST(gd__cpulist_parse(written, &again) && CPU_EQUAL(&set, &again));
}

static void no_real_devices(void)
{
    setenv(GD__ENV_NVML, "/nonexistent", 1);
    setenv(GD__ENV_SYSFS, "/nonexistent", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[MOST];
    if (size < 1 || size > sizeof text)
        return 0;
    no_real_devices();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        try_spec(text);
        break;
    case 1:
        try_sim(text);
        break;
    case 2:
        try_cpus(text);
        break;
    default:
        try_visible(text, (enum gd__visible_rules)(data[0] % 6 - 3));
        break;
    }
    return 0;
}
