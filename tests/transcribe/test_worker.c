/* The transcription worker, as the library runs it: the plugin in $GD_TEST_TRANSCRIBER with the model that comes with
 * the sources, on the clips in tests/data/speech. */
#include "support/directory.h"
#include "support/small_disk.h"
#include "support/test.h"
#include "transcribe/flat_model.h"
#include "transcribe/http_server.h"
#include "transcribe/job.h"
#include "transcribe/sound.h"

/* --- clips ------------------------------------------------------------------------ */

TEST_WITHIN(300, clips_give_the_spoken_text)
{
    struct job *j = new_job();
    for (int i = 20; i < 30; i++)
        add_clip(j, i);
    CHECK_EQ(run(j), 0);
    for (size_t i = 0; i < j->n_files; i++) {
        CHECK_STR(member(j, i, "text"), spoken(j->files[i]));
        CHECK_STR(member(j, i, "file"), j->files[i]);
        CHECK_STR(member(j, i, "language"), "en");
        CHECK_STR(member(j, i, "segments"), "1");
        CHECK_STR(member(j, i, "outputs"), "[]");
    }
    CHECK_STR(member(j, 0, "audio_duration"), "1.732");
}

/* Files have other names on the server, so that they cannot be found as files: clip 20, and call.wav of the directory. */
static void answer(int s, const char *request)
{
    char head[100];
    FILE *f = NULL;
    if (strncmp(request, "GET /audio/a%20clip.flac ", 25) == 0)
        f = fopen(source_path("tests/data/speech/clip_020.flac"), "re");
    else if (strncmp(request, "GET /audio/stereo.wav ", 22) == 0)
        f = fopen("call.wav", "re");
    static char data[1 << 20];
    const size_t size = f ? fread(data, 1, sizeof data, f) : 0;
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", f ? "200 OK" : "404 Not here", size);
    send_text(s, head);
    send_all(s, data, size);
    if (f)
        fclose(f);
}

TEST_WITHIN(300, files_are_fetched)
{
    struct job *j = new_job();
    char settings[200], clip[PATH_MAX];
    directory_enter();
    http_begin();
    snprintf(clip, sizeof clip, "%s", source_path("tests/data/speech/clip_020.flac"));
    add_file(j, "a clip.flac");
    add_file(j, "none.flac");
    snprintf(settings, sizeof settings, "input_base=%s\noutput_dir=out\n", http_base);
    j->settings = settings;
    CHECK_EQ(run(j), 0);
    if (strstr(j->errors[0], "libcurl"))
        SKIP(j->errors[0]);
    CHECK_STR(member(j, 0, "text"), spoken(clip));
    CHECK_STR(member(j, 0, "outputs"), "[\"out/a clip.txt\"]");
    CHECK_CONTAINS(j->errors[1], "none.flac is not on the server of the inputs");
    CHECK_EQ(j->attempts[1], 1);
}

TEST_WITHIN(300, channels_of_a_fetched_file_are_speakers)
{
    struct job *j = new_job();
    char settings[200], wanted[400], left[200];
    directory_enter();
    make_call("call.wav");
    http_begin();
    add_file(j, "stereo.wav");
    snprintf(settings, sizeof settings, "input_base=%s\noutput_dir=out\ndiarize_channels=yes\n", http_base);
    j->settings = settings;
    CHECK_EQ(run(j), 0);
    if (strstr(j->errors[0], "libcurl"))
        SKIP(j->errors[0]);
    CHECK_STR(member(j, 0, "segments"), "2");
    snprintf(left, sizeof left, "%s", spoken("/clip_020.flac"));
    snprintf(wanted, sizeof wanted, "Speaker 1: %s\nSpeaker 2: %s\n", left, spoken("/clip_021.flac"));
    CHECK_STR(contents("out/stereo.txt"), wanted);
}

/* Two workers process the files in another order. Outputs are the same to the last digit. */
TEST_WITHIN(300, text_does_not_depend_on_workers_or_order)
{
    struct job *one = new_job(), *two = new_job();
    char name[100], kept[20000];
    directory_enter();
    one->settings = "output_dir=one\nformats=json\n";
    two->settings = "output_dir=two\nformats=json\n";
    two->gpus = "sim:2";
    for (int i = 0; i < 10; i++) {
        add_clip(one, 50 + i);
        add_clip(two, 59 - i);
    }
    CHECK_EQ(run(one), 0);
    CHECK_EQ(run(two), 0);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "one/clip_%03d.json", 50 + i);
        snprintf(kept, sizeof kept, "%s", contents(name));
        snprintf(name, sizeof name, "two/clip_%03d.json", 50 + i);
        CHECK_STR(contents(name), kept);
    }
}

