/* SPDX-License-Identifier: MIT
 *
 * Shared by tests of the command: short names for common beginnings of a command line, and GNU parallel to compare
 * with.
 */
#ifndef GD_TESTS_COMMAND_COMMON_H
#define GD_TESTS_COMMAND_COMMON_H

#include "support/shell.h"

/* Two simulated devices, no summary. */
#define RUN "gpu-dispatch run --gpus sim:2 --quiet "

/* The same, with output in the order of the input. */
#define RUNK RUN "-k "

/* Checks that the command fails with 255 and prints one line of error message, and nothing else. */
#define CHECK_REFUSED(call, words)          \
    do {                                    \
        struct ran refused = (call);        \
        CHECK_STR(refused.err, words "\n"); \
        CHECK_EQ(refused.status, 255);      \
        CHECK_STR(refused.out, "");         \
    } while (0)

/* Checks that the command succeeds and prints this. */
#define CHECK_PRINTS(call, text)      \
    do {                              \
        struct ran printed = (call);  \
        CHECK_STR(printed.err, "");   \
        CHECK_STR(printed.out, text); \
        CHECK_EQ(printed.status, 0);  \
    } while (0)

TEST_UNUSED static int64_t ms_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

TEST_UNUSED static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

TEST_UNUSED static void need(const char *program)
{
    if (sh("command -v %s", program).status != 0)
        SKIP("a program that this test needs is not installed");
}

/* Another program has the name `parallel` too. We do not compare with that one. */
TEST_UNUSED static void need_parallel(void)
{
    if (sh("parallel --version | grep -q '^GNU parallel'").status != 0)
        SKIP("no GNU parallel");
}

/* Runs the same arguments with `parallel` and with our command. The output, byte by byte, and the exit status must be
 * the same. */
TEST_UNUSED static void same_as_parallel(const char *before, const char *words)
{
    need_parallel();
    const char *set = "export PARALLEL_SHELL=/bin/bash LC_ALL=C.UTF-8 HOME=$PWD; ";
    struct ran theirs = sh("%s%s parallel --will-cite -j2 -k %s", set, before, words);
    struct ran ours = sh("%s%s gpu-dispatch run --gpus sim:2 --quiet -k %s", set, before, words);
    CHECK_GT(theirs.out_size, 0);
    if (ours.out_size != theirs.out_size || memcmp(ours.out, theirs.out, ours.out_size) != 0)
        FAIL("%s: ours \"%s\" (%s), parallel \"%s\"", words, ours.out, ours.err, theirs.out);
    CHECK_EQ(ours.status, theirs.status);
}

#endif
