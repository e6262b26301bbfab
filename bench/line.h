/* SPDX-License-Identifier: MIT
 *
 * The output of the benchmark programs for bench/run.py: a line of JSON for each measurement, with the median and all
 * values.
 */
#ifndef GD_BENCH_LINE_H
#define GD_BENCH_LINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int line_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double line_median(const double *values, size_t n)
{
    double *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        abort();
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, line_by_value);
    const double m = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return m;
}

static void print_line(const char *name, const char *unit, const double *values, size_t n)
{
    printf("{\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.9g, \"repeats\": [", name, unit, line_median(values, n));
    for (size_t i = 0; i < n; i++)
        printf("%s%.9g", i > 0 ? ", " : "", values[i]);
    puts("]}");
    fflush(stdout);
}

#endif
