/* Simulated devices, for trying things out and for tests on a machine without a GPU.
 *
 *   GPU_DISPATCH_SIM=4
 *   GPU_DISPATCH_SIM=4,memory=8G,free=6G/2G,cpus=0-3,8/4-7,numa=0/1,name=Foo,mig=0/2,util=50,temp=40,power=75,pid=0/71
 *
 * The first number is the number of GPUs. The settings after it describe them. Values separated by '/' are for one GPU
 * each, and the last value is for all further GPUs. mig=2 gives a GPU two MIG instances. mig=on switches MIG on without
 * an instance. mode=prohibited sets the compute mode. power is in watts. GPUs with the same value of nvlink are
 * connected by NVLink, and GPUs with the same value of switch by a PCIe switch; -1 is no connection: nvlink=0/0/1/1.
 * pid is a process that computes on the GPU as long as it lives; 0: none. The UUID of a device depends only on its
 * number, so it is the same in every process. Each refresh reads the variable again.
 */
#include "gpu/backends/sim.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process/owner.h"
#include "gpu/groups/connection.h"
#include "gpu/numa.h"
#include "gpu/spec.h"

#define GIB ((uint64_t)1 << 30)

enum { MIG_MOST = 7, PERCENT_MOST = 100, DEGREES_MOST = 200, WATTS_MOST = 100000, NODE_MOST = 1023 };

enum key {
    KEY_MEMORY,
    KEY_FREE,
    KEY_CPUS,
    KEY_NUMA,
    KEY_NAME,
    KEY_MIG,
    KEY_UTIL,
    KEY_TEMP,
    KEY_POWER,
    KEY_MODE,
    KEY_NVLINK,
    KEY_SWITCH,
    KEY_PID,
    N_KEYS
};

/* The parsed variable. Values are slices of its text. */
struct config {
    unsigned count;
    struct slice {
        const char *text;
        size_t length;
    } values[N_KEYS];
};

/* The settings of one GPU. */
struct gpu {
    uint64_t memory, free;
    unsigned utilization, power_mw, instances;
    int temperature, numa, nvlink, pcie_switch, pid;
    bool has_free, has_cpus, mig_enabled, prohibited;
    cpu_set_t cpus;
    char name[64];
};

/* --- values --- */

static bool set_bytes(const struct slice *s, uint64_t *out)
{
    static const char units[] = "KMGT";
    size_t digits = 0;
    while (digits < s->length && isdigit((unsigned char)s->text[digits]))
        digits++;
    const long n = gd__spec_number(s->text, digits, 0, 1L << 40);
    const char *unit = digits < s->length ? strchr(units, toupper((unsigned char)s->text[digits])) : NULL;
    const size_t rest = s->length - digits - (unit != NULL);
    const char *after = s->text + digits + (unit != NULL);
    if (n < 0 || !(rest == 0 || (rest == 1 && *after == 'B') || (unit && rest == 2 && strncmp(after, "iB", 2) == 0)))
        return false;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    *out = (uint64_t)n << shift;
    return *out >> shift == (uint64_t)n;
}

static bool set_memory(struct gpu *g, const struct slice *s)
{
    return set_bytes(s, &g->memory);
}

static bool set_free(struct gpu *g, const struct slice *s)
{
    g->has_free = true;
    return set_bytes(s, &g->free);
}

static bool set_cpus(struct gpu *g, const struct slice *s)
{
    char text[256];
    if (s->length >= sizeof text)
        return false;
    memcpy(text, s->text, s->length);
    text[s->length] = '\0';
    g->has_cpus = true;
    return gd__cpulist_parse(text, &g->cpus);
}

/* A number, or -1. */
static bool set_place(int *out, const struct slice *s)
{
    const bool none = s->length == 2 && memcmp(s->text, "-1", 2) == 0;
    *out = none ? -1 : (int)gd__spec_number(s->text, s->length, 0, NODE_MOST);
    return none || *out >= 0;
}

static bool set_numa(struct gpu *g, const struct slice *s)
{
    return set_place(&g->numa, s);
}

static bool set_nvlink(struct gpu *g, const struct slice *s)
{
    return set_place(&g->nvlink, s);
}

