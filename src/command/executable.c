/* Decides whether the first word of a command is a program that can be started without a shell, or a word that only a
 * shell understands.
 *
 * Starting a program without a shell must give the same result. So a shell is used whenever it could make a difference.
 * It is used for its keywords and builtin commands, for names that are not found in PATH, and for functions that bash
 * takes from the environment. It is also used if there is a start-up file (BASH_ENV), or if the builtins of the shell
 * are not in the table below. Some builtins also exist as programs. Only true, false and echo are run as programs, and
 * only if no argument begins with a dash (an option) or contains a backslash. Builtin and program then do the same. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "command/template.h"

extern char **environ;

/* Keywords and builtins of sh, bash and dash; sorted. */
static const char *const shell_words[] = {
    ".",      ":",       "[",       "alias",   "bg",       "bind",      "break",    "builtin",  "caller",  "case",
    "cd",     "chdir",   "command", "compgen", "complete", "compopt",   "continue", "coproc",   "declare", "dirs",
    "disown", "do",      "done",    "echo",    "elif",     "else",      "enable",   "esac",     "eval",    "exec",
    "exit",   "export",  "false",   "fc",      "fg",       "fi",        "for",      "function", "getopts", "hash",
    "help",   "history", "if",      "in",      "jobs",     "kill",      "let",      "local",    "logout",  "mapfile",
    "popd",   "printf",  "pushd",   "pwd",     "read",     "readarray", "readonly", "return",   "select",  "set",
    "shift",  "shopt",   "source",  "suspend", "test",     "then",      "time",     "times",    "trap",    "true",
    "type",   "typeset", "ulimit",  "umask",   "unalias",  "unset",     "until",    "wait",     "while",
};

static const char *const known_shells[] = { "ash", "bash", "dash", "sh" };
static const char *const same_as_program[] = { "echo", "false", "true" };

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static int compare(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

static bool is_in(const char *name, const char *const *table, size_t n)
{
    return bsearch(name, table, n, sizeof *table, compare) != NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- searching PATH ---- */

/* Returns 0, or the errno that says why the file cannot be run. */
static int runnable(const char *path)
{
    struct stat s;
    if (stat(path, &s) < 0)
        return errno;
    if (S_ISDIR(s.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* Finds the first program in PATH that can be run, as a shell does. Returns 0 with path filled in, or the errno that
 * says why none can be run. */
static int search_path(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    int why = ENOENT;
    if (!at)
        at = "/usr/bin:/bin"; /* as shells and posix_spawnp() do */
    while (at) {
        const size_t length = strcspn(at, ":");
        const int n =
            length ? snprintf(path, size, "%.*s/%s", (int)length, at, name) : snprintf(path, size, "%s", name);
        const int rc = n < 0 || (size_t)n >= size ? ENAMETOOLONG : runnable(path);
        if (rc == 0)
            return 0;
        if (rc == EACCES)
            why = rc;
        at = at[length] ? at + length + 1 : NULL;
    }
    return why;
}

int gd__executable_locate(const char *name, char *path, size_t size)
{
    int rc;
    if (!strchr(name, '/'))
        rc = search_path(name, path, size);
    else
        rc = (size_t)snprintf(path, size, "%s", name) < size ? runnable(name) : ENAMETOOLONG;
    if (rc)
        *path = '\0';
    return rc;
}

/* ---- words that only a shell understands ---- */

static bool is_exported_function(const char *name)
{
    static const char prefix[] = "BASH_FUNC_";
    const size_t length = strlen(name);
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, prefix, sizeof prefix - 1) == 0 && strncmp(*e + sizeof prefix - 1, name, length) == 0 &&
            strchr("%(", (*e)[sizeof prefix - 1 + length])) /* %%= today, ()= in old versions */
            return true;
    }
    return false;
}

/* Whether the shell has, or might have, a keyword, builtin or function with that name. */
static bool shell_knows(const struct gd_command *c, const char *name)
{
    const char *start_up = getenv("BASH_ENV");
    if (start_up && *start_up)
        return true;
    if (!is_in(base_name(c->shell), known_shells, COUNT(known_shells)))
        return true;
    return is_in(name, shell_words, COUNT(shell_words)) || is_exported_function(name);
}

void gd__executable_find(struct gd__executable *p, const struct gd_command *c)
{
    char name[NAME_MAX + 1];
    memset(p, 0, sizeof *p);
    if (gd__executable_locate(c->shell, p->shell, sizeof p->shell) != 0)
        snprintf(p->shell, sizeof p->shell, "%s", c->shell); /* starting it will report why it fails */
    gd__command_first(c, name, sizeof name);
    if (!*name || !gd__command_is_plain(c))
        return;
    p->builtin = is_in(name, same_as_program, COUNT(same_as_program)) && !is_exported_function(name) &&
                 is_in(base_name(c->shell), known_shells, COUNT(known_shells)) && !getenv("BASH_ENV");
    if (p->builtin || !shell_knows(c, name))
        (void)gd__executable_locate(name, p->path, sizeof p->path);
}

bool gd__executable_agrees(const struct gd__executable *p, char *const *argv)
{
    if (!p->builtin)
        return true;
    for (size_t i = 1; argv[i]; i++) {
        if (argv[i][0] == '-' || strchr(argv[i], '\\'))
            return false;
    }
    return true;
}

/* ---- before anything is run ---- */

static int report_why_not(const char *name, int why)
{
    switch (why) {
    case ENOENT:
        if (!strchr(name, '/'))
            return gd__error(GD_E_INVALID,
                             "command not found: %s (it is not in PATH): check its name, or give its path", name);
        return gd__error(GD_E_INVALID, "command not found: the file %s does not exist", name);
    case EISDIR:
        return gd__error(GD_E_INVALID, "cannot run %s: it is a directory", name);
    case EACCES:
        return gd__error(GD_E_INVALID,
                         "cannot run %s: it is not executable for you (chmod +x makes your own files executable)",
                         name);
    default:
        return gd__error(GD_E_INVALID, "cannot run %s: %s", name, strerror(why));
    }
}

/* Whether the command may work although its first word is not a program: foo() {...} defines a function, and foo || bar
 * runs bar. */
static bool depends_on_the_shell(const struct gd_command *c)
{
    for (size_t i = 0; !c->quote && i < c->n_parts; i++) {
        const struct gd__part *part = &c->parts[i];
        for (size_t k = 0; part->kind == GD__PART_TEXT && k < part->size; k++) {
            if (part->text[k] == '(' || (part->text[k] == '|' && k + 1 < part->size && part->text[k + 1] == '|'))
                return true;
        }
    }
    return false;
}

int gd_command_check(const struct gd_command *command)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    if (!command)
        return gd__error(GD_E_INVALID, "gd_command_check: the command is NULL");
    if (command->dry_run)
        return 0;
    int why = gd__executable_locate(command->shell, path, sizeof path);
    if (why)
        return gd__error_context(report_why_not(command->shell, why), "the shell");
    gd__command_first(command, name, sizeof name);
    if (!*name || command->raw || depends_on_the_shell(command))
        return 0;
    if (!strchr(name, '/') && shell_knows(command, name))
        return 0;
    why = gd__executable_locate(name, path, sizeof path);
    return why ? report_why_not(name, why) : 0;
}
