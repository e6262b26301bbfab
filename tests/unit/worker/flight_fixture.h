/* SPDX-License-Identifier: MIT
 *
 * The dispatcher's side of the tests of tasks in flight: follows which task is at which place, from the records of the
 * worker. A test program that uses this ends with FLIGHT_TEST_MAIN().
 */
#ifndef GD_TESTS_UNIT_WORKER_FLIGHT_FIXTURE_H
#define GD_TESTS_UNIT_WORKER_FLIGHT_FIXTURE_H

#include "unit/worker/flight_actions.h"
#include "unit/worker/worker_fixture.h"

static struct {
    uint64_t begun;                  /* positions below this were started */
    uint64_t at[GD__FLIGHT_MAX];     /* position + 1 of the task at each place; 0: free */
    unsigned in_flight, most_flying; /* now, and at most */
    unsigned concurrency;
} flight;

TEST_UNUSED static void start_flight(const char *mode, unsigned concurrency)
{
    f->spec.config.concurrency = concurrency;
    start_ready(mode);
    memset(&flight, 0, sizeof flight);
    flight.concurrency = f->record.attempt;
}

TEST_UNUSED static void note_start(void)
{
    CHECK_EQ(f->record.position, flight.begun);
    CHECK_EQ(f->record.task_id, 100 + flight.begun);
    CHECK_EQ(f->record.attempt, 1);
    CHECK_GT(f->record.start_ns, 0);
    CHECK_LT(f->record.place, flight.concurrency);
    CHECK_EQ(flight.at[f->record.place], 0);
    flight.at[f->record.place] = ++flight.begun;
    if (++flight.in_flight > flight.most_flying)
        flight.most_flying = flight.in_flight;
}

/* Reads one record and checks it against the records before it. Returns its kind; 0: the worker has ended. */
TEST_UNUSED static int step(void)
{
    const int kind = next();
    if (kind == GD__R_STARTED)
        note_start();
    if ((kind >= GD__R_SUCCESS && kind <= GD__R_SHORTAGE) || kind == GD__R_PARTIAL) {
        CHECK_LT(f->record.place, flight.concurrency);
        CHECK_EQ(flight.at[f->record.place], f->record.position + 1);
        CHECK_EQ(f->record.task_id, 100 + f->record.position);
    }
    if (kind >= GD__R_SUCCESS && kind <= GD__R_SHORTAGE) {
        CHECK_LE(f->record.start_ns, f->record.end_ns);
        flight.at[f->record.place] = 0;
        flight.in_flight--;
    }
    return kind;
}

/* The next record that is not STARTED. */
TEST_UNUSED static int outcome(void)
{
    int kind;
    while ((kind = step()) == GD__R_STARTED)
        ;
    return kind;
}

TEST_UNUSED static void expect_next(uint64_t position, int kind, const char *bytes)
{
    CHECK_EQ(outcome(), kind);
    CHECK_EQ(f->record.position, position);
    CHECK_STR(f->bytes, bytes);
}

TEST_UNUSED static void await_begun(uint64_t n)
{
    while (flight.begun < n)
        CHECK_EQ(step(), GD__R_STARTED);
}

TEST_UNUSED static unsigned place_of(uint64_t position)
{
    for (unsigned i = 0; i < flight.concurrency; i++)
        if (flight.at[i] == position + 1)
            return i;
    FAIL("position %d is not in flight", (int)position);
    return 0;
}

TEST_UNUSED static void cancel_in_flight(uint64_t position)
{
    CHECK(gd__channel_cancel_at(&f->c, place_of(position), position));
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
}

TEST_UNUSED static void give_all(const char *const *payloads, size_t n)
{
    for (size_t i = 0; i < n; i++)
        append(payloads[i]);
    gd__channel_publish(&f->c);
}
#define GIVE(...) give_all((const char *[]){ __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

#define FLIGHT_TEST_MAIN()                \
    int main(int argc, char **argv)       \
    {                                     \
        if (getenv(GD__BOOT_ENV))         \
            be_flight_worker(argc, argv); \
        return test_main(argc, argv);     \
    }

#endif
