/* The transcription worker with the decoder of many files at once, as the library runs it. */
#include <sys/stat.h>

#include "support/directory.h"
#include "support/test.h"
#include "transcribe/job.h"
#include "transcribe/sound.h"

enum { FIRST = 20, FILES = 8 };

/* Runs the clips with these settings, and compares the texts with what is said in them. */
static void check_clips(const char *settings, bool backwards)
{
    struct job *j = new_job();
    j->settings = settings;
    for (int i = 0; i < FILES; i++)
        add_clip(j, FIRST + (backwards ? FILES - 1 - i : i));
    CHECK_EQ(run(j), 0);
    for (size_t i = 0; i < j->n_files; i++) {
        CHECK_STR(member(j, i, "text"), spoken(j->files[i]));
        CHECK_STR(member(j, i, "language"), "en");
        CHECK_EQ(j->attempts[i], 1);
    }
}

TEST_WITHIN(300, clips_give_the_spoken_text)
{
    check_clips("decoder=lanes\n", false);
}

TEST_WITHIN(300, whatever_the_number_of_slots_and_the_order)
{
    check_clips("decoder=lanes\nbatch_size=1\n", true);
    check_clips("decoder=lanes\nbatch_size=3\n", true);
}

TEST_WITHIN(300, outputs_are_those_of_the_other_decoder)
{
    struct job *j = new_job();
    directory_enter();
    j->settings = "decoder=lanes\noutput_dir=one\nformats=txt,srt,vtt,tsv\n";
    add_clip(j, FIRST);
    CHECK_EQ(run(j), 0);
    j->given = 0;
    j->settings = "decoder=whisper.cpp\noutput_dir=two\nformats=txt,srt,vtt,tsv\n";
    CHECK_EQ(run(j), 0);
    static const char *const formats[] = { "txt", "srt", "vtt", "tsv" };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char one[64], two[64], kept[20000];
        snprintf(one, sizeof one, "one/clip_020.%s", formats[i]);
        snprintf(two, sizeof two, "two/clip_020.%s", formats[i]);
        snprintf(kept, sizeof kept, "%s", contents(one));
        CHECK(kept[0]);
        CHECK_STR(kept, contents(two));
    }
}

TEST_WITHIN(300, a_bad_file_among_others)
{
    struct job *j = new_job();
    directory_enter();
    make_silence("none.wav", 0);
    make_silence("cut.wav", 3);
    CHECK_EQ(truncate("cut.wav", 40000), 0);
    j->settings = "decoder=lanes\n";
    add_clip(j, FIRST);
    add_file(j, "missing.wav");
    add_file(j, "cut.wav");
    add_clip(j, FIRST + 1);
    add_file(j, "none.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), spoken(j->files[0]));
    CHECK_STR(member(j, 3, "text"), spoken(j->files[3]));
    CHECK_CONTAINS(j->errors[1], "does not exist");
    CHECK_CONTAINS(j->errors[2], "truncated");
    CHECK(j->errors[4][0]);
    for (size_t i = 0; i < j->n_files; i++)
        CHECK_EQ(j->attempts[i], 1);
}

/* Less than a tenth of a second has no text; exactly half a minute, and silence, end. */
TEST_WITHIN(300, lengths_at_the_limits)
{
    struct job *j = new_job();
    directory_enter();
    j->settings = "decoder=lanes\naccept_truncated=yes\n";
    make_silence("second.wav", 1);
    CHECK_EQ(truncate("second.wav", 44 + 2 * 1000), 0); /* a sixteenth of a second */
    make_silence("window.wav", 30);
    add_file(j, "second.wav");
    add_file(j, "window.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), "");
    CHECK_STR(member(j, 1, "audio_duration"), "30.000");
}

/* A file of six minutes is cut into two parts. The second one does not begin at the time 0. */
TEST_WITHIN(600, a_long_file_is_cut)
{
    struct job *j = new_job();
    directory_enter();
    make_silence("long.wav", 360);
    j->settings = "decoder=lanes\n";
    add_file(j, "long.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "audio_duration"), "360.000");
}

TEST_WITHIN(300, a_file_that_takes_too_long_is_cancelled)
{
    struct job *j = new_job();
    directory_enter();
    make_silence("long.wav", 3000);
    j->settings = "decoder=lanes\n";
    j->timeout_ms = 50;
    add_file(j, "long.wav");
    CHECK_EQ(run(j), 0);
    CHECK_EQ(j->failures[0], GD_FAILURE_TIMEOUT);
}

/* Without memory for so many slots, there are fewer. */
TEST_WITHIN(300, slots_are_halved_until_they_fit)
{
    struct job *j = new_job();
    directory_enter();
    source_path("");
    preload("preload_memory.so");
    setenv("GD_MEMORY_MOST", "60000000", 1);
    j->settings = "batch_size=256\n";
    j->log = "log";
    add_clip(j, FIRST);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), spoken(j->files[0]));
    CHECK_CONTAINS(contents("log"), "recordings at once: there is not enough memory for 256");
}

/* The first two processes die in their set-up, because memory for 256 and 128 slots is missing where ggml cannot report
 * it. The file that counts them is deleted. */
TEST_WITHIN(300, slots_are_halved_after_a_set_up_that_died)
{
    struct job *j = new_job();
    directory_enter();
    source_path("");
    preload("preload_memory.so");
    setenv("GD_MEMORY_MOST", "120000000", 1);
    setenv("GD_MEMORY_ABORT", "1", 1);
    CHECK_EQ(mkdir("tmp", 0700), 0);
    setenv("TMPDIR", "tmp", 1);
    j->settings = "batch_size=256\n";
    j->setup_attempts = 3;
    j->log = "log";
    add_clip(j, FIRST);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), spoken(j->files[0]));
    CHECK_EQ(j->attempts[0], 1);
    CHECK_CONTAINS(contents("log"), "decoding 64 recordings at once: there is not enough memory for 256");
    CHECK_EQ(rmdir("tmp"), 0);
}

