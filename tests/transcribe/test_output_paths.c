/* SPDX-License-Identifier: MIT
 *
 * The paths of outputs: mirrored directories, different ways to name a directory, and unusual or long names.
 */
#include <limits.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "output_files.h"

static void no_path(const char *input, const char *message)
{
    struct gd__buffer path = { 0 };
    if (tr_output_path(&path, &places, input, TR_TXT) == 0)
        FAIL("%s was accepted", input);
    CHECK_CONTAINS(gd__fail_text(), message);
    gd__buffer_free(&path);
}

static void is_at(const char *input_dir, const char *input, const char *wanted)
{
    places.input_dir = input_dir;
    CHECK_STR(path_of(input), wanted);
}

TEST(directories_are_mirrored)
{
    CHECK_STR(path_of("in/a.wav"), "out/a.txt");
    CHECK_STR(path_of("in/x/y/a.wav"), "out/x/y/a.txt");
    CHECK_STR(path_of("in/x.y/a"), "out/x.y/a.txt");
}

/* If the directories do not exist, names are enough. */
TEST(directories_that_do_not_exist)
{
    is_at("./nowhere", "nowhere/x/a.wav", "out/x/a.txt");
    is_at("nowhere//", "./nowhere/./x/a.wav", "out/x/a.txt");
}

TEST(ways_to_name_the_input_directory)
{
    directory_enter();
    make_file("in/x/a.wav", 1);
    is_at("in/", "in/x/a.wav", "out/x/a.txt");
    is_at("in///", "in/x/a.wav", "out/x/a.txt");
    is_at("./in", "in/x/a.wav", "out/x/a.txt");
    is_at("in/.", "./in//x/./a.wav", "out/x/a.txt");
    is_at(".", "in/x/a.wav", "out/in/x/a.txt");
    is_at("./", "./in/x/a.wav", "out/in/x/a.txt");
    is_at("in/x/..", "in/x/a.wav", "out/x/a.txt");
    is_at("in/x/../../in", "in/x/../x/a.wav", "out/x/a.txt");
}

TEST(absolute_and_relative)
{
    char input[400], dir[400];
    directory_enter();
    make_file("in/x/a.wav", 1);
    snprintf(input, sizeof input, "%s/in/x/a.wav", directory_path);
    snprintf(dir, sizeof dir, "%s/in/", directory_path);
    is_at(dir, input, "out/x/a.txt");
    is_at("in", input, "out/x/a.txt");
    is_at(".", input, "out/in/x/a.txt");
    is_at(dir, "in/x/a.wav", "out/x/a.txt");
    CHECK_EQ(chdir("in"), 0);
    is_at(dir, "x/a.wav", "out/x/a.txt");
    is_at("../in", "x/a.wav", "out/x/a.txt");
    snprintf(dir, sizeof dir, "out%s/in/x/a.txt", directory_path);
    is_at("/", input, dir);
}

TEST(symbolic_links)
{
    directory_enter();
    make_file("real/x/a.wav", 1);
    make_file("elsewhere/b.wav", 1);
    CHECK_EQ(symlink("real", "in"), 0);
    CHECK_EQ(symlink("../elsewhere", "real/y"), 0);
    CHECK_EQ(symlink("../elsewhere/b.wav", "real/c.wav"), 0);
    is_at("in", "in/x/a.wav", "out/x/a.txt");
    is_at("in", "real/x/a.wav", "out/x/a.txt");
    is_at("real", "in/x/a.wav", "out/x/a.txt");
    is_at("in", "in/y/b.wav", "out/y/b.txt"); /* the path as it was found */
    is_at("in", "real/c.wav", "out/c.txt");   /* the place of the link, not of its target */
}

TEST(files_outside_the_input_directory)
{
    directory_enter();
    make_file("in/a.wav", 1);
    make_file("other/x/b.wav", 1);
    make_file("inn/c.wav", 1);
    is_at("in", "other/x/b.wav", "out/b.txt");
    is_at("in", "inn/c.wav", "out/c.txt");
    is_at("in", "in/../other/x/b.wav", "out/b.txt");
    is_at("in", "/nowhere/at/all/d.wav", "out/d.txt");
    is_at("nowhere", "in/a.wav", "out/a.txt");
    is_at(NULL, "in/a.wav", "out/a.txt");
    is_at(NULL, "a.wav", "out/a.txt");
}

/* No output is outside the output directory. */
TEST(dots_do_not_lead_out)
{
    directory_enter();
    make_directories("in");
    is_at("in", "in/../../../../etc/passwd.wav", "out/passwd.txt");
    is_at(".", "../x.wav", "out/x.txt");
    no_path("in/..", "is a directory");
    no_path("in/.", "is a directory");
    no_path("in/", "is a directory");
    no_path("", "is a directory");
}

