/* SPDX-License-Identifier: MIT
 *
 * The queue of waiting tasks, compared with a sorted array.
 */
#include "core/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "core/internal.h"
#include "core/sched.h"
#include "support/test.h"

enum { MOST = 300000, SMALL = 200 };

static struct gd__sched sched;
static struct gd__waiting queue;

static void open_queue(enum gd_placement placement)
{
    sched = (struct gd__sched){ .config.placement = placement, .tasks = calloc(MOST, sizeof *sched.tasks) };
    CHECK(sched.tasks != NULL);
    memset(&queue, 0, sizeof queue);
}

static void close_queue(void)
{
    free(sched.tasks);
}

/* Fills a slot with a task that is on no list. */
static uint32_t task(uint32_t slot, uint64_t id, int priority, uint64_t weight)
{
    sched.tasks[slot] = (struct gd__task){ .id = id, .priority = (int8_t)priority, .weight = weight };
    return slot;
}

static uint64_t pop_id(void)
{
    return sched.tasks[gd__waiting_pop(&sched, &queue)].id;
}

/* --- the order --- */

TEST(tasks_of_the_source_come_in_their_order)
{
    open_queue(GD_PLACE_DYNAMIC);
    for (uint32_t i = 0; i < SMALL; i++)
        gd__waiting_append(&sched, &queue, task(i, i, 0, SMALL - i)); /* without GD_PLACE_BY_SIZE, weight is ignored */
    for (uint32_t i = 0; i < SMALL; i++)
        CHECK_EQ(pop_id(), i);
    CHECK_EQ(queue.count, 0);
    close_queue();
}

TEST(higher_priorities_come_first)
{
    open_queue(GD_PLACE_DYNAMIC);
    for (uint32_t i = 0; i < GD__PRIORITIES; i++)
        gd__waiting_append(&sched, &queue, task(i, i, GD__PRIORITY_MIN + (int)i, 0));
    for (uint32_t i = GD__PRIORITIES; i-- > 0;) {
        CHECK_EQ(sched.tasks[gd__waiting_first(&sched, &queue)].id, i);
        CHECK_EQ(pop_id(), i);
    }
    close_queue();
}

TEST(a_task_that_comes_back_goes_to_its_old_place)
{
    open_queue(GD_PLACE_DYNAMIC);
    gd__waiting_append(&sched, &queue, task(0, 10, 0, 0));
    gd__waiting_append(&sched, &queue, task(1, 20, 0, 0));
    gd__waiting_insert(&sched, &queue, task(2, 15, 0, 0));
    gd__waiting_insert(&sched, &queue, task(3, 5, 0, 0));
    gd__waiting_insert(&sched, &queue, task(4, 25, 0, 0)); /* after all others: it is appended */
    gd__waiting_insert(&sched, &queue, task(5, 30, 1, 0));
    const uint64_t expected[] = { 30, 5, 10, 15, 20, 25 };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_EQ(pop_id(), expected[i]);
    close_queue();
}

TEST(by_size_the_largest_comes_first_within_a_priority)
{
    open_queue(GD_PLACE_BY_SIZE);
    gd__waiting_insert(&sched, &queue, task(0, 0, 0, 10));
    gd__waiting_insert(&sched, &queue, task(1, 1, 0, 30));
    gd__waiting_insert(&sched, &queue, task(2, 2, 0, 30));
    gd__waiting_insert(&sched, &queue, task(3, 3, 1, 1));
    gd__waiting_insert(&sched, &queue, task(4, 4, -1, 99));
    const uint64_t expected[] = { 3, 1, 2, 0, 4 };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_EQ(pop_id(), expected[i]);
    close_queue();
}

TEST(a_cleared_queue_is_empty_and_can_be_used_again)
{
    open_queue(GD_PLACE_DYNAMIC);
    gd__waiting_append(&sched, &queue, task(0, 1, 3, 0));
    gd__waiting_insert(&sched, &queue, task(1, 0, 3, 0));
    gd__waiting_clear(&queue);
    CHECK_EQ(queue.count, 0);
    gd__waiting_append(&sched, &queue, task(2, 2, -4, 0));
    CHECK_EQ(queue.count, 1);
    CHECK_EQ(pop_id(), 2);
    close_queue();
}

/* --- random operations, compared with a sorted array --- */

static uint32_t model[SMALL]; /* the slots that wait, in the order in which they start */
static size_t n_model;

/* The expected order, written independently of the code under test. */
static bool starts_before(uint32_t a, uint32_t b)
{
    const struct gd__task *x = &sched.tasks[a], *y = &sched.tasks[b];
    if (x->priority != y->priority)
        return x->priority > y->priority;
    if (sched.config.placement == GD_PLACE_BY_SIZE && x->weight != y->weight)
        return x->weight > y->weight;
    return x->id < y->id;
}