/* A process that replaces one that died later has all its slots. */
TEST_WITHIN(300, slots_are_not_halved_after_other_deaths)
{
    static const char *const env[] = { "GD_KILL=started:2", NULL };
    struct job *j = new_job();
    directory_enter();
    j->settings = "batch_size=2\n";
    j->env = env;
    j->log = "log";
    for (int i = 0; i < 3; i++)
        add_clip(j, FIRST + i);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 2, "text"), spoken(j->files[2]));
    CHECK(!strstr(contents("log"), "at once"));
}

TEST_WITHIN(300, a_beam_search_is_left_to_whisper_and_logged)
{
    struct job *j = new_job();
    directory_enter();
    j->settings = "beam_size=2\n";
    j->log = "log";
    add_clip(j, FIRST);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), spoken(j->files[0]));
    CHECK_CONTAINS(contents("log"), "whisper.cpp's own decoder, one file at a time: lanes cannot do a beam search");
    j->settings = "";
    j->given = 0;
    CHECK_EQ(run(j), 0);
    CHECK_STR(contents("log"), "");
}

/* Each file has times of its own, whatever is decoded beside it: words lie inside of their segment, in order. */
TEST_WITHIN(300, words_of_many_files)
{
    struct job *j = new_job();
    directory_enter();
    j->settings = "output_dir=out\nformats=json\nword_timestamps=yes\n";
    for (int i = 0; i < FILES; i++)
        add_clip(j, FIRST + i);
    CHECK_EQ(run(j), 0);
    for (int i = 0; i < FILES; i++) {
        char name[64];
        double last = 0;
        int words = 0;
        snprintf(name, sizeof name, "out/clip_%03d.json", FIRST + i);
        const char *json = contents(name), *at = json;
        for (; (at = strstr(at, "{\"word\": ")) != NULL; at++, words++) {
            const double start = strtod(strstr(at, "\"start\": ") + 9, NULL),
                         end = strtod(strstr(at, "\"end\": ") + 7, NULL);
            CHECK(last <= start);
            CHECK(start <= end);
            last = end;
        }
        int spaces = 0;
        for (const char *c = spoken(j->files[i]); *c; c++)
            spaces += *c == ' ';
        CHECK_EQ(words, spaces + 1);
    }
}

TEST_WITHIN(300, settings_that_are_refused)
{
    static const struct {
        const char *settings, *message;
    } cases[] = {
        { "decoder=lanes\nbeam_size=5\n", "a beam search" },
        { "decoder=lanes\nlanguage=de\n", "supports only English" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *j = new_job();
        j->settings = cases[i].settings;
        add_clip(j, FIRST);
        CHECK_EQ(run(j), GD_E_SETUP);
        CHECK_CONTAINS(j->setup_error, cases[i].message);
    }
}

TEST_MAIN()
