/* SPDX-License-Identifier: MIT
 *
 * Functions for the tests of command templates.
 */
#ifndef GD_TESTS_UNIT_TEMPLATE_FIXTURE_H
#define GD_TESTS_UNIT_TEMPLATE_FIXTURE_H

#include "command/template.h"
#include "support/shell.h"

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

TEST_UNUSED static struct gd_command *open_spec(struct gd_command_spec spec)
{
    struct gd_command *c;
    spec.size = sizeof spec;
    if (gd_command_open(&c, &spec) != 0)
        FAIL("%s", gd_error_text());
    return c;
}

/* Called first by cases that check which commands need a shell. If a shell reads a start-up file, that file may change
 * any command. */
TEST_UNUSED static void no_start_up_file(void)
{
    unsetenv("BASH_ENV");
}

TEST_UNUSED static struct gd_command *open_words(const char *const *words)
{
    return open_spec((struct gd_command_spec){ .words = words, .shell = "/bin/bash" });
}

TEST_UNUSED static struct gd_command_fill filled(const char *payload, size_t size)
{
    return (struct gd_command_fill){ .size = sizeof(struct gd_command_fill),
                                     .payload = payload,
                                     .payload_size = size,
                                     .task_id = 6,
                                     .slot = 3,
                                     .gpu_id = 5 };
}

#endif
