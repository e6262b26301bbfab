/* SPDX-License-Identifier: MIT
 *
 * Output files are created before the text is known. So most errors are found early. Later errors leave no files
 * behind.
 */
#include "base/failure.h"
#include "output_files.h"
#include "support/small_disk.h"

static struct tr_outputs *begun(const char *input, double seconds)
{
    struct tr_outputs *o = (struct tr_outputs *)&o;
    if (tr_outputs_begin(&o, &places, input, seconds) < 0)
        FAIL("%s: %s", input, gd__fail_text());
    CHECK(o != NULL);
    return o;
}

static void must_not_begin(const char *input, const char *message)
{
    struct tr_outputs *o = (struct tr_outputs *)&o;
    CHECK_EQ(tr_outputs_begin(&o, &places, input, 10), -1);
    CHECK(o == NULL);
    CHECK_CONTAINS(gd__fail_text(), message);
}

static void must_finish(struct tr_outputs *o, const char *text)
{
    struct tr_transcript t = one_line(text);
    if (tr_outputs_finish(o, &t) < 0)
        FAIL("%s", gd__fail_text());
    tr_transcript_free(&t);
}

TEST(parts_are_there_before_the_text)
{
    directory_enter();
    places.formats = 1u << TR_TXT | 1u << TR_SRT;
    struct tr_outputs *o = begun("in/x/a.wav", 3600);
    CHECK_EQ(entries_of("out/x"), 2);
    CHECK(!is_there("out/x/a.txt"));
    CHECK(!tr_outputs_done(&places, "in/x/a.wav"));
    tr_outputs_tidy(&places); /* the parts are in use */
    CHECK_EQ(entries_of("out/x"), 2);
    must_finish(o, "text");
    tr_outputs_drop(&o);
    CHECK(o == NULL);
    CHECK_EQ(entries_of("out/x"), 2);
    CHECK_STR(contents("out/x/a.txt"), "text\n");
    tr_outputs_drop(&o);
}

TEST(a_dropped_output_leaves_nothing)
{
    directory_enter();
    places.formats = 31;
    const int before = entries_of("/proc/self/fd");
    struct tr_outputs *o = begun("in/a.wav", 10);
    CHECK_EQ(entries_of("out"), 5);
    tr_outputs_drop(&o);
    CHECK_EQ(entries_of("out"), 0);
    CHECK_EQ(entries_of("/proc/self/fd"), before);
}

/* The old output stays until there is a new one. */
TEST(an_old_output_stays_meanwhile)
{
    directory_enter();
    must_write("in/a.wav", "old");
    struct tr_outputs *o = begun("in/a.wav", 10);
    CHECK_STR(contents("out/a.txt"), "old\n");
    tr_outputs_drop(&o);
    CHECK_STR(contents("out/a.txt"), "old\n");
    CHECK_EQ(entries_of("out"), 1);
}

/* The reserved size depends on the duration of the file. Unused space is released. */
TEST(space_is_reserved)
{
    struct stat st;
    directory_enter();
    struct tr_outputs *o = begun("in/a.wav", 36000);
    struct dirent **list = NULL;
    char path[300];
    CHECK_EQ(scandir("out", &list, NULL, alphasort), 3);
    snprintf(path, sizeof path, "out/%s", list[2]->d_name);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_GE(st.st_size, 36000 * 10);
    must_finish(o, "text");
    tr_outputs_drop(&o);
    CHECK_EQ(stat("out/a.txt", &st), 0);
    CHECK_EQ(st.st_size, 5);
    CHECK_LE(st.st_blocks * 512, 65536);
    for (int i = 0; i < 3; i++)
        free(list[i]);
    free(list);
}

TEST(a_full_disk_is_detected_before_the_text)
{
    directory_enter();
    small_disk("out", 64);
    places.formats = 1u << TR_TXT | 1u << TR_JSON;
    make_directories("out/x");
    small_disk_fill("out/large");
    must_not_begin("in/x/a.wav", "out/x/a.txt: cannot be written: No space left on device; free some space there, or "
                                 "use another output directory");
    CHECK_EQ(entries_of("out/x"), 0);
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "out: outputs cannot be written to this directory: No space left on device");
    CHECK_EQ(unlink("out/large"), 0);
    CHECK_EQ(tr_outputs_check(&places), 0);
    struct tr_outputs *o = begun("in/x/a.wav", 10);
    small_disk_fill("out/large"); /* the reserved space is still enough */
    must_finish(o, "text");
    tr_outputs_drop(&o);
    CHECK_STR(contents("out/x/a.txt"), "text\n");
    CHECK_EQ(entries_of("out/x"), 2);
    CHECK_EQ(umount2("out", MNT_DETACH), 0);
}

/* The text is longer than the text that can be spoken in the duration of the file. */
TEST(a_disk_that_becomes_full_before_the_text_is_written)
{
    directory_enter();
    small_disk("out", 64);
    static char text[20000];
    memset(text, 'x', sizeof text - 1);
    struct tr_outputs *o = begun("in/a.wav", 1);
    small_disk_fill("out/large");
    struct tr_transcript t = one_line(text);
    CHECK_EQ(tr_outputs_finish(o, &t), -1);
    CHECK_CONTAINS(gd__fail_text(), "out/a.txt: cannot be written: No space left on device");
    tr_transcript_free(&t);
    tr_outputs_drop(&o);
    CHECK_EQ(entries_of("out"), 1);
    CHECK_EQ(umount2("out", MNT_DETACH), 0);
}

TEST(a_read_only_directory_is_detected_before_the_text)
{
    directory_enter();
    make_directories("out");
    CHECK_EQ(chmod("out", 0555), 0);
    become_nobody();
    must_not_begin("in/a.wav", "out/a.txt: cannot be written: Permission denied; allow this user to write there, or "
                               "use another output directory");
    become_root();
    CHECK_EQ(chmod("out", 0755), 0);
    make_directories("out/b.txt");
    must_not_begin("in/b.wav", "out/b.txt: is a directory");
    CHECK_EQ(entries_of("out"), 1);
}

/* Hours of work are not lost if the directory is emptied or removed. */
TEST(a_directory_that_is_emptied_meanwhile)
{
    directory_enter();
    struct tr_outputs *o = begun("in/x/a.wav", 10);
    directory_remove("out");
    must_finish(o, "text");
    tr_outputs_drop(&o);
    CHECK_STR(contents("out/x/a.txt"), "text\n");
    CHECK_EQ(entries_of("out/x"), 1);
}

TEST(a_directory_that_takes_the_place_of_an_output)
{
    directory_enter();
    struct tr_outputs *o = begun("in/a.wav", 10);
    make_directories("out/a.txt");
    struct tr_transcript t = one_line("text");
    CHECK_EQ(tr_outputs_finish(o, &t), -1);
    CHECK_CONTAINS(gd__fail_text(), "out/a.txt: is a directory");
    tr_transcript_free(&t);
    tr_outputs_drop(&o);
    CHECK_EQ(entries_of("out"), 1);
}

TEST_MAIN()
