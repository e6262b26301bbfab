/* SPDX-License-Identifier: MIT
 *
 * Lists of files in each order, and the figures of a workload.
 */
#include <gpu_dispatch/launch.h>

#include "base/fault.h"
#include "support/directory.h"

static struct gd_files *files;

static void open_files(void)
{
    CHECK_EQ(gd_files_open(&files), 0);
}

static void add(const char *path, uint64_t size)
{
    CHECK_EQ(gd_files_add(files, path, size), 0);
}

/* "path:size path:size" */
static const char *listed(void)
{
    static char text[1000];
    char *end = text;
    *end = '\0';
    for (size_t i = 0; i < gd_files_count(files); i++)
        end += snprintf(end, sizeof text - (size_t)(end - text), "%s%s:%llu", i ? " " : "", gd_files_path(files, i),
                        (unsigned long long)gd_files_size(files, i));
    return text;
}

TEST(an_empty_list)
{
    open_files();
    CHECK_EQ(gd_files_count(files), 0);
    CHECK(gd_files_path(files, 0) == NULL);
    CHECK_EQ(gd_files_size(files, 0), 0);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    gd_files_close(&files);
    CHECK(files == NULL);
    gd_files_close(&files);
    gd_files_close(NULL);
}

TEST(paths_are_copied)
{
    char path[] = "a.wav";
    open_files();
    add(path, 3);
    path[0] = 'x';
    CHECK_STR(listed(), "a.wav:3");
    CHECK(gd_files_path(files, 1) == NULL);
    gd_files_close(&files);
}

TEST(bad_use)
{
    struct gd_workload w = { .size = sizeof w };
    open_files();
    CHECK_EQ(gd_files_open(NULL), GD_E_INVALID);
    CHECK_EQ(gd_files_add(NULL, "a", 1), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gd_files_open()");
    CHECK_EQ(gd_files_add(files, NULL, 1), GD_E_INVALID);
    CHECK_EQ(gd_files_add(files, "", 1), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the path of the file is NULL or empty");
    CHECK_EQ(gd_files_discover(NULL, ".", NULL), GD_E_INVALID);
    CHECK_EQ(gd_files_sort(NULL, GD_FILE_ORDER_NAME), GD_E_INVALID);
    CHECK_EQ(gd_files_sort(files, (enum gd_file_order)3), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "3 is not an order");
    CHECK_EQ(gd_files_count(NULL), 0);
    CHECK(gd_files_path(NULL, 0) == NULL);
    CHECK_EQ(gd_files_size(NULL, 0), 0);
    CHECK_EQ(gd_estimate_workload(NULL, &w), GD_E_INVALID);
    CHECK_EQ(gd_estimate_workload(files, NULL), GD_E_INVALID);
    w.size = 0;
    CHECK_EQ(gd_estimate_workload(files, &w), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gd_workload.size");
    gd_files_close(&files);
}

TEST(largest_first_then_by_name)
{
    open_files();
    add("b", 5);
    add("small", 1);
    add("a", 5);
    add("huge", UINT64_MAX);
    add("none", 0);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    CHECK_STR(listed(), "huge:18446744073709551615 a:5 b:5 small:1 none:0");
    gd_files_close(&files);
}

TEST(by_name_byte_by_byte)
{
    open_files();
    add("b", 1);
    add("B", 2);
    add("\xc3\xa4", 3);
    add("a/x", 4);
    add("a", 5);
    add("a.x", 6);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_NAME), 0);
    CHECK_STR(listed(), "B:2 a:5 a.x:6 a/x:4 b:1 \xc3\xa4:3");
    gd_files_close(&files);
}

TEST(the_same_path_twice_stays_in_order)
{
    open_files();
    add("b", 1);
    add("a", 9);
    add("a", 3);
    add("a", 7);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_NAME), 0);
    CHECK_STR(listed(), "a:9 a:3 a:7 b:1");
    gd_files_close(&files);
}