/* All words of this model have the same low probability, so each file is tried at every temperature, with random
 * numbers. */
TEST_WITHIN(300, random_numbers_begin_anew_with_each_file)
{
    struct job *j = new_job();
    directory_enter();
    make_flat_model("flat.bin", false);
    make_silence("a.wav", 2);
    j->model = "flat.bin";
    for (int i = 0; i < 3; i++)
        add_file(j, "a.wav");
    j->settings = "output_dir=out\nformats=json\nlanguage=de\n";
    CHECK_EQ(run(j), 0);
    char first[MOST_TEXT];
    snprintf(first, sizeof first, "%s", j->results[0]);
    CHECK_STR(j->results[1], first);
    CHECK_STR(j->results[2], first);
    CHECK_GT(strlen(member(j, 0, "text")), 0);
    CHECK_CONTAINS(contents("out/a.json"), "\"temperature\": 1.0");
}

/* Beam search uses random numbers even if the probabilities of the model are high. */
TEST_WITHIN(300, random_numbers_of_beam_search_begin_anew_with_each_file)
{
    struct job *j = new_job();
    directory_enter();
    make_flat_model("flat.bin", true);
    make_silence("a.wav", 2);
    j->model = "flat.bin";
    for (int i = 0; i < 3; i++)
        add_file(j, "a.wav");
    j->settings = "output_dir=out\nformats=json\nlanguage=de\nbeam_size=4\n";
    CHECK_EQ(run(j), 0);
    char first[MOST_TEXT];
    snprintf(first, sizeof first, "%s", j->results[0]);
    CHECK_STR(j->results[1], first);
    CHECK_STR(j->results[2], first);
    CHECK_GT(strlen(member(j, 0, "text")), 0);
    CHECK_CONTAINS(contents("out/a.json"), "\"temperature\": 0.0");
}

