/* SPDX-License-Identifier: MIT
 *
 * Where models are found, the messages if they are missing, and their checksums.
 */
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/model/published.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "made_model.h"

static struct tr_model model;

/* --- where they are found ------------------------------------------------------------------- */

static const char *const variables[] = { "GPU_DISPATCH_MODELS", "WHISPER_MODEL_DIR", "XDG_CACHE_HOME",
                                         "XDG_DATA_HOME",       "HF_HUB_CACHE",      "HF_HOME" };

/* Makes a directory the only place for models, with its own home directory. */
static void enter(void)
{
    static char home[300];
    directory_enter();
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    snprintf(home, sizeof home, "%s/home", directory_path);
    setenv("HOME", home, 1);
    make_directories("home");
}

/* An empty model named "own", which is not a published one. */
static void make_model(const char *path)
{
    make_file(path, 0);
    begin();
    struct gd__buffer b = build(16);
    write_bytes(path, b.data, b.size);
    gd__buffer_free(&b);
}

/* Makes a model at this path, checks that "own" is found there, and removes it. */
static void is_found_at(const char *path, const char *model_dir)
{
    struct stat a, b;
    make_model(path);
    if (tr_model_find(&model, "own", NULL, model_dir) < 0)
        FAIL("%s: %s", path, gd__fail_text());
    CHECK_EQ(stat(path, &a), 0);
    CHECK_EQ(stat(model.path, &b), 0);
    CHECK_EQ(a.st_ino, b.st_ino);
    CHECK_STR(model.name, "own");
    tr_model_free(&model);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(tr_model_find(&model, "own", NULL, model_dir), -1);
}

TEST(a_model_is_found_in_every_directory)
{
    enter();
    is_found_at("given/ggml-own.bin", "given");
    is_found_at("given/ggml-own.bin", "given/");
    is_found_at("models/ggml-own.bin", NULL);
    is_found_at("models/ggml-own.bin", "given");
    is_found_at("home/.cache/whisper.cpp/ggml-own.bin", NULL);
    is_found_at("home/.cache/whisper/ggml-own.bin", NULL);
    is_found_at("home/.local/share/whisper.cpp/ggml-own.bin", NULL);
#define SNAPSHOT "/models--ggerganov--whisper.cpp/snapshots/5359861c/ggml-own.bin"
    is_found_at("home/.cache/huggingface/hub" SNAPSHOT, NULL);
    setenv("GPU_DISPATCH_MODELS", "mine", 1);
    is_found_at("mine/ggml-own.bin", NULL);
    setenv("WHISPER_MODEL_DIR", "whisper's", 1);
    is_found_at("whisper's/ggml-own.bin", NULL);
    setenv("HF_HUB_CACHE", "hub", 1);
    is_found_at("hub" SNAPSHOT, NULL);
    setenv("HF_HOME", "hf", 1);
    is_found_at("hf/hub" SNAPSHOT, NULL);
    setenv("XDG_CACHE_HOME", "cache", 1);
    is_found_at("cache/whisper.cpp/ggml-own.bin", NULL);
    setenv("XDG_DATA_HOME", "data", 1);
    is_found_at("data/whisper.cpp/ggml-own.bin", NULL);
}

TEST(the_first_place_wins)
{
    static const char *const places[] = { "given",
                                          "mine",
                                          "whispers",
                                          "models",
                                          "home/.cache/whisper.cpp",
                                          "home/.cache/whisper",
                                          "home/.local/share/whisper.cpp" };
    enum { N = sizeof places / sizeof *places };
    char path[100];
    enter();
    setenv("GPU_DISPATCH_MODELS", "mine", 1);
    setenv("WHISPER_MODEL_DIR", "whispers", 1);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "%s/ggml-own.bin", places[i]);
        make_model(path);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(tr_model_find(&model, "own", NULL, "given"), 0);
        snprintf(path, sizeof path, "%s/ggml-own.bin", places[i]);
        CHECK_CONTAINS(model.path, path);
        tr_model_free(&model);
        CHECK_EQ(unlink(path), 0);
    }
}

