/* SPDX-License-Identifier: MIT
 *
 * The transcription worker on files that are not complete, that change, or that were joined from several. What is read of
 * them is tested in tests/transcribe/audio.
 */
#include "support/directory.h"
#include "transcribe/sound.h"

TEST_WITHIN(300, a_truncated_file)
{
    struct job *j = new_job();
    char text[200];
    directory_enter();
    join_clips("a.wav", 1, 3, text, sizeof text);
    struct stat st;
    CHECK_EQ(stat("a.wav", &st), 0);
    CHECK_EQ(truncate("a.wav", st.st_size - TR_RATE * 2), 0); /* a second of silence is missing */
    add_file(j, "a.wav");
    CHECK_EQ(run(j), 0);
    CHECK_CONTAINS(j->errors[0], "a.wav is truncated: its header says ");

    j = new_job();
    j->settings = "accept_truncated=yes\noutput_dir=o\nformats=json\n";
    add_file(j, "a.wav");
    add_clip(j, 20);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), text);
    CHECK_CONTAINS(member(j, 0, "warning"), "a.wav is truncated: its header says ");
    CHECK_CONTAINS(contents("o/a.json"), "\"warning\": \"a.wav is truncated: its header says ");
    CHECK(!strstr(j->results[1], "warning"));
    CHECK(!strstr(contents("o/clip_020.json"), "warning"));
}

/* The file changes while it is read for the first and the second time. */
TEST_WITHIN(300, a_file_that_changes_is_tried_again)
{
    struct job *j = new_job();
    char text[200];
    directory_enter();
    join_clips("a.wav", 1, 0, text, sizeof text);
    preload("preload_unread.so");
    setenv("GD_UNREAD_CHANGE", "a.wav", 1);
    setenv("GD_UNREAD_ERROR", "0", 1);
    setenv("GD_UNREAD_TIMES", "1", 1);
    setenv("GD_UNREAD_COUNTS", directory_path, 1);
    add_file(j, "a.wav");
    CHECK_EQ(run(j), 0);
    CHECK_CONTAINS(j->errors[0], "a.wav changed while it was being read: it was written to; transcribe it again when");
    CHECK_EQ(unlink("GD_UNREAD_CHANGE"), 0);

    j = new_job();
    j->retries = 1;
    CHECK_EQ(utimensat(AT_FDCWD, "a.wav", NULL, 0), 0);
    add_file(j, "a.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), text);
    CHECK_EQ(j->attempts[0], 2);
}

TEST_MAIN()