/* A window of this model has 20 s. A message is sent after at least 30 s of audio, and not for short files. */
TEST_WITHIN(300, long_files_report_their_progress)
{
    struct job *j = new_job();
    directory_enter();
    make_flat_model("flat.bin", true);
    make_silence("long.wav", 100);
    make_silence("short.wav", 25);
    j->model = "flat.bin";
    j->settings = "language=de\n";
    add_file(j, "short.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(j->parts, "");
    j->given = 0;
    snprintf(j->files[0], sizeof j->files[0], "long.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(j->parts, "{\"audio_done\": 40.0}{\"audio_done\": 80.0}");
    CHECK(!strstr(j->results[0], "audio_done"));
}

/* Each channel is transcribed by itself. Together they count as one duration of the file. */
TEST_WITHIN(300, all_channels_count_for_the_progress)
{
    struct job *j = new_job();
    directory_enter();
    make_flat_model("flat.bin", true);
    make_stereo_silence("call.wav", 100);
    j->model = "flat.bin";
    j->settings = "language=de\ndiarize_channels=yes\n";
    add_file(j, "call.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(j->parts, "{\"audio_done\": 30.0}{\"audio_done\": 60.0}{\"audio_done\": 90.0}");
}

TEST_WITHIN(300, short_files)
{
    struct job *j = new_job();
    directory_enter();
    make_silence("a.wav", 0.01);
    make_silence("b.wav", 0.099);
    make_silence("c.wav", 0.2);
    add_file(j, "a.wav");
    add_file(j, "b.wav");
    add_file(j, "c.wav");
    CHECK_EQ(run(j), 0);
    for (size_t i = 0; i < 3; i++)
        CHECK_STR(member(j, i, "text"), "");
}

/* --- settings --------------------------------------------------------------------- */

TEST_WITHIN(300, outputs_are_written)
{
    struct job *j = new_job();
    directory_enter();
    j->settings = "output_dir=out\nformats=all\n";
    add_clip(j, 50);
    CHECK_EQ(run(j), 0);
    CHECK_STR(contents("out/clip_050.txt"), "paste previous kitchen volume\n");
    CHECK_CONTAINS(contents("out/clip_050.srt"), "paste previous kitchen volume");
    CHECK_CONTAINS(contents("out/clip_050.vtt"), "WEBVTT");
    CHECK_CONTAINS(contents("out/clip_050.tsv"), "paste previous");
    CHECK_CONTAINS(contents("out/clip_050.json"), "\"model\": \"demo\"");
    CHECK_CONTAINS(member(j, 0, "outputs"), "\"out/clip_050.txt\", \"out/clip_050.srt\"");
}

TEST_WITHIN(300, segments_have_their_details)
{
    directory_enter();
    const char *json = json_with("", NULL, NULL);
    CHECK_CONTAINS(json, "\"start\": 0.");
    CHECK_CONTAINS(json, "\"probability\": 0.99");
    CHECK_CONTAINS(json, "\"no_speech_prob\": 0.0");
    CHECK_CONTAINS(json, "\"temperature\": 0.0");
    CHECK_CONTAINS(json, "\"avg_logprob\": -0.0");
    CHECK_CONTAINS(json, "\"tokens\": [");
    CHECK_CONTAINS(json, "\"seek\": 0,");
    CHECK_CONTAINS(json, "\"language_probability\": null");
    CHECK(!strstr(json, "\"words\""));
}

TEST_WITHIN(300, words_have_times)
{
    directory_enter();
    const char *json = json_with("word_timestamps=yes", NULL, NULL), *at = json;
    static const char *const words[] = { " paste", " previous", " kitchen", " volume" };
    for (size_t i = 0; i < 4; i++) {
        char want[60];
        snprintf(want, sizeof want, "{\"word\": \"%s\", \"start\": ", words[i]);
        at = strstr(at, want);
        if (!at)
            FAIL("no %s in %s", want, json);
    }
    CHECK_CONTAINS(json, "{\"word\": \" kitchen\", \"start\": 1.");
    CHECK_CONTAINS(json, "{\"word\": \" volume\", \"start\": 2.0");
}

TEST_WITHIN(300, a_temperature_is_used)
{
    directory_enter();
    CHECK_CONTAINS(json_with("temperature=0.4", NULL, NULL), "\"temperature\": 0.4");
}

TEST_WITHIN(300, a_name_for_the_model)
{
    directory_enter();
    CHECK_CONTAINS(json_with("model_name=tiny one", NULL, NULL), "\"model\": \"tiny one\"");
}

/* A prompt of words that the model has changes the probabilities of the words in a clip. */
TEST_WITHIN(300, a_prompt_has_an_effect)
{
    char plain[20000];
    directory_enter();
    snprintf(plain, sizeof plain, "%s", json_with("", NULL, NULL));
    CHECK(strcmp(json_with("prompt= zero one two three", NULL, NULL), plain) != 0);
}

TEST_WITHIN(300, beams_are_searched)
{
    directory_enter();
    CHECK_CONTAINS(json_with("beam_size=5\nthreads=2", NULL, NULL), "\"text\": \"paste previous kitchen volume\"");
}

TEST_WITHIN(300, a_language_is_detected)
{
    directory_enter();
    make_flat_model("flat.bin", false);
    make_silence("a.wav", 1);
    const char *json = json_with("", "flat.bin", "a.wav");
    CHECK_CONTAINS(json, "\"language\": \"de\", \"language_probability\": " FLAT_PROBABILITY);
    CHECK_CONTAINS(json, "\"task\": \"transcribe\"");
    json = json_with("word_timestamps=yes\ntranslate=yes", "flat.bin", "a.wav");
    CHECK_CONTAINS(json, "\"language\": \"de\", \"language_probability\": " FLAT_PROBABILITY);
    CHECK_CONTAINS(json, "\"task\": \"translate\"");
}

TEST_WITHIN(300, a_language_is_given)
{
    directory_enter();
    make_flat_model("flat.bin", false);
    make_silence("a.wav", 1);
    CHECK_CONTAINS(json_with("language=fr", "flat.bin", "a.wav"),
                   "\"language\": \"fr\", \"language_probability\": null");
    CHECK_CONTAINS(json_with("language=French", "flat.bin", "a.wav"), "\"language\": \"fr\"");
}

TEST_WITHIN(300, only_speech_is_transcribed)
{
    char settings[PATH_MAX + 40], text[2000];
    const char *vad = getenv("GD_TEST_VAD_MODEL");
    if (!vad || access(vad, R_OK) < 0)
        SKIP("whisper.cpp is installed without a VAD model");
    directory_enter();
    FILE *f = begin_wav("a.wav");
    put_silence(f, 20);
    put_clip(f, source_path("tests/data/speech/clip_050.flac"));
    put_silence(f, 20);
    end_wav(f);
    snprintf(settings, sizeof settings, "vad_model=%s\nword_timestamps=yes", vad);
    snprintf(text, sizeof text, "%s", json_with(settings, NULL, "a.wav"));
    CHECK_CONTAINS(text, "\"text\": \"paste previous kitchen volume\"");
    CHECK_CONTAINS(text, "\"start\": 20.");
    CHECK_CONTAINS(text, "\"end\": 22.");
    CHECK_CONTAINS(text, "{\"word\": \" kitchen\", \"start\": 21.");
    /* No speech: there is no text and no language. */
    make_silence("b.wav", 3);
    CHECK_CONTAINS(json_with(settings, NULL, "b.wav"), "\"text\": \"\"");
}

/* --- setups that are refused ---------------------------------------------------------- */

static void check_refused(const char *settings, const char *model, const char *words)
{
    struct job *j = new_job();
    j->settings = settings;
    j->model = model;
    add_clip(j, 20);
    CHECK_EQ(run(j), GD_E_SETUP);
    CHECK_CONTAINS(j->setup_error, words);
}

TEST_WITHIN(300, settings_that_are_refused)
{
    source_path("");
    check_refused("language=xx\n", NULL, "does not know the language \"xx\"");
    check_refused("language=de\n", NULL, "supports only English, not \"de\"");
    check_refused("translate=yes\n", NULL, "cannot translate");
    check_refused("beam_size=9\n", NULL, "9");
    check_refused("temperature=1.5\n", NULL, "1.5");
    check_refused("piece_seconds=10\n", NULL, "a piece cannot be 10 s long: use 90 s to 86400 s");
    check_refused("nonsense=1\n", NULL, "\"nonsense\" is not a setting");
}

TEST_WITHIN(300, a_language_that_the_model_lacks)
{
    directory_enter();
    make_flat_model("flat.bin", false);
    check_refused("language=yue\n", "flat.bin", "does not know \"yue\"");
}

TEST_WITHIN(300, models_that_are_refused)
{
    directory_enter();
    make_flat_model("short.bin", false);
    CHECK_EQ(truncate("short.bin", 3000000), 0);
    make_file("empty.bin", 0);
    check_refused("", "/nonexistent/ggml-base.bin", "/nonexistent/ggml-base.bin");
    check_refused("", "empty.bin", "empty.bin");
    check_refused("", "short.bin", "short.bin");
}

TEST_WITHIN(300, vad_models_that_are_refused)
{
    char settings[PATH_MAX + 40];
    check_refused("vad_model=/nonexistent/vad.bin\n", NULL, "cannot read the VAD model /nonexistent/vad.bin");
    snprintf(settings, sizeof settings, "vad_model=%s\n", source_path("models/ggml-demo.bin"));
    check_refused(settings, NULL, "is not a VAD model");
}

/* Skipped if whisper.cpp was built for GPUs and there is a GPU. */
TEST_WITHIN(300, a_gpu_that_does_not_exist)
{
    struct job *j = new_job();
    j->settings = "no_gpu=no\n";
    add_clip(j, 20);
    const int rc = run(j);
    if (rc == 0 && access("/dev/nvidiactl", F_OK) == 0)
        SKIP("there is a GPU");
    CHECK_EQ(rc, GD_E_SETUP);
    CHECK_CONTAINS(j->setup_error, "finds no GPU");
    CHECK_CONTAINS(j->setup_error, "--no-gpu");
}

TEST_WITHIN(300, a_gpu_that_has_no_room_for_the_model)
{
    source_path("");
    preload("preload_gpu.so");
    setenv("GD_GPU_FREE", "1048576", 1);
    check_refused("no_gpu=no\n", NULL, "of GPU memory, but 1.0 MiB of 24 GiB are free: end other programs");
}

/* whisper.cpp's own decoder ends the process. Its error message is the reason, without a stack trace. */
TEST_WITHIN(300, no_memory_for_the_model)
{
    source_path("");
    preload("preload_memory.so");
    setenv("GD_MEMORY_MOST", "2000000", 1);
    check_refused("", NULL, "no memory for the model");
    check_refused("decoder=whisper.cpp\n", NULL,
                  "its last output:\nwhisper.cpp aborted: ggml_aligned_malloc: insufficient memory");
}

/* --- files that fail ------------------------------------------------------------------ */

TEST_WITHIN(300, bad_files_harm_no_other)
{
    struct job *j = new_job();
    directory_enter();
    make_file("empty.wav", 0);
    make_file("noise.wav", 5000);
    make_directories("folder.wav");
    make_silence("short.wav", 3);
    CHECK_EQ(truncate("short.wav", 40000), 0);
    char longest[256];
    memset(longest, 'n', 255);
    snprintf(longest + 251, 5, ".wav");
    make_silence(longest, 1);
    j->settings = "output_dir=o\nformats=json\n"; /* the name with .json is longer by one byte */
    j->retries = 2;
    add_clip(j, 20);
    add_file(j, "missing.wav");
    add_file(j, "empty.wav");
    add_file(j, "noise.wav");
    add_file(j, "folder.wav");
    add_file(j, "short.wav");
    add_file(j, longest);
    add_file(j, "");
    add_clip(j, 22);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), "previous timer");
    CHECK_STR(member(j, 8, "text"), "seven");
    for (size_t i = 1; i < 8; i++) {
        CHECK_STR(j->results[i], "");
        CHECK_EQ(j->failures[i], GD_FAILURE_ERROR);
        CHECK_EQ(j->attempts[i], 1); /* another attempt would not help */
        if (i < 7)
            CHECK_CONTAINS(j->errors[i], j->files[i]);
    }
}

/* Both files fail in the first two attempts: one can't be opened, the other can't be read. */
static void away(int error, const char *times)
{
    char number[16];
    directory_enter();
    preload("preload_unread.so");
    setenv("GD_UNREAD_OPEN", "clip_020.flac", 1);
    setenv("GD_UNREAD_READ", "clip_022.flac", 1);
    snprintf(number, sizeof number, "%d", error);
    setenv("GD_UNREAD_ERROR", number, 1);
    setenv("GD_UNREAD_TIMES", times, 1);
    setenv("GD_UNREAD_COUNTS", directory_path, 1);
}

TEST_WITHIN(300, a_file_that_is_unreadable_for_a_while_is_tried_again)
{
    struct job *j = new_job();
    away(EIO, "2");
    j->retries = 2;
    add_clip(j, 20);
    add_clip(j, 22);
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), "previous timer");
    CHECK_STR(member(j, 1, "text"), "seven");
    CHECK_EQ(j->attempts[0], 3);
    CHECK_EQ(j->attempts[1], 3);
}

