/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe --queue`, with a stand-in for the worker (command/plugin_transcribe.c): the files come from
 * the queue, each node writes text files, and a node with other settings is refused. Files over HTTP need the real worker.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"
#include "transcribe/http_server.h"

#define TRANSCRIBE "transcribe --queue $URL --gpus sim:2 --quiet --model-size demo --model-dir $GD_SOURCE_ROOT/models "

static struct server s;

static void begin(void)
{
    char plugin[4096];
    server_start(&s, NULL);
    work_begin(s.hosts);
    snprintf(plugin, sizeof plugin, "%s/plugin_transcribe.so", getenv("GD_TEST_PLUGINS"));
    setenv("GPU_DISPATCH_TRANSCRIBER", plugin, 1);
    CHECK(mkdir("in", 0777) == 0 && mkdir("in/deep", 0777) == 0);
}

static void make_file(const char *path)
{
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("sound", f) >= 0 && fclose(f) == 0);
}

static void check_succeeds(struct result r)
{
    if (r.status != 0)
        FAIL("status %d: %.500s", r.status, r.err);
}

TEST(files_of_a_queue)
{
    begin();
    make_file("in/a.wav");
    make_file("in/deep/b.wav");
    make_file("in/bad.wav");
    check_succeeds(command("push --queue $URL ::: in/a.wav in/deep/b.wav in/bad.wav"));
    const struct result r = command(TRANSCRIBE "--input-dir in --output-dir out");
    CHECK_EQ(r.status, 1); /* bad.wav */
    CHECK_CONTAINS(r.err, "bad.wav is no audio");
    CHECK_EQ(access("out/a.txt", F_OK), 0);
    CHECK_EQ(access("out/deep/b.txt", F_OK), 0);
    const struct result records = command("export --queue $URL");
    CHECK_EQ(records.status, 0);
    CHECK_CONTAINS(records.out, "\"input\":\"in/a.wav\",\"status\":\"ok\"");
    CHECK_CONTAINS(records.out, "\"input\":\"in/bad.wav\",\"status\":\"error\"");
    check_succeeds(command(TRANSCRIBE "--input-dir in --output-dir out")); /* nothing is left to do */
}

TEST(other_settings_are_refused)
{
    begin();
    make_file("a.wav");
    make_file("b.wav");
    check_succeeds(command("push --queue $URL ::: a.wav"));
    check_succeeds(command(TRANSCRIBE "--output-dir out"));
    check_succeeds(command("push --queue $URL ::: b.wav"));
    const struct result r = command(TRANSCRIBE "--output-dir out --format srt");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "--force");
    CHECK_EQ(access("out/b.srt", F_OK), -1);
    check_succeeds(command(TRANSCRIBE "--output-dir out --format srt --force"));
    CHECK_EQ(access("out/b.srt", F_OK), 0);
}

static void require_curl(void)
{
    if (!dlopen("libcurl.so.4", RTLD_LAZY | RTLD_LOCAL) && !dlopen("libcurl-gnutls.so.4", RTLD_LAZY | RTLD_LOCAL))
        SKIP("libcurl is not installed");
}

/* The output of the stand-in is its settings. Nodes with different addresses do the same work. */
TEST(address_of_the_inputs_reaches_the_workers)
{
    require_curl();
    begin();
    make_file("a.wav");
    make_file("b.wav");
    check_succeeds(command("push --queue $URL ::: a.wav"));
    check_succeeds(command(TRANSCRIBE "--output-dir out --input-base http://first/audio"));
    check_succeeds(command("push --queue $URL ::: b.wav"));
    check_succeeds(command(TRANSCRIBE "--output-dir out --input-base https://second"));
    const struct result records = command("export --queue $URL");
    CHECK_EQ(records.status, 0);
    CHECK_CONTAINS(records.out, "input_base=http://first/audio");
    CHECK_CONTAINS(records.out, "input_base=https://second");
}

/* --- over HTTP ------------------------------------------------------------------------------- */

static void answer(int client, const char *request)
{
    static char file[1 << 20];
    char path[4096], head[128];
    if (strncmp(request, "GET /audio/deep/clip.flac ", 26) != 0) {
        send_text(client, "HTTP/1.1 404 Not here\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    snprintf(path, sizeof path, "%s/tests/data/speech/clip_020.flac", getenv("GD_SOURCE_ROOT"));
    FILE *f = fopen(path, "re");
    const size_t size = f ? fread(file, 1, sizeof file, f) : 0;
    if (f)
        fclose(f);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
    send_text(client, head);
    send_all(client, file, size);
}

/* No machine has the files. One of them is on the HTTP server. */
TEST_WITHIN(120, files_are_fetched)
{
    char text[256] = "";
    const char *worker = getenv("GD_TEST_TRANSCRIBER");
    if (!worker || access(worker, R_OK) < 0)
        SKIP("the transcription worker was not built");
    require_curl();
    begin();
    setenv("GPU_DISPATCH_TRANSCRIBER", worker, 1);
    http_begin();
    check_succeeds(command("push --queue $URL ::: deep/clip.flac deep/missing.flac"));
    const struct result r = command(TRANSCRIBE "--output-dir out --input-base %s", http_base);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "missing.flac");
    FILE *f = fopen("out/clip.txt", "re");
    if (!f)
        FAIL("the clip has no text: %.500s", r.err);
    CHECK(fgets(text, sizeof text, f) != NULL);
    fclose(f);
    CHECK_STR(text, "previous timer\n");
    const struct result records = command("export --queue $URL");
    CHECK_CONTAINS(records.out, "\"input\":\"deep/clip.flac\",\"status\":\"ok\"");
    CHECK_CONTAINS(records.out, "\"input\":\"deep/missing.flac\",\"status\":\"error\"");
}

TEST_MAIN()
