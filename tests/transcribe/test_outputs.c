/* SPDX-License-Identifier: MIT
 *
 * Output files: they are complete, no other files are left behind, and problems with directories are reported.
 */
#include <pthread.h>
#include <sys/file.h>

#include "base/failure.h"
#include "output_files.h"

/* --- writing ---------------------------------------------------------------------- */

TEST(every_requested_format)
{
    directory_enter();
    places.formats = (1u << TR_FORMATS) - 1;
    must_write("in/x/a.wav", " text");
    CHECK_STR(contents("out/x/a.txt"), "text\n");
    CHECK_STR(contents("out/x/a.srt"), "1\n00:00:00,000 --> 00:00:01,000\ntext\n\n");
    CHECK_STR(contents("out/x/a.vtt"), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\ntext\n");
    CHECK_STR(contents("out/x/a.tsv"), "start\tend\ttext\n0\t1000\ttext\n");
    CHECK_CONTAINS(contents("out/x/a.json"), "{\"text\": \"text\"");
    CHECK_STR(contents("out/x/a.lrc"), "[00:00.00]text\n");
    CHECK_STR(contents("out/x/a.csv"), "start,end,text\n0,1000,\"text\"\n");
    CHECK_EQ(entries_of("out/x"), 7);
}

TEST(one_format_alone)
{
    directory_enter();
    places.formats = 1u << TR_VTT;
    must_write("in/a.wav", "text");
    CHECK_EQ(entries_of("out"), 1);
    CHECK(is_there("out/a.vtt"));
}

TEST(an_output_is_replaced)
{
    directory_enter();
    must_write("in/a.wav", "a longer text of before");
    must_write("in/a.wav", "new");
    CHECK_STR(contents("out/a.txt"), "new\n");
    CHECK_EQ(entries_of("out"), 1);
}

TEST(a_transcript_without_text_has_an_output_too)
{
    directory_enter();
    make_file("in/a.wav", 1);
    const struct tr_transcript t = { 0 };
    CHECK_EQ(tr_outputs_write(&places, "in/a.wav", &t), 0);
    CHECK_STR(contents("out/a.txt"), "");
    CHECK(tr_outputs_done(&places, "in/a.wav"));
}

TEST(the_umask_is_kept)
{
    struct stat st;
    directory_enter();
    umask(027);
    must_write("in/x/a.wav", "text");
    CHECK_EQ(stat("out/x/a.txt", &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0640);
    CHECK_EQ(stat("out/x", &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0750);
}

TEST(no_descriptor_is_left_open)
{
    directory_enter();
    places.formats = 31;
    must_write("in/a.wav", "text");
    const int before = entries_of("/proc/self/fd");
    for (int i = 0; i < 20; i++) {
        must_write("in/a.wav", "text");
        CHECK_EQ(tr_outputs_check(&places), 0);
    }
    CHECK_EQ(entries_of("/proc/self/fd"), before);
}

static void *write_many(void *number)
{
    char input[64], text[64];
    for (int i = 0; i < 50; i++) {
        snprintf(input, sizeof input, "in/%d/%d/a%d.wav", i, i, *(int *)number);
        snprintf(text, sizeof text, "%d %d", i, *(int *)number);
        must_write(input, text);
    }
    return NULL;
}

/* Processes and their threads make the same directories at the same time. */
TEST(many_writers)
{
    directory_enter();
    for (int p = 0; p < 4; p++) {
        if (fork() == 0) {
            int numbers[2] = { p * 2, p * 2 + 1 };
            pthread_t other;
            CHECK_EQ(pthread_create(&other, NULL, write_many, &numbers[1]), 0);
            write_many(&numbers[0]);
            pthread_join(other, NULL);
            _exit(0);
        }
    }
    for (int i = 0, status; i < 4; i++) {
        CHECK(wait(&status) > 0);
        CHECK_EQ(status, 0);
    }
    for (int i = 0; i < 50; i++) {
        char path[64], text[64];
        snprintf(path, sizeof path, "out/%d/%d", i, i);
        CHECK_EQ(entries_of(path), 8);
        snprintf(path, sizeof path, "out/%d/%d/a7.txt", i, i);
        snprintf(text, sizeof text, "%d 7\n", i);
        CHECK_STR(contents(path), text);
    }
}

/* --- errors --------------------------------------------------------------------------- */

TEST(a_directory_that_can_not_be_written)
{
    directory_enter();
    make_directories("out");
    CHECK_EQ(chmod("out", 0555), 0);
    become_nobody();
    must_not_write("in/a.wav", "out/a.txt: cannot be written: Permission denied");
    must_not_write("in/x/a.wav", "out/x: this directory cannot be created: Permission denied");
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "out: outputs cannot be written to this directory: Permission denied");
    become_root();
    CHECK_EQ(chmod("out", 0755), 0);
}

TEST(a_directory_that_can_not_be_made)
{
    directory_enter();
    CHECK_EQ(chmod(".", 0555), 0);
    become_nobody();
    places.output_dir = "x/y";
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "x: this directory cannot be created: Permission denied");
    become_root();
    CHECK_EQ(chmod(".", 0755), 0);
    places.output_dir = "/proc/here";
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "/proc/here: this directory cannot be created");
}

