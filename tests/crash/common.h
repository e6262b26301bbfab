/* SPDX-License-Identifier: MIT
 *
 * Shared by the crash tests: seeded random numbers, tasks whose answer depends only on their number, and the resources
 * of this process (descriptors, mappings, children), which must be the same after a run as before it.
 */
#ifndef GD_TESTS_CRASH_COMMON_H
#define GD_TESTS_CRASH_COMMON_H

#include <gpu_dispatch/gpu_dispatch.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/test.h"

#define COUNT_OF(a)   (sizeof(a) / sizeof *(a))
#define MS            UINT64_C(1000000)
#define SECOND        UINT64_C(1000000000)
#define SANITIZED     (TEST_SLOWDOWN > 1)
#define PAYLOAD_WORDS 2 /* the smallest payload: the task's number and its seed */

/* --- numbers ------------------------------------------------------------ */

TEST_UNUSED static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct rng {
    uint64_t state;
};

TEST_UNUSED static uint64_t rng_next(struct rng *r)
{
    return mix(r->state++);
}

TEST_UNUSED static uint64_t rng_below(struct rng *r, uint64_t n)
{
    return n ? rng_next(r) % n : 0;
}

TEST_UNUSED static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* --- work whose answer is known ----------------------------------------- */

struct answer {
    uint64_t id;
    uint64_t size;
    uint64_t sum; /* the sum of the payload's words and the number */
};

/* Fills `words` words of the payload of task `id`. Each word depends on the number and its position. */
TEST_UNUSED static void fill_payload(uint64_t *payload, uint64_t id, uint64_t seed, size_t words)
{
    for (size_t i = 0; i < words; i++)
        payload[i] = i == 0 ? id : i == 1 ? seed : (id + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * i + i;
}

TEST_UNUSED static struct answer answer_to(uint64_t id, const uint64_t *payload, size_t words)
{
    uint64_t sum = mix(id);
    for (size_t i = 0; i < words; i++)
        sum = (sum ^ payload[i]) * UINT64_C(0x100000001b3) + i;
    return (struct answer){ .id = id, .size = words * sizeof *payload, .sum = sum };
}

TEST_UNUSED static void burn(uint64_t ns)
{
    const uint64_t end = now_ns() + ns;
    while (now_ns() < end)
        ;
}

/* --- resources of this process -------------------------------------------- */

struct footprint {
    int fds, memfds, maps, memfd_maps, children;
    long rss_kb;
};

TEST_UNUSED static void count_fds(struct footprint *f)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    for (struct dirent *e; (e = readdir(dir));) {
        char target[256] = { 0 };
        if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(dir))
            continue;
        f->fds++;
        if (readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1) > 0)
            f->memfds += strstr(target, "memfd:") != NULL;
    }
    closedir(dir);
}

TEST_UNUSED static void count_maps(struct footprint *f)
{
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        f->maps++;
        f->memfd_maps += strstr(line, "memfd:") != NULL;
    }
    fclose(maps);
}

/* Counts zombies too. */
TEST_UNUSED static int count_children(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[300];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
        FILE *f = fopen(path, "re");
        for (int pid; f && fscanf(f, "%d", &pid) == 1;)
            n++;
        if (f)
            fclose(f);
    }
    closedir(dir);
    return n;
}

/* Does not use statm, whose figure is behind by what each processor has not added yet. 0: unknown. */
TEST_UNUSED static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Rss: %ld kB", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb;
}

TEST_UNUSED static struct footprint footprint(void)
{
    struct footprint f = { 0 };
    count_fds(&f);
    count_maps(&f);
    f.children = count_children();
    f.rss_kb = resident_kb();
    return f;
}

/* Orphans of workers become our children, so that footprint() counts them. */
TEST_UNUSED static void adopt_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* What is left after a run. If a worker was killed during its last sanitizer check, the sanitizer's helper process
 * becomes our child. It does not count. */
TEST_UNUSED static struct footprint footprint_after(const struct footprint *before)
{
    while (SANITIZED && before->children == 0 && waitpid(-1, NULL, 0) > 0)
        ;
    return footprint();
}

/* Checks that nothing of a run is left. Memory may have grown by what the allocator keeps (sanitizers keep a lot). */
TEST_UNUSED static void check_footprint(const struct footprint *before, long grown_kb)
{
    const struct footprint after = footprint_after(before);
    CHECK_EQ(after.children, before->children);
    CHECK_EQ(after.fds, before->fds);
    CHECK_EQ(after.memfds, before->memfds);
    CHECK_EQ(after.memfd_maps, before->memfd_maps);
    if (SANITIZED)
        return;
    CHECK_LE(after.maps, before->maps + 8); /* a thread's stack or heap that the C library keeps for the next one */
    CHECK_LE(after.rss_kb, before->rss_kb + grown_kb);
}

/* --- every task final exactly once ---------------------------------------- */

struct ledger {
    uint8_t *finals; /* by task */
    uint64_t n, total;
};

TEST_UNUSED static void ledger_open(struct ledger *l, uint64_t n)
{
    l->finals = calloc(n ? n : 1, 1);
    CHECK(l->finals != NULL);
    l->n = n;
    l->total = 0;
}

TEST_UNUSED static void ledger_final(struct ledger *l, uint64_t id)
{
    CHECK_LT(id, l->n);
    CHECK_EQ(l->finals[id], 0);
    l->finals[id] = 1;
    l->total++;
}

/* Checks that the first `taken` tasks are final, and no others. */
TEST_UNUSED static void ledger_close(struct ledger *l, uint64_t taken)
{
    CHECK_EQ(l->total, taken);
    for (uint64_t i = 0; i < l->n; i++)
        CHECK_EQ(l->finals[i], i < taken);
    free(l->finals);
    l->finals = NULL;
}

static const int device_numbers[64] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                        32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                        48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63 };

#endif