TEST(ways_to_name_the_output_directory)
{
    places.output_dir = "out/";
    CHECK_STR(path_of("in/a.wav"), "out/a.txt");
    places.output_dir = "/";
    CHECK_STR(path_of("in/a.wav"), "/a.txt");
    places.output_dir = ".";
    CHECK_STR(path_of("in/a.wav"), "./a.txt");
    places.output_dir = "";
    CHECK_STR(path_of("in/a.wav"), "./a.txt");
}

TEST(extensions)
{
    struct gd__buffer path = { 0 };
    CHECK_STR(path_of("in/a.b.wav"), "out/a.b.txt");
    CHECK_STR(path_of("in/a"), "out/a.txt");
    CHECK_STR(path_of("in/a."), "out/a.txt");
    CHECK_STR(path_of("in/.hidden"), "out/.hidden.txt");
    CHECK_STR(path_of("in/.hidden.wav"), "out/.hidden.txt");
    CHECK_STR(path_of("in/...wav"), "out/...wav.txt");
    places.full_names = true;
    CHECK_STR(path_of("in/a.b.wav"), "out/a.b.wav.txt");
    CHECK_STR(path_of("in/x/.wav"), "out/x/.wav.txt");
    for (int f = 0; f < TR_FORMATS; f++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "out/a.wav.%s", tr_format_name((enum tr_format)f));
        CHECK_EQ(tr_output_path(&path, &places, "in/a.wav", (enum tr_format)f), 0);
        CHECK_STR(path.data, wanted);
    }
    gd__buffer_free(&path);
}

TEST(odd_names)
{
    directory_enter();
    static const char *const names[] = { "in/new\nline.wav",    "in/-rf.wav",  "in/\xff\xfe.wav",    "in/ .wav",
                                         "in/\xe4\xbd\xa0.wav", "in/-/--.wav", "in/a b/'\"$(x).wav", "in/%s%n.wav" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_file(names[i], 1);
        must_write(names[i], "text");
        CHECK_STR(contents(path_of(names[i])), "text\n");
        CHECK(tr_outputs_done(&places, names[i]));
    }
}

/* in/NNNN.wav with a file name of this many bytes */
static const char *long_name(size_t size)
{
    static char path[400] = "in/";
    memset(path + 3, 'n', size);
    snprintf(path + 3 + size - 4, 5, ".wav");
    return path;
}

TEST(names_as_long_as_they_can_be)
{
    directory_enter();
    make_file(long_name(255), 1);
    must_write(long_name(255), "text");
    CHECK_STR(contents(path_of(long_name(255))), "text\n");
    CHECK_EQ(entries_of("out"), 1);
    places.full_names = true;
    must_not_write(long_name(255), "would have 259 bytes, at most 255 are possible");
    CHECK_EQ(entries_of("out"), 1);
}

TEST(errors_are_one_line)
{
    directory_enter();
    make_directories("out/a\nb\x7f.txt");
    must_not_write("in/a\nb\x7f.wav", "out/a?b?.txt: is a directory");
}

/* The name with .txt is short enough, but not the name with .json. So neither file is written. */
TEST(a_name_that_is_too_long_in_one_format)
{
    directory_enter();
    places.formats = 1u << TR_TXT | 1u << TR_JSON;
    make_file(long_name(255), 1);
    must_not_write(long_name(255), "256 bytes");
    CHECK(!is_there("out") || entries_of("out") == 0);
}

TEST(paths_as_long_as_they_can_be)
{
    char input[PATH_MAX + 200];
    directory_enter();
    for (size_t size = PATH_MAX - 300; size < PATH_MAX + 100; size += 7) {
        size_t end = (size_t)snprintf(input, sizeof input, "in/");
        while (end < size)
            end += (size_t)snprintf(input + end, sizeof input - end, "folder/");
        snprintf(input + end, sizeof input - end, "a.wav");
        struct tr_transcript t = one_line("text");
        const int result = tr_outputs_write(&places, input, &t);
        tr_transcript_free(&t);
        if (result == 0) {
            struct gd__buffer path = { 0 };
            CHECK_EQ(tr_output_path(&path, &places, input, TR_TXT), 0);
            CHECK_EQ(path.size, strlen(input) + 1); /* nothing was cut */
            CHECK_STR(contents(path.data), "text\n");
            gd__buffer_free(&path);
        } else {
            CHECK_GT(strlen(input), PATH_MAX - 40);
            CHECK(strstr(gd__fail_text(), "File name too long") || strstr(gd__fail_text(), "are possible"));
        }
    }
}

TEST_MAIN()