TEST(the_order_of_discovery_can_be_restored)
{
    open_files();
    add("c", 2);
    add("a", 3);
    add("b", 1);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    CHECK_STR(listed(), "a:3 c:2 b:1");
    add("d", 9);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_NONE), 0);
    CHECK_STR(listed(), "c:2 a:3 b:1 d:9");
    gd_files_close(&files);
}

TEST(many_files)
{
    enum { N = 300000 };
    char path[64];
    open_files();
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "data/%0*d.wav", 1 + i % 40, i);
        add(path, (uint64_t)i * 7919 % N);
    }
    CHECK_EQ(gd_files_count(files), N);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    for (size_t i = 0; i < N; i++) /* 7919 and N have no common factor, so each size occurs once */
        CHECK_EQ(gd_files_size(files, i), N - 1 - i);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_NONE), 0);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "data/%0*d.wav", 1 + i % 40, i);
        CHECK_STR(gd_files_path(files, (size_t)i), path);
        CHECK_EQ(gd_files_size(files, (size_t)i), (uint64_t)i * 7919 % N);
    }
    gd_files_close(&files);
}

TEST(a_path_larger_than_the_remaining_room)
{
    enum { LENGTH = 1000000 };
    char *path = malloc(LENGTH + 1);
    CHECK(path != NULL);
    memset(path, 'x', LENGTH);
    path[LENGTH] = '\0';
    open_files();
    add("a", 1);
    add(path, 2);
    add("b", 3);
    CHECK_STR(gd_files_path(files, 1), path);
    CHECK_STR(gd_files_path(files, 0), "a");
    CHECK_STR(gd_files_path(files, 2), "b");
    gd_files_close(&files);
    free(path);
}

/* --- from a directory -------------------------------------------------------- */

TEST(files_found_are_added)
{
    const struct gd_discover what = { .size = sizeof what, .recursive = true };
    directory_enter();
    make_file("d/a.wav", 10);
    make_file("d/e/b.wav", 20);
    make_file("f/c.wav", 30);
    open_files();
    add("before", 5);
    CHECK_EQ(gd_files_discover(files, "d", &what), 0);
    CHECK_EQ(gd_files_discover(files, "f", &what), 0);
    CHECK_EQ(gd_files_sort(files, GD_FILE_ORDER_SIZE), 0);
    CHECK_STR(listed(), "f/c.wav:30 d/e/b.wav:20 d/a.wav:10 before:5");
    gd_files_close(&files);
}

TEST(a_failed_search_does_not_change_the_list)
{
    directory_enter();
    for (int i = 0; i < 200; i++) {
        char path[40];
        snprintf(path, sizeof path, "d/%d.wav", i);
        make_file(path, 1);
    }
    open_files();
    add("before", 5);
    CHECK_EQ(gd_files_discover(files, "nowhere", NULL), GD_E_INVALID);
    CHECK_STR(listed(), "before:5");
    unsigned long nth = 1, failures = 0;
    for (;; nth++) {
        gd__fault_begin(nth);
        const int r = gd_files_discover(files, "d", NULL);
        const bool reached = gd__fault_count() >= nth;
        gd__fault_begin(0);
        if (!reached)
            break;
        CHECK_EQ(r, GD_E_NO_MEMORY);
        CHECK_STR(listed(), "before:5");
        failures++;
        gd_files_close(&files); /* so that the list must grow again */
        open_files();
        add("before", 5);
    }
    CHECK_GT(failures, 3);
    CHECK_EQ(gd_files_count(files), 201);
    gd_files_close(&files);
}

TEST(running_out_of_memory_is_reported)
{
    gd__fault_begin(1);
    CHECK_EQ(gd_files_open(&files), GD_E_NO_MEMORY);
    CHECK(files == NULL);
    gd__fault_begin(0);
    open_files();
    for (unsigned long nth = 1; nth <= 2; nth++) {
        gd__fault_begin(nth);
        CHECK_EQ(gd_files_add(files, "a", 1), GD_E_NO_MEMORY);
        CHECK_EQ(gd_files_count(files), 0);
    }
    gd__fault_begin(1);
    struct gd_workload w = { .size = sizeof w };
    CHECK_EQ(gd_estimate_workload(files, &w), GD_E_NO_MEMORY);
    gd__fault_begin(0);
    gd_files_close(&files);
}

