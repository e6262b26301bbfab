/* SPDX-License-Identifier: MIT
 *
 * The manual pages: they describe exactly the options of each command, and groff accepts them. examples.py runs
 * their examples.
 */
#include "common.h"

static const char *const commands[] = { "run",    "transcribe", "gpus",  "estimate", "top",   "status",
                                        "export", "report",     "merge", "push",     "models" };
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* The options in the section OPTIONS of a page, sorted. They are in the line after .TP, with the names of their values,
 * which are removed. */
#define DESCRIBED                                                                                           \
    "sed -n '/^\\.SH OPTIONS/,/^\\.SH [^O]/p' $GD_SOURCE_ROOT/man/gpu-dispatch-%s.1 | grep -A1 '^\\.TP' | " \
    "sed -n 's/\\\\fI[^\\\\]*//g; s/\\\\f.//g; s/\\\\//g; s/^\\.B -/-/p' | grep -o -e '-[-a-z0-9]*' | sort"

TEST(man_pages_describe_the_options_of_their_command)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        struct ran described = sh(DESCRIBED, commands[i]);
        CHECK_CONTAINS(described.out, "--help\n");
        CHECK_STR(described.out, sh("gpu-dispatch %s --list-options | sort", commands[i]).out);
    }
}

TEST(man_pages_are_well_formed)
{
    need("groff");
    CHECK_PRINTS(sh("for f in $GD_SOURCE_ROOT/man/*; do groff -man -Tutf8 -ww -z $f; done"), "");
}

TEST(the_general_page_points_to_every_page)
{
    const char *page = sh("tr -d '\\\\' < $GD_SOURCE_ROOT/man/gpu-dispatch.1").out;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char line[64];
        snprintf(line, sizeof line, ".BR %s \", see \" gpu-dispatch-%s (1)\n", commands[i], commands[i]);
        CHECK_CONTAINS(page, line);
    }
}

TEST_MAIN()
