/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe` where things are not as they should be: what lies in a folder and is no file, disks that
 * are full, models that are nowhere, runs in which nothing goes well. What is said then, and what is left behind.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "transcribe.h"

/* --- what is left out ------------------------------------------------------------------------ */

static void make_socket(const char *name)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%.60s/%.40s", sh_dir(), name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

TEST(what_is_no_file_is_said_once)
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

TEST(a_folder_with_nothing_but_a_pipe)
{
    struct ran r = sh("mkdir in; mkfifo in/a.wav; " STANDIN ON "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: in/a.wav is a pipe, not a file; left out\n"
                     "gpu-dispatch: no file in in matches *.wav (folders in it are searched with --recursive)\n");
    CHECK_EQ(r.status, 1);
}

TEST(what_cannot_be_looked_at_is_said_once)
{
    WAVS("in/a.wav", "in/x/b.wav");
    CHECK_EQ(sh("ln -s nowhere in/c.wav").status, 0);
    struct ran r = sh(ALONE "--input-dir in");
    CHECK_STR(r.err, "gpu-dispatch: cannot read in/c.wav: the link cannot be followed: No such file or directory; left "
                     "out\n");
    CHECK_EQ(r.status, 1);
    CHECK_EQ(sh("ln -s b.wav in/b.wav; ln -s nowhere in/x/d.wav; ln -s nowhere in/not-meant").status, 0);
    r = sh(STANDIN ON "--input-dir in -r --progress none");
    CHECK_CONTAINS(r.err,
                   "gpu-dispatch: cannot read in/b.wav: the link cannot be followed: Too many levels of symbolic "
                   "links; left out, as are 2 more that cannot be read\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 3 could not be read and were left out: see above\n");
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
    /* The option after it is one. */
    CHECK_CONTAINS(sh(ALONE "--output - --prompt -- in --language en").out, "language=en\\n");
}

/* --- models ------------------------------------------------------------------------------------ */

/* What is wrong, where it was looked for, and on a line of its own what to do. */
TEST(a_model_that_is_nowhere)
{
    wav("in/a.wav", 1);
    struct ran r = sh(STANDIN "HOME=$PWD gpu-dispatch transcribe --gpus sim:1 --input-dir in --model-size small");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err,
                   "gpu-dispatch: the model small (ggml-small.bin) is not on this machine. It was looked for in\n"
                   "  ./models\n");
    CHECK_CONTAINS(r.err, "\nThis command downloads it:\n  mkdir -p ~/.cache/whisper.cpp && curl -L -o "
                          "~/.cache/whisper.cpp/ggml-small.bin https://");
    CHECK_GT(count_lines(r.err), 6);
    r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 --input-dir in --model-size smal");
    CHECK_CONTAINS(r.err, "gpu-dispatch: \"smal\" is no size of a model: did you mean small?\nThere are tiny, ");
    CHECK_STR(ran(), "");
}

TEST_MAIN()