TEST(a_file_in_place_of_the_output_directory)
{
    directory_enter();
    make_file("out", 1);
    must_not_write("in/a.wav", "Not a directory");
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "Not a directory");
    places.output_dir = "out/x";
    CHECK_EQ(tr_outputs_check(&places), -1);
    CHECK_CONTAINS(gd__fail_text(), "Not a directory");
}

TEST(a_directory_at_the_path_of_an_output)
{
    directory_enter();
    places.formats = 1u << TR_TXT | 1u << TR_SRT;
    make_directories("out/a.srt");
    must_not_write("in/a.wav", "out/a.srt: is a directory");
    CHECK_EQ(entries_of("out"), 1); /* the other format was not written either */
}

TEST(the_input_itself_is_not_overwritten)
{
    directory_enter();
    make_file("in/a.txt", 5);
    places.output_dir = "in";
    must_not_write("in/a.txt", "overwrite the input itself");
    CHECK_EQ(entries_of("in"), 1);
    struct stat st;
    CHECK_EQ(stat("in/a.txt", &st), 0);
    CHECK_EQ(st.st_size, 5);
}

/* A limit on the size of files simulates a full disk: a write fails in the middle. */
TEST(a_disk_that_is_full)
{
    directory_enter();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 40; /* enough for the txt, not for the json */
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    places.formats = 1u << TR_TXT | 1u << TR_JSON;
    must_not_write("in/x/a.wav", "out/x/a.json: cannot be written: File too large");
    CHECK_EQ(entries_of("out/x"), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    must_write("in/x/a.wav", "text");
    CHECK_EQ(entries_of("out/x"), 2);
}

TEST(a_link_that_leads_nowhere)
{
    directory_enter();
    CHECK_EQ(symlink("/nowhere/at/all", "out"), 0);
    must_not_write("in/a.wav", "out/a.txt: cannot be written: No such file");
}

/* --- done --------------------------------------------------------------------------- */

static void set_time(const char *path, time_t s, long ns)
{
    const struct timespec times[2] = { { s, ns }, { s, ns } };
    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
}

TEST(done_when_every_output_exists)
{
    directory_enter();
    make_file("in/a.wav", 1);
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
    must_write("in/a.wav", "text");
    CHECK(tr_outputs_done(&places, "in/a.wav"));
    places.formats |= 1u << TR_SRT;
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
    must_write("in/a.wav", "text");
    CHECK(tr_outputs_done(&places, "in/a.wav"));
    CHECK_EQ(unlink("out/a.txt"), 0);
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
}

TEST(not_done_when_the_input_is_newer)
{
    directory_enter();
    make_file("in/a.wav", 1);
    must_write("in/a.wav", "text");
    set_time("in/a.wav", 1000, 500);
    set_time("out/a.txt", 1000, 499);
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
    set_time("out/a.txt", 1000, 500);
    CHECK(tr_outputs_done(&places, "in/a.wav"));
    set_time("out/a.txt", 1001, 0);
    CHECK(tr_outputs_done(&places, "in/a.wav"));
    set_time("out/a.txt", 999, 999999);
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
}

TEST(never_done)
{
    directory_enter();
    make_file("in/a.wav", 1);
    make_directories("out/a.txt");
    CHECK(!tr_outputs_done(&places, "in/a.wav")); /* the output is a directory */
    make_file("out/b.txt", 1);
    CHECK(!tr_outputs_done(&places, "in/b.wav")); /* the input does not exist */
    places.formats = 0;
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
    places.formats = 1;
    places.output_dir = NULL;
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
}

TEST(a_part_is_not_an_output)
{
    directory_enter();
    make_file("in/a.wav", 1);
    make_file("out/.gd-1-1.part", 1);
    CHECK(!tr_outputs_done(&places, "in/a.wav"));
}

/* --- before a run --------------------------------------------------------------------- */

TEST(the_directory_is_made)
{
    struct stat st;
    directory_enter();
    places.output_dir = "x/y//z/";
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK_EQ(stat("x/y/z", &st), 0);
    CHECK(S_ISDIR(st.st_mode));
    CHECK_EQ(entries_of("x/y/z"), 0);
    CHECK_EQ(tr_outputs_check(&places), 0);
    places.output_dir = ".";
    CHECK_EQ(tr_outputs_check(&places), 0);
    static char path[300];
    snprintf(path, sizeof path, "%s/absolute/x", directory_path);
    places.output_dir = path;
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK(is_there("absolute/x"));
}

TEST(files_left_by_a_killed_process_are_removed)
{
    directory_enter();
    make_file("out/.gd-123-0.part", 3);
    make_file("out/x/y/.gd-4194304-77.part", 0);
    make_file("out/x/a.txt", 3);
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK_EQ(entries_of("out"), 1);
    CHECK_EQ(entries_of("out/x"), 2);
    CHECK_EQ(entries_of("out/x/y"), 0);
}

TEST(other_files_stay)
{
    static const char *const names[] = { "out/a.part",         "out/.gd-1.part",     "out/.gd-1-.part",
                                         "out/.gd--1.part",    "out/.gd-1-1.parts",  "out/.gd-x-1.part",
                                         "out/gd-1-1.part",    "out/.gd-1-1",        "out/.gd-1-1.txt",
                                         "out/.gd-1-1-1.part", "out/x/.gd-1-1x.part" };
    directory_enter();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make_file(names[i], 1);
    make_directories("out/.gd-1-2.part");
    make_file("other/.gd-1-1.part", 1);
    CHECK_EQ(symlink("../other", "out/link"), 0);
    CHECK_EQ(symlink("../other/.gd-1-1.part", "out/.gd-5-5.part"), 0);
    CHECK_EQ(mkfifo("out/.gd-6-6.part", 0644), 0);
    CHECK_EQ(tr_outputs_check(&places), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(is_there(names[i]));
    CHECK(is_there("out/.gd-1-2.part"));
    CHECK(is_there("other/.gd-1-1.part"));
    CHECK(is_there("out/.gd-5-5.part"));
    CHECK(is_there("out/.gd-6-6.part"));
}

TEST(files_being_written_stay)
{
    directory_enter();
    make_file("out/.gd-1-1.part", 3);
    const int fd = open("out/.gd-1-1.part", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(flock(fd, LOCK_EX), 0);
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK(is_there("out/.gd-1-1.part"));
    close(fd);
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK(!is_there("out/.gd-1-1.part"));
}

/* One process tidies up all the time while others write. No output is lost. */
TEST(tidying_up_while_others_write)
{
    directory_enter();
    const pid_t other = fork();
    if (other == 0) {
        for (;;)
            tr_outputs_check(&places);
    }
    CHECK(other > 0);
    char input[64];
    for (int i = 0; i < 2000; i++) {
        snprintf(input, sizeof input, "in/%d.wav", i);
        must_write(input, "text");
        CHECK(is_there(path_of(input)));
    }
    CHECK_EQ(kill(other, SIGKILL), 0);
    CHECK_EQ(waitpid(other, NULL, 0), other);
    CHECK_EQ(tr_outputs_check(&places), 0);
    CHECK_EQ(entries_of("out"), 2000);
}

/* A process that is killed at any moment leaves complete outputs, or none. Its other files are removed. */
TEST(killed_while_writing)
{
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    directory_enter();
    for (int round = 0; round < 30; round++) {
        int pipe_fds[2];
        char byte;
        CHECK_EQ(pipe(pipe_fds), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            char input[64];
            for (int i = 0;; i++) {
                snprintf(input, sizeof input, "in/%d/%d.wav", round, i % 50);
                must_write(input, text);
                if (write(pipe_fds[1], "", 1) != 1)
                    _exit(0);
            }
        }
        for (int i = 0; i <= round; i++)
            CHECK_EQ(read(pipe_fds[0], &byte, 1), 1);
        CHECK_EQ(kill(pid, SIGKILL), 0);
        CHECK_EQ(waitpid(pid, NULL, 0), pid);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
    }
    CHECK_EQ(tr_outputs_check(&places), 0);
    for (int round = 0; round < 30; round++) {
        struct dirent **list = NULL;
        char path[400];
        snprintf(path, sizeof path, "out/%d", round);
        const int n = scandir(path, &list, NULL, NULL);
        CHECK_GT(n, 2);
        for (int i = 0; i < n; i++) {
            if (list[i]->d_name[0] != '.') {
                snprintf(path, sizeof path, "out/%d/%s", round, list[i]->d_name);
                CHECK_EQ(strlen(contents(path)), sizeof text);
            } else {
                CHECK(strcmp(list[i]->d_name, ".") == 0 || strcmp(list[i]->d_name, "..") == 0);
            }
            free(list[i]);
        }
        free(list);
    }
}

/* Replaces the function of the C library. */
static unsigned synced;

int fsync(int fd)
{
    synced++;
    return (int)syscall(SYS_fsync, fd);
}

TEST(outputs_are_forced_to_the_disk_if_requested)
{
    directory_enter();
    must_write("in/a.wav", "a");
    CHECK_EQ(synced, 0);
    places.sync = true;
    must_write("in/b.wav", "b");
    CHECK_EQ(synced, 2); /* the file and its directory */
    CHECK_STR(contents("out/b.txt"), "b\n");
}

TEST(deep_directories_are_no_error)
{
    directory_enter();
    make_directories("out");
    CHECK_EQ(chdir("out"), 0);
    for (int i = 0; i < 600; i++) {
        CHECK_EQ(mkdir("deep-enough", 0755), 0);
        CHECK_EQ(chdir("deep-enough"), 0);
    }
    CHECK_EQ(chdir(directory_path), 0);
    CHECK_EQ(tr_outputs_check(&places), 0);
}

TEST_MAIN()
