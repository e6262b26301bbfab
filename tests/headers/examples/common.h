/* Shared by the programs around the headers' examples: three inputs, and a worker whose result is its input. */
#ifndef GD_TESTS_HEADERS_COMMON_H
#define GD_TESTS_HEADERS_COMMON_H

#include <gpu_dispatch/gpu_dispatch.h>
#include <stdio.h>
#include <string.h>

__attribute__((unused)) static unsigned n_given, n_done;

static int next_path(void *user, struct gd_item *item)
{
    static const char *const paths[] = { "a", "b", "c" };
    (void)user;
    if (n_given == 3)
        return 0;
    item->data = paths[n_given];
    item->size = strlen(paths[n_given++]);
    return 1;
}

static void print_result(void *user, const struct gd_report *report)
{
    (void)user;
    n_done++;
    printf("%.*s\n", (int)report->input_size, (const char *)report->input);
}

static void print_error(void *user, const struct gd_report *report)
{
    (void)user;
    fprintf(stderr, "%s\n", report->error);
}

static int echo(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    return gd_result_set(r, t->data, t->size);
}

__attribute__((unused)) static const struct gd_worker_ops echo_ops = { .size = sizeof echo_ops, .process = echo };

#endif
