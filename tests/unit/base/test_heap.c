/* SPDX-License-Identifier: MIT
 *
 * The timer heap, compared with a search through a plain array.
 */
#include "support/test.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/heap.h"

enum { N = 200 };

static struct gd__heap heap;
static struct gd__timer timers[N];

static void open_heap(size_t capacity)
{
    CHECK_EQ(gd__heap_init(&heap, capacity), 0);
}

TEST(an_empty_heap_has_no_first_timer)
{
    open_heap(4);
    CHECK(gd__heap_first(&heap) == NULL);
    gd__heap_destroy(&heap);
}

TEST(a_heap_without_room_is_valid)
{
    open_heap(0);
    CHECK(gd__heap_first(&heap) == NULL);
    gd__heap_destroy(&heap);
}

TEST(the_earliest_timer_is_first)
{
    open_heap(3);
    gd__heap_arm(&heap, &timers[0], 30);
    gd__heap_arm(&heap, &timers[1], 10);
    gd__heap_arm(&heap, &timers[2], 20);
    CHECK(gd__heap_first(&heap) == &timers[1]);
    gd__heap_disarm(&heap, &timers[1]);
    CHECK(gd__heap_first(&heap) == &timers[2]);
    gd__heap_disarm(&heap, &timers[2]);
    CHECK(gd__heap_first(&heap) == &timers[0]);
    gd__heap_destroy(&heap);
}

TEST(arming_again_moves_a_timer)
{
    open_heap(2);
    gd__heap_arm(&heap, &timers[0], 10);
    gd__heap_arm(&heap, &timers[1], 20);
    gd__heap_arm(&heap, &timers[0], 30);
    CHECK_EQ(heap.count, 2);
    CHECK(gd__heap_first(&heap) == &timers[1]);
    gd__heap_arm(&heap, &timers[0], 5);
    CHECK(gd__heap_first(&heap) == &timers[0]);
    gd__heap_destroy(&heap);
}

TEST(disarming_a_timer_that_is_not_armed_does_nothing)
{
    open_heap(1);
    gd__heap_disarm(&heap, &timers[0]);
    gd__heap_arm(&heap, &timers[0], 1);
    CHECK(gd__timer_armed(&timers[0]));
    gd__heap_disarm(&heap, &timers[0]);
    gd__heap_disarm(&heap, &timers[0]);
    CHECK(!gd__timer_armed(&timers[0]));
    CHECK_EQ(heap.count, 0);
    gd__heap_destroy(&heap);
}

static void check_heap(void)
{
    uint64_t least = UINT64_MAX;
    size_t armed = 0;
    for (size_t i = 0; i < N; i++) {
        if (!gd__timer_armed(&timers[i]))
            continue;
        armed++;
        CHECK(heap.items[timers[i].position] == &timers[i]);
        least = timers[i].at_ns < least ? timers[i].at_ns : least;
    }
    CHECK_EQ(armed, heap.count);
    if (armed)
        CHECK_EQ(gd__heap_first(&heap)->at_ns, least);
}

TEST(random_arming_keeps_the_order)
{
    open_heap(N);
    srand(1);
    for (int step = 0; step < 20000; step++) {
        struct gd__timer *t = &timers[rand() % N];
        if (rand() % 3)
            gd__heap_arm(&heap, t, (uint64_t)(rand() % 1000));
        else
            gd__heap_disarm(&heap, t);
        check_heap();
    }
    uint64_t last = 0;
    for (struct gd__timer *t; (t = gd__heap_first(&heap)); gd__heap_disarm(&heap, t)) {
        CHECK_GE(t->at_ns, last);
        last = t->at_ns;
    }
    gd__heap_destroy(&heap);
}

TEST(a_heap_grows_and_keeps_its_timers)
{
    enum { MANY = 100 };
    struct gd__heap h = { 0 };
    struct gd__timer many[MANY] = { 0 };
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ(gd__heap_grow(&h, i + 1), 0);
        gd__heap_arm(&h, &many[i], MANY - i);
    }
    CHECK_EQ(gd__heap_grow(&h, 1), 0); /* less room than there is */
    for (unsigned i = MANY; i-- > 0;) {
        CHECK(gd__heap_first(&h) == &many[i]);
        gd__heap_disarm(&h, &many[i]);
    }
    CHECK(gd__heap_grow(&h, SIZE_MAX) < 0);
    gd__heap_destroy(&h);
}

TEST(impossible_size_is_an_error)
{
    CHECK_EQ(gd__heap_init(&heap, SIZE_MAX / 4), GD_E_NO_MEMORY);
    gd__heap_destroy(&heap);
}

#ifdef GD_TEST_HOOKS
TEST(failed_allocation_is_an_error)
{
    gd__fault_begin(1);
    CHECK_EQ(gd__heap_init(&heap, 4), GD_E_NO_MEMORY);
    gd__heap_destroy(&heap);
}
#endif

TEST_MAIN()
