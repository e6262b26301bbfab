/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe` and launcher_multigpu with a stand-in for the worker (plugin_transcribe.c). Tests
 * everything that needs no speech: which files are found, refused and skipped, which options reach the worker, and the
 * messages. tests/transcribe has the tests with speech. */
#include "transcribe.h"

/* --- order and selection ------------------------------------------------------------------ */

TEST(the_longest_comes_first)
{
    wav("in/a.wav", 5), wav("in/b.wav", 60), wav("in/c.wav", 1), wav("in/d.wav", 7);
    CHECK_PRINTS(sh(ALONE "--input-dir in"), "");
    CHECK_STR(ran(), "in/b.wav in/d.wav in/a.wav in/c.wav ");
    CHECK_STR(sh("cd data/outputs; ls").out, "a.txt\nb.txt\nc.txt\nd.txt\n");
}

/* Files are sorted by duration, not by size. A second at 8 kHz has 8000 bytes. For a file without a header 16000 are
 * assumed. */
TEST(a_file_without_a_header_is_sorted_by_its_size)
{
    wav("in/ten.wav", 10), wav("in/two.wav", 2);
    CHECK_EQ(sh("truncate -s 80000 in/five.wav").status, 0); /* has more bytes than ten.wav */
    CHECK_EQ(sh(ALONE "--input-dir in").status, 0);
    CHECK_STR(ran(), "in/ten.wav in/five.wav in/two.wav ");
}

/* Headers may claim anything, such as thousands of years, and the sum would overflow. */
TEST(a_file_with_an_impossible_header_is_sorted_by_its_size)
{
    static const unsigned char header[] = "RF64\xff\xff\xff\xffWAVE"
                                          "ds64\x1c\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f"
                                          "\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0"
                                          "fmt \x10\0\0\0\1\0\1\0\1\0\0\0\1\0\0\0\1\0\x8\0"
                                          "data\xff\xff\xff\xff";
    wav("in/a.wav", 10);
    for (int i = 0; i < 9; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/in/lie%d.wav", sh_dir(), i);
        FILE *f = fopen(path, "we");
        CHECK(f && fwrite(header, 1, sizeof header - 1, f) == sizeof header - 1 && fclose(f) == 0);
    }
    CHECK_EQ(sh("truncate -s 32000 in/lie*").status, 0);
    struct ran r = sh(ALONE "--input-dir in --dry-run 2>/dev/null | head -n 2");
    CHECK_STR(r.out, "     10s  in/a.wav -> data/outputs/a.txt\n~   2.0s  in/lie0.wav -> data/outputs/lie0.txt\n");
    CHECK_CONTAINS(sh(STANDIN ON "--input-dir in").err, "10 files, 28s of audio (9 durations estimated)\n");
}

TEST(equal_durations_are_sorted_by_name)
{
    wav("in/b.wav", 3), wav("in/c.wav", 3), wav("in/a.wav", 3);
    CHECK_EQ(sh(ALONE "--input-dir in").status, 0);
    CHECK_STR(ran(), "in/a.wav in/b.wav in/c.wav ");
}

TEST(wav_files_unless_patterns_are_given)
{
    WAVS("in/a.wav", "in/b.mp3", "in/c.flac", "in/d.txt");
    CHECK_EQ(sh(ALONE "--input-dir in").status, 0);
    CHECK_STR(ran(), "in/a.wav ");
    CHECK_EQ(sh(ALONE "--input-dir in --pattern '*.mp3' --pattern '*.fl*'").status, 0);
    CHECK_STR(ran(), "in/c.flac in/b.mp3 ");
}

TEST(directories_are_mirrored)
{
    WAVS("in/a.wav", "in/x/b.wav", "in/x/y/c.wav");
    CHECK_EQ(sh(ALONE "--input-dir in --output-dir o").status, 0);
    CHECK_STR(ran(), "in/a.wav ");
    CHECK_EQ(sh(ALONE "--input-dir in -r --output-dir o").status, 0);
    CHECK_STR(ran(), "in/x/y/c.wav in/x/b.wav in/a.wav ");
    CHECK_STR(sh("find o -type f | sort").out, "o/a.txt\no/x/b.txt\no/x/y/c.txt\n");
    CHECK_EQ(sh(ALONE "--input-dir in/ --recursive --output-dir p/").status, 0);
    CHECK_STR(sh("find p -type f | sort").out, "p/a.txt\np/x/b.txt\np/x/y/c.txt\n");
}

TEST(files_and_directories_as_arguments)
{
    WAVS("in/a.wav", "in/b.mp3", "else/c.wav", "d.ogg");
    CHECK_EQ(sh(ALONE "d.ogg in --output-dir o else/c.wav").status, 0);
    CHECK_STR(ran(), "d.ogg else/c.wav in/a.wav ");
    CHECK_STR(sh("find o -type f | sort").out, "o/a.txt\no/c.txt\no/d.txt\n");
    CHECK_EQ(sh(ALONE "--output-dir p --input-dir in d.ogg in/b.mp3").status, 0);
    CHECK_STR(ran(), "d.ogg in/b.mp3 in/a.wav ");
    CHECK_STR(sh("find p -type f | sort").out, "p/a.txt\np/b.txt\np/d.txt\n");
}

TEST(a_directory_as_the_only_argument_is_mirrored)
{
    WAVS("in/a.wav", "in/x/b.wav");
    CHECK_EQ(sh(ALONE "in -r").status, 0);
    CHECK_STR(sh("find data -type f | sort").out, "data/outputs/a.txt\ndata/outputs/x/b.txt\n");
}

TEST(arguments_after_two_dashes)
{
    wav("--language.wav", 1), wav("a.wav", 2);
    CHECK_EQ(sh(ALONE "-- a.wav --language.wav").status, 0);
    CHECK_STR(ran(), "a.wav --language.wav ");
}

TEST(a_file_that_is_named_twice_is_transcribed_once)
{
    WAVS("in/a.wav", "in/b.wav");
    CHECK_EQ(sh(ALONE "--input-dir in in/b.wav in/b.wav in/a.wav").status, 0);
    CHECK_STR(ran(), "in/b.wav in/a.wav ");
}

TEST(names_with_special_characters)
{
    char longest[256], name[241];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(longest, sizeof longest, "in/%s.wav", name);
    wav(longest, 1);
    WAVS("in/\xc3\xbc\xe2\x82\xac\xf0\x9f\x8e\xa7.wav", "in/a b.wav", "in/new\nline.wav", "in/'quote\".wav",
         "in/\xff.wav", "in/back\\slash.wav", "in/-.wav");
    CHECK_PRINTS(sh(ALONE "--input-dir in --output-dir o"), "");
    CHECK_STR(sh("find o -type f -print0 | tr -dc '\\0' | wc -c").out, "8\n");
    CHECK_EQ(sh("cd o; test -e \"$(printf 'new\\nline.txt')\" -a -e \"'quote\\\".txt\" -a -e \"$(printf '\\377').txt\" "
                "-a -e "
                "'back\\slash.txt' -a -e '\xc3\xbc\xe2\x82\xac\xf0\x9f\x8e\xa7.txt'")
                 .status,
             0);
}

/* With the suffix .json the name would have more than 255 bytes. */
TEST(a_name_too_long_for_an_output_is_one_failure)
{
    char name[252], longest[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(longest, sizeof longest, "in/%s.wav", name);
    wav(longest, 2);
    wav("in/a.wav", 1);
    struct ran r = sh(ALONE "--input-dir in --format json");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "the name of its output would have 256 bytes, at most 255 are possible");
    CHECK_STR(sh("ls data/outputs").out, "a.json\n");
    r = sh(ALONE "--input-dir in --format json --dry-run");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "would have 256 bytes");
    CHECK_CONTAINS(r.out, "in/a.wav -> data/outputs/a.json\n");
}

TEST(deep_directories)
{
    char name[4096] = "in", directory[101];
    size_t length = 2;
    memset(directory, 'f', sizeof directory - 1);
    directory[sizeof directory - 1] = '\0';
    for (int i = 0; i < 14; i++)
        length += (size_t)snprintf(name + length, sizeof name - length, "/%s", directory);
    snprintf(name + length, sizeof name - length, "/a.wav");
    wav(name, 1);
    CHECK_PRINTS(sh(ALONE "--input-dir in -r --output-dir o"), "");
    CHECK_STR(sh("find o -type f | wc -l").out, "1\n");
    name[length] = '\0';
    CHECK_PRINTS(sh(ALONE "--input-dir %s --output-dir p", name), "");
    CHECK_STR(sh("ls p").out, "a.txt\n");
}

TEST(the_output_may_be_inside_the_input)
{
    WAVS("in/a.wav", "in/b.wav");
    const char *run = ALONE "--input-dir in -r --output-dir in/text --format all";
    CHECK_EQ(sh("%s", run).status, 0);
    CHECK_STR(ran(), "in/b.wav in/a.wav ");
    CHECK_EQ(sh("%s", run).status, 0);
    CHECK_STR(ran(), "in/b.wav in/a.wav ");
    CHECK_STR(sh("ls in/text | wc -l").out, "14\n");
    CHECK_EQ(sh(ALONE "--input-dir in --output-dir in").status, 0);
    CHECK_STR(sh("ls in").out, "a.txt\na.wav\nb.txt\nb.wav\ntext\n");
}

TEST(dry_runs)
{
    wav("in/a.wav", 65), wav("in/x/b.wav", 3700);
    CHECK_EQ(sh("truncate -s 32000 in/c.wav").status, 0);
    /* Needs no worker, model or GPU. */
    struct ran r =
        sh("GPU_DISPATCH_TRANSCRIBER=/none gpu-dispatch transcribe --model-size none --input-dir in -r --dry-run "
           "--format txt,srt");
    CHECK_STR(r.out, "   1h01m  in/x/b.wav -> data/outputs/x/b.txt, data/outputs/x/b.srt\n"
                     "   1m05s  in/a.wav -> data/outputs/a.txt, data/outputs/a.srt\n"
                     "~   2.0s  in/c.wav -> data/outputs/c.txt, data/outputs/c.srt\n");
    CHECK_STR(r.err, "gpu-dispatch: 3 files, 1h02m of audio (1 duration estimated)\n");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(sh("test -e data").status, 1);
}

/* --- command lines and files that are refused ------------------------------------------------- */

TEST(two_files_with_one_output)
{
    WAVS("in/a.wav", "in/a.mp3", "x/a.wav");
    CHECK_NOT_STARTED(sh(ALONE "--input-dir in --pattern '*'"),
                      "gpu-dispatch: in/a.mp3 and in/a.wav would both be written to data/outputs/a.txt: use "
                      "--full-names to give each its own name");
    CHECK_EQ(sh("test -e data").status, 1);
    CHECK_EQ(sh(ALONE "--input-dir in --pattern '*' --full-names").status, 0);
    CHECK_STR(sh("ls data/outputs").out, "a.mp3.txt\na.wav.txt\n");
    CHECK_NOT_STARTED(sh(ALONE "in/a.wav x/a.wav"),
                      "gpu-dispatch: in/a.wav and x/a.wav would both be written to data/outputs/a.txt: give the "
                      "directory that contains them as --input-dir with --recursive, or transcribe them separately");
    /* However long the names are, the message says what to do. */
    char directory[1001] = "", name[1100];
    for (size_t n = 0; n + 101 < sizeof directory; n += 101)
        snprintf(directory + n, sizeof directory - n, "%0100d/", 0);
    snprintf(name, sizeof name, "%sa.wav", directory);
    wav(name, 1);
    snprintf(name, sizeof name, "%sa.mp3", directory);
    wav(name, 1);
    CHECK_CONTAINS(sh(ALONE "--input-dir %s --pattern '*'", directory).err,
                   "use --full-names to give each its own name\n");
}

TEST(no_files)
{
    WAVS("in/x/a.wav", "mp/b.mp3", "mp/b.flac");
    CHECK_NOT_STARTED(sh(ALONE "--input-dir in"),
                      "gpu-dispatch: no file in in matches *.wav (subdirectories are searched only with --recursive)");
    CHECK_NOT_STARTED(
        sh(ALONE "--input-dir in -r --pattern '*.ogg' --pattern '*.aac'"),
        "gpu-dispatch: no file in in matches *.ogg or *.aac; for the other audio files there, use --pattern '*.wav'");
    CHECK_NOT_STARTED(sh(ALONE "mp"), "gpu-dispatch: no file in mp matches *.wav (subdirectories are searched only "
                                      "with --recursive); for the other audio files there, use --pattern '*.mp3'");
    struct ran r = sh(ALONE "--input-dir nowhere");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "nowhere");
    CHECK_NOT_STARTED(sh(ALONE "nowhere.wav"), "gpu-dispatch: cannot read nowhere.wav: No such file or directory");
    CHECK_NOT_STARTED(sh("mkfifo p; " ALONE "p"), "gpu-dispatch: p is neither a file nor a directory");
    CHECK_EQ(sh("test -e data").status, 1);
}

TEST(invalid_command_lines)
{
    static const struct {
        const char *words, *error;
    } cases[] = {
        { "", "give the directory with the audio files: --input-dir DIR" },
        { "--input-dir ''", "--input-dir needs the name of a directory: --input-dir DIR" },
        { "in --output-dir ''", "--output-dir needs the name of a directory: --output-dir DIR" },
        { "in --model-size ''", "--model-size needs a size, as in --model-size base" },
        { "in --model x --model-size base", "--model and --model-size cannot be combined: give one of them" },
        { "in --model ./x --model-dir y",
          "--model-dir and --model cannot be combined: --model already names the file" },
        { "in --retry-failed", "--retry-failed needs a journal: give --journal FILE. Without a journal, use --resume "
                               "alone: it runs the files that have no output" },
        { "in --force-resume", "--force-resume needs a journal: give --journal FILE" },
        { "in --sync full", "--sync is for a journal: give --journal FILE" },
        { "in --sync often", "--sync takes normal or full, not \"often\"" },
        { "in --dry-run --journal j", "--dry-run runs nothing, so there is nothing to record: leave out --journal" },
        { "in --journal ''", "--journal needs the name of a file: --journal FILE" },
        { "in --http-token-file x", "--http-token-file is for --http: give --http too" },
        { "in --word-timestamps", "--word-timestamps are written only to json: give --format json too" },
        { "in --format txt,json --highlight-words",
          "--max-line-width, --max-line-count, --max-words-per-line and --highlight-words are for subtitles: give "
          "--format srt or --format vtt too" },
        { "in --format srt --max-line-count 2",
          "--max-line-count needs the width of a line: give --max-line-width too" },
        { "in --format vtt --highlight-words --without-timestamps",
          "the layout of subtitles needs the times of words: leave out --without-timestamps" },
        { "in --format vtt --max-line-width 20 --max-words-per-line 2",
          "--max-words-per-line and --max-line-width cannot be combined: give one of them" },
        { "in --diarize voices", "--diarize takes channels (each channel of a file is a speaker), not \"voices\"" },
        { "in --temperature 1.5", "--temperature takes a number from 0 to 1, not \"1.5\"" },
        { "in --temperature -1", "--temperature takes a number from 0 to 1, not \"-1\"" },
        { "in --temperature nan", "--temperature takes a number from 0 to 1, not \"nan\"" },
        { "in --temperature 0.5x", "--temperature takes a number from 0 to 1, not \"0.5x\"" },
        { "in --language e2", "--language takes a language, as in en or german, or auto, not \"e2\"" },
        { "in --langauge en", "unknown option --langauge: did you mean --language?" },
        { "in -x", "unknown option -x: see gpu-dispatch transcribe --help" },
        { "in --model", "option --model needs a value: --model FILE" },
        { "in --input-base http://h", "--input-base is for a queue: give --queue nats://HOST/NAME too" },
        { "in --queue nats://h/q",
          "with --queue the tasks come from the queue: add inputs with gpu-dispatch push --queue "
          "URL, and give none here" },
        { "--queue nats://h/q --resume",
          "--resume is not possible with --queue: the queue knows which files are done" },
        { "--queue nats://h/q --dry-run", "--dry-run is not possible with --queue: the queue has the list of files" },
        { "--queue nats://h/q --input-base ftp://h", "the address of the inputs must begin with http:// or https://" },
        { "in -j auto", "-j auto needs the device memory of one worker, as in -j auto:6G" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ran r = sh("mkdir -p in; gpu-dispatch transcribe %s", cases[i].words);
        char expected[512];
        snprintf(expected, sizeof expected, "gpu-dispatch: %s\n", cases[i].error);
        CHECK_STR(r.err, expected);
        CHECK_EQ(r.status, 1);
    }
    CHECK_EQ(sh("gpu-dispatch transcribe in --format odt; test $? = 1").status, 0);
    CHECK_EQ(sh("gpu-dispatch transcribe in --beam-size 9; test $? = 1").status, 0);
    CHECK_EQ(sh("gpu-dispatch transcribe in --threads 0; test $? = 1").status, 0);
}

TEST(no_worker)
{
    wav("in/a.wav", 1);
    CHECK_NOT_STARTED(
        sh("GPU_DISPATCH_TRANSCRIBER=/none/t.so " ON "--input-dir in"),
        "gpu-dispatch: GPU_DISPATCH_TRANSCRIBER is /none/t.so, which cannot be read: No such file or directory");
    /* A copy of the command elsewhere finds no worker next to it, unless one is installed. */
    struct ran r = sh("mkdir bin; cp $GD_COMMAND_DIR/gpu-dispatch bin/; bin/gpu-dispatch transcribe --gpus sim:1 " MODEL
                      "--input-dir in");
    if (r.status == 0)
        SKIP("a transcription worker is installed");
    CHECK_EQ(r.status, 1);
    CHECK_EQ(count_lines(r.err), 3);
    CHECK_CONTAINS(r.err, "the transcription worker (transcribe.so) was not found");
    CHECK_CONTAINS(r.err, "`make transcribe`");
    CHECK_CONTAINS(r.err, "GPU_DISPATCH_TRANSCRIBER=/path/to/transcribe.so\n");
}

TEST(where_the_worker_is_searched_for)
{
    wav("in/a.wav", 1);
    const char *run = "bin/gpu-dispatch transcribe --quiet --gpus sim:1 " MODEL "--input-dir in";
    static const char *const places[] = { "bin/apps/transcribe", "libexec/gpu_dispatch", "bin" };
    CHECK_EQ(sh("mkdir bin; cp $GD_COMMAND_DIR/gpu-dispatch bin/").status, 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        CHECK_PRINTS(
            sh("mkdir -p %s; cp $GD_TEST_PLUGINS/plugin_transcribe.so %s/transcribe.so; %s; rm %s/transcribe.so",
               places[i], places[i], run, places[i]),
            "");
        CHECK_STR(ran(), "in/a.wav ");
    }
    CHECK_PRINTS(sh("cp $GD_TEST_PLUGINS/plugin_transcribe.so t.so; GPU_DISPATCH_TRANSCRIBER=t.so %s", run), "");
}

TEST(files_that_are_not_models)
{
    wav("in/a.wav", 1);
    struct ran r = sh(STANDIN "HOME=$PWD gpu-dispatch transcribe --gpus sim:1 --input-dir in --model-size small");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "small");
    r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 --input-dir in --model none.bin");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "none.bin");
    r = sh("head -c 1000000 $GD_SOURCE_ROOT/models/ggml-demo.bin > cut.bin; " STANDIN
           "gpu-dispatch transcribe --gpus sim:1 --input-dir in --model cut.bin");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "cut.bin");
    r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 --input-dir in --model in/a.wav");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "in/a.wav");
    r = sh(ALONE "--input-dir in --vad none.bin");
    CHECK_STR(r.err, "gpu-dispatch: --vad none.bin cannot be read: No such file or directory\n");
    r = sh("mkfifo pipe; " ALONE "--input-dir in --vad pipe");
    CHECK_STR(r.err, "gpu-dispatch: --vad pipe is not a regular file: give the file of a VAD model\n");
    CHECK_STR(ran(), "");
    CHECK_EQ(sh("test -e data").status, 1);
}

TEST(an_english_only_model)
{
    wav("in/a.wav", 1);
    CHECK_NOT_STARTED(
        sh(ALONE "--input-dir in --language de"),
        "gpu-dispatch: model demo supports only English: leave out --language de, or use a model without .en");
    CHECK_NOT_STARTED(sh(ALONE "--input-dir in --translate"),
                      "gpu-dispatch: model demo supports only English and cannot translate: use one without .en, as in "
                      "--model-size small");
    CHECK_EQ(sh(ALONE "--input-dir in --language English").status, 0);
}

TEST(devices_that_do_not_exist)
{
    wav("in/a.wav", 1);
    struct ran r = sh(STANDIN "gpu-dispatch transcribe " MODEL "--input-dir in");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "gpu-dispatch: --gpus auto: ");
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_STR(ran(), "");
    CHECK_EQ(sh(STANDIN "gpu-dispatch transcribe --quiet " MODEL "--input-dir in --no-gpu").status, 0);
    CHECK_STR(ran(), "in/a.wav ");
}

TEST(an_output_directory_that_cannot_be_made)
{
    wav("in/a.wav", 1);
    struct ran r = sh("touch file; " ALONE "--input-dir in --output-dir file");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "file");
    r = sh(ALONE "--input-dir in --output-dir /proc/nothing");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "/proc/nothing");
    if (geteuid() != 0) {
        r = sh("mkdir closed; chmod 555 closed; " ALONE "--input-dir in --output-dir closed");
        CHECK_EQ(r.status, 1);
        CHECK_CONTAINS(r.err, "closed");
    }
    CHECK_STR(ran(), "");
}

/* --- the worker's settings ---------------------------------------------------------------------- */

/* The settings that a worker got, as a JSON text within a JSON text. */
static char *settings(const char *words)
{
    struct ran r = sh(ALONE "--input-dir in --output - %s", words);
    CHECK_STR(r.err, "");
    return r.out;
}

TEST(every_option_reaches_the_worker)
{
    static const struct {
        const char *words, *setting;
    } cases[] = {
        { "", "\"beam_size=0\\n" },
        { "--beam-size 5", "beam_size=5" },
        { "", "formats=txt\\n" },
        { "--format srt,vtt,json", "formats=srt,vtt,json\\n" },
        { "", "full_names=no" },
        { "--full-names", "full_names=yes" },
        { "", "input_dir=in\\n" },
        { "", "language=\\n" },
        { "--language en", "language=en\\n" },
        { "--language auto", "language=\\n" },
        { "", "/models/ggml-demo.bin\\n" },
        { "", "model_name=demo\\n" },
        { "", "no_gpu=yes" },
        { "", "output_dir=data/outputs\\n" },
        { "--output-dir else", "output_dir=else\\n" },
        { "--prompt 'One, two'", "prompt=One, two\\n" },
        { "--prompt $'a\\nb\\\\c'", "prompt=a\\\\nb\\\\\\\\c\\n" },
        { "", "sync=no" },
        { "--temperature 0.25", "temperature=0.25" },
        { "", "temperature=0.0" },
        { "", "threads=0\\n" },
        { "--threads 3", "threads=3\\n" },
        { "", "translate=no" },
        { "", "vad_model=\\n" },
        { "--vad in/a.wav", "vad_model=in/a.wav\\n" },
        { "", "word_timestamps=no" },
        { "--word-timestamps --format json", "word_timestamps=yes" },
        { "--format srt --max-line-width 42 --max-line-count 2", "max_line_count=2\\nmax_line_width=42\\n" },
        { "--format vtt --max-words-per-line 3", "max_words_per_line=3\\n" },
        { "--format vtt --highlight-words", "highlight_words=yes\\n" },
        { "--format vtt --highlight-words", "word_timestamps=yes\\n" },
        { "--format srt --word-timestamps --max-line-width 9", "word_timestamps=yes\\n" },
        { "--diarize channels", "diarize_channels=yes\\n" },
        { "", "workers=1\\n" },
        { "--gpus sim:3 -j 2", "workers=6\\n" },
        { "--gpus cpu:2", "no_gpu=yes" },
        { "--gpus cpu:2", "workers=2\\n" },
    };
    wav("in/a.wav", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = settings(cases[i].words);
        if (!strstr(text, cases[i].setting))
            FAIL("%s: no %s in %s", cases[i].words, cases[i].setting, text);
    }
}

/* The files of these tests have one channel. */
TEST(diarizing_files_with_one_channel)
{
    wav("in/a.wav", 1), wav("in/b.wav", 1);
    const char *run = STANDIN "gpu-dispatch transcribe --gpus sim:1 " MODEL "--input-dir in";
    CHECK_CONTAINS(sh("%s --diarize channels", run).err,
                   "gpu-dispatch: warning: 2 of 2 files have only one channel: with --diarize channels, everything in "
                   "it is one speaker\n");
    CHECK(!strstr(sh("%s", run).err, "channel"));
    CHECK(!strstr(sh("%s --diarize channels --quiet", run).err, "channel"));
    CHECK_EQ(sh("rm in/b.wav").status, 0);
    CHECK_CONTAINS(sh("%s --diarize channels", run).err, "warning: 1 of 1 file has only one channel: ");
}

TEST(the_options_of_a_journal_reach_the_worker)
{
    need_journal();
    wav("in/a.wav", 1);
    CHECK_CONTAINS(settings("--journal j --sync normal"), "sync=no");
    CHECK_CONTAINS(settings("--journal k --sync full"), "sync=yes");
}

TEST(real_gpus_are_used)
{
    wav("in/a.wav", 1);
    const char *fake = "GPU_DISPATCH_NVML=$GD_TEST_PLUGINS/fake_nvml.so ";
    struct ran r = sh(STANDIN "%s gpu-dispatch transcribe --quiet " MODEL "--input-dir in --output -", fake);
    CHECK_STR(r.err, "");
    CHECK_CONTAINS(r.out, "no_gpu=no\\n");
    r = sh(STANDIN "%s gpu-dispatch transcribe --quiet " MODEL "--input-dir in --output - --gpus 0 --no-gpu", fake);
    CHECK_CONTAINS(r.out, "no_gpu=yes\\n");
}

/* --- messages ----------------------------------------------------------------------------------- */

TEST(the_beginning_and_the_summary)
{
    wav("in/a.wav", 120), wav("in/b.wav", 30), wav("in/bad.wav", 10), wav("in/c.wav", 3);
    struct ran r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:2 " MODEL "--input-dir in");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 4 files, 2m43s of audio\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: model demo on 2 simulated GPUs; text goes to data/outputs\n");
    CHECK_CONTAINS(r.err, "GPU  files  failed ");
    CHECK_CONTAINS(r.err, "RTF\n");
    CHECK_CONTAINS(r.err, "\nall      4       1 ");
    CHECK_CONTAINS(r.err, "2m33s of audio in ");
    CHECK_CONTAINS(r.err, "speed-up ");
    CHECK_CONTAINS(r.err, "1 failed: 1 error\n  in/bad.wav: bad.wav is no audio\n");
    for (const char *line = r.err, *end; *line; line = end + 1) {
        end = strchrnul(line, '\n');
        CHECK_LE(end - line, 80);
        if (!*end)
            break;
    }
}

TEST(quiet_runs_report_failures_only)
{
    WAVS("in/a.wav", "in/bad.wav");
    struct ran r = sh(ALONE "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: task \"in/bad.wav\": bad.wav is no audio\n");
    CHECK_STR(r.out, "");
    CHECK_EQ(r.status, 1);
}

/* If the machine is too busy to do even the good files in time, the limit is raised. */
TEST(one_bad_file_is_one_failure)
{
    WAVS("in/a.wav", "in/bad1.wav", "in/b.wav", "in/crash.wav", "in/hang.wav", "in/c.wav");
    struct ran r;
    int timeout_s = 1;
    do {
        r = sh("rm -rf data failed out; " STANDIN "gpu-dispatch transcribe --gpus sim:2 --progress none " MODEL
               "--input-dir in --timeout %ds --failed failed --output out",
               timeout_s);
        timeout_s *= 2;
    } while (sh("grep '\"failure\":\"timeout\"' failed | grep -v hang.wav").status == 0);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "3 failed: 1 error, 1 timeout, 1 crash\n");
    CHECK_STR(sh("ls data/outputs; grep -c . failed; grep -c '\"status\":\"ok\"' out").out,
              "a.txt\nb.txt\nc.txt\n3\n3\n");
}

TEST(parts_of_killed_workers_do_not_stay)
{
    WAVS("in/part.wav", "in/a.wav");
    CHECK_EQ(sh(ALONE "--input-dir in --output-dir o").status, 1);
    CHECK_STR(sh("ls -A o").out, "a.txt\n");
}

TEST(a_worker_that_cannot_be_set_up)
{
    WAVS("in/a.wav", "in/b.wav");
    struct ran r = sh("export STANDIN_NO_SETUP=1; " ALONE "--input-dir in");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "no such setup");
    CHECK_STR(ran(), "");
}

TEST(a_file_that_kills_its_worker_has_three_attempts)
{
    WAVS("in/crash.wav", "in/a.wav");
    CHECK_EQ(sh(ALONE "--input-dir in").status, 1);
    CHECK_STR(sh("grep -c crash ran; grep -c a.wav ran").out, "3\n1\n");
}

TEST(the_page_and_other_displays)
{
    wav("in/a.wav", 1);
    struct ran r = sh(STANDIN ON "--input-dir in --progress json");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "transcribe in");
    r = sh(STANDIN ON "--input-dir in --verbose --progress none");
    CHECK_CONTAINS(r.err, "worker 0: GPU 0");
}

/* --- progress --------------------------------------------------------------------------------------- */

/* The last line of --progress json: how much audio is done, and the total. */
static char *work_of(const char *options)
{
    struct ran r = sh(STANDIN ON "--input-dir in --progress json %s 2>&1 | tail -n 1 | "
                                 "grep -o '\"work_done\":[0-9.]*,\"work_total\":[0-9.]*'",
                      options);
    return r.out;
}

/* Failed files have ended, too. Files without a header count by their size. */
TEST(audio_is_counted_as_work)
{
    wav("in/a.wav", 5), wav("in/b.wav", 60), wav("in/bad.wav", 7);
    CHECK_EQ(sh("truncate -s 80000 in/five.wav").status, 0);
    CHECK_STR(work_of(""), "\"work_done\":77.000,\"work_total\":77.000\n");
}

TEST(work_done_before_is_not_counted)
{
    WAVS("in/a.wav", "in/b.wav", "in/c.wav");
    CHECK_EQ(sh(ALONE "in/b.wav").status, 0);
    CHECK_STR(work_of("--resume"), "\"work_done\":4.000,\"work_total\":4.000\n");
}

/* The journal recognises done files while the list is read. */
TEST(work_that_a_journal_skips_is_not_counted)
{
    need_journal();
    wav("in/b.wav", 2), wav("in/d.wav", 4), wav("in/bad.wav", 5);
    CHECK_EQ(sh(ALONE "--input-dir in --journal j.db").status, 1);
    wav("in/a.wav", 1), wav("in/c.wav", 3);
    CHECK_STR(work_of("--resume --journal j.db"), "\"work_done\":4.000,\"work_total\":4.000\n");
    CHECK_STR(work_of("--retry-failed --journal j.db"), "\"work_done\":5.000,\"work_total\":5.000\n");
    wav("in/e.wav", 9);
    CHECK_STR(work_of("--resume --retry-failed --journal j.db"), "\"work_done\":14.000,\"work_total\":14.000\n");
    CHECK_EQ(sh("rm in/bad.wav").status, 0);
    CHECK_STR(work_of("--resume --journal j.db"), ""); /* no work is left */
}

TEST(an_unreadable_directory_is_reported)
{
    if (geteuid() == 0)
        SKIP("root may read everything");
    WAVS("in/a.wav", "in/x/b.wav");
    struct ran r = sh("chmod 0 in/x; " ALONE "--input-dir in -r; s=$?; chmod 700 in/x; exit $s");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "cannot read in/x");
    CHECK_STR(ran(), "in/a.wav ");
}

/* --- resuming --------------------------------------------------------------------------------------- */

TEST(files_with_an_output_are_skipped)
{
    WAVS("in/a.wav", "in/b.wav", "in/bad.wav");
    CHECK_EQ(sh(ALONE "--input-dir in").status, 1);
    (void)ran();
    wav("in/c.wav", 9);
    CHECK_EQ(sh(ALONE "--input-dir in --resume").status, 1);
    CHECK_STR(ran(), "in/c.wav in/bad.wav ");
    CHECK_EQ(sh("rm in/bad.wav data/outputs/a.txt; " ALONE "--input-dir in --resume").status, 0);
    CHECK_STR(ran(), "in/a.wav ");
    struct ran r = sh(STANDIN ON "--input-dir in --resume");
    CHECK_STR(r.err, "gpu-dispatch: all 3 files already have their text in data/outputs: nothing to do\n");
    CHECK_STR(sh(STANDIN ON "--resume in/a.wav").err,
              "gpu-dispatch: the file already has its text in data/outputs: nothing to do\n");
    CHECK_EQ(r.status, 0);
    CHECK_PRINTS(sh(ALONE "--input-dir in --resume"), "");
    CHECK_STR(ran(), "");
    /* Another format is another output. A file that is newer than its output is done again. */
    CHECK_EQ(sh(ALONE "--input-dir in --resume --format txt,srt").status, 0);
    CHECK_STR(ran(), "in/c.wav in/b.wav in/a.wav ");
    CHECK_EQ(sh("touch -d '+1 hour' in/b.wav; " ALONE "--input-dir in --resume").status, 0);
    CHECK_STR(ran(), "in/b.wav ");
    /* Without the option all files are done again. */
    CHECK_EQ(sh(ALONE "--input-dir in").status, 0);
    CHECK_STR(ran(), "in/c.wav in/b.wav in/a.wav ");
}

TEST(the_first_message_says_what_was_done_before)
{
    WAVS("in/a.wav", "in/b.wav", "in/c.wav");
    CHECK_EQ(sh(ALONE "in/a.wav in/b.wav").status, 0);
    struct ran r = sh(STANDIN ON "--input-dir in --resume --progress none");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 1 file, 3.0s of audio; 2 done before\n");
}

TEST(journals)
{
    need_journal();
    const char *run = ALONE "--input-dir in --journal j.db --output out ";
    WAVS("in/a.wav", "in/once.wav", "in/b.wav");
    CHECK_EQ(sh("%s", run).status, 1);
    CHECK_STR(ran(), "in/b.wav in/once.wav in/a.wav ");
    wav("in/c.wav", 8);
    /* A failure is final. The journal does not check whether an output still exists. */
    CHECK_EQ(sh("rm data/outputs/a.txt; %s --resume", run).status, 1);
    CHECK_STR(ran(), "in/c.wav ");
    CHECK_EQ(sh("touch mended; %s --retry-failed", run).status, 0);
    CHECK_STR(ran(), "in/once.wav ");
    CHECK_EQ(sh("touch -d '2001-02-03' in/b.wav; %s --resume", run).status, 0);
    CHECK_STR(ran(), "in/b.wav ");
    CHECK_EQ(sh("%s --resume --threads 2 --gpus sim:2 -j 2", run).status, 0); /* the same work */
    CHECK_STR(ran(), "");
    CHECK_STR(sh("wc -l < out; gpu-dispatch status j.db | grep -cx 'gpu-dispatch transcribe --input-dir in "
                 "--model-size demo'")
                  .out,
              "4\n1\n");
}

TEST(journals_of_other_work_are_refused)
{
    need_journal();
    const char *run = ALONE "--input-dir in --journal j.db --resume ";
    wav("in/a.wav", 1);
    CHECK_EQ(sh("%s", run).status, 0);
    (void)ran();
    static const char *const others[] = { "--language en", "--format srt", "--output-dir else", "--beam-size 3",
                                          "--prompt x",    "--full-names", "--temperature 0.5" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct ran r = sh("%s %s", run, others[i]);
        CHECK_EQ(r.status, 1);
        CHECK_CONTAINS(r.err, "--force-resume");
    }
    struct ran r = sh(ALONE "--input-dir in --journal j.db");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "--resume");
    CHECK_STR(ran(), "");
    CHECK_EQ(sh("%s --language en --force-resume", run).status, 0);
}

/* A FIFO in the case's directory, open for reading and writing: writers do not block, and readers see no end of file.
 */
static int fifo(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    CHECK_EQ(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void await_line(int fd)
{
    char c = 0;
    while (c != '\n')
        CHECK_EQ(read(fd, &c, 1), 1);
}

/* A run that has reached wait.wav. Its pid is that of the command itself. */
struct waiting {
    struct sh_running running;
    int began, gate, said;
};

static struct waiting start(const char *more)
{
    struct waiting w = { .began = fifo("began"), .gate = fifo("gate"), .said = fifo("said") };
    char script[1024];
    snprintf(script, sizeof script, STANDIN "exec " ON "--quiet --input-dir in %s 2> said", more);
    w.running = sh_start_script(script);
    await_line(w.began);
    return w;
}

static void pass(const struct waiting *w)
{
    CHECK_EQ(write(w->gate, "x", 1), 1);
}

/* How often each file was run. */
static char *tally(const char *first, const char *then)
{
    return sh("printf '%%s' '%s%s' | tr ' ' '\\n' | sort | uniq -c | sed 's/^ *//'", first, then).out;
}

/* The first Ctrl-C lets the running file finish. */
static void interrupt(const char *more)
{
    WAVS("in/a.wav", "in/b.wav", "in/wait.wav", "in/c.wav");
    struct waiting w = start(more);
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    await_line(w.said);
    pass(&w);
    CHECK_EQ(sh_wait(w.running).status, 130);
    CHECK_EQ(sh("test -e data/outputs/wait.txt").status, 0);
    const char *first = ran();
    CHECK_EQ(sh(ALONE "--input-dir in --resume %s", more).status, 0);
    CHECK_STR(tally(first, ran()), "1 in/a.wav\n1 in/b.wav\n1 in/c.wav\n1 in/wait.wav\n");
    CHECK_STR(sh("ls data/outputs").out, "a.txt\nb.txt\nc.txt\nwait.txt\n");
}

/* What `top` shows, as soon as it contains this text. */
static char *seen(const char *options, const char *words)
{
    char *out;
    do
        out = sh("gpu-dispatch top --once %s 2>&1", options).out;
    while (!strstr(out, words));
    return out;
}

static void have_own_jobs(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/jobs", sh_dir());
    setenv("GPU_DISPATCH_JOBS", path, 1);
}

/* The two longest of four files are done. That is most of the audio. */
TEST(views_show_the_progress_of_the_audio)
{
    have_own_jobs();
    wav("in/long.wav", 75), wav("in/longer.wav", 15), wav("in/wait.wav", 6), wav("in/y.wav", 4);
    struct waiting w = start("");
    const char *text = seen("", "2 of 4 tasks, 90.0 % of the work");
    CHECK_CONTAINS(text, "\n#######################################################################........\n");
    CHECK_CONTAINS(seen("--json", "wait.wav"), "\"work_done\":90.000,\"work_total\":100.000");
    pass(&w);
    CHECK_EQ(sh_wait(w.running).status, 0);
}

/* One file is done, and half of the other. */
TEST(views_show_the_progress_inside_a_file)
{
    have_own_jobs();
    wav("in/long.wav", 80), wav("in/half.wav", 20);
    struct waiting w = start("--output out --http 127.0.0.1:0");
    seen("", "1 of 2 tasks, 90.0 % of the work");
    CHECK_CONTAINS(seen("--json", "half.wav"), "\"work_done\":90.000,\"work_total\":100.000");
    pass(&w);
    CHECK_EQ(sh_wait(w.running).status, 0);
    CHECK_STR(sh("grep -c . out; grep -c audio_done out; ls data/outputs").out, "2\n0\nhalf.txt\nlong.txt\n");
}

/* What was done of a cancelled file is lost. */
TEST(the_progress_of_a_cancelled_file_is_taken_back)
{
    have_own_jobs();
    wav("in/long.wav", 80), wav("in/half.wav", 20);
    struct waiting w = start("");
    seen("", "90.0 % of the work");
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    await_line(w.said);
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(w.running).status, 130);
    CHECK_STR(sh("ls data/outputs").out, "long.txt\n");
}

TEST(cancelled_files_are_not_done)
{
    have_own_jobs();
    wav("in/long.wav", 80), wav("in/wait.wav", 10), wav("in/x.wav", 6), wav("in/y.wav", 4);
    struct waiting w = start("");
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    CHECK_CONTAINS(seen("--json", "\"cancelled\":2"), "\"work_done\":80.000,\"work_total\":100.000");
    pass(&w);
    CHECK_EQ(sh_wait(w.running).status, 130);
}

/* The path of the directory is longer than the space for it on the screen. */
TEST(a_long_path_is_shown_by_its_end)
{
    have_own_jobs();
    wav("in/of-a-company-with-a-very-long-name-indeed/a day in spring-that-was-recorded-from-the-morning/wait.wav", 5);
    struct waiting w = start("-r");
    CHECK_CONTAINS(seen("--json", "processing"), "\"input\":\"\xe2\x80\xa6"
                                                 "any-with-a-very-long-name-indeed/a day in "
                                                 "spring-that-was-recorded-from-the-morning/wait.wav\"");
    CHECK_CONTAINS(seen("", "processing"), "the-morning/wait.wav ");
    pass(&w);
    CHECK_EQ(sh_wait(w.running).status, 0);
}

TEST(interrupted_and_resumed)
{
    interrupt("");
}

TEST(interrupted_and_resumed_with_a_journal)
{
    need_journal();
    interrupt("--journal j.db");
}

/* The second Ctrl-C ends the running file. */
TEST(interrupted_twice)
{
    WAVS("in/a.wav", "in/wait.wav");
    struct waiting w = start("");
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    await_line(w.said);
    CHECK_EQ(kill(w.running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(w.running).status, 130);
    CHECK_STR(sh("ls data/outputs").out, "");
}

/* Kills the run. Then only the file that was running is run again. */
static void kill_and_resume(const char *more, const char *until)
{
    WAVS("in/a.wav", "in/b.wav", "in/wait.wav", "in/c.wav", "in/d.wav");
    struct waiting w = start(more);
    CHECK_EQ(sh("%s", until).status, 0);
    const int worker = atoi(sh("cat /proc/%d/task/*/children", (int)w.running.pid).out);
    CHECK_GT(worker, 0);
    CHECK_EQ(kill(w.running.pid, SIGKILL), 0);
    CHECK_EQ(sh_wait(w.running).status, 137);
    CHECK_STR(sh("ls data/outputs").out, "c.txt\nd.txt\n");
    CHECK_STR(ran(), "in/d.wav in/c.wav in/wait.wav ");
    /* Waits until its worker is dead too. Otherwise it might read a byte that is meant for the next worker. */
    sh("while grep -q '^State:.[RSD]' /proc/%d/status 2> /dev/null; do :; done", worker);
    pass(&w);
    CHECK_PRINTS(sh(ALONE "--input-dir in --resume %s", more), "");
    CHECK_STR(ran(), "in/wait.wav in/b.wav in/a.wav ");
    CHECK_STR(sh("ls data/outputs").out, "a.txt\nb.txt\nc.txt\nd.txt\nwait.txt\n");
}

TEST(killed_and_resumed)
{
    kill_and_resume("", "true");
}

TEST(killed_and_resumed_with_a_journal)
{
    need_journal();
    kill_and_resume("--journal j.db", "until gpu-dispatch status j.db --json | grep -q '\"done\":2,'; do :; done");
}

/* --- launcher_multigpu ------------------------------------------------------------------------------ */

TEST(the_launcher)
{
    WAVS("in/a.wav", "in/bad.wav");
    struct ran r = sh(STANDIN "launcher_multigpu --input-dir in --gpus sim:2 " MODEL
                              "--language en --pattern '*.wav' --output-dir o");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "launcher_multigpu: 2 files, 3.0s of audio\n");
    CHECK_CONTAINS(r.err, "launcher_multigpu: task \"in/bad.wav\": bad.wav is no audio\n");
    CHECK(!strstr(r.err, "gpu-dispatch"));
    CHECK_STR(sh("ls o").out, "a.txt\n");
    CHECK_EQ(sh("rm in/bad.wav; " STANDIN "launcher_multigpu --input-dir in --gpus sim:2 " MODEL).status, 0);
}

TEST(the_launcher_by_any_path)
{
    CHECK_NOT_STARTED(sh("$GD_COMMAND_DIR/launcher_multigpu"),
                      "launcher_multigpu: give the directory with the audio files: --input-dir DIR");
    CHECK_NOT_STARTED(sh("ln -s $GD_COMMAND_DIR/gpu-dispatch launcher_multigpu; ./launcher_multigpu -y"),
                      "launcher_multigpu: unknown option -y: see launcher_multigpu --help");
}

TEST(the_help_of_the_launcher)
{
    struct ran r = sh("launcher_multigpu --help");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "usage: launcher_multigpu [OPTIONS] --input-dir DIR\n");
    CHECK_CONTAINS(r.out, "launcher_multigpu --input-dir data/audio --gpus 0,1,2 --model-size large-v3\n");
    CHECK_STR(sh("launcher_multigpu --help | awk 'length > 80'").out, "");
    CHECK_STR(sh("launcher_multigpu --list-options").out, sh("gpu-dispatch transcribe --list-options").out);
}

/* --- the real worker, where it was built -------------------------------------------------------------- */

static void need_worker(void)
{
    if (sh("test -e $GD_COMMAND_DIR/apps/transcribe/transcribe.so").status != 0)
        SKIP("built without whisper.cpp");
}

#define SPEECH "$GD_SOURCE_ROOT/tests/data/speech"

TEST_WITHIN(300, speech_is_transcribed)
{
    need_worker();
    CHECK_EQ(sh("mkdir in; ls " SPEECH "/*.wav " SPEECH "/*.flac 2> err | head -3 | xargs cp -t in; ls in | grep -c .")
                 .status,
             0);
    struct ran r =
        sh("gpu-dispatch transcribe --gpus cpu --model-size demo --model-dir $GD_SOURCE_ROOT/models --input-dir in "
           "--pattern '*' --format all --output out.jsonl");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "RTF");
    CHECK_STR(sh("ls data/outputs | wc -l; wc -l < out.jsonl; find data/outputs -size 0 | wc -l").out, "21\n3\n0\n");
}

TEST_WITHIN(300, a_bad_file_among_good_ones)
{
    need_worker();
    CHECK_EQ(sh("mkdir in; ls " SPEECH "/*.wav " SPEECH
                "/*.flac 2> err | head -1 | xargs cp -t in; echo no audio > in/no.wav; : > "
                "in/empty.wav")
                 .status,
             0);
    struct ran r =
        sh("gpu-dispatch transcribe --gpus cpu --model-size demo --model-dir $GD_SOURCE_ROOT/models --input-dir in "
           "--pattern '*'");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "2 failed: 2 errors\n");
    CHECK_STR(sh("ls data/outputs | wc -l").out, "1\n");
}

TEST_MAIN()
