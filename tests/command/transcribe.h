/* SPDX-License-Identifier: MIT
 *
 * Shared by tests of `gpu-dispatch transcribe`: common beginnings of the command line with the stand-in for the worker
 * (plugin_transcribe.c), files that look like audio, and a list of the files that were run.
 */
#ifndef GD_TESTS_COMMAND_TRANSCRIBE_H
#define GD_TESTS_COMMAND_TRANSCRIBE_H

#include <gpu_dispatch/journal.h>

#include "common.h"

#define STANDIN "export GPU_DISPATCH_TRANSCRIBER=$GD_TEST_PLUGINS/plugin_transcribe.so; "
#define MODEL   "--model-size demo --model-dir $GD_SOURCE_ROOT/models "
#define ON      "gpu-dispatch transcribe --gpus sim:1 " MODEL
#define ALONE   STANDIN ON "--quiet "

/* Checks that the command fails with 1 and prints one line of error message, and nothing else. */
#define CHECK_NOT_STARTED(call, words)      \
    do {                                    \
        struct ran refused = (call);        \
        CHECK_STR(refused.err, words "\n"); \
        CHECK_EQ(refused.status, 1);        \
        CHECK_STR(refused.out, "");         \
    } while (0)

TEST_UNUSED static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Makes a file with this many seconds of silence: 8 kHz, 8 bits, one channel. Creates its directory. */
TEST_UNUSED static void wav(const char *name, unsigned seconds)
{
    char path[8192];
    unsigned char header[44] = "RIFF    WAVEfmt \x10   \x01   ";
    const uint32_t size = seconds * 8000;
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    for (char *at = strchr(path + strlen(sh_dir()) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        CHECK(mkdir(path, 0777) == 0 || errno == EEXIST);
        *at = '/';
    }
    put32(header + 4, 36 + size);
    put32(header + 16, 16);
    put32(header + 20, 1 | 1 << 16);
    put32(header + 24, 8000);
    put32(header + 28, 8000);
    put32(header + 32, 1 | 8 << 16);
    put32(header + 36, 0x61746164); /* "data" */
    put32(header + 40, size);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        FAIL("%s: %s", path, strerror(errno));
    CHECK_EQ(write(fd, header, sizeof header), sizeof header);
    CHECK_EQ(ftruncate(fd, (off_t)(sizeof header + size)), 0);
    close(fd);
}

TEST_UNUSED static void wavs(const char *const *names)
{
    for (unsigned i = 0; names[i]; i++)
        wav(names[i], 1 + i);
}
#define WAVS(...) wavs((const char *const[]){ __VA_ARGS__, NULL })

/* The files that were run since the last call, in that order. */
TEST_UNUSED static char *ran(void)
{
    return sh("touch ran; tr '\\n' ' ' < ran; rm ran").out;
}

#endif
