/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch estimate`: how much work is in a directory, and how it would be distributed over the GPUs.
 *
 * A run gives each file to the next free GPU, largest first, so the distribution depends on how long each file takes.
 * The estimate assumes that time is proportional to size: each file goes to the GPU that has the fewest bytes so far.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/launch.h>

#include "base/failure.h"
#include "base/text/figures.h"
#include "cli/commands.h"
#include "cli/input/directory_walk.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct asked {
    const char *gpus, *input_dir;
    struct cli_list patterns;
    bool recursive, json, help, list_options;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "input-dir", 0, "DIR", "directory with the files", cli_set_text, AT(input_dir), .group = "Options" },
    { "pattern", 0, "GLOB", "use only files whose names match, such as '*.wav'; may be repeated", cli_set_list,
      AT(patterns) },
    { "recursive", 0, NULL, "also use files in the subdirectories of DIR", cli_set_flag, AT(recursive) },
    { "gpus", 0, "SPEC",
      "GPUs to distribute the files to, as for run (default auto; without GPUs no distribution is shown)", cli_set_text,
      AT(gpus) },
    { "json", 0, NULL, "print one JSON object", cli_set_flag, AT(json) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "estimate",
    .usage = "usage: gpu-dispatch estimate [OPTIONS] --input-dir DIR\n"
             "\n"
             "Shows how many files a directory has, how large they are, and how they would be\n"
             "distributed to the GPUs: the largest file first, each file to the GPU that has\n"
             "the fewest bytes so far.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch estimate --input-dir data --pattern '*.wav' --recursive\n"
             "  gpu-dispatch estimate --input-dir data --gpus sim:8 --json\n",
    .table = table,
    .after = "Exit status: 0; 255 if no file was found, or for any other error.\n"
             "More: man gpu-dispatch-estimate.\n",
};

/* The files of one GPU. */
struct share {
    int gpu_id;
    uint64_t files, bytes;
};

struct plan {
    struct gd_workload work;
    struct share *shares;
    size_t n;
};

/* --- computing the plan -------------------------------------------------------------- */

static void problem(void *user, const char *path, const char *why)
{
    (void)user;
    cli_say("%s: %s", path, why);
}

static int find_files(const struct asked *asked, struct gd_files *files)
{
    struct gd_discover what = GD_DISCOVER_INIT;
    what.patterns = asked->patterns.items;
    what.recursive = asked->recursive;
    what.on_problem = problem;
    if (gd_files_discover(files, asked->input_dir, &what) < 0 || gd_files_sort(files, GD_FILE_ORDER_SIZE) < 0)
        return gd__fail("%s", gd_error_text());
    if (gd_files_count(files) > 0)
        return 0;
    return cli_directory_walk_nothing(asked->input_dir, &what);
}

static int deal(const struct gd_files *files, const struct gd_devices *devices, struct plan *plan)
{
    const size_t count = gd_files_count(files);
    size_t *gpu_of = calloc(count, sizeof *gpu_of);
    const size_t n_devices = gd_devices_count(devices);
    plan->shares = calloc(n_devices, sizeof *plan->shares);
    for (size_t i = 0; plan->shares && i < n_devices; i++) {
        struct gd_device d = { .size = sizeof d };
        if (gd_devices_group(devices, i) == (int)i) /* a group is one share, named after its first GPU */
            plan->shares[plan->n++].gpu_id = gd_devices_get(devices, i, &d) == 0 ? d.id : (int)i;
    }
    int rc = -1;
    if (!gpu_of || !plan->shares)
        (void)gd__fail("out of memory");
    else if (gd_distribute_workload(files, plan->n, GD_DISTRIBUTE_BALANCED, gpu_of) < 0)
        (void)gd__fail("%s", gd_error_text());
    else
        rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        plan->shares[gpu_of[i]].files++;
        plan->shares[gpu_of[i]].bytes += gd_files_size(files, i);
    }
    free(gpu_of);
    return rc;
}

/* If this machine has no devices, nothing is distributed. This is an error only if --gpus names devices. */
static int deal_to_devices(const struct asked *asked, const struct gd_files *files, struct plan *plan)
{
    struct gd_devices *devices = NULL;
    if (gd_devices_open(&devices, asked->gpus) < 0)
        return asked->gpus ? gd__fail("--gpus %s: %s", asked->gpus, gd_error_text()) : gd__fail("%s", gd_error_text());
    int rc = gd_devices_count(devices) > 0 ? deal(files, devices, plan) : 0;
    gd_devices_close(&devices);
    return rc;
}

static int make_plan(const struct asked *asked, struct plan *plan)
{
    struct gd_files *files;
    int rc = -1;
    if (!asked->input_dir)
        return gd__fail("estimate needs a directory: --input-dir DIR");
    if (gd_files_open(&files) < 0)
        return gd__fail("%s", gd_error_text());
    plan->work.size = sizeof plan->work;
    if (find_files(asked, files) < 0)
        goto out;
    if (gd_estimate_workload(files, &plan->work) < 0) {
        (void)gd__fail("%s", gd_error_text());
        goto out;
    }
    rc = deal_to_devices(asked, files, plan);
out:
    gd_files_close(&files);
    return rc;
}

/* --- printing --------------------------------------------------------------------------- */

static void print_sizes(const struct gd_workload *w)
{
    char a[32], b[32], c[32], d[32];
    printf("%llu file%s, %s\n", (unsigned long long)w->count, w->count == 1 ? "" : "s",
           gd__text_size(a, sizeof a, w->total_bytes));
    printf("largest %s, median %s, smallest %s\n", gd__text_size(a, sizeof a, w->largest_bytes),
           gd__text_size(b, sizeof b, w->median_bytes), gd__text_size(c, sizeof c, w->smallest_bytes));
    printf("mean %s, spread (standard deviation) %s\n", gd__text_size(a, sizeof a, (uint64_t)w->mean_bytes),
           gd__text_size(d, sizeof d, (uint64_t)w->deviation_bytes));
}

static void print_shares(const struct plan *p)
{
    char bytes[32];
    if (p->n == 0)
        return;
    printf("\n%4s  %10s  %10s  %6s\n", "GPU", "files", "size", "share");
    for (size_t i = 0; i < p->n; i++) {
        const struct share *s = &p->shares[i];
        double part = p->work.total_bytes ? 100.0 * (double)s->bytes / (double)p->work.total_bytes : 0;
        printf("%4d  %10llu  %10s  %5.1f%%\n", s->gpu_id, (unsigned long long)s->files,
               gd__text_size(bytes, sizeof bytes, s->bytes), part);
    }
}

static void print_json(const struct plan *p)
{
    const struct gd_workload *w = &p->work;
    printf("{\"files\":%llu,\"total_bytes\":%llu,\"largest_bytes\":%llu,\"smallest_bytes\":%llu,"
           "\"median_bytes\":%llu,\"mean_bytes\":%.1f,\"deviation_bytes\":%.1f,\"gpus\":[",
           (unsigned long long)w->count, (unsigned long long)w->total_bytes, (unsigned long long)w->largest_bytes,
           (unsigned long long)w->smallest_bytes, (unsigned long long)w->median_bytes, w->mean_bytes,
           w->deviation_bytes);
    for (size_t i = 0; i < p->n; i++)
        printf("%s{\"gpu\":%d,\"files\":%llu,\"bytes\":%llu}", i ? "," : "", p->shares[i].gpu_id,
               (unsigned long long)p->shares[i].files, (unsigned long long)p->shares[i].bytes);
    printf("]}\n");
}

static int show(const struct asked *asked)
{
    struct plan plan = { .n = 0 };
    int rc = make_plan(asked, &plan);
    if (rc < 0) {
        cli_say("%s", gd__fail_text());
    } else if (asked->json) {
        print_json(&plan);
    } else {
        print_sizes(&plan.work);
        print_shares(&plan);
    }
    free(plan.shares);
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}

int cli_estimate_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    int status = 0, first = cli_opts_parse(&options, &asked, argc, argv);
    if (first >= 0 && first < argc)
        first = gd__fail("estimate takes only options, not \"%s\"", argv[first]);
    if (first < 0) {
        cli_say("%s", gd__fail_text());
        status = CLI_EXIT_ERROR;
    } else if (asked.help || asked.list_options) {
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    } else {
        status = show(&asked);
    }
    free(asked.patterns.items);
    return status;
}
