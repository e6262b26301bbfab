/* SPDX-License-Identifier: MIT
 *
 * Files of a directory as tasks.
 */
#include "inputs.h"

static void make_tree(void)
{
    enter_directory();
    CHECK_EQ(mkdir("d", 0777), 0);
    CHECK_EQ(mkdir("d/sub", 0777), 0);
    make_text("d/small.wav", "1");
    make_text("d/large.wav", "12345");
    make_text("d/text.txt", "12");
    make_text("d/sub/deep.wav", "123");
}

#define DIR_OPTIONS(...) OPTIONS(in_d, __VA_ARGS__)
static const struct cli_source in_d[] = { { .kind = CLI_SOURCE_DIR, .path = "d" } };
static const char *const wav[] = { "*.wav", NULL };
static const char *const two_patterns[] = { "*.wav", "*.txt", NULL };

TEST(files_largest_first)
{
    make_tree();
    check_input(DIR_OPTIONS(.patterns = wav), "[d/large.wav]\n[d/small.wav]\n");
    check_input(DIR_OPTIONS(.patterns = wav, .recursive = true), "[d/large.wav]\n[d/sub/deep.wav]\n[d/small.wav]\n");
    check_input(DIR_OPTIONS(.patterns = two_patterns), "[d/large.wav]\n[d/text.txt]\n[d/small.wav]\n");
}

TEST(files_by_name)
{
    make_tree();
    check_input(DIR_OPTIONS(.patterns = wav, .recursive = true, .order = GD_FILE_ORDER_NAME),
                "[d/large.wav]\n[d/small.wav]\n[d/sub/deep.wav]\n");
}

TEST(files_have_their_size_as_weight)
{
    make_tree();
    for (int order = GD_FILE_ORDER_SIZE; order <= GD_FILE_ORDER_NONE; order++) {
        struct cli_input *in = open_input(DIR_OPTIONS(.order = (enum gd_file_order)order));
        const void *data;
        size_t size;
        uint64_t weight, sum = 0;
        while (cli_input_read(in, &data, &size, &weight) > 0)
            sum += weight;
        CHECK_EQ(sum, 8);
        CHECK_EQ(cli_input_total(in), order == GD_FILE_ORDER_NONE ? 0 : 3);
        cli_input_close(&in);
    }
}

TEST(files_as_they_are_found)
{
    enter_directory();
    CHECK_EQ(mkdir("d", 0777), 0);
    char path[300];
    for (int i = 0; i < 2000; i++) { /* several buffers full */
        snprintf(path, sizeof path, "d/%0200d", i);
        make_text(path, "");
    }
    bool seen[2000] = { false };
    struct cli_input *in = open_input(DIR_OPTIONS(.order = GD_FILE_ORDER_NONE));
    const void *data;
    size_t size;
    uint64_t weight;
    int n = 0;
    for (; cli_input_read(in, &data, &size, &weight) > 0; n++) {
        CHECK_EQ(size, 202);
        snprintf(path, sizeof path, "%.*s", (int)size, (const char *)data);
        int number = atoi(path + 2);
        CHECK(!seen[number]);
        seen[number] = true;
    }
    CHECK_EQ(n, 2000);
    cli_input_close(&in);
}

TEST(a_search_can_be_ended_at_any_point)
{
    enter_directory();
    CHECK_EQ(mkdir("d", 0777), 0);
    char path[300];
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "d/%0200d", i);
        make_text(path, "");
    }
    struct cli_input *in = open_input(DIR_OPTIONS(.order = GD_FILE_ORDER_NONE));
    CHECK_EQ((intptr_t)read_one(in), 1);
    cli_input_cancel(in);
    CHECK_EQ((intptr_t)read_one(in), 0);
    cli_input_close(&in);
    in = open_input(DIR_OPTIONS(.order = GD_FILE_ORDER_NONE));
    cli_input_close(&in);
}

TEST(no_files_found_is_reported_before_anything_runs)
{
    static const char *const mp3[] = { "*.mp3", "*.ogg", NULL };
    make_tree();
    for (int order = GD_FILE_ORDER_SIZE; order <= GD_FILE_ORDER_NONE; order++) {
        check_refused(DIR_OPTIONS(.patterns = mp3, .order = (enum gd_file_order)order),
                      "no file in d matches *.mp3 or *.ogg");
        check_refused(DIR_OPTIONS(.patterns = mp3, .order = (enum gd_file_order)order), "--recursive");
        CHECK_EQ(mkdir("e", 0777), order == 0 ? 0 : -1);
        const struct cli_source empty[] = { { .kind = CLI_SOURCE_DIR, .path = "e" } };
        check_refused(OPTIONS(empty, .order = (enum gd_file_order)order), "no files in e");
        const struct cli_source missing[] = { { .kind = CLI_SOURCE_DIR, .path = "not-there" } };
        check_refused(OPTIONS(missing, .order = (enum gd_file_order)order), "not-there");
    }
}

TEST_MAIN()
