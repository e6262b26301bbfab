/* SPDX-License-Identifier: MIT
 *
 * Checks that no file is used for two purposes. If a file is named twice, data can be lost: a list of inputs is emptied
 * because it is the --output too, or a log is written into a journal. So this is checked before anything is opened.
 * Files that exist are compared by their inode, not by their names. Files that don't exist yet are compared by
 * directory and name, after links are followed. Devices and pipes may be used twice. */
#include "cli/run/same_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/replace.h"

struct named {
    const char *option, *path; /* option NULL: an input */
    bool exists, may_be_shared;
    struct stat info;
    char full_path[PATH_MAX]; /* set if the file does not exist yet */
};

/* Finds where a file will be created: follows a link, and resolves the directory to its real name. */
static void find_full_path(struct named *f)
{
    char directory[PATH_MAX], real[PATH_MAX], *target = gd__link_target(f->path);
    const char *path = target ? target : f->path;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(base - path) : 1, slash ? path : ".");
    /* A name that is too long is refused when the file is opened. */
    const int n =
        snprintf(f->full_path, sizeof f->full_path, "%s/%s", realpath(directory, real) ? real : directory, base);
    f->may_be_shared = n < 0 || (size_t)n >= sizeof f->full_path;
    free(target);
}

static void look(struct named *f, const char *option, const char *path)
{
    const bool is_stdin = !option && (!path || strcmp(path, "-") == 0);
    f->option = option;
    f->path = path;
    f->exists = (is_stdin ? fstat(STDIN_FILENO, &f->info) : stat(path, &f->info)) == 0;
    f->may_be_shared = f->exists ? !S_ISREG(f->info.st_mode) : is_stdin;
    if (!f->exists && !is_stdin)
        find_full_path(f);
}

static bool same(const struct named *a, const struct named *b)
{
    if (a->may_be_shared || b->may_be_shared || a->exists != b->exists)
        return false;
    if (a->exists)
        return a->info.st_dev == b->info.st_dev && a->info.st_ino == b->info.st_ino;
    return strcmp(a->full_path, b->full_path) == 0;
}

/* A list of failures may be the input too: with a journal it is rewritten at the end, after it has been read. */
static bool is_given_back(const struct cli_run *r, const struct named *to)
{
    return to->path == r->failed && r->journal && r->jsonl;
}

static int check_input(const struct cli_run *r, const struct named *to, size_t n, const char *path)
{
    struct named from;
    look(&from, NULL, path);
    for (size_t i = 0; i < n; i++) {
        if (same(&to[i], &from) && !is_given_back(r, &to[i]))
            return gd__fail("%s %s is also the input: give another file%s", to[i].option, to[i].path,
                            to[i].path == r->failed && r->jsonl ? ", or use --journal" : "");
    }
    return 0;
}

static int check_inputs(const struct cli_run *r, const struct named *to, size_t n)
{
    int rc = r->n_sources == 0 && !r->input_dir ? check_input(r, to, n, NULL) : 0;
    for (size_t i = 0; rc == 0 && i < r->n_sources; i++) {
        if (r->sources[i].kind == CLI_SOURCE_FILE)
            rc = check_input(r, to, n, r->sources[i].path);
    }
    return rc;
}

static int check_outputs(const struct named *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            if (same(&to[k], &to[i]))
                return gd__fail("%s %s and %s %s are the same file: give two different files", to[k].option, to[k].path,
                                to[i].option, to[i].path);
        }
    return 0;
}

int cli_refuse_same_file(const struct cli_run *r)
{
    const struct {
        const char *option, *path;
    } all[] = {
        { "--journal", r->journal }, { "--output", r->output }, { "--joblog", r->joblog }, { "--failed", r->failed }
    };
    enum { N = sizeof all / sizeof *all };
    struct named to[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        if (all[i].path && strcmp(all[i].path, "-") != 0)
            look(&to[n++], all[i].option, all[i].path);
    }
    const int rc = check_outputs(to, n);
    return rc < 0 ? rc : check_inputs(r, to, n);
}