TEST(snapshots_without_the_file_are_skipped)
{
    enter();
    make_file("home/.cache/huggingface/hub/models--ggerganov--whisper.cpp/snapshots/0000/ggml-base.bin", 3);
    is_found_at("home/.cache/huggingface/hub/models--ggerganov--whisper.cpp/snapshots/1111/ggml-own.bin", NULL);
}

TEST(without_a_home)
{
    enter();
    unsetenv("HOME");
    is_found_at("models/ggml-own.bin", NULL);
    CHECK_EQ(tr_model_find(&model, "base", NULL, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "\n  gpu-dispatch models download base");
}

TEST(by_path)
{
    enter();
    make_model("x.bin");
    CHECK_EQ(tr_model_find(&model, "base", "x.bin", "nowhere"), 0);
    CHECK_STR(model.path, "x.bin");
    CHECK_STR(model.name, "x");
    tr_model_free(&model);
    /* No checksum is required for a file that the user names. */
    make_model("ggml-base.bin");
    CHECK_EQ(tr_model_find(&model, "tiny", "ggml-base.bin", NULL), 0);
    CHECK_STR(model.name, "base");
    tr_model_free(&model);
    CHECK_EQ(tr_model_find(&model, "base", "y.bin", NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "y.bin: the model cannot be opened");
}

TEST(a_missing_model)
{
    enter();
    CHECK_EQ(tr_model_find(&model, "base", NULL, NULL), -1);
    const char *text = gd__fail_text();
    CHECK_CONTAINS(
        text, "the model base (ggml-base.bin) is not on this machine. These places were searched:\n  ./models\n  ");
    CHECK_CONTAINS(text, "/home/.local/share/whisper.cpp\n  ");
    CHECK_CONTAINS(text, "/home/.cache/huggingface/hub/models--ggerganov--whisper.cpp/snapshots\n");
    /* The last line is only the command. */
    CHECK_CONTAINS(text, "\nThis command downloads it:\n");
    CHECK_STR(strrchr(text, '\n'), "\n  gpu-dispatch models download base");
    CHECK(model.path == NULL);
}

/* The command is not cut off, even if there are many places with long names. */
TEST(a_model_missing_in_many_places)
{
    char longest[3000], path[3300];
    enter();
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = i % 100 ? 'n' : '/';
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        snprintf(path, sizeof path, "%s/%zu", longest, i);
        setenv(variables[i], path, 1);
    }
    for (int i = 0; i < 30; i++) {
        snprintf(path, sizeof path, "home/.cache/huggingface/hub/models--ggerganov--whisper.cpp/snapshots/%0200d", i);
        make_directories(path);
    }
    CHECK_EQ(tr_model_find(&model, "base", NULL, "here"), -1);
    CHECK_CONTAINS(gd__fail_text(), "These places were searched:\n  here\n  /nnn");
    CHECK_CONTAINS(gd__fail_text(), " more\nThis command downloads it:\n  ");
    CHECK_STR(strrchr(gd__fail_text(), '\n'), "\n  gpu-dispatch models download base --model-dir here");
}

TEST(the_download_command_names_the_right_directory)
{
    enter();
    setenv("GPU_DISPATCH_MODELS", "/srv/models", 1); /* the command reads the variable too */
    CHECK_EQ(tr_model_find(&model, "tiny.en", NULL, NULL), -1);
    CHECK_STR(strrchr(gd__fail_text(), '\n'), "\n  gpu-dispatch models download tiny.en");
    CHECK_EQ(tr_model_find(&model, "tiny.en", NULL, "it's \"here\" $(now)"), -1);
    CHECK_CONTAINS(gd__fail_text(), "download tiny.en --model-dir 'it'\\''s \"here\" $(now)'");
}

TEST(large_means_large_v3)
{
    enter();
    CHECK_EQ(tr_model_find(&model, "large", NULL, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "ggml-large-v3.bin");
    CHECK_EQ(tr_model_find(&model, "turbo", NULL, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "ggml-large-v3-turbo.bin");
}

static void no_model(const char *size, const char *message)
{
    if (tr_model_find(&model, size, NULL, NULL) == 0)
        FAIL("%s was found", size);
    CHECK_CONTAINS(gd__fail_text(), message);
    CHECK(strstr(gd__fail_text(), "download") == NULL);
}

TEST(unknown_sizes)
{
    enter();
    no_model("bsae", "\"bsae\" is not the size of a model: did you mean base?");
    no_model("large-v4", "did you mean large-v");
    no_model("gigantic", "\"gigantic\" is not the size of a model\nThe sizes are tiny, tiny-q5_1, ");
    no_model("gigantic", "distil-large-v3.5 and demo");
    no_model("", "is not the size");
    no_model("../x", "give a model file with --model");
    no_model("/models/ggml-base.bin", "give a model file with --model");
    no_model("ggml-base.bin", "give a model file with --model");
    no_model("base\n", "is not the size");
    no_model("a-name-that-is-longer-than-any-name-of-a-model-could-ever-be-and-then-some", "is not the size");
}

TEST(a_broken_model)
{
    enter();
    make_file("models/ggml-base.bin", 100);
    CHECK_EQ(tr_model_find(&model, "base", NULL, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "./models/ggml-base.bin: is not a model");
}

/* --- checksums -------------------------------------------------------------------------------- */

static const char *demo_path(void)
{
    static char path[1000];
    const char *root = getenv("GD_SOURCE_ROOT");
    if (!root)
        SKIP("GD_SOURCE_ROOT is not set");
    snprintf(path, sizeof path, "%s/models/ggml-demo.bin", root);
    return path;
}

TEST(the_demo_model)
{
    char dir[1000];
    enter();
    snprintf(dir, sizeof dir, "%s", demo_path());
    *strrchr(dir, '/') = '\0';
    if (tr_model_find(&model, "demo", NULL, dir) < 0)
        FAIL("%s", gd__fail_text());
    CHECK_STR(model.name, "demo");
    CHECK(!model.multilingual);
    CHECK_EQ(model.layers, 8);
    CHECK_EQ(model.mels, 80);
    CHECK_GT(model.bytes, 2000000);
    tr_model_free(&model);
}

/* Makes a copy of the demo model, in which a weight can be changed. */
static void copy_demo(void)
{
    const char *from = demo_path();
    char data[65536];
    size_t n;
    make_directories("models");
    FILE *in = fopen(from, "re"), *out = fopen("models/ggml-demo.bin", "we");
    CHECK(in && out);
    while ((n = fread(data, 1, sizeof data, in)) > 0)
        CHECK_EQ(fwrite(data, 1, n, out), n);
    fclose(in);
    CHECK_EQ(fclose(out), 0);
}

static void change_demo(void)
{
    FILE *f = fopen("models/ggml-demo.bin", "r+e");
    CHECK(f && fseek(f, -1, SEEK_END) == 0);
    const int c = getc(f);
    CHECK_EQ(fseek(f, -1, SEEK_END), 0);
    CHECK(putc(c ^ 1, f) != EOF);
    CHECK_EQ(fclose(f), 0);
}

static void set_time(time_t s, long ns)
{
    const struct timespec times[2] = { { s, ns }, { s, ns } };
    CHECK_EQ(utimensat(AT_FDCWD, "models/ggml-demo.bin", times, 0), 0);
}

static int find_demo(void)
{
    tr_model_free(&model);
    const int result = tr_model_find(&model, "demo", NULL, NULL);
    tr_model_free(&model);
    return result;
}

TEST(a_weight_that_is_wrong)
{
    enter();
    copy_demo();
    CHECK_EQ(find_demo(), 0);
    change_demo();
    CHECK_EQ(find_demo(), -1);
    CHECK_CONTAINS(gd__fail_text(), "models/ggml-demo.bin: is not the model demo: its SHA-1 is ");
    CHECK_CONTAINS(gd__fail_text(), "instead of 954490f54334d843c9ec49e7c34635f4c9465284\n");
    CHECK_CONTAINS(gd__fail_text(), "give its path with --model");
    CHECK_EQ(tr_model_find(&model, NULL, "models/ggml-demo.bin", NULL), 0);
    tr_model_free(&model);
}

TEST(a_wrong_file_with_a_published_name)
{
    enter();
    make_model("models/ggml-base.bin");
    CHECK_EQ(tr_model_find(&model, "base", NULL, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "is not the model base");
    CHECK_CONTAINS(gd__fail_text(),
                   "instead of 465707469ff3a37a2b9b8d8f89f2f99de7299dac\nTo use it anyway, give its path "
                   "with --model; otherwise delete it. This command then downloads it again:\n  "
                   "gpu-dispatch models download base");
    CHECK(model.path == NULL);
}

/* A correct checksum is remembered for that size and time. Then a changed byte is not noticed. */
TEST(correct_checksums_are_remembered)
{
    enter();
    copy_demo();
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0);
    change_demo();
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0);
    set_time(1000, 6);
    CHECK_EQ(find_demo(), -1);
    set_time(1001, 5);
    CHECK_EQ(find_demo(), -1);
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0);
}

/* A correct checksum is also remembered under another name of the same directory, but not for another file. */
TEST(a_checksum_is_remembered_for_one_file)
{
    enter();
    copy_demo();
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0);
    change_demo();
    set_time(1000, 5);
    CHECK_EQ(symlink("models", "other"), 0);
    CHECK_EQ(tr_model_find(&model, "demo", NULL, "other"), 0);
    tr_model_free(&model);
    CHECK_EQ(rename("models", "moved"), 0);
    CHECK_EQ(tr_model_find(&model, "demo", NULL, "moved"), -1);
}

TEST(each_file_has_one_remembered_line)
{
    char text[4000], line[1000];
    enter();
    setenv("XDG_CACHE_HOME", directory_path, 1);
    copy_demo();
    for (int i = 0; i < 3; i++) {
        set_time(1000 + i, 0);
        CHECK_EQ(find_demo(), 0);
    }
    FILE *f = fopen("gpu_dispatch/models.tsv", "re");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    struct stat st;
    CHECK_EQ(stat("models/ggml-demo.bin", &st), 0);
    snprintf(line, sizeof line,
             "954490f54334d843c9ec49e7c34635f4c9465284\t%lld\t1002.000000000\t%s/models/ggml-demo.bin\n",
             (long long)st.st_size, directory_path);
    CHECK_STR(text, line);
}

TEST(a_damaged_list_of_checksums)
{
    static const char *const texts[] = { "", "\n", "x", "\t\t\t\t", "a\tb\tc", "\xff\xfe\n\n\n", "a\tb\tc\td\ne" };
    enter();
    setenv("XDG_CACHE_HOME", directory_path, 1);
    copy_demo();
    make_directories("gpu_dispatch");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_bytes("gpu_dispatch/models.tsv", texts[i], strlen(texts[i]));
        CHECK_EQ(find_demo(), 0);
    }
    make_file("gpu_dispatch/models.tsv", 5 << 20);
    CHECK_EQ(find_demo(), 0);
}

