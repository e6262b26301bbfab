/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models`: its list, and what its downloads print. tests/transcribe/models tests the downloads themselves.
 */
#include "command/tmux.h"
#include "transcribe/http_server.h"

/* The published size of this model. */
#define NAME "tiny-q5_1"
enum { BYTES = 32152673 };

#define ALONE  "HOME=$PWD GPU_DISPATCH_MODELS= WHISPER_MODEL_DIR= XDG_CACHE_HOME= XDG_DATA_HOME= HF_HOME= HF_HUB_CACHE= "
#define MODELS ALONE "gpu-dispatch models "

/* --- the server --- */

static char requested[REQUEST_ROOM];
static int released[2] = { -1, -1 }; /* if open: the second half is sent when a byte can be read */

static void send_model(int s)
{
    static char zeros[1 << 16];
    char head[200], c;
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nETag: \"zeros\"\r\nContent-Length: %d\r\n\r\n", BYTES);
    send_text(s, head);
    for (size_t sent = 0, n; sent < BYTES; sent += n) {
        n = BYTES - sent < sizeof zeros ? BYTES - sent : sizeof zeros;
        if (sent > BYTES / 2 && released[0] >= 0) {
            CHECK_EQ(read(released[0], &c, 1), 1);
            close(released[0]);
            released[0] = -1;
        }
        send_all(s, zeros, n);
    }
}

static void answer(int s, const char *request)
{
    snprintf(requested, sizeof requested, "%s", request);
    if (strstr(request, "/ggml-" NAME ".bin "))
        send_model(s);
    else
        send_text(s, "HTTP/1.1 404 Not here\r\nContent-Length: 0\r\n\r\n");
}

/* --- the list --- */

TEST(the_list_has_what_is_found_and_what_is_published)
{
    struct ran r =
        sh("cp $GD_SOURCE_ROOT/models/ggml-demo.bin ggml-own.bin; mkdir m; mv ggml-own.bin m; " MODELS "--model-dir m");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "\nown                     2.7 MiB  English       unknown    m/ggml-own.bin\n");
    CHECK_CONTAINS(r.out, "\nbase                    141 MiB  multilingual\n");
    CHECK_CONTAINS(r.out, "\nbase.en-q5_1             57 MiB  English\n");
    CHECK_CONTAINS(r.out, "\nlarge-v3-turbo          1.5 GiB  multilingual\n");
    CHECK_CONTAINS(r.out, "\ndistil-large-v3.5       1.4 GiB  English\n");
    CHECK_STR(r.out, sh(MODELS "list --model-dir m").out);
}

/* The first lines of the list, without the paths. */
#define FOUND "sed -n '2,/^$/s/  *[^ ]*$//p' | tr -s ' '"

TEST(checksums_in_the_list)
{
    CHECK_EQ(sh("mkdir m; cp $GD_SOURCE_ROOT/models/ggml-demo.bin m").status, 0);
    CHECK_CONTAINS(sh(MODELS "--model-dir m | " FOUND).out, "demo 2.7 MiB English unchecked\n");
    CHECK_CONTAINS(sh(MODELS "--model-dir m --check | " FOUND).out, "demo 2.7 MiB English good\n");
    CHECK_CONTAINS(sh(MODELS "--model-dir m | " FOUND).out, "demo 2.7 MiB English good\n"); /* it is remembered */
    CHECK_EQ(sh("printf x | dd of=m/ggml-demo.bin bs=1 seek=2000000 conv=notrunc status=none").status, 0);
    CHECK_CONTAINS(sh(MODELS "--model-dir m | " FOUND).out, "demo 2.7 MiB English unchecked\n");
    CHECK_CONTAINS(sh(MODELS "--model-dir m --check | " FOUND).out, "demo 2.7 MiB English wrong\n");
    CHECK_EQ(sh("mv m/ggml-demo.bin m/ggml-base.bin").status, 0);
    CHECK_CONTAINS(sh(MODELS "--model-dir m | " FOUND).out, "base 2.7 MiB English wrong\n"); /* by its size */
}

TEST(a_file_that_cannot_be_used_is_listed)
{
    struct ran r = sh("mkdir m; echo '<html>' > m/ggml-base.bin; " MODELS "--model-dir m");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "base                        7 B  -             -          m/ggml-base.bin\n"
                          "  cannot be used: m/ggml-base.bin: is a web page");
}

TEST(a_file_is_listed_once)
{
    struct ran r =
        sh("mkdir models; cp $GD_SOURCE_ROOT/models/ggml-demo.bin models/ggml-own.bin; ln models/ggml-own.bin "
           "models/ggml-same.bin; " MODELS "--model-dir models | grep -c 'models/ggml-own\\|ggml-same'");
    CHECK_STR(r.out, "1\n");
}

TEST(the_list_as_json)
{
    need("python3");
    struct ran r = sh("mkdir m; cp $GD_SOURCE_ROOT/models/ggml-demo.bin m/ggml-own.bin; echo x > m/ggml-x.bin; " MODELS
                      "--model-dir m --json | python3 -c 'import json, sys\n"
                      "all = json.load(sys.stdin)\n"
                      "for one in all[\"found\"][:2]: print(sorted(one.items()))\n"
                      "one = [one for one in all[\"published\"] if one[\"name\"] == \"base\"]\n"
                      "print(len(all[\"published\"]), one)'");
    CHECK_STR(r.err, "");
    CHECK_CONTAINS(r.out, "[('bytes', 2843677), ('checksum', 'unknown'), ('error', None), ('multilingual', False), "
                          "('name', 'own'), ('path', 'm/ggml-own.bin')]\n"
                          "[('bytes', 2), ('checksum', None), ('error', \"m/ggml-x.bin: is not a model");
    CHECK_CONTAINS(r.out, "38 [{'name': 'base', 'bytes': 147951465, 'multilingual': True, 'sha1': "
                          "'465707469ff3a37a2b9b8d8f89f2f99de7299dac', 'url': "
                          "'https://huggingface.co/ggerganov/whisper.cpp/resolve/main/ggml-base.bin'}]\n");
}

TEST(nothing_is_found)
{
    /* The demo model is next to this program, so a copy of the program is used. */
    struct ran r =
        sh("mkdir -p far/away; cp $(command -v gpu-dispatch) far/away/; " ALONE "far/away/gpu-dispatch models");
    if (strstr(r.out, "/share/gpu_dispatch/models/"))
        SKIP("the demo model is installed on this machine");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(strncmp(r.out, "No model was found on this machine.\n", 36), 0);
}

/* --- downloads --- */

/* What the server sends is not the published model, so every download of this test ends with an error. */
TEST(a_download_with_a_wrong_checksum)
{
    http_begin();
    struct ran r = sh(MODELS "download --base %s " NAME, http_base);
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "");
    CHECK_CONTAINS(r.err, "gpu-dispatch: " NAME ": downloading 31 MiB\ngpu-dispatch: " NAME ": checking\n"
                          "gpu-dispatch: " NAME ": what http://127.0.0.1:");
    CHECK_CONTAINS(r.err, " instead of 2827a03e495b1ed3048ef28a6a4620537db4ee51. It was removed");
    CHECK_EQ(count_lines(r.err), 3);
    CHECK_STR(sh("find .cache -name 'ggml*'").out, "");
}

TEST(where_downloads_go)
{
    static const char *const cases[][3] = {
        { ALONE, "", ".cache/whisper.cpp" },
        { ALONE, "--model-dir given/here", "given/here" },
        { ALONE "GPU_DISPATCH_MODELS=mine ", "", "mine" },
        { ALONE "GPU_DISPATCH_MODELS=mine ", "--model-dir given", "given" },
        { ALONE "WHISPER_MODEL_DIR=theirs ", "", "theirs" },
        { ALONE "XDG_CACHE_HOME=$PWD/cache ", "", "cache/whisper.cpp" },
        { "HOME= " ALONE "HOME= ", "", "models" },
    };
    http_begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ran r = sh("%s gpu-dispatch models download turbo %s --base %s; [ -d %s ] && rmdir %s && echo made",
                          cases[i][0], cases[i][1], http_base, cases[i][2], cases[i][2]);
        CHECK_STR(r.out, "made\n");
        CHECK_CONTAINS(r.err, "the server does not have it (status 404)");
        CHECK_CONTAINS(requested, "GET /audio/ggml-large-v3-turbo.bin ");
    }
}

TEST(the_address_from_the_environment)
{
    http_begin();
    struct ran r =
        sh("GPU_DISPATCH_MODEL_URL=%s " MODELS "download base; GPU_DISPATCH_MODEL_URL=http://127.0.0.1:1 " MODELS
           "download distil-small.en --base %s",
           http_base, http_base);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "/audio/ggml-base.bin: the server does not have it");
    CHECK_CONTAINS(r.err, "/audio/ggml-distil-small.en.bin: the server does not have it");
}

/* The others are still tried. */
TEST(several_models)
{
    http_begin();
    struct ran r = sh("mkdir m; " MODELS "download base small --model-dir m --base %s", http_base);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "gpu-dispatch: base: could not be downloaded from http");
    CHECK_CONTAINS(r.err, "gpu-dispatch: small: could not be downloaded from http");
}

TEST(progress_in_a_terminal)
{
    char line[300];
    CHECK_EQ(pipe(released), 0);
    http_begin();
    open_terminal(100, 24, "");
    snprintf(line, sizeof line,
             "HOME=$PWD gpu-dispatch models download --model-dir m " NAME " --base %s; echo status $?", http_base);
    type(line);
    await_screen(NAME ": 1"); /* 1.. KiB or MiB; half of it is 15 MiB */
    await_screen(" of 31 MiB");
    CHECK_EQ(write(released[1], "x", 1), 1);
    await_screen("status 1");
    CHECK_CONTAINS(look(""), "gpu-dispatch: " NAME ": checking\n");
    CHECK_EQ(count_on_screen(" of 31 MiB"), 0);
}

/* --- the command line --- */

TEST(wrong_command_lines)
{
    static const char *const cases[][2] = {
        { "lsit", "models lsit: did you mean models list?" },
        { "zzz", "models zzz: write models list, models download NAME or models convert FILE" },
        { "list x", "models list takes no arguments: gpu-dispatch models list" },
        { "download", "models download takes names of models: gpu-dispatch models download base" },
        { "download bsae", "no model \"bsae\": did you mean base?" },
        { "download zzzzzzzz", "no model \"zzzzzzzz\": gpu-dispatch models lists the published models" },
        { "download demo", "the model demo is part of this program and need not be downloaded" },
        { "download base --base ftp://x", "the address of the models must begin with http:// or https://" },
        { "download base --base ''", "the address of the models must begin with http:// or https://" },
        { "download base --model-dir ''", "--model-dir needs the name of a directory: --model-dir DIR" },
        { "download base --json", "--json is for models list" },
        { "download base --check", "--check is for models list" },
        { "--base http://x", "--base is for models download" },
        { "download base --assets x", "--assets is for models convert" },
        { "convert",
          "models convert takes a checkpoint and, if you want, a name for the model: gpu-dispatch models convert "
          "FILE.pt [OUT.bin]" },
        { "convert a b c",
          "models convert takes a checkpoint and, if you want, a name for the model: gpu-dispatch models "
          "convert FILE.pt [OUT.bin]" },
        { "convert a --model-dir b",
          "--model-dir is not for models convert: write the path of the model after the checkpoint" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ran r = sh(MODELS "%s", cases[i][0]);
        char expected[300];
        snprintf(expected, sizeof expected, "gpu-dispatch: %s\n", cases[i][1]);
        CHECK_STR(r.err, expected);
        CHECK_EQ(r.status, 255);
        CHECK_STR(r.out, "");
    }
}

TEST_MAIN()