static bool set_switch(struct gpu *g, const struct slice *s)
{
    return set_place(&g->pcie_switch, s);
}

static bool set_name(struct gpu *g, const struct slice *s)
{
    if (s->length == 0 || s->length >= sizeof g->name)
        return false;
    memcpy(g->name, s->text, s->length);
    g->name[s->length] = '\0';
    return true;
}

static bool set_mig(struct gpu *g, const struct slice *s)
{
    if (s->length == 2 && strncasecmp(s->text, "on", 2) == 0)
        return g->mig_enabled = true;
    const long n = gd__spec_number(s->text, s->length, 0, MIG_MOST);
    g->instances = n > 0 ? (unsigned)n : 0;
    g->mig_enabled = n > 0;
    return n >= 0;
}

static bool set_util(struct gpu *g, const struct slice *s)
{
    const long n = gd__spec_number(s->text, s->length, 0, PERCENT_MOST);
    g->utilization = (unsigned)n;
    return n >= 0;
}

static bool set_temp(struct gpu *g, const struct slice *s)
{
    const long n = gd__spec_number(s->text, s->length, 0, DEGREES_MOST);
    g->temperature = (int)n;
    return n >= 0;
}

static bool set_power(struct gpu *g, const struct slice *s)
{
    const long n = gd__spec_number(s->text, s->length, 0, WATTS_MOST);
    g->power_mw = (unsigned)n * 1000;
    return n >= 0;
}

static bool set_mode(struct gpu *g, const struct slice *s)
{
    g->prohibited = s->length == 10 && strncasecmp(s->text, "prohibited", 10) == 0;
    return g->prohibited || (s->length == 7 && strncasecmp(s->text, "default", 7) == 0);
}

static bool set_pid(struct gpu *g, const struct slice *s)
{
    g->pid = (int)gd__spec_number(s->text, s->length, 0, INT_MAX);
    return g->pid >= 0;
}

static const struct {
    const char *name;
    bool (*set)(struct gpu *g, const struct slice *s);
    const char *example;
} keys[N_KEYS] = {
    [KEY_MEMORY] = { "memory", set_memory, "8G" },
    [KEY_FREE] = { "free", set_free, "6G" },
    [KEY_CPUS] = { "cpus", set_cpus, "0-3/4-7" },
    [KEY_NUMA] = { "numa", set_numa, "0/1" },
    [KEY_NAME] = { "name", set_name, "Foo" },
    [KEY_MIG] = { "mig", set_mig, "0, 1 to 7, or on" },
    [KEY_UTIL] = { "util", set_util, "0 to 100" },
    [KEY_TEMP] = { "temp", set_temp, "40" },
    [KEY_POWER] = { "power", set_power, "75" },
    [KEY_MODE] = { "mode", set_mode, "default or prohibited" },
    [KEY_NVLINK] = { "nvlink", set_nvlink, "0/0/1/1" },
    [KEY_SWITCH] = { "switch", set_switch, "0/0/1/1" },
    [KEY_PID] = { "pid", set_pid, "71" },
};

/* --- the variable --- */