TEST_WITHIN(300, a_file_that_stays_unreadable_fails)
{
    struct job *j = new_job();
    away(ESTALE, "1000");
    j->retries = 2;
    add_clip(j, 20);
    add_clip(j, 22);
    add_clip(j, 23);
    CHECK_EQ(run(j), 0);
    CHECK_CONTAINS(j->errors[0], "clip_020.flac cannot be opened: Stale file handle");
    CHECK_CONTAINS(j->errors[1], "clip_022.flac cannot be read: Stale file handle");
    CHECK_EQ(j->attempts[0], 3);
    CHECK_EQ(j->attempts[1], 3);
    CHECK_EQ(j->attempts[2], 1);
}

TEST_WITHIN(300, a_file_that_may_not_be_read_is_not_tried_again)
{
    struct job *j = new_job();
    away(EACCES, "1000");
    j->retries = 2;
    add_clip(j, 20);
    CHECK_EQ(run(j), 0);
    CHECK_CONTAINS(j->errors[0], "clip_020.flac cannot be opened: permission denied");
    CHECK_EQ(j->attempts[0], 1);
}

TEST_WITHIN(300, an_output_that_can_t_be_written_is_tried_again)
{
    struct job *j = new_job();
    directory_enter();
    make_file("out", 1);
    j->settings = "output_dir=out/below\n";
    j->retries = 2;
    add_clip(j, 22);
    CHECK_EQ(run(j), 0);
    CHECK_EQ(j->attempts[0], 3);
    CHECK_EQ(j->failures[0], GD_FAILURE_ERROR);
    CHECK_CONTAINS(j->errors[0], "out");
}