/* --- estimates ------------------------------------------------------------ */

static struct gd_workload estimate(void)
{
    struct gd_workload w;
    memset(&w, 0xff, sizeof w);
    w.size = sizeof w;
    if (gd_estimate_workload(files, &w) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(w.size, sizeof w);
    return w;
}

TEST(the_figures_of_an_empty_list_are_zero)
{
    open_files();
    const struct gd_workload w = estimate();
    CHECK(w.count == 0 && w.total_bytes == 0);
    CHECK(w.largest_bytes == 0 && w.smallest_bytes == 0 && w.median_bytes == 0);
    CHECK(w.mean_bytes == 0.0 && w.deviation_bytes == 0.0);
    gd_files_close(&files);
}

TEST(one_file)
{
    open_files();
    add("a", 42);
    const struct gd_workload w = estimate();
    CHECK_EQ(w.count, 1);
    CHECK_EQ(w.total_bytes, 42);
    CHECK_EQ(w.largest_bytes, 42);
    CHECK_EQ(w.smallest_bytes, 42);
    CHECK_EQ(w.median_bytes, 42);
    CHECK(w.mean_bytes == 42.0);
    CHECK(w.deviation_bytes == 0.0);
    gd_files_close(&files);
}

/* The textbook example: mean 5, standard deviation 2. */
TEST(the_figures_are_exact)
{
    const uint64_t sizes[] = { 9, 4, 2, 5, 4, 7, 4, 5 };
    open_files();
    for (size_t i = 0; i < 8; i++)
        add("x", sizes[i]);
    const struct gd_workload w = estimate();
    CHECK_EQ(w.count, 8);
    CHECK_EQ(w.total_bytes, 40);
    CHECK_EQ(w.largest_bytes, 9);
    CHECK_EQ(w.smallest_bytes, 2);
    CHECK_EQ(w.median_bytes, 4); /* the middle of 4 and 5, rounded down */
    CHECK(w.mean_bytes == 5.0);
    CHECK(w.deviation_bytes == 2.0);
    CHECK_EQ(gd_files_size(files, 0), 9); /* the list is not changed */
    gd_files_close(&files);
}

TEST(the_median_of_an_even_number_of_files)
{
    open_files();
    add("a", 10);
    add("b", 1000);
    add("c", 20);
    add("d", 1);
    CHECK_EQ(estimate().median_bytes, 15);
    add("e", 2000);
    CHECK_EQ(estimate().median_bytes, 20);
    gd_files_close(&files);
}

TEST(large_sizes_that_differ_little)
{
    const uint64_t base = (uint64_t)1 << 62;
    open_files();
    add("a", base - 3);
    add("b", base + 3);
    const struct gd_workload w = estimate();
    CHECK_EQ(w.total_bytes, 2 * base);
    CHECK_EQ(w.median_bytes, base);
    CHECK(w.deviation_bytes == 3.0);
    gd_files_close(&files);
}

TEST(a_sum_beyond_64_bits_is_an_error)
{
    struct gd_workload w = { .size = sizeof w, .count = 77 };
    open_files();
    add("a", UINT64_MAX);
    CHECK_EQ(estimate().total_bytes, UINT64_MAX);
    add("b", 1);
    CHECK_EQ(gd_estimate_workload(files, &w), GD_E_TOO_LARGE);
    CHECK_EQ(w.count, 77);
    gd_files_close(&files);
}

TEST(a_shorter_struct_is_filled_up_to_its_size)
{
    struct gd_workload w;
    memset(&w, 0xff, sizeof w);
    w.size = offsetof(struct gd_workload, largest_bytes);
    open_files();
    add("a", 5);
    CHECK_EQ(gd_estimate_workload(files, &w), 0);
    CHECK_EQ(w.total_bytes, 5);
    CHECK_EQ(w.size, offsetof(struct gd_workload, largest_bytes));
    CHECK_EQ(w.largest_bytes, UINT64_MAX);
    gd_files_close(&files);
}

TEST_MAIN()