static int unknown_key(const char *whole, const char *piece, size_t length)
{
    char names[128] = "";
    size_t used = 0;
    for (size_t k = 0; k < N_KEYS; k++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", k ? ", " : "", keys[k].name);
    return gd__error(GD_E_INVALID, GD__ENV_SIM "=%s: \"%.*s\" is not a setting; the settings are %s, as in 4,memory=8G",
                     whole, (int)length, piece, names);
}

/* Reads one "key=value". The value of cpus may contain commas: a piece without '=' after cpus belongs to its list. */
static int read_setting(struct config *c, const char *whole, const char *piece, size_t length, int *last)
{
    const char *equals = memchr(piece, '=', length);
    if (!equals && *last == KEY_CPUS) {
        c->values[KEY_CPUS].length = (size_t)(piece + length - c->values[KEY_CPUS].text);
        return 0;
    }
    for (int k = 0; equals && k < N_KEYS; k++) {
        const size_t n = strlen(keys[k].name);
        if ((size_t)(equals - piece) == n && memcmp(piece, keys[k].name, n) == 0) {
            c->values[k] = (struct slice){ equals + 1, length - n - 1 };
            *last = k;
            return 0;
        }
    }
    return unknown_key(whole, piece, length);
}

/* Without the variable the count is 0 and all values are defaults. */
static int read_variable(struct config *c)
{
    const char *text = getenv(GD__ENV_SIM);
    int last = -1, rc = 0;
    *c = (struct config){ .count = 0 };
    if (!text || !*text)
        return 0;
    size_t length = strcspn(text, ",");
    const long n = gd__spec_number(text, length, 1, GD__SPEC_MOST);
    if (n < 0)
        return gd__error(GD_E_INVALID,
                         GD__ENV_SIM "=%s: it must start with the number of devices, 1 to %d, as in 4,memory=8G", text,
                         GD__SPEC_MOST);
    c->count = (unsigned)n;
    for (const char *at = text + length; rc == 0 && *at == ','; at += length) {
        at++;
        length = strcspn(at, ",");
        rc = read_setting(c, text, at, length, &last);
    }
    return rc;
}

/* The value for the i-th GPU. The last value is for all further GPUs. */
static struct slice value_for(const struct slice *all, unsigned i)
{
    struct slice s = *all;
    for (; i > 0; i--) {
        const char *slash = memchr(s.text, '/', s.length);
        if (!slash)
            break;
        s.length -= (size_t)(slash + 1 - s.text);
        s.text = slash + 1;
    }
    const char *end = memchr(s.text, '/', s.length);
    if (end)
        s.length = (size_t)(end - s.text);
    return s;
}

static int describe(struct gpu *g, const struct config *c, unsigned i)
{
    *g = (struct gpu){ .memory = 16 * GIB, .numa = -1, .nvlink = -1, .pcie_switch = -1, .name = "Simulated GPU" };
    g->temperature = 35 + (int)(i % 8);
    g->power_mw = 60000 + 1000 * (i % 8);
    for (int k = 0; k < N_KEYS; k++) {
        if (!c->values[k].text)
            continue;
        const struct slice s = value_for(&c->values[k], i);
        if (!keys[k].set(g, &s))
            return gd__error(GD_E_INVALID, GD__ENV_SIM ": %s=%.*s is not a valid value for device %u; use %s=%s",
                             keys[k].name, (int)s.length, s.text, i, keys[k].name, keys[k].example);
    }
    if (!g->has_free)
        g->free = g->memory - g->memory / 32; /* a real driver uses some memory itself */
    if (g->free > g->memory)
        return gd__error(GD_E_INVALID,
                         GD__ENV_SIM ": device %u has %" PRIu64 " bytes and cannot have %" PRIu64
                                     " free; make free smaller than memory",
                         i, g->memory, g->free);
    return 0;
}

/* --- devices --- */

/* Makes a UUID that is different for each n. The beginnings differ too, like those of real UUIDs. */
static void make_uuid(char *out, size_t size, const char *prefix, uint32_t n)
{
    const uint32_t mixed = (n + 1) * UINT32_C(0x9E3779B1); /* the factor is odd: no two n have the same result */
    const uint32_t more = (mixed ^ (mixed >> 15)) * UINT32_C(0x85EBCA77);
    snprintf(out, size, "%s%08" PRIx32 "-%04" PRIx32 "-4%03" PRIx32 "-8%03" PRIx32 "-51%010" PRIx32, prefix, mixed,
             more >> 16, more & 0xfff, (more >> 4) & 0xfff, n);
}

/* A process that has ended but was not reaped does not compute. */
static bool is_running(int pid)
{
    struct gd__owner owner = { .pid = pid > 0 ? (uint64_t)pid : 0 };
    const int fd = pid > 0 ? gd__owner_pidfd(&owner) : -1;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    const bool running = fd >= 0 && poll(&p, 1, 0) == 0;
    if (fd >= 0)
        close(fd);
    return running;
}

static void fill_figures(struct gd__found *f, const struct gpu *g)
{
    const unsigned parts = f->d.is_mig ? g->instances : 1;
    f->d.memory_total = g->memory / parts;
    f->d.memory_free = g->free / parts;
    f->d.utilization = g->utilization;
    f->d.temperature = g->temperature;
    f->d.power_mw = g->power_mw;
    f->d.n_processes = is_running(g->pid);
    f->d.known |= GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION | GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER | GD_KNOWN_PROCESSES;
}

static void fill(struct gd__found *f, const struct gpu *g, unsigned i)
{
    *f = (struct gd__found){ .backend = &gd__sim_backend, .mig_index = -1, .gi = -1, .ci = -1 };
    f->d.vendor = GD_VENDOR_SIMULATED;
    f->d.index = f->number = f->runtime_number = (int)i;
    f->prohibited = g->prohibited;
    f->nvlink = g->nvlink;
    f->pcie_switch = g->pcie_switch;
    f->d.mig_enabled = g->mig_enabled;
    f->mig_empty = g->mig_enabled && g->instances == 0;
    f->d.known = GD_KNOWN_MIG;
    snprintf(f->d.name, sizeof f->d.name, "%s", g->name);
    make_uuid(f->d.uuid, sizeof f->d.uuid, "GPU-", i);
    memcpy(f->gpu_uuid, f->d.uuid, sizeof f->gpu_uuid);
    snprintf(f->d.pci, sizeof f->d.pci, "%04x:%02x:00.0", i / 255, i % 255 + 1);
    if (g->numa >= 0) {
        f->d.numa_node = g->numa;
        f->d.known |= GD_KNOWN_NUMA;
    }
    if (g->has_cpus)
        gd__numa_set_cpus(f, &g->cpus);
    fill_figures(f, g);
}

static void become_instance(struct gd__found *f, const struct gpu *g, unsigned k)
{
    f->d.is_mig = true;
    f->mig_index = (int)k;
    f->gi = (int)k + 1;
    f->ci = 0;
    make_uuid(f->d.uuid, sizeof f->d.uuid, "MIG-", ((uint32_t)f->d.index + 1) << 16 | k);
    snprintf(f->d.name, sizeof f->d.name, "%s MIG 1/%u", g->name, g->instances);
    fill_figures(f, g);
}

static int make_gpu(struct gd__found_list *out, const struct config *c, unsigned i)
{
    struct gpu g;
    struct gd__found f;
    int rc = describe(&g, c, i);
    if (rc < 0)
        return rc;
    fill(&f, &g, i);
    if (g.instances == 0)
        return gd__found_add(out, &f);
    for (unsigned k = 0; k < g.instances && rc == 0; k++) {
        become_instance(&f, &g, k);
        rc = gd__found_add(out, &f);
    }
    return rc;
}

bool gd__sim_wanted(void)
{
    const char *text = getenv(GD__ENV_SIM);
    return text && *text;
}

int gd__sim_make(struct gd__found_list *out, unsigned count)
{
    struct config c;
    int rc = read_variable(&c);
    for (unsigned i = 0; i < (count ? count : c.count) && rc == 0; i++)
        rc = make_gpu(out, &c, i);
    return rc;
}

static int detect(struct gd__found_list *out, char why[GD__WHY_MAX])
{
    (void)why; /* there is always at least one device, or an error */
    return gd__sim_make(out, 0);
}

static void refresh(struct gd__found *f)
{
    struct config c;
    struct gpu g;
    if (read_variable(&c) < 0 || describe(&g, &c, (unsigned)f->d.index) < 0 || (f->d.is_mig && g.instances == 0))
        return;
    fill_figures(f, &g);
}

static int processes(const struct gd__found *f, struct gd_device_process *out, size_t max)
{
    struct config c;
    struct gpu g;
    if (read_variable(&c) < 0 || describe(&g, &c, (unsigned)f->d.index) < 0 || !is_running(g.pid))
        return 0;
    if (max > 0)
        out[0] = (struct gd_device_process){ .pid = g.pid };
    return 1;
}

static int connection(const struct gd__found *a, const struct gd__found *b)
{
    if (a->nvlink >= 0 && a->nvlink == b->nvlink)
        return GD__CONNECTION_NVLINK;
    return a->pcie_switch >= 0 && a->pcie_switch == b->pcie_switch ? GD__CONNECTION_SWITCH : GD__CONNECTION_SYSTEM;
}

const struct gd__backend gd__sim_backend = {
    .name = "simulated",
    .vendor = GD_VENDOR_SIMULATED,
    .detect = detect,
    .refresh = refresh,
    .processes = processes,
    .connection = connection,
};
