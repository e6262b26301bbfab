/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe` when something is wrong: directory entries that are not files, full disks, missing models,
 * runs in which nothing succeeds. Tests the messages, and what is left behind.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "transcribe.h"

/* --- directory entries that are left out ------------------------------------------------------ */

static void make_socket(const char *name)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%.60s/%.40s", sh_dir(), name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

TEST(entries_that_are_not_files_are_reported_once)
{
    WAVS("in/a.wav", "in/x/b.wav");
    CHECK_EQ(sh("mkfifo in/pipe.wav in/pipe.txt").status, 0);
    struct ran r = sh(STANDIN ON "--input-dir in --progress none");
    CHECK_CONTAINS(r.err, "gpu-dispatch: in/pipe.wav is a pipe, not a file; left out\n");
    CHECK_EQ(r.status, 0);
    make_socket("in/a-socket.wav");
    CHECK_EQ(sh("mkfifo in/x/pipe.wav; ln -s /dev/null in/zero.wav").status, 0);
    r = sh(STANDIN ON "--input-dir in -r --progress none");
    CHECK_CONTAINS(r.err, "gpu-dispatch: in/a-socket.wav is a socket, not a file; left out, as are 3 more such\n");
    CHECK(!strstr(r.err, "pipe.wav"));
    CHECK_EQ(r.status, 0);
    CHECK_STR(sh("find data -type f | sort").out, "data/outputs/a.txt\ndata/outputs/x/b.txt\n");
    CHECK_PRINTS(sh(ALONE "--input-dir in"), "");
    r = sh(STANDIN ON "--input-dir in --dry-run");
    CHECK_CONTAINS(r.err, "in/a-socket.wav is a socket, not a file; left out, as are 2 more such\n");
}

TEST(a_directory_with_nothing_but_a_pipe)
{
    struct ran r = sh("mkdir in; mkfifo in/a.wav; " STANDIN ON "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: in/a.wav is a pipe, not a file; left out\ngpu-dispatch: no file in in matches "
                     "*.wav (subdirectories are searched only with --recursive)\n");
    CHECK_EQ(r.status, 1);
}

TEST(unreadable_entries_are_reported_once)
{
    WAVS("in/a.wav", "in/x/b.wav");
    CHECK_EQ(sh("ln -s nowhere in/c.wav").status, 0);
    struct ran r = sh(ALONE "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: cannot read in/c.wav: the link cannot be followed: No such file or directory; the "
                     "file is left out\n");
    CHECK_EQ(r.status, 1);
    CHECK_EQ(sh("ln -s b.wav in/b.wav; ln -s nowhere in/x/d.wav; ln -s nowhere in/not-meant").status, 0);
    r = sh(STANDIN ON "--input-dir in -r --progress none");
    CHECK_CONTAINS(r.err, "gpu-dispatch: cannot read in/b.wav: the link cannot be followed: Too many levels of "
                          "symbolic links; the file is left out, as are 2 more that cannot be read\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 3 files or directories could not be read (see above)\n");
    CHECK(!strstr(r.err, "c.wav"));
    CHECK_EQ(r.status, 1);
    CHECK_STR(sh("find data -type f | sort").out, "data/outputs/a.txt\ndata/outputs/x/b.txt\n");
}

/* --- values that look like something else ---------------------------------------------------- */

TEST(a_value_is_taken_as_it_is)
{
    static const struct {
        const char *words, *prompt;
    } cases[] = {
        { "--prompt -- in", "prompt=--\\n" },    { "--prompt -- in --language en", "prompt=--\\n" },
        { "in --prompt --", "prompt=--\\n" },    { "--prompt=-- in", "prompt=--\\n" },
        { "--prompt=--x in", "prompt=--x\\n" },  { "--prompt --language in", "prompt=--language\\n" },
        { "--prompt -r in", "prompt=-r\\n" },    { "--prompt '' in", "prompt=\\n" },
        { "--prompt -- -- in", "prompt=--\\n" },
    };
    wav("in/a.wav", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ran r = sh(ALONE "--output - %s", cases[i].words);
        CHECK_STR(r.err, "");
        CHECK_EQ(r.status, 0);
        if (!strstr(r.out, cases[i].prompt))
            FAIL("%s: no %s in %s", cases[i].words, cases[i].prompt, r.out);
    }
    CHECK_STR(ran(), "in/a.wav in/a.wav in/a.wav in/a.wav in/a.wav in/a.wav in/a.wav in/a.wav in/a.wav ");
    /* The next argument is an option again. */
    CHECK_CONTAINS(sh(ALONE "--output - --prompt -- in --language en").out, "language=en\\n");
}

/* --- models ------------------------------------------------------------------------------------ */

/* The message says what is wrong, where the model was searched for and, on a separate line, what to do. */
TEST(a_missing_model)
{
    wav("in/a.wav", 1);
    struct ran r = sh(STANDIN "HOME=$PWD gpu-dispatch transcribe --gpus sim:1 --input-dir in --model-size small");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "gpu-dispatch: the model small (ggml-small.bin) is not on this machine. These places were "
                          "searched:\n  ./models\n");
    CHECK_CONTAINS(r.err, "\nThis command downloads it:\n  gpu-dispatch models download small\n");
    CHECK_GT(count_lines(r.err), 6);
    r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 --input-dir in --model-size smal");
    CHECK_CONTAINS(r.err,
                   "gpu-dispatch: \"smal\" is not the size of a model: did you mean small?\nThe sizes are tiny, ");
    CHECK_STR(ran(), "");
}

/* --- what a journal shows ----------------------------------------------------------------------- */

/* Checks the line of `status`, and that `report` and the JSON output have the same. */
static void check_command(const char *journal, const char *line)
{
    char json[1000];
    CHECK_STR(sh("gpu-dispatch status %s | sed -n 2p", journal).out, line);
    CHECK_EQ(sh("gpu-dispatch report %s -o report.html", journal).status, 0);
    snprintf(json, sizeof json, "\"command\":\"%.*s\"", (int)strcspn(line, "\n") - (int)strlen("gpu-dispatch "),
             line + strlen("gpu-dispatch "));
    CHECK_CONTAINS(sh("gpu-dispatch status --json %s", journal).out, json);
    CHECK_CONTAINS(sh("grep -o '\"command\":\"[^\"]*\"' report.html").out, json);
}

TEST(journals_show_what_was_typed)
{
    need_journal();
    wav("in/a.wav", 1);
    CHECK_EQ(sh(ALONE "--input-dir in --journal a.db").status, 0);
    check_command("a.db", "gpu-dispatch transcribe --input-dir in --model-size demo\n");
    CHECK_EQ(sh(ALONE "in/a.wav --journal b.db --language en --prompt 'One, two' --format json,txt --full-names "
                      "--output-dir 'my text' --beam-size 5 --temperature 0.5 --word-timestamps --vad in/a.wav "
                      "--threads 2 -j 2")
                 .status,
             0);
    check_command("b.db",
                  "gpu-dispatch transcribe --model-size demo --language en --initial-prompt 'One, two' --beam-size 5 "
                  "--temperature 0.5 --word-timestamps --vad in/a.wav --format txt,json --full-names "
                  "--output-dir 'my text'\n");
    CHECK_EQ(sh(ALONE "--input-dir in --journal d.db --format vtt,srt --max-line-width 42 --max-line-count 2 "
                      "--highlight-words --diarize channels --accept-truncated --output-dir d")
                 .status,
             0);
    check_command("d.db", "gpu-dispatch transcribe --input-dir in --model-size demo --format srt,vtt "
                          "--accept-truncated --diarize channels --highlight-words --max-line-count 2 "
                          "--max-line-width 42 --output-dir d\n");
    CHECK_EQ(sh("cp $GD_SOURCE_ROOT/models/ggml-demo.bin mine.bin; " STANDIN "gpu-dispatch transcribe --quiet --gpus "
                "sim:1 --model mine.bin in --journal c.db")
                 .status,
             0);
    check_command("c.db", "gpu-dispatch transcribe --input-dir in --model mine.bin\n");
}

/* Makes a copy of the journal with this command. */
static void make_journal(const char *name, const char *command)
{
    CHECK_EQ(
        sh("cp j.db %s; python3 -c 'import sqlite3, sys; j = sqlite3.connect(sys.argv[1]); j.execute(\"UPDATE run SET "
           "command = ?\", sys.argv[2:]); j.commit()' %s '%s'",
           name, name, command)
            .status,
        0);
}

/* Journals with the text of other versions, and with text that only begins like it. */
TEST(journals_of_other_versions)
{
    need_journal();
    need("python3");
    wav("in/a.wav", 1);
    CHECK_EQ(sh(ALONE "--input-dir in --journal j.db").status, 0);
    make_journal("old.db", "transcribe beam_size=0 formats=txt full_names=no input_dir=calls language=de "
                           "model=/m/ggml-base.bin output_dir=data/outputs prompt= temperature=0.000000");
    check_command("old.db", "gpu-dispatch transcribe --input-dir calls --model-size base --language de\n");
    make_journal("new.db", "transcribe in an unknown way");
    check_command("new.db", "gpu-dispatch transcribe in an unknown way\n");
    make_journal("run.db", "-- echo transcribe {}");
    CHECK_STR(sh("gpu-dispatch status run.db | sed -n 2p").out, "gpu-dispatch run ... -- echo transcribe {}\n");
}

TEST(a_journal_of_other_work_is_named_by_what_was_typed)
{
    need_journal();
    wav("in/a.wav", 1);
    CHECK_EQ(sh(ALONE "--input-dir in --journal j.db").status, 0);
    CHECK_NOT_STARTED(sh(ALONE "--input-dir in --journal j.db --resume --language en"),
                      "gpu-dispatch: j.db was made by another command: \"transcribe --input-dir in --model-size "
                      "demo\". The command now is \"transcribe --input-dir in --model-size demo --language en\". Run "
                      "the first one, or force the resume if both do the same work (to force it: --force-resume)");
    /* Two commands that look the same: everything known about them is shown. */
    CHECK_EQ(sh("mkdir m; cp $GD_SOURCE_ROOT/models/ggml-demo.bin m/").status, 0);
    struct ran r =
        sh(STANDIN "gpu-dispatch transcribe --quiet --gpus sim:1 --model-size demo --model-dir m in --journal "
                   "j.db --resume");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "model=m/ggml-demo.bin");
    CHECK_CONTAINS(r.err, "(to force it: --force-resume)");
}

/* --- runs with failures --------------------------------------------------------------------------- */

TEST(every_file_fails)
{
    WAVS("in/bad1.wav", "in/bad2.wav");
    struct ran r = sh(STANDIN ON "--input-dir in --progress none");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "");
    CHECK_CONTAINS(r.err, "\n0 of 2 files done in ");
    CHECK_CONTAINS(r.err, "\n2 failed: 2 errors\n  in/bad2.wav: bad2.wav is no audio\n  in/bad1.wav: bad1.wav is no "
                          "audio\ngpu-dispatch: to transcribe the rest, run the same command with --resume\n");
    CHECK(!strstr(r.err, "files/") && !strstr(r.err, "speed-up"));
    CHECK_STR(sh("ls -A data/outputs").out, "");
    r = sh(ALONE "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: task \"in/bad2.wav\": bad2.wav is no audio\n"
                     "gpu-dispatch: task \"in/bad1.wav\": bad1.wav is no audio\n");
    CHECK_EQ(r.status, 1);
}

TEST(no_advice_is_printed_if_no_file_failed)
{
    WAVS("in/a.wav");
    struct ran r = sh(STANDIN ON "--input-dir in --progress none");
    CHECK_EQ(r.status, 0);
    CHECK(!strstr(r.err, "--resume"));
}

/* --- files that fail ------------------------------------------------------------------------------- */

/* As in `gpu-dispatch run`: the first attempt counts. */
TEST(a_file_is_tried_as_often_as_retries_says)
{
    WAVS("in/away.wav");
    CHECK_EQ(sh(ALONE "--input-dir in").status, 1);
    CHECK_STR(ran(), "in/away.wav ");
    CHECK_EQ(sh(ALONE "--input-dir in --retries 1").status, 1);
    CHECK_STR(ran(), "in/away.wav ");
    CHECK_EQ(sh(ALONE "--input-dir in --retries 3 --output out").status, 1);
    CHECK_STR(ran(), "in/away.wav in/away.wav in/away.wav ");
    CHECK_CONTAINS(sh("cat out").out, "\"attempt\":3");
}

/* A file that is bad fails at once. */
TEST(a_bad_file_is_not_tried_again)
{
    WAVS("in/bad.wav");
    CHECK_EQ(sh(ALONE "--input-dir in --retries 3").status, 1);
    CHECK_STR(ran(), "in/bad.wav ");
}

/* --- disks ----------------------------------------------------------------------------------------- */

static void need_mounts(void)
{
    if (sh("unshare -rm mount -t tmpfs none /tmp").status != 0)
        SKIP("this user may not mount file systems");
}

#define SMALL_DISK "unshare -rm sh -c 'mkdir -p o; mount -t tmpfs -o size=256k none o; "

TEST(a_full_disk_is_reported_at_once)
{
    need_mounts();
    WAVS("in/a.wav", "in/b.wav");
    CHECK_NOT_STARTED(
        sh(STANDIN SMALL_DISK "cat /dev/zero > o/large 2> full; exec " ON "--input-dir in --output-dir o'"),
        "gpu-dispatch: o: outputs cannot be written to this directory: No space left on device; free some space there, "
        "or "
        "use another output directory");
    CHECK_STR(ran(), "");
}

/* The disk becomes full in the middle of a run. Each file then fails before any computation, and nothing is left
 * behind. */
TEST(a_disk_that_becomes_full)
{
    need_mounts();
    WAVS("in/b.wav", "in/a-fill.wav");
    struct ran r = sh(STANDIN SMALL_DISK ON "--quiet --input-dir in --output-dir o --failed failed; echo $?; ls -A o'");
    CHECK_STR(r.out, "1\na-fill.txt\nlarge\n");
    CHECK_STR(r.err, "gpu-dispatch: task \"in/b.wav\": o/b.txt: cannot be written: No space left on device; free some "
                     "space there, or use another output directory\n");
}

TEST_MAIN()
