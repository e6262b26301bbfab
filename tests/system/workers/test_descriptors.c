/* Descriptors of the library never have the numbers of the standard streams, and other programs do not inherit them. */
#include <fcntl.h>
#include <unistd.h>

#include "support/test.h"
#include "support/world.h"

enum { MOST_FDS = 256 };

static void no_standard_stream_is_open(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    for (int fd = 0; fd <= 2; fd++)
        CHECK_EQ(fcntl(fd, F_GETFD), -1);
}

/* If a descriptor of the library had the number 1, a worker that prints to the inherited stdout would write to it. */
static void run_without_streams(enum gd_worker_output output)
{
    struct world w;
    world_open(&w, 2);
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    w.o.output = output;
    w.on_final = no_standard_stream_is_open;
    world_add_many(&w, 10, (struct world_order){ .what = W_STDOUT, .n = 5 });
    world_add_many(&w, 10, (struct world_order){ .what = W_STDERR, .n = 5 });
    world_add(&w, (struct world_order){ .what = W_KILL, .tries = 1 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 21);
    world_close(&w);
}

TEST(closed_streams_stay_closed)
{
    run_without_streams(GD_OUTPUT_INHERIT);
}

TEST(closed_streams_stay_closed_and_output_is_discarded)
{
    run_without_streams(GD_OUTPUT_DISCARD);
}

TEST(closed_streams_stay_closed_and_output_is_captured)
{
    run_without_streams(GD_OUTPUT_CAPTURE);
}

static bool was_open[MOST_FDS];

static void all_are_close_on_exec(struct world *w, const struct gd_report *r)
{
    unsigned *seen = w->mine;
    (void)r;
    for (int fd = 0; fd < MOST_FDS; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || was_open[fd])
            continue;
        CHECK(flags & FD_CLOEXEC);
        ++*seen;
    }
}

TEST(no_descriptor_is_inherited)
{
    struct world w;
    unsigned seen = 0;
    world_open(&w, 2);
    for (int fd = 0; fd < MOST_FDS; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    w.on_final = all_are_close_on_exec;
    w.mine = &seen;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_GE(seen, 10);
    world_close(&w);
}

WORLD_MAIN()