/* The list has a line of another file, with a path of the same length. */
TEST(checksums_of_other_files_stay)
{
    char line[400], text[400] = { 0 };
    enter();
    setenv("XDG_CACHE_HOME", directory_path, 1);
    copy_demo();
    make_directories("gpu_dispatch");
    const int size = snprintf(line, sizeof line, "sum\t1\t2.3\t%s/models/ggml-dem0.bin\n", directory_path);
    write_bytes("gpu_dispatch/models.tsv", line, (size_t)size);
    CHECK_EQ(find_demo(), 0);
    FILE *f = fopen("gpu_dispatch/models.tsv", "re");
    CHECK(f && fread(text, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    CHECK_STR(text, line);
}

TEST(a_line_that_was_cut_off_does_no_harm)
{
    enter();
    setenv("XDG_CACHE_HOME", directory_path, 1);
    copy_demo();
    make_directories("gpu_dispatch");
    write_bytes("gpu_dispatch/models.tsv", "a\tb\tc\td", 7);
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0);
    change_demo();
    set_time(1000, 5);
    CHECK_EQ(find_demo(), 0); /* the checksum is still remembered */
}

TEST(failing_to_remember_is_not_an_error)
{
    enter();
    copy_demo();
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    CHECK_EQ(find_demo(), 0);
    make_file("gpu_dispatch", 1);
    setenv("XDG_CACHE_HOME", directory_path, 1);
    CHECK_EQ(find_demo(), 0);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK_EQ(find_demo(), 0);
}

TEST(names_and_sums_of_published_models)
{
    size_t n;
    const struct tr_published *all = tr_published_all(&n);
    CHECK_EQ(n, 39);
    CHECK_STR(all[n - 1].name, "demo");
    for (size_t i = 0; i < n; i++) {
        const size_t size = strlen(all[i].sum);
        CHECK((size == 40 || size == 64) && strspn(all[i].sum, "0123456789abcdef") == size);
        CHECK(all[i].bytes > 0);
        CHECK(tr_published_find(all[i].name) == &all[i]);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(all[i].sum, all[k].sum) != 0 && strcmp(all[i].name, all[k].name) != 0);
    }
    CHECK_STR(tr_published_find("base")->sum, "465707469ff3a37a2b9b8d8f89f2f99de7299dac");
    CHECK_STR(tr_published_find("large-v3-turbo-q5_0")->sum, "e050f7970618a659205450ad97eb95a18d69c9ee");
    CHECK(tr_published_find("own") == NULL);
    CHECK(tr_published_find("large") == NULL);
}

