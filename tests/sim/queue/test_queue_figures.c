/* SPDX-License-Identifier: MIT
 *
 * How well a queue with many machines works, in virtual time: idle GPUs, the tail, requests, and what happens when all
 * machines connect again at once. Prints the tables of docs/performance.md, and checks the limits that are promised.
 *
 * The server takes 0.2 ms for each publication, which it writes to its disk, and 20 us for other requests. A message
 * takes 0.5 ms on average from a machine to the server. Tasks take half to one and a half of the time in the table.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/queue/world/world.h"
#include "support/test.h"

/* It takes about a second until a task that its node cannot begin soon has come to a node that is idle. */
#define MOVE_S 1.5

struct row {
    const char *name;
    uint64_t task_ns;
    unsigned n_machines, n_workers, bundle, per_worker; /* per_worker: how many tasks */
};

static struct world world;

static struct plan quiet_plan(const struct row *row)
{
    return (struct plan){
        .n_machines = row->n_machines,
        .n_workers = row->n_workers,
        .n_tasks = row->n_machines * row->n_workers * row->per_worker,
        .bundle = row->bundle,
        .priorities = 1,
        .crash_limit = 3,
        .lease_ms = 30000,
        .task_ns = row->task_ns,
        .even_tasks = true,
        .setup_ns = 100 * GD__NS_PER_MS,
        .hop_ns = 500 * GD__NS_PER_US,
        .publish_ns = 200 * GD__NS_PER_US,
        .serve_ns = 20 * GD__NS_PER_US,
        .reconnect_ns = 2 * GD__NS_PER_S,
        .pushes = 1,
        .pushed_before = true,
        .idle_ns = UINT64_MAX,
        .stop_grace_ns = 25 * GD__NS_PER_S,
    };
}

static void count_requests(void)
{
    world.figures.per_100ms_room = 100000;
    world.figures.per_100ms = calloc(world.figures.per_100ms_room, sizeof *world.figures.per_100ms);
    CHECK(world.figures.per_100ms);
}

static void run(const struct plan *plan)
{
    if (world_run(&world, 1, plan, false, NULL) != 0)
        FAIL("%s", world.words);
}

/* --- steady state and tail --- */

static void print_head(void)
{
    printf("# | task | machines x GPUs | bundle | tasks | idle GPUs | tail | longest message | requests/s | "
           "unacknowledged |\n");
    printf("# |---|---|---|---|---|---|---|---|---|\n");
}

static void print_row(const struct row *row)
{
    const struct figures *f = &world.figures;
    const double full_ns = (double)(f->last_full_ns - f->first_full_ns);
    const double workers = row->n_machines * row->n_workers;
    const double idle = 1 - (f->area_last - f->area_first) / (full_ns * workers);
    const double tail_s = (double)(f->last_end_ns - f->last_full_ns) / 1e9;
    const double whole_s = (double)(f->last_end_ns - WORLD_BEGINNING) / 1e9;
    const double longest_s = 1.5 * (double)row->task_ns * row->bundle / 1e9;
    printf("# | %s | %u x %u | %u | %u | %.2f %% | %.2f s | %.1f s | %.0f | %llu |\n", row->name, row->n_machines,
           row->n_workers, row->bundle, world.plan.n_tasks, 100 * idle, tail_s, longest_s,
           (double)(f->requests + f->notices) / whole_s, LLU(world.server.most_unacknowledged));
    fflush(stdout);
    CHECK(f->first_full_ns > 0);
    if (idle > 0.02)
        FAIL("%s: %.2f %% of the GPUs are idle", row->name, 100 * idle);
    if (tail_s > longest_s + MOVE_S)
        FAIL("%s: the tail takes %.2f s, more than a bundle or a task (%.2f s)", row->name, tail_s, longest_s);
    CHECK_LT(world.server.most_unacknowledged, 65536);
    CHECK_EQ(f->reruns, 0);
}

static void measure(const struct row *row)
{
    const struct plan plan = quiet_plan(row);
    print_head();
    run(&plan);
    print_row(row);
}

TEST_WITHIN(1200, tasks_of_60_s)
{
    measure(&(struct row){ "60 s", 60 * GD__NS_PER_S, 1000, 8, 1, 12 });
}

TEST_WITHIN(1200, tasks_of_1_s)
{
    measure(&(struct row){ "1 s", GD__NS_PER_S, 1000, 8, 10, 100 });
}

TEST_WITHIN(1200, tasks_of_1_s_without_bundles)
{
    measure(&(struct row){ "1 s", GD__NS_PER_S, 200, 8, 1, 100 });
}

TEST_WITHIN(1200, tasks_of_100_ms)
{
    measure(&(struct row){ "100 ms", 100 * GD__NS_PER_MS, 250, 8, 100, 1000 });
}

TEST_WITHIN(1200, tasks_of_10_ms)
{
    measure(&(struct row){ "10 ms", 10 * GD__NS_PER_MS, 40, 8, 1000, 10000 });
}

/* --- all machines connect again --- */

static uint64_t most_per_second(uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t slot = 100 * GD__NS_PER_MS;
    uint64_t most = 0;
    for (uint64_t i = (from_ns - WORLD_BEGINNING) / slot; i < (to_ns - WORLD_BEGINNING) / slot; i++) {
        uint64_t sum = 0;
        for (uint64_t k = i; k < i + 10 && k < world.figures.per_100ms_room; k++)
            sum += world.figures.per_100ms[k];
        most = sum > most ? sum : most;
    }
    return most;
}

/* The server is gone for ten seconds, in the middle of the work. */
TEST_WITHIN(1200, no_herd_when_1000_machines_connect_again)
{
    struct plan plan = quiet_plan(&(struct row){ "60 s", 60 * GD__NS_PER_S, 1000, 8, 1, 12 });
    plan.server_dies_ns = 200 * GD__NS_PER_S;
    count_requests();
    run(&plan);
    const uint64_t back = WORLD_BEGINNING + plan.server_dies_ns;
    printf("# 1000 machines x 8: at most %llu requests in a second before the server dies, %llu in the first minute "
           "after; %llu pulls waited at most\n",
           LLU(most_per_second(WORLD_BEGINNING + 20 * GD__NS_PER_S, WORLD_BEGINNING + 199 * GD__NS_PER_S)),
           LLU(most_per_second(back, back + 70 * GD__NS_PER_S)), LLU(world.server.most_waiting));
    /* Each machine may ask for each thing that it holds (16 messages), and for its pulls, within the two seconds in
     * which machines connect. */
    CHECK_LT(most_per_second(back, back + 70 * GD__NS_PER_S), 20000);
    CHECK_LT(world.server.most_waiting, 4096);
}

TEST_MAIN()
