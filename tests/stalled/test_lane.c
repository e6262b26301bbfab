/* SPDX-License-Identifier: MIT
 *
 * Lanes: the order of jobs, when a lane is full, and when it is abandoned. Jobs wait at a gate that the test opens.
 */
#include "cli/output/lane.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#include "support/test.h"

struct job {
    struct cli_job base;
    int number;
    sem_t *gate; /* the job waits here; NULL: it does not wait */
};

static sem_t gate, entered;
static char order[256];

static void run_job(struct cli_job *base)
{
    struct job *j = (struct job *)base;
    CHECK_EQ(sem_post(&entered), 0);
    while (j->gate && sem_wait(j->gate) < 0)
        CHECK_EQ(errno, EINTR);
    const size_t length = strlen(order);
    snprintf(order + length, sizeof order - length, "%d ", j->number);
    free(j);
}

static struct cli_job *new_job(int number, size_t bytes, sem_t *at)
{
    struct job *j = calloc(1, sizeof *j);
    CHECK(j != NULL);
    *j = (struct job){ .base = { .run = run_job, .bytes = bytes }, .number = number, .gate = at };
    return &j->base;
}

struct changes {
    int full, room;
};

static void count_change(void *user, bool full)
{
    struct changes *t = user;
    if (full)
        t->full++;
    else
        t->room++;
}

static struct cli_lane *open_another(struct changes *changes)
{
    struct cli_lane *l = NULL;
    const struct cli_lane_options o = {
        .name = "test", .limit = 100, .full = changes ? count_change : NULL, .user = changes
    };
    CHECK_EQ(cli_lane_open(&l, &o), 0);
    return l;
}

static struct cli_lane *open_lane(struct changes *changes)
{
    CHECK_EQ(sem_init(&gate, 0, 0), 0);
    CHECK_EQ(sem_init(&entered, 0, 0), 0);
    return open_another(changes);
}

TEST(jobs_run_in_the_order_in_which_they_were_added)
{
    struct cli_lane *l = open_lane(NULL);
    CHECK_EQ(cli_lane_last(l), 0);
    CHECK_EQ(cli_lane_add(l, new_job(1, 1, &gate)), 1);
    for (int i = 2; i <= 9; i++)
        CHECK_EQ(cli_lane_add(l, new_job(i, 1, NULL)), i);
    CHECK_EQ(cli_lane_last(l), 9);
    CHECK_STR(order, "");
    sem_post(&gate);
    CHECK(cli_lane_wait(l));
    CHECK_STR(order, "1 2 3 4 5 6 7 8 9 ");
    cli_lane_reach(l, 9, UINT_MAX);
    cli_lane_close(&l);
    CHECK(l == NULL);
    cli_lane_close(&l);
}

/* A lane is full when its jobs have more bytes than the limit (100). It has room again at half the limit. Each change
 * is reported once. */
TEST(a_full_lane_is_reported)
{
    struct changes changes = { 0 };
    struct cli_lane *l = open_lane(&changes);
    (void)cli_lane_add(l, new_job(1, 50, &gate));
    (void)cli_lane_add(l, new_job(2, 50, &gate));
    CHECK_EQ(changes.full, 0);
    CHECK(cli_lane_try_add(l, new_job(3, 30, &gate))); /* below or at the limit a job of any size is accepted */
    CHECK_EQ(changes.full, 1);
    (void)cli_lane_add(l, new_job(4, 10, NULL)); /* this call never refuses a job */
    struct cli_job *refused = new_job(5, 1, NULL);
    CHECK(!cli_lane_try_add(l, refused));
    free(refused);
    CHECK_EQ(changes.full, 1);
    sem_post(&gate);
    cli_lane_reach(l, 1, UINT_MAX);
    CHECK_EQ(changes.room, 0); /* 90 bytes are left */
    sem_post(&gate);
    cli_lane_reach(l, 2, UINT_MAX);
    CHECK_EQ(changes.room, 1); /* 40 bytes are left */
    sem_post(&gate);
    CHECK(cli_lane_wait(l));
    CHECK_EQ(changes.full, 1);
    CHECK_EQ(changes.room, 1);
    cli_lane_close(&l);
}

TEST(the_wait_for_a_message_has_a_limit)
{
    struct cli_lane *l = open_lane(NULL);
    (void)cli_lane_add(l, new_job(1, 1, &gate));
    cli_lane_reach(l, 1, 1);
    CHECK_STR(order, "");
    sem_post(&gate);
    cli_lane_close(&l);
}

static void *wait_for_it(void *lane)
{
    return cli_lane_wait(lane) ? lane : NULL;
}

/* No job can finish. The wait ends after one, two, three or four signals. */
TEST(signals_end_the_wait)
{
    CHECK_EQ(sem_init(&gate, 0, 0), 0); /* this gate is never opened: the threads wait there until the case ends */
    CHECK_EQ(sem_init(&entered, 0, 0), 0);
    for (unsigned signals = 1; signals <= 4; signals++) {
        struct cli_lane *l = open_another(NULL);
        pthread_t waiter;
        void *all = l;
        (void)cli_lane_add(l, new_job(1, 1, &gate));
        (void)cli_lane_add(l, new_job(2, 1, NULL));
        sem_wait(&entered);
        CHECK_EQ(pthread_create(&waiter, NULL, wait_for_it, l), 0);
        for (unsigned n = 1; n <= signals; n++)
            cli_lane_hurry(l, n);
        CHECK_EQ(pthread_join(waiter, &all), 0);
        CHECK(all == NULL);
        CHECK(!cli_lane_commit(l));
        cli_lane_reach(l, 2, UINT_MAX); /* this does not wait either */
        cli_lane_close(&l);
    }
}

/* If a job has committed, it is finished before the lane is abandoned. */
static struct cli_lane *committing;

static void run_committed(struct cli_job *base)
{
    CHECK(cli_lane_commit(committing));
    run_job(base);
    cli_lane_committed(committing);
}

TEST(a_lane_is_not_abandoned_during_a_commit)
{
    struct cli_lane *l = committing = open_lane(NULL);
    struct cli_job *job = new_job(1, 1, &gate);
    pthread_t waiter;
    void *all = l;
    job->run = run_committed;
    (void)cli_lane_add(l, job);
    (void)cli_lane_add(l, new_job(2, 1, &gate));
    sem_wait(&entered);
    cli_lane_hurry(l, 3);
    CHECK_EQ(pthread_create(&waiter, NULL, wait_for_it, l), 0);
    sem_post(&gate);
    CHECK_EQ(pthread_join(waiter, &all), 0);
    CHECK(all == NULL);
    CHECK_CONTAINS(order, "1 ");
    cli_lane_close(&l);
}

TEST_MAIN()
