/* SPDX-License-Identifier: MIT
 *
 * The distribution of files to devices, and lists of files as a source of tasks.
 */
#include <gpu_dispatch/launch.h>

#include "base/fault.h"
#include "support/test.h"

enum { MOST = 1000 };

static struct gd_files *files;
static size_t gpu_of[MOST + 1];

static void open_files(const uint64_t *sizes, size_t n)
{
    CHECK_EQ(gd_files_open(&files), 0);
    for (size_t i = 0; i < n; i++) {
        char path[40];
        snprintf(path, sizeof path, "data/%zu.wav", i);
        CHECK_EQ(gd_files_add(files, path, sizes ? sizes[i] : 0), 0);
    }
}

/* "0 1 2 0": the device of each file. */
static const char *dealt(size_t n, enum gd_distribution deal)
{
    static char text[MOST * 4];
    const size_t count = gd_files_count(files);
    memset(gpu_of, 0xff, sizeof gpu_of);
    if (gd_distribute_workload(files, n, deal, gpu_of) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(gpu_of[count], SIZE_MAX); /* nothing was written past the end */
    char *end = text;
    *end = '\0';
    for (size_t i = 0; i < count; i++)
        end += snprintf(end, sizeof text - (size_t)(end - text), "%s%zu", i ? " " : "", gpu_of[i]);
    return text;
}

TEST(round_robin)
{
    open_files(NULL, 7);
    CHECK_STR(dealt(3, GD_DISTRIBUTE_ROUND_ROBIN), "0 1 2 0 1 2 0");
    CHECK_STR(dealt(1, GD_DISTRIBUTE_ROUND_ROBIN), "0 0 0 0 0 0 0");
    CHECK_STR(dealt(SIZE_MAX, GD_DISTRIBUTE_ROUND_ROBIN), "0 1 2 3 4 5 6");
    gd_files_close(&files);
}

TEST(in_chunks_rounded_up)
{
    open_files(NULL, 7);
    CHECK_STR(dealt(3, GD_DISTRIBUTE_CHUNKS), "0 0 0 1 1 1 2");
    CHECK_STR(dealt(4, GD_DISTRIBUTE_CHUNKS), "0 0 1 1 2 2 3");
    /* Sizes are rounded up, so the last device gets no file. */
    CHECK_STR(dealt(5, GD_DISTRIBUTE_CHUNKS), "0 0 1 1 2 2 3");
    CHECK_STR(dealt(7, GD_DISTRIBUTE_CHUNKS), "0 1 2 3 4 5 6");
    CHECK_STR(dealt(SIZE_MAX, GD_DISTRIBUTE_CHUNKS), "0 1 2 3 4 5 6");
    gd_files_close(&files);
}

TEST(to_the_device_with_the_least_work)
{
    open_files((const uint64_t[]){ 1, 8, 5, 4, 3, 3 }, 6);
    /* Size 8 goes to device 0, 5 to 1, 4 to 1, 3 to 0, 3 to 1, 1 to 0. Both devices have 12. */
    CHECK_STR(dealt(2, GD_DISTRIBUTE_BALANCED), "0 0 1 1 0 1");
    CHECK_STR(dealt(1, GD_DISTRIBUTE_BALANCED), "0 0 0 0 0 0");
    CHECK_STR(dealt(SIZE_MAX, GD_DISTRIBUTE_BALANCED), "5 0 1 2 3 4");
    gd_files_close(&files);
}

TEST(files_without_a_size_are_distributed_by_count)
{
    open_files(NULL, 6);
    CHECK_STR(dealt(3, GD_DISTRIBUTE_BALANCED), "0 1 2 0 1 2");
    gd_files_close(&files);
}

TEST(sums_that_overflow_do_not_wrap)
{
    open_files((const uint64_t[]){ UINT64_MAX, UINT64_MAX - 10, 20, 5 }, 4);
    CHECK_STR(dealt(2, GD_DISTRIBUTE_BALANCED), "0 1 1 0");
    gd_files_close(&files);
}

/* Compares the result with a plain algorithm, which checks every device for every file. */
TEST(the_same_as_a_plain_algorithm)
{
    enum { DEVICES = 13 };
    uint64_t sizes[MOST], load[DEVICES] = { 0 }, seed = 1;
    for (size_t i = 0; i < MOST; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sizes[i] = (seed >> 33) % 500 + 1;
    }
    open_files(sizes, MOST);
    dealt(DEVICES, GD_DISTRIBUTE_BALANCED);
    for (uint64_t size = 500; size > 0; size--) {
        for (size_t i = 0; i < MOST; i++) {
            size_t least = 0;
            if (sizes[i] != size)
                continue;
            for (size_t d = 1; d < DEVICES; d++)
                least = load[d] < load[least] ? d : least;
            CHECK_EQ(gpu_of[i], least);
            load[least] += size;
        }
    }
    gd_files_close(&files);
}

TEST(no_files)
{
    open_files(NULL, 0);
    for (int deal = GD_DISTRIBUTE_ROUND_ROBIN; deal <= GD_DISTRIBUTE_BALANCED; deal++) {
        CHECK_STR(dealt(4, (enum gd_distribution)deal), "");
        CHECK_EQ(gd_distribute_workload(files, 4, (enum gd_distribution)deal, NULL), 0);
    }
    gd_files_close(&files);
}

TEST(bad_use)
{
    struct gd_task_queue *queue;
    open_files(NULL, 3);
    CHECK_EQ(gd_distribute_workload(files, 0, GD_DISTRIBUTE_CHUNKS, gpu_of), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "n must be >= 1, got 0");
    CHECK_EQ(gd_distribute_workload(NULL, 1, GD_DISTRIBUTE_CHUNKS, gpu_of), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the list of files is NULL");
    CHECK_EQ(gd_distribute_workload(files, 1, GD_DISTRIBUTE_CHUNKS, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "room for 3 numbers");
    CHECK_EQ(gd_distribute_workload(files, 1, (enum gd_distribution)3, gpu_of), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "3 is not a way");
    CHECK_EQ(gd_task_queue_open(&queue, NULL), GD_E_INVALID);
    CHECK_EQ(gd_task_queue_open(NULL, files), GD_E_INVALID);
    gd_task_queue_close(NULL);
    CHECK_EQ(gd_task_queue_left(NULL), 0);
    gd_files_close(&files);
}

TEST(running_out_of_memory_is_reported)
{
    struct gd_task_queue *queue;
    open_files(NULL, 3);
    for (unsigned long nth = 1; nth <= 2; nth++) {
        gd__fault_begin(nth);
        CHECK_EQ(gd_distribute_workload(files, 2, GD_DISTRIBUTE_BALANCED, gpu_of), GD_E_NO_MEMORY);
    }
    gd__fault_begin(1);
    CHECK_EQ(gd_task_queue_open(&queue, files), GD_E_NO_MEMORY);
    CHECK(queue == NULL);
    gd__fault_begin(0);
    gd_files_close(&files);
}

/* --- the queue ------------------------------------------------------------ */

TEST(a_queue_gives_the_paths_in_order)
{
    struct gd_task_queue *queue;
    open_files((const uint64_t[]){ 0, 500, 7 }, 3);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    CHECK_EQ(gd_task_queue_open(&queue, files), 0);
    const char *const paths[] = { "data/1.wav", "data/2.wav", "data/0.wav" };
    const uint64_t weights[] = { 500, 7, 1 };
    for (size_t i = 0; i < 3; i++) {
        struct gd_item item = { 0 };
        CHECK_EQ(gd_task_queue_left(queue), 3 - i);
        CHECK_EQ(gd_task_queue_next(queue, &item), 1);
        CHECK_EQ(item.size, strlen(paths[i]));
        CHECK_MEM(item.data, paths[i], item.size);
        CHECK_EQ(item.weight, weights[i]);
    }
    struct gd_item item = { 0 };
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(gd_task_queue_left(queue), 0);
        CHECK_EQ(gd_task_queue_next(queue, &item), 0);
        CHECK(item.data == NULL);
    }
    gd_task_queue_close(&queue);
    CHECK(queue == NULL);
    gd_task_queue_close(&queue);
    gd_files_close(&files);
}

TEST(two_queues_of_one_list)
{
    struct gd_task_queue *one, *two;
    struct gd_item item = { 0 };
    open_files(NULL, 2);
    CHECK_EQ(gd_task_queue_open(&one, files), 0);
    CHECK_EQ(gd_task_queue_open(&two, files), 0);
    CHECK_EQ(gd_task_queue_next(one, &item), 1);
    CHECK_EQ(gd_task_queue_left(one), 1);
    CHECK_EQ(gd_task_queue_left(two), 2);
    gd_task_queue_close(&one);
    gd_task_queue_close(&two);
    gd_files_close(&files);
}

TEST(an_empty_queue)
{
    struct gd_task_queue *queue;
    struct gd_item item = { 0 };
    open_files(NULL, 0);
    CHECK_EQ(gd_task_queue_open(&queue, files), 0);
    CHECK_EQ(gd_task_queue_next(queue, &item), 0);
    gd_task_queue_close(&queue);
    gd_files_close(&files);
}

TEST_MAIN()
