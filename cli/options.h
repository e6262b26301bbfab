/* SPDX-License-Identifier: MIT
 *
 * Options of a subcommand. The same table is used to parse, explain and list them.
 */
#ifndef GD_CLI_OPTIONS_H
#define GD_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_opt;

/* Stores an option's value in its field. text is NULL for an option without a value. Returns 0, or -1 with
 * gd__fail_text(). */
typedef int cli_opt_set(const struct cli_opt *opt, void *field, const char *text);

struct cli_opt {
    const char *name;  /* the long name, without the dashes; NULL ends the table */
    char letter;       /* 0: none */
    const char *value; /* name of the value in the help; NULL: the option takes no value */
    const char *help;  /* NULL: not shown, such as another name of the option before it */
    cli_opt_set *set;
    size_t offset;     /* where the field is in the struct */
    uint64_t min, max; /* limits of a number */
    const char *group; /* a heading in the help; NULL: that of the option before it */
    /* Whether only arguments, and no options, follow this value. Such an option may have "--" in place of the value.
     * The value is then "", and the arguments that follow take its place. */
    bool (*is_last)(const char *value);
    const char *refused; /* for cli_refuse(): why there is no such option */
};

/* The options of a subcommand. */
struct cli_opts {
    const char *command; /* "run" */
    const char *invoked; /* the name by which the user called it, if it is not gpu-dispatch COMMAND; NULL otherwise */
    const char *usage;   /* the lines of the help before the options */
    const struct cli_opt *table;
    const char *after; /* the lines of the help after the options; NULL: none */
    /* As in programs that are written in Python: names may have underscores instead of dashes (--beam_size), and a switch
     * may be followed by True, False or None. After an equals sign, yes, no, on, off, 1 and 0 are possible too. */
    bool as_python;
};

/* Values of an option that may be given several times. A zeroed struct is empty. */
struct cli_list {
    const char **items; /* NULL-terminated if not empty; borrowed from argv */
    size_t n;
};

/* Reads options up to the first argument that is not an option, or up to and including "--". Returns the index of the
 * argument after them, or -1 with gd__fail_text(). */
int cli_opts_parse(const struct cli_opts *o, void *into, int argc, char **argv);

/* The same, for a caller that parses more options after the arguments. *dashes is true if the options ended at "--". It
 * is false if that "--" was the value of an option. */
int cli_opts_parse_part(const struct cli_opts *o, void *into, int argc, char **argv, bool *dashes);

void cli_opts_help(const struct cli_opts *o);
void cli_opts_list(const struct cli_opts *o); /* "--name" and "-x", one on each line: for completions and tests */

/* Functions that store a value, by the type of the field. A switch that is turned off has the text "no". */
int cli_set_flag(const struct cli_opt *opt, void *field, const char *text);     /* bool */
int cli_set_text(const struct cli_opt *opt, void *field, const char *text);     /* const char * */
int cli_set_list(const struct cli_opt *opt, void *field, const char *text);     /* struct cli_list */
int cli_set_number(const struct cli_opt *opt, void *field, const char *text);   /* unsigned */
int cli_set_number64(const struct cli_opt *opt, void *field, const char *text); /* uint64_t */
int cli_set_duration(const struct cli_opt *opt, void *field, const char *text); /* unsigned, milliseconds */

/* For an option of other programs that is not possible here. None, and a switch that is off, are accepted. */
int cli_refuse(const struct cli_opt *opt, void *field, const char *text);

#endif