/* Transcribing the file would take minutes. It fails at once. */
TEST_WITHIN(300, files_whose_output_cannot_be_written_are_not_transcribed)
{
    struct job *j = new_job();
    directory_enter();
    small_disk("out", 64);
    FILE *f = begin_wav("long.wav");
    for (int i = 0; i < 300; i++)
        put_clip(f, source_path("tests/data/speech/clip_050.flac"));
    end_wav(f);
    small_disk_fill("out/large");
    j->settings = "output_dir=out\nformats=all\nbeam_size=8\nthreads=1\n";
    j->timeout_ms = 20000; /* this much audio takes longer on any machine */
    add_file(j, "long.wav");
    CHECK_EQ(run(j), 0);
    CHECK_EQ(j->failures[0], GD_FAILURE_ERROR);
    CHECK_CONTAINS(j->errors[0], "out/long.txt: cannot be written: No space left on device");
    CHECK_EQ(unlink("out/large"), 0);
    CHECK_EQ(umount2("out", MNT_DETACH), 0);
}

/* --- long files ---------------------------------------------------------------------- */

static size_t count_words(const char *text)
{
    size_t n = *text != '\0';
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

/* The file has two pieces. No word is lost or repeated where they meet. */
static void check_pieces(const char *settings)
{
    struct job *j = new_job();
    char text[2000];
    directory_enter();
    join_clips("long.wav", 22, 3, text, sizeof text);
    j->settings = settings;
    add_file(j, "long.wav");
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "audio_duration"), "98.582");
    CHECK_EQ(count_words(member(j, 0, "text")), count_words(text));
    CHECK_STR(member(j, 0, "text"), text);
    CHECK_STR(member(j, 0, "segments"), "22");
}

