/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch gpus`: the devices of this machine that may be used, as a table of at most 80 columns or as JSON.
 */
#include <stdio.h>
#include <string.h>

#include <gpu_dispatch/devices.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

enum { MAX_PROCESSES = 64, SHOWN_PROCESSES = 4, STATUS_NONE = 1 };

struct asked {
    const char *gpus;
    bool json, help, list_options;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "gpus", 0, "SPEC",
      "show only these GPUs: 0,2 or 0-3 (numbers), a UUID or its start, free (unused GPUs), or sim:4 (default auto)",
      cli_set_text, AT(gpus), .group = "Options" },
    { "json", 0, NULL, "print a JSON array with an object for each GPU; unknown values are null", cli_set_flag,
      AT(json) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "gpus",
    .usage = "usage: gpu-dispatch gpus [OPTIONS]\n"
             "\n"
             "Shows the usable GPUs of this machine, ordered by number. If\n"
             "CUDA_VISIBLE_DEVICES is set, only the GPUs in it are shown.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch gpus\n"
             "  gpu-dispatch gpus --gpus 0-3 --json\n"
             "  GPU_DISPATCH_SIM=2,memory=24G gpu-dispatch gpus     two simulated GPUs\n",
    .table = table,
    .after = "Exit status: 0 there are GPUs; 1 no GPU found; 255 any other error.\n"
             "More: man gpu-dispatch-gpus.\n",
};

/* --- table ----------------------------------------------------------------------- */

/* A figure with its unit, or a dash if it is not known. */
static const char *figure(char *out, size_t size, bool known, unsigned value, const char *unit)
{
    if (!known)
        return "-";
    snprintf(out, size, "%u%s", value, unit);
    return out;
}

/* "1.2 GiB / 140 GiB" */
static const char *memory(char *out, size_t size, const struct gd_device *d)
{
    char used[32], total[32];
    if (!(d->known & GD_KNOWN_MEMORY))
        return "-";
    snprintf(out, size, "%s / %s", gd__text_size(used, sizeof used, d->memory_total - d->memory_free),
             gd__text_size(total, sizeof total, d->memory_total));
    return out;
}

static void print_figures(const struct gd_device *d)
{
    char memory_text[80], util[16], temp[16], power[24];
    printf("%3d  %-28.28s  %21s  %4s  %5s  %6s\n", d->id, d->name, memory(memory_text, sizeof memory_text, d),
           figure(util, sizeof util, d->known & GD_KNOWN_UTILIZATION, d->utilization, "%"),
           figure(temp, sizeof temp, d->known & GD_KNOWN_TEMPERATURE, (unsigned)d->temperature, " C"),
           figure(power, sizeof power, d->known & GD_KNOWN_POWER, (d->power_mw + 500) / 1000, " W"));
}

static void print_identity(const struct gd_device *d)
{
    const char *mig = d->is_mig                    ? "MIG instance"
                      : !(d->known & GD_KNOWN_MIG) ? ""
                      : d->mig_enabled             ? "MIG on"
                                                   : "MIG off";
    if (!*d->uuid && !*d->pci && !*mig)
        return;
    printf("     %s%s%s%s%s%s\n", d->uuid, *d->uuid && *d->pci ? "  " : "", *d->pci ? "PCI " : "", d->pci,
           (*d->uuid || *d->pci) && *mig ? "  " : "", mig);
}

static void print_place(const struct gd_device *d)
{
    if (!(d->known & (GD_KNOWN_NUMA | GD_KNOWN_CPUS)))
        return;
    printf("     ");
    if (d->known & GD_KNOWN_NUMA)
        printf("NUMA node %d%s", d->numa_node, d->known & GD_KNOWN_CPUS ? ", " : "");
    if (d->known & GD_KNOWN_CPUS)
        printf("CPUs %.60s", d->cpus);
    printf("\n");
}

static void print_processes(const struct gd_devices *list, size_t i)
{
    struct gd_device_process p[MAX_PROCESSES];
    int n = gd_devices_processes(list, i, p, sizeof(struct gd_device_process), MAX_PROCESSES);
    if (n <= 0)
        return;
    printf("     %d process%s:", n, n == 1 ? "" : "es");
    for (int k = 0; k < n && k < SHOWN_PROCESSES; k++) {
        char size[32];
        printf("%s %d", k ? "," : "", p[k].pid);
        if (p[k].memory)
            printf(" (%s)", gd__text_size(size, sizeof size, p[k].memory));
    }
    printf("%s\n", n > SHOWN_PROCESSES ? ", ..." : "");
}

/* Cleans the texts that come from the driver, so that they are safe to print. */
static void show_plainly(struct gd_device *d)
{
    char *const texts[] = { d->name, d->uuid, d->pci, d->cpus };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        gd__text_plain(texts[i], strlen(texts[i]), false);
}

static void print_table(const struct gd_devices *list)
{
    printf("GPU  %-28s  %21s  %4s  %5s  %6s\n", "name", "memory used / total", "util", "temp", "power");
    for (size_t i = 0; i < gd_devices_count(list); i++) {
        struct gd_device d = { .size = sizeof d };
        if (gd_devices_get(list, i, &d) < 0)
            continue;
        show_plainly(&d);
        print_figures(&d);
        print_identity(&d);
        print_place(&d);
        print_processes(list, i);
    }
}

/* --- JSON --------------------------------------------------------------------------- */

static void put_number(struct gd__buffer *b, const char *name, bool known, unsigned long long value)
{
    if (known)
        gd__buffer_format(b, ",\"%s\":%llu", name, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

static void put_processes(struct gd__buffer *b, const struct gd_devices *list, size_t i)
{
    struct gd_device_process p[MAX_PROCESSES];
    int n = gd_devices_processes(list, i, p, sizeof(struct gd_device_process), MAX_PROCESSES);
    if (n < 0) {
        gd__buffer_text(b, ",\"processes\":null");
        return;
    }
    gd__buffer_text(b, ",\"processes\":[");
    for (int k = 0; k < n && k < MAX_PROCESSES; k++)
        gd__buffer_format(b, "%s{\"pid\":%d,\"memory\":%llu}", k ? "," : "", p[k].pid, (unsigned long long)p[k].memory);
    gd__buffer_text(b, "]");
}

static void put_device(struct gd__buffer *b, const struct gd_devices *list, size_t i)
{
    struct gd_device d = { .size = sizeof d };
    if (gd_devices_get(list, i, &d) < 0)
        return;
    gd__buffer_format(b, "%s{\"id\":%d,\"index\":%d", i ? ",\n " : "", d.id, d.index);
    gd__json_put_text(b, "vendor", gd_vendor_name((enum gd_vendor)d.vendor));
    gd__json_put_text(b, "name", d.name);
    gd__json_put_text(b, "uuid", d.uuid);
    gd__json_put_text(b, "pci", d.pci);
    put_number(b, "memory_total", d.known & GD_KNOWN_MEMORY, d.memory_total);
    put_number(b, "memory_free", d.known & GD_KNOWN_MEMORY, d.memory_free);
    put_number(b, "utilization", d.known & GD_KNOWN_UTILIZATION, d.utilization);
    if (d.known & GD_KNOWN_TEMPERATURE)
        gd__buffer_format(b, ",\"temperature\":%d", d.temperature);
    else
        gd__buffer_text(b, ",\"temperature\":null");
    put_number(b, "power_mw", d.known & GD_KNOWN_POWER, d.power_mw);
    put_number(b, "numa_node", d.known & GD_KNOWN_NUMA && d.numa_node >= 0, (unsigned long long)d.numa_node);
    gd__json_put_text(b, "cpus", d.known & GD_KNOWN_CPUS ? d.cpus : "");
    gd__buffer_format(b, ",\"is_mig\":%s,\"mig_enabled\":%s", d.is_mig ? "true" : "false",
                      !(d.known & GD_KNOWN_MIG) ? "null"
                      : d.mig_enabled           ? "true"
                                                : "false");
    put_processes(b, list, i);
    gd__buffer_text(b, "}");
}

static int print_json(const struct gd_devices *list)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "[");
    for (size_t i = 0; i < gd_devices_count(list); i++)
        put_device(&b, list, i);
    gd__buffer_text(&b, "]\n");
    int rc = b.failed ? gd__fail("out of memory") : gd__write_all(1, b.data, b.size);
    gd__buffer_free(&b);
    return rc;
}

/* --------------------------------------------------------------------------------------- */

static int show(const struct asked *asked)
{
    struct gd_devices *list = NULL;
    int rc = gd_devices_open(&list, asked->gpus ? asked->gpus : "auto");
    if (rc < 0) {
        if (asked->gpus)
            cli_say("--gpus %s: %s", asked->gpus, gd_error_text());
        else
            cli_say("%s", gd_error_text());
        bool none = rc == GD_E_NO_DEVICES && !asked->gpus;
        if (none && asked->json)
            puts("[]");
        return none ? STATUS_NONE : CLI_EXIT_ERROR;
    }
    const bool any = gd_devices_count(list) > 0; /* "free" may have found none */
    if (asked->json)
        rc = print_json(list);
    else if (any)
        print_table(list);
    else
        cli_say("--gpus %s: no GPU is free now", asked->gpus);
    gd_devices_close(&list);
    if (rc < 0)
        return CLI_EXIT_ERROR;
    return any ? 0 : STATUS_NONE;
}

int cli_gpus_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    int first = cli_opts_parse(&options, &asked, argc, argv);
    if (first >= 0 && first < argc)
        first = gd__fail("gpus takes only options, not \"%s\"", argv[first]);
    if (first < 0) {
        cli_say("%s", gd__fail_text());
        return CLI_EXIT_ERROR;
    }
    if (!asked.help && !asked.list_options)
        return show(&asked);
    (asked.help ? cli_opts_help : cli_opts_list)(&options);
    return 0;
}