static void check_address(const char *name, const char *base, const char *expected)
{
    struct gd__buffer b = { 0 };
    tr_published_address(&b, tr_published_find(name), base);
    gd__buffer_add(&b, "", 1);
    CHECK_STR(b.data, expected);
    gd__buffer_free(&b);
}

TEST(addresses_of_published_models)
{
    check_address("base.en", NULL, "https://huggingface.co/ggerganov/whisper.cpp/resolve/main/ggml-base.en.bin");
    check_address("base.en", "http://mirror/models//", "http://mirror/models/ggml-base.en.bin");
    check_address("distil-large-v3.5", NULL,
                  "https://huggingface.co/distil-whisper/distil-large-v3.5-ggml/resolve/main/ggml-model.bin");
    check_address("distil-large-v3.5", "http://mirror", "http://mirror/ggml-distil-large-v3.5.bin");
}

/* --- a name that is a file or a size -------------------------------------------------------- */

TEST(a_size_in_place_of_a_path)
{
    enter();
    make_model("models/ggml-own.bin");
    CHECK_EQ(tr_model_find(&model, "base", "own", NULL), 0);
    CHECK_STR(model.name, "own");
    CHECK_CONTAINS(model.path, "models/ggml-own.bin");
    tr_model_free(&model);
    make_model("given/ggml-other.bin");
    CHECK_EQ(tr_model_find(&model, "base", "other", "given"), 0);
    tr_model_free(&model);
    CHECK_EQ(tr_model_find(&model, "base", "turbo", NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "gpu-dispatch models download large-v3-turbo");
    CHECK_EQ(tr_model_find(&model, "base", "distil-large-v3", NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "gpu-dispatch models download distil-large-v3");
    CHECK_EQ(tr_model_find(&model, "base", "bsae", NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "\"bsae\" is neither a file nor the size of a model: did you mean base?");
}

TEST(a_file_comes_before_a_size)
{
    enter();
    make_model("models/ggml-own.bin");
    make_model("own");
    CHECK_EQ(tr_model_find(&model, "base", "own", NULL), 0);
    CHECK_STR(model.path, "own");
    tr_model_free(&model);
    CHECK_EQ(tr_model_find(&model, "base", "./other", NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "./other: the model cannot be opened");
}

TEST_MAIN()
