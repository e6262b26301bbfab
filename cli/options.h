/* SPDX-License-Identifier: MIT
 *
 * Options of a subcommand: one table, from which they are parsed, explained and listed.
 */
#ifndef GD_CLI_OPTIONS_H
#define GD_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_opt;

/* Stores an option's value in its field. text is NULL for an option without a value. 0, or -1 with
 * gd__fail_text(). */
typedef int cli_opt_set(const struct cli_opt *opt, void *field, const char *text);

struct cli_opt {
    const char *name;  /* long, without the dashes; NULL ends the table */
    char letter;       /* 0: none */
    const char *value; /* what the value is called in the help; NULL: it takes none */
    const char *help;  /* NULL: another name of the option before it, not shown */
    cli_opt_set *set;
    size_t offset;     /* of the field */
    uint64_t min, max; /* of a number */
    const char *group; /* a heading; NULL: as before */
    /* Whether no options follow this value, only words. With it, "--" in place of the value: the words that follow are
     * meant, the value is "". */
    bool (*is_last)(const char *value);
};

/* A subcommand as far as options go. */
struct cli_opts {
    const char *command; /* "run" */
    const char *invoked; /* how the user called it, where that is another name; NULL: gpu-dispatch COMMAND */
    const char *usage;   /* lines of the help before the options */
    const struct cli_opt *table;
    const char *after; /* lines of the help after them; NULL: none */
};

/* Values that may be given several times. Zeroed is empty. */
struct cli_list {
    const char **items; /* NULL-terminated once it has any; borrowed from argv */
    size_t n;
};

/* Reads options up to the first word that is none, or past "--". Returns the index of the word after them, or -1 with
 * gd__fail_text(). */
int cli_opts_parse(const struct cli_opts *o, void *into, int argc, char **argv);

/* The same, for who goes on behind the words: *dashes says whether they ended at "--" (and not at a value that is it).
 */
int cli_opts_parse_part(const struct cli_opts *o, void *into, int argc, char **argv, bool *dashes);

void cli_opts_help(const struct cli_opts *o);
void cli_opts_list(const struct cli_opts *o); /* "--name" and "-x", one per line: for completions and tests */

/* The ways to store a value. */
int cli_set_flag(const struct cli_opt *opt, void *field, const char *text);     /* bool */
int cli_set_text(const struct cli_opt *opt, void *field, const char *text);     /* const char * */
int cli_set_list(const struct cli_opt *opt, void *field, const char *text);     /* struct cli_list */
int cli_set_number(const struct cli_opt *opt, void *field, const char *text);   /* unsigned */
int cli_set_number64(const struct cli_opt *opt, void *field, const char *text); /* uint64_t */
int cli_set_duration(const struct cli_opt *opt, void *field, const char *text); /* unsigned, milliseconds */

#endif
