/* SPDX-License-Identifier: MIT
 *
 * Inputs for tests: short ways to write sources, and to read their tasks.
 */
#ifndef GD_TESTS_CLI_INPUTS_H
#define GD_TESTS_CLI_INPUTS_H

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/input/input.h"
#include "common.h"

/* The tasks of the input, one per line, with each argument in brackets. */
TEST_UNUSED static struct gd__buffer drain(struct cli_input *in)
{
    struct gd__buffer b = { 0 };
    const void *data;
    size_t size;
    uint64_t weight;
    int some;
    while ((some = cli_input_read(in, &data, &size, &weight)) > 0) {
        const char *at = data, *end = at + size;
        for (;;) {
            const char *nul = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
            gd__buffer_text(&b, "[");
            gd__buffer_add(&b, at, (size_t)((nul ? nul : end) - at));
            gd__buffer_text(&b, "]");
            if (!nul)
                break;
            at = nul + 1;
        }
        gd__buffer_text(&b, "\n");
    }
    if (some < 0)
        FAIL("%s", gd__fail_text());
    gd__buffer_add(&b, "", 1);
    b.size--;
    return b;
}

TEST_UNUSED static struct cli_input *open_input(const struct cli_input_options *o)
{
    struct cli_input *in = NULL;
    if (cli_input_open(&in, o) < 0)
        FAIL("%s", gd__fail_text());
    return in;
}

TEST_UNUSED static void check_input(const struct cli_input_options *o, const char *expected)
{
    struct cli_input *in = open_input(o);
    uint64_t total = cli_input_total(in);
    struct gd__buffer got = drain(in);
    CHECK_STR(got.data, expected);
    if (total)
        CHECK_EQ(total, cli_input_given(in));
    gd__buffer_free(&got);
    cli_input_close(&in);
}

TEST_UNUSED static void check_refused(const struct cli_input_options *o, const char *words)
{
    struct cli_input *in = NULL;
    if (cli_input_open(&in, o) == 0)
        FAIL("the input was opened, but it must be refused");
    CHECK_CONTAINS(gd__fail_text(), words);
}

#define WORDS(...)                                                          \
    {                                                                       \
        .kind = CLI_SOURCE_WORDS, .words = (const char *[]){ __VA_ARGS__ }, \
        .n_words = sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *) \
    }
#define LINKED(...)                                                                       \
    {                                                                                     \
        .kind = CLI_SOURCE_WORDS, .link = true, .words = (const char *[]){ __VA_ARGS__ }, \
        .n_words = sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)               \
    }
#define NO_WORDS                 \
    {                            \
        .kind = CLI_SOURCE_WORDS \
    }
#define FROM(name)     \
    {                  \
        .path = (name) \
    }
#define OPTIONS(list, ...)                                                         \
    &(struct cli_input_options)                                                    \
    {                                                                              \
        .sources = (list), .n_sources = sizeof(list) / sizeof *(list), __VA_ARGS__ \
    }

TEST_UNUSED static void *read_one(void *arg)
{
    const void *data;
    size_t size;
    uint64_t weight;
    return (void *)(intptr_t)cli_input_read(arg, &data, &size, &weight);
}

#endif
