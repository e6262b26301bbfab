/* SPDX-License-Identifier: MIT
 *
 * How fast files are found.
 *
 *   bench_discover [-r REPEATS] DIR PATTERN      finds the files in DIR and its subdirectories, without their sizes
 *   bench_discover -m [-n FILES] DIR             makes DIR with FILES empty files *.wav (default 1,000,000),
 *                                                1,000 in each directory
 *
 * One JSON object per line: name, unit, the median of the repeats, and the repeats. discover_seconds is the time of one
 * search, discover_files the number of files found, discover_peak the peak memory of this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "line.h"

enum { MAX_REPEATS = 101, PER_DIRECTORY = 1000 };

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- searching ------------------------------------------------------------ */

static int count_file(void *user, const char *path, uint64_t size)
{
    (void)path, (void)size;
    ++*(uint64_t *)user;
    return 0;
}

static void complain(void *user, const char *path, const char *why)
{
    (void)user;
    fprintf(stderr, "bench_discover: %s: %s\n", path, why);
}

/* The peak memory of this program alone. ru_maxrss would include the memory of the process before exec(). */
static double peak_mib(void)
{
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "re");
    if (!f)
        die("/proc/self/status");
    while (kib < 0 && fgets(line, sizeof line, f)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    }
    fclose(f);
    return (double)kib / 1024;
}

static int search(const char *dir, const char *pattern, int repeats)
{
    const char *const patterns[] = { pattern, NULL };
    struct gd_discover what = GD_DISCOVER_INIT;
    double seconds[MAX_REPEATS], files[MAX_REPEATS];
    what.patterns = patterns;
    what.recursive = what.no_sizes = what.hidden = true; /* as find does */
    what.on_problem = complain;
    for (int i = 0; i < repeats; i++) {
        uint64_t count = 0;
        const double start = now_s();
        if (gd_discover_files(dir, &what, count_file, &count) < 0) {
            fprintf(stderr, "bench_discover: %s\n", gd_error_text());
            return 1;
        }
        seconds[i] = now_s() - start;
        files[i] = (double)count;
    }
    const double peak = peak_mib();
    print_line("discover_seconds", "s", seconds, (size_t)repeats);
    print_line("discover_files", "files", files, (size_t)repeats);
    print_line("discover_peak", "MiB", &peak, 1);
    return 0;
}

/* --- making --------------------------------------------------------------- */

static int make_directory(int in, uint64_t number)
{
    char name[32];
    snprintf(name, sizeof name, "dir_%06" PRIu64, number);
    if (mkdirat(in, name, 0700) < 0)
        die(name);
    const int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        die(name);
    return fd;
}

static void make_file(int in, uint64_t number)
{
    char name[32];
    snprintf(name, sizeof name, "take_%09" PRIu64 ".wav", number);
    if (mknodat(in, name, S_IFREG | 0600, 0) < 0)
        die(name);
}

static int make(const char *dir, uint64_t n)
{
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        die(dir);
    const int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        die(dir);
    for (uint64_t i = 0; i < n;) {
        const int below = make_directory(top, i / PER_DIRECTORY);
        for (const uint64_t end = i + PER_DIRECTORY; i < end && i < n; i++)
            make_file(below, i);
        close(below);
    }
    close(top);
    return 0;
}

int main(int argc, char **argv)
{
    int repeats = 5, making = 0, option;
    uint64_t n = 1000000;
    while ((option = getopt(argc, argv, "r:n:m")) != -1) {
        if (option == 'r')
            repeats = atoi(optarg);
        else if (option == 'n')
            n = strtoull(optarg, NULL, 10);
        else if (option == 'm')
            making = 1;
        else
            repeats = 0;
    }
    if (repeats < 1 || repeats > MAX_REPEATS || argc - optind != (making ? 1 : 2)) {
        fprintf(stderr, "usage: bench_discover [-r REPEATS] DIR PATTERN\n"
                        "       bench_discover -m [-n FILES] DIR\n");
        return 2;
    }
    return making ? make(argv[optind], n) : search(argv[optind], argv[optind + 1], repeats);
}
