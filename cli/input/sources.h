/* SPDX-License-Identifier: MIT
 *
 * The inputs on a command line, shared by all subcommands that read them:
 *
 *   ::: ARGUMENT...      :::+ ARGUMENT...     a source of arguments; + pairs them with those of the source before
 *   :::: FILE...         ::::+ FILE...        each file is a source
 *   -a FILE                                   a source before all of these
 *   --input-dir DIR                           the only source
 *   --watch DIR                               the only source
 */
#ifndef GD_CLI_INPUT_SOURCES_H
#define GD_CLI_INPUT_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/input/input.h"
#include "cli/options.h"

/* A zeroed struct is empty. Strings are borrowed from argv. */
struct cli_sources {
    struct cli_source *items;
    size_t n;
};

/* Whether the word is one of :::, :::+, :::: and ::::+. */
bool cli_is_separator(const char *word);

/* The directory that is the source. A zeroed struct is none. */
struct cli_source_dir {
    const char *path;
    bool watch; /* --watch, not --input-dir */
};

/* Reads all sources: those of -a, those in argv, which begins with a separator, and the directory. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_sources_read(struct cli_sources *s, const struct cli_list *arg_files, struct cli_source_dir dir, int argc,
                     char **argv);
int cli_sources_add(struct cli_sources *s, struct cli_source source);
void cli_sources_free(struct cli_sources *s);

/* Parses the value of --order. Returns 0, or -1 with gd__fail_text(). */
int cli_order_parse(const char *text, enum gd_file_order *out);

#endif
