/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe --queue`, with a stand-in for the worker (command/plugin_transcribe.c): the files come from
 * the queue, each node writes text files, and a node with other settings is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

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

TEST_MAIN()