static void model_add(uint32_t slot)
{
    size_t i = n_model++;
    for (; i > 0 && starts_before(slot, model[i - 1]); i--)
        model[i] = model[i - 1];
    model[i] = slot;
}

static void model_pop(void)
{
    memmove(model, model + 1, --n_model * sizeof *model);
}

static unsigned seen[SMALL];

static void count_task(void *ctx, uint32_t slot)
{
    CHECK(ctx == seen);
    CHECK_LT(slot, SMALL);
    seen[slot]++;
}

static void check_queue(void)
{
    unsigned expected[SMALL] = { 0 };
    CHECK_EQ(queue.count, n_model);
    if (n_model > 0)
        CHECK_EQ(gd__waiting_first(&sched, &queue), model[0]);
    for (size_t i = 0; i < n_model; i++)
        expected[model[i]] = 1;
    memset(seen, 0, sizeof seen);
    gd__waiting_each(&sched, &queue, count_task, seen);
    CHECK_MEM(seen, expected, sizeof seen);
}

/* A set of slots that can be taken from at random. */
struct slots {
    uint32_t slot[SMALL];
    size_t n;
};

static uint32_t take_any(struct slots *set)
{
    const size_t i = (size_t)rand() % set->n;
    const uint32_t slot = set->slot[i];
    set->slot[i] = set->slot[--set->n];
    return slot;
}

/* Tasks come from the source, are taken by workers, and then end or come back. */
static void random_operations(enum gd_placement placement, int steps, unsigned priorities)
{
    struct slots unused = { .n = 0 }, out = { .n = 0 };
    uint64_t next_id = 0;
    n_model = 0;
    open_queue(placement);
    for (uint32_t i = 0; i < SMALL; i++)
        unused.slot[unused.n++] = i;
    for (int step = 0; step < steps; step++) {
        const int what = rand() % 10;
        if (what < 4 && unused.n > 0) {
            const uint32_t slot = take_any(&unused);
            task(slot, next_id++, GD__PRIORITY_MIN + rand() % (int)priorities, (uint64_t)(rand() % 5));
            if (placement == GD_PLACE_BY_SIZE) /* tasks come in any order of size */
                gd__waiting_insert(&sched, &queue, slot);
            else
                gd__waiting_append(&sched, &queue, slot);
            model_add(slot);
        } else if (what < 6 && out.n > 0) {
            const uint32_t slot = take_any(&out);
            gd__waiting_insert(&sched, &queue, slot);
            model_add(slot);
        } else if (what < 7 && out.n > 0) {
            unused.slot[unused.n++] = take_any(&out);
        } else if (n_model > 0) {
            const uint32_t slot = gd__waiting_pop(&sched, &queue);
            CHECK_EQ(slot, model[0]);
            model_pop();
            out.slot[out.n++] = slot;
        }
        check_queue();
    }
    for (; n_model > 0; model_pop())
        CHECK_EQ(gd__waiting_pop(&sched, &queue), model[0]);
    CHECK_EQ(queue.count, 0);
    close_queue();
}

TEST(random_operations_without_priorities)
{
    srand(1);
    random_operations(GD_PLACE_DYNAMIC, 50000, 1);
}

TEST(random_operations_with_priorities)
{
    srand(2);
    random_operations(GD_PLACE_DYNAMIC, 50000, GD__PRIORITIES);
}

TEST(random_operations_by_size)
{
    srand(3);
    random_operations(GD_PLACE_BY_SIZE, 50000, 3);
}

/* --- deep and wide heaps --- */

static void count_all(void *ctx, uint32_t slot)
{
    (void)slot;
    ++*(uint64_t *)ctx;
}

/* All tasks come back, in the order that id() defines. */
static void check_heap_of_many(uint64_t (*id)(uint32_t i))
{
    uint64_t counted = 0;
    open_queue(GD_PLACE_DYNAMIC);
    for (uint32_t i = 0; i < MOST; i++)
        gd__waiting_insert(&sched, &queue, task(i, id(i), 0, 0));
    gd__waiting_each(&sched, &queue, count_all, &counted);
    CHECK_EQ(counted, MOST);
    for (uint32_t i = 0; i < MOST; i++)
        CHECK_EQ(pop_id(), i);
    close_queue();
}

static uint64_t rising(uint32_t i)
{
    return i;
}

static uint64_t falling(uint32_t i)
{
    return MOST - 1 - i;
}

static uint64_t scattered(uint32_t i)
{
    return i * UINT64_C(7919) % MOST; /* 7919 is a prime that does not divide MOST */
}

/* Each task becomes a child of the first one. */
TEST(a_wide_heap)
{
    check_heap_of_many(rising);
}

/* Each task becomes the root, so the heap is as deep as it has tasks. */
TEST(a_deep_heap)
{
    check_heap_of_many(falling);
}

TEST(a_heap_in_no_order)
{
    check_heap_of_many(scattered);
}

TEST_MAIN()
