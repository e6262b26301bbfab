/* Command templates, taken apart and filled: what is public of it is in <gpu_dispatch/command.h>.
 *
 *   template.c   words -> parts -> a line for a shell, or the words of a program that needs none
 *   value.c      what {}, {.}, {/}, {//} and {/.} make of an argument, and how a value is quoted
 *   executable.c what the first word is: a program, or something that only a shell knows
 *   output.c     the layout of a command's result
 *   argv.c       how a worker that runs commands is started
 */
#ifndef GD_COMMAND_TEMPLATE_H
#define GD_COMMAND_TEMPLATE_H

#include <gpu_dispatch/command.h>
#include <limits.h>

/* Bytes that grow. A failed growth is remembered: look at the end. */
struct gd__text {
    char *bytes;
    size_t size, capacity;
    bool failed;
};

void gd__text_put(struct gd__text *t, const char *bytes, size_t size);
void gd__text_free(struct gd__text *t);

/* ---- values (value.c) ---- */

enum gd__part_kind {
    GD__PART_TEXT,  /* of a word, as it stands */
    GD__PART_BREAK, /* between two words */
    GD__PART_INPUT, /* from here: placeholders; {} */
    GD__PART_NO_EXTENSION,
    GD__PART_BASE,
    GD__PART_FOLDER,
    GD__PART_BASE_NO_EXTENSION,
    GD__PART_NUMBER, /* {#} */
    GD__PART_SLOT,
    GD__PART_GPU,
};

/* Appends what the placeholder `kind` (INPUT to BASE_NO_EXTENSION) makes of an argument. */
void gd__value_put(struct gd__text *t, enum gd__part_kind kind, const char *argument, size_t size);

/* Appends a value so that a shell reads it as it is. */
void gd__quoted_put(struct gd__text *t, const char *value, size_t size);

/* ---- templates (template.c) ---- */

struct gd__part {
    enum gd__part_kind kind;
    int position;     /* of a placeholder: which argument; 0: every one; negative: from the end */
    const char *text; /* GD__PART_TEXT */
    size_t size;
};

struct gd_command {
    char *words; /* all of them, with a NUL behind each: parts point into it */
    struct gd__part *parts;
    size_t n_parts;
    bool quote, dry_run, ungroup;
    bool raw;    /* the input is (part of) the command's name: nothing that is put in is quoted, as with GNU parallel */
    char *shell; /* as given or found in the environment */
};

/* Room for filling one template again and again. All zero at first. */
struct gd__filling {
    struct gd__text line;  /* NUL-terminated; or the words of argv */
    struct gd__text word;  /* the word being made */
    struct gd__text value; /* what goes into it */
    char **argv;
    size_t n_argv, argv_capacity;
};

/* The line for a shell, in f->line. GD_E_NO_MEMORY or 0. */
int gd__command_fill_line(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f);

/* The words that a shell would make of that line, in f->argv: only for templates that are plain. */
int gd__command_fill_argv(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f);

void gd__filling_free(struct gd__filling *f);

/* The first word, if it is no placeholder's and means nothing to a shell by its characters; else an empty string. */
void gd__command_first(const struct gd_command *c, char *name, size_t size);

/* No part means anything to a shell: it would only cut the line at blanks and take the quotes off. */
bool gd__command_is_plain(const struct gd_command *c);

/* ---- programs (executable.c) ---- */

/* Finds a program as a shell does: through PATH, unless its name has a slash. 0 with path filled in, or the errno that
 * says why it cannot be run. */
int gd__executable_locate(const char *name, char *path, size_t size);

/* How a template is run. */
struct gd__executable {
    char path[PATH_MAX]; /* start this without a shell; "": with one */
    bool builtin;        /* it is one of a shell's too, which differ in options and backslashes */
    char shell[PATH_MAX];
};

/* Looks around once: PATH, the shell, what the environment defines. */
void gd__executable_find(struct gd__executable *p, const struct gd_command *c);

/* The shell's own command would do the same as the program with these arguments. */
bool gd__executable_agrees(const struct gd__executable *p, char *const *argv);

#endif