/* With --split auto, lanes do not use pieces. */
TEST_WITHIN(600, a_long_file_in_pieces)
{
    check_pieces("decoder=lanes\nsplit=never\npiece_seconds=90\n");
}

TEST_WITHIN(600, a_long_file_in_pieces_by_whisper)
{
    check_pieces("decoder=whisper.cpp\npiece_seconds=90\n");
}

/* The worker stops by itself or is killed. In both cases the next file succeeds. */
TEST_WITHIN(600, a_file_that_takes_too_long)
{
    struct job *j = new_job();
    char text[2000];
    directory_enter();
    FILE *f = begin_wav("long.wav");
    for (int i = 0; i < 1000; i++)
        put_clip(f, source_path("tests/data/speech/clip_050.flac"));
    end_wav(f);
    join_clips("short.wav", 1, 1, text, sizeof text);
    j->timeout_ms = 10000; /* this much audio takes longer on any machine, a clip does not */
    j->settings = "beam_size=8\nthreads=1\n";
    add_file(j, "long.wav");
    add_file(j, "short.wav");
    CHECK_EQ(run(j), 0);
    CHECK_EQ(j->failures[0], GD_FAILURE_TIMEOUT);
    CHECK_STR(member(j, 1, "text"), text);
}

/* The run is shut down while a file is being processed. It is the only file, so that it is not done before that. */
TEST_WITHIN(600, a_worker_that_is_killed)
{
    static const char *const env[] = { "GD_KILL=started:2", NULL };
    struct job *j = new_job();
    char text[2000];
    directory_enter();
    join_clips("long.wav", 12, 1, text, sizeof text);
    add_clip(j, 20);
    add_file(j, "long.wav");
    add_clip(j, 22);
    j->env = env;
    CHECK_EQ(run(j), 0);
    CHECK_STR(member(j, 0, "text"), "previous timer");
    CHECK_STR(member(j, 2, "text"), "seven");
    CHECK_EQ(count_words(member(j, 1, "text")), count_words(text));
    CHECK_EQ(j->attempts[1], 2);
}

TEST_MAIN()
