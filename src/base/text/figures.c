/* Writes figures in readable form.
 *
 * A figure has two or three significant digits and a suitable unit. The unit is chosen by the rounded value: 999.96 ms
 * rounds to 1000.0, and is printed as "1.0s". Durations are printed in the form that --timeout accepts.
 */
#include "base/text/figures.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Rounds to whole seconds. The smaller unit is rounded down, as on a clock. */
static void two_parts(char out[GD__TEXT_FIGURE], double seconds, unsigned large, char large_name, unsigned small,
                      char small_name)
{
    const unsigned long long whole = (unsigned long long)(seconds + 0.5);
    snprintf(out, GD__TEXT_FIGURE, "%llu%c%02llu%c", whole / large, large_name, whole % large / small, small_name);
}

static void one_part(char out[GD__TEXT_FIGURE], double value, double decimals_below, const char *unit)
{
    snprintf(out, GD__TEXT_FIGURE, value < decimals_below ? "%.1f%s" : "%.0f%s", value, unit);
}

void gd__text_seconds(char out[GD__TEXT_FIGURE], double seconds)
{
    const double us = seconds * 1e6, ms = seconds * 1e3;
    if (!(seconds > 0))
        snprintf(out, GD__TEXT_FIGURE, "0s");
    else if (us < 999.5)
        one_part(out, us, 9.95, "us");
    else if (ms < 999.5)
        one_part(out, ms, 99.95, "ms");
    else if (seconds < 59.95)
        one_part(out, seconds, 59.95, "s");
    else if (seconds < 3599.5)
        two_parts(out, seconds, 60, 'm', 1, 's');
    else if (seconds < 86399.5)
        two_parts(out, seconds, 3600, 'h', 60, 'm');
    else if (seconds < 1e9)
        two_parts(out, seconds, 86400, 'd', 3600, 'h');
    else
        snprintf(out, GD__TEXT_FIGURE, "%.3gd", seconds / 86400);
}

void gd__text_rate(char *out, size_t room, double per_second, const char *what)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = { { 1, "s" }, { 60, "min" }, { 3600, "h" } };
    size_t i = 0;
    while (i < 2 && per_second * units[i].seconds < 0.995)
        i++;
    const double rate = per_second * units[i].seconds;
    if (rate < 9.95)
        snprintf(out, room, "%.1f %s/%s", rate, what, units[i].name);
    else if (rate < 1e9)
        snprintf(out, room, "%.0f %s/%s", rate, what, units[i].name);
    else
        snprintf(out, room, "%.3g %s/%s", rate, what, units[i].name);
}

int gd__text_noun(uint64_t count, const char *what)
{
    const size_t length = strlen(what);
    return (int)(count == 1 && length > 1 && what[length - 1] == 's' ? length - 1 : length);
}

char *gd__text_duration(char *out, size_t size, double seconds)
{
    if (!(seconds >= 0))
        seconds = 0;
    if (seconds > 1e15)
        seconds = 1e15;
    unsigned long long s = (unsigned long long)(seconds + 0.5);
    if (seconds < 9.95)
        snprintf(out, size, "%.1fs", seconds);
    else if (s < 60)
        snprintf(out, size, "%llus", s);
    else if (s < 3600)
        snprintf(out, size, "%llum%02llus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, size, "%lluh%02llum", s / 3600, s / 60 % 60);
    else
        snprintf(out, size, "%llud%02lluh", s / 86400, s / 3600 % 24);
    return out;
}

char *gd__text_size(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1023.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(out, size, unit && value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

char *gd__text_gpus(char *out, size_t size, const int64_t *gpus, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < size; i++) {
        const int k = snprintf(out + used, size - used, "%s%lld", i > 0 ? "+" : "", (long long)gpus[i]);
        used += k > 0 ? (size_t)k : 0;
    }
    if (used >= size)
        snprintf(out, size, "%lld+..+%lld", (long long)gpus[0], (long long)gpus[n - 1]);
    return out;
}
