/* Command templates: parsing and filling them. The public part is <gpu_dispatch/command.h>.
 *
 *   template.c   words -> parts -> a line for a shell, or the words of a program that needs no shell
 *   value.c      the values of {}, {.}, {/}, {//} and {/.} for an argument, and how a value is quoted
 *   executable.c whether the first word is a program, or a word that only a shell understands
 *   output.c     the layout of a command's result
 *   argv.c       how a worker that runs commands is started
 */
#ifndef GD_COMMAND_TEMPLATE_H
#define GD_COMMAND_TEMPLATE_H

#include <gpu_dispatch/command.h>
#include <limits.h>

/* A growing buffer. After a failed allocation `failed` stays true, so it is enough to check it at the end. */
struct gd__text {
    char *bytes;
    size_t size, capacity;
    bool failed;
};

void gd__text_put(struct gd__text *t, const char *bytes, size_t size);
void gd__text_free(struct gd__text *t);

/* ---- values (value.c) ---- */

enum gd__part_kind {
    GD__PART_TEXT,  /* text of a word, unchanged */
    GD__PART_BREAK, /* between two words */
    GD__PART_INPUT, /* {}; placeholders from here on */
    GD__PART_NO_EXTENSION,
    GD__PART_BASE,
    GD__PART_DIRECTORY,
    GD__PART_BASE_NO_EXTENSION,
    GD__PART_NUMBER, /* {#} */
    GD__PART_SLOT,
    GD__PART_GPU,
};

/* Appends the value of the placeholder `kind` (INPUT to BASE_NO_EXTENSION) for an argument. */
void gd__value_put(struct gd__text *t, enum gd__part_kind kind, const char *argument, size_t size);

/* Appends a value, quoted so that a shell does not change it. */
void gd__quoted_put(struct gd__text *t, const char *value, size_t size);

/* ---- templates (template.c) ---- */

struct gd__part {
    enum gd__part_kind kind;
    int position;     /* for a placeholder: which argument; 0: all; negative: counted from the end */
    const char *text; /* GD__PART_TEXT */
    size_t size;
};

struct gd_command {
    char *words; /* all words, each followed by a NUL; parts point into it */
    struct gd__part *parts;
    size_t n_parts;
    bool quote, dry_run, ungroup;
    bool raw;    /* the input is (part of) the command's name: values are not quoted, as in GNU parallel */
    char *shell; /* as given, or from the environment */
};

/* Buffers for filling a template many times. Zero it first. */
struct gd__filling {
    struct gd__text line;  /* the line with its NUL, or the words of argv with their NULs */
    struct gd__text word;  /* the word being made */
    struct gd__text value; /* the value of a placeholder */
    char **argv;
    size_t n_argv, argv_capacity;
};

/* Writes the line for a shell to f->line. Returns 0 or GD_E_NO_MEMORY. */
int gd__command_fill_line(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f);

/* Writes the words that a shell would make of that line to f->argv. Only for plain templates
 * (gd__command_is_plain()). */
int gd__command_fill_argv(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f);

void gd__filling_free(struct gd__filling *f);

/* Sets name to the first word, or to "" if that word has a placeholder or a character that is special to a shell. */
void gd__command_first(const struct gd_command *c, char *name, size_t size);

/* True if no part is special to a shell: the shell would only split the line at blanks and remove the quotes. */
bool gd__command_is_plain(const struct gd_command *c);

/* ---- programs (executable.c) ---- */

/* Finds a program as a shell does: in PATH, unless its name has a slash. Returns 0 with path filled in, or the errno
 * that says why it cannot be run. */
int gd__executable_locate(const char *name, char *path, size_t size);

/* How a template is run. */
struct gd__executable {
    char path[PATH_MAX]; /* start this program without a shell; "": use a shell */
    bool builtin; /* a shell has a builtin of that name too, which may treat options and backslashes differently */
    char shell[PATH_MAX];
};

/* Decides how to run c, by the shell, PATH and the rest of the environment. */
void gd__executable_find(struct gd__executable *p, const struct gd_command *c);

/* True if the shell's builtin would do the same as the program with these arguments. */
bool gd__executable_agrees(const struct gd__executable *p, char *const *argv);

#endif
