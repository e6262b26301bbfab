/* SPDX-License-Identifier: MIT
 *
 * Files for large payloads and outputs.
 */
#include "queue/spill.h"

#include <dirent.h>
#include <gpu_dispatch/error.h>
#include <limits.h>

#include "support/directory.h"
#include "support/test.h"

enum { SIZE = 100000 };

static void fill(char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7);
}

static unsigned files_in(const char *directory)
{
    DIR *d = opendir(directory);
    unsigned n = 0;
    CHECK(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

TEST(what_was_written_is_read)
{
    char data[SIZE], name[GD__SPILL_NAME_ROOM];
    struct gd__buffer b = { 0 };
    struct gd__queue_data d;
    directory_enter();
    fill(data, sizeof data);
    CHECK_EQ(gd__spill_check("."), 0);
    CHECK_EQ(files_in("."), 0);
    CHECK_EQ(gd__spill_write(".", data, sizeof data, &d, name), 0);
    CHECK_EQ(d.form, GD__QUEUE_FILE);
    CHECK_EQ(d.file_size, SIZE);
    CHECK_EQ(files_in("."), 1);
    gd__buffer_text(&b, "before");
    CHECK_EQ(gd__spill_read(".", &d, &b), 0);
    CHECK_EQ(b.size, SIZE + 6);
    CHECK_MEM(b.data + 6, data, SIZE);
    gd__buffer_free(&b);
}

TEST(a_message_can_hold_the_description)
{
    char name[GD__SPILL_NAME_ROOM];
    struct gd__queue_task t = { .key = gd__queue_task_key("a", 1, 0) };
    struct gd__queue_writer w;
    directory_enter();
    CHECK_EQ(gd__spill_write(".", "", 0, &t.payload, name), 0);
    gd__queue_tasks_begin(&w, 1000);
    CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    gd__queue_writer_free(&w);
}

TEST(equal_contents_have_different_files)
{
    char name[2][GD__SPILL_NAME_ROOM];
    struct gd__queue_data d[2];
    directory_enter();
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(gd__spill_write(".", "abc", 3, &d[i], name[i]), 0);
    CHECK(strcmp(name[0], name[1]) != 0);
    CHECK_MEM(name[0], name[1], 32);
    CHECK_EQ(files_in("."), 2);
}

TEST(a_file_with_other_contents_is_refused)
{
    char data[SIZE], name[GD__SPILL_NAME_ROOM];
    struct gd__buffer b = { 0 };
    struct gd__queue_data d;
    directory_enter();
    fill(data, sizeof data);
    CHECK_EQ(gd__spill_write(".", data, sizeof data, &d, name), 0);
    CHECK_EQ(truncate(name, SIZE - 1), 0);
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "has 99999 bytes instead of 100000");
    CHECK_EQ(truncate(name, SIZE), 0);
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "contents");
    CHECK_EQ(b.size, 0);
    d.file_size = (uint64_t)1 << 52;
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_CORRUPT);
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "spill directory");
    CHECK_EQ(mkfifo(name, 0600), 0); /* does not wait for a writer */
    d.file_size = 0;
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_CORRUPT);
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(symlink("/etc/passwd", name), 0);
    CHECK_EQ(gd__spill_read(".", &d, &b), GD_E_SYSTEM);
    gd__buffer_free(&b);
}

TEST(a_bad_directory_is_reported)
{
    char name[GD__SPILL_NAME_ROOM], path[PATH_MAX], small[8];
    struct gd__buffer b = { 0 };
    struct gd__queue_data d = { .form = GD__QUEUE_FILE, .file = { "abc", 3 } };
    directory_enter();
    CHECK_EQ(gd__spill_check("missing"), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "missing");
    CHECK_EQ(gd__spill_write("missing", "a", 1, &d, name), GD_E_SYSTEM);
    CHECK_EQ(gd__spill_write(NULL, "a", 1, &d, name), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "--spill-dir");
    CHECK_EQ(gd__spill_read(NULL, &d, &b), GD_E_INVALID);
    d = (struct gd__queue_data){ .form = GD__QUEUE_FILE, .file = { "abc", 3 } };
    CHECK_EQ(gd__spill_path(path, sizeof path, "dir", &d), 0);
    CHECK_STR(path, "dir/abc");
    CHECK_EQ(gd__spill_path(small, sizeof small - 1, "dir", &d), GD_E_INVALID);
    CHECK_EQ(gd__spill_path(small, sizeof small, "dir", &d), 0);
}

/* A disk that is full when data is written: nothing stays behind. */
TEST(a_file_that_cannot_be_written_is_removed)
{
    char data[SIZE] = "", name[GD__SPILL_NAME_ROOM];
    struct gd__queue_data d;
    const struct rlimit limit = { 1000, 1000 };
    directory_enter();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(gd__spill_write(".", data, sizeof data, &d, name), GD_E_SYSTEM);
    CHECK_EQ(files_in("."), 0);
}

TEST_MAIN()
