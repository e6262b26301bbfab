/* SPDX-License-Identifier: MIT
 *
 * One file named twice is a slip that costs data: a list of inputs that is emptied since it is the --output too, a
 * journal that a log is written into. So it is looked for before anything is opened. Files that are there are told by
 * their inode, whatever the names; those that are not yet, by folder and name, at the other end of links. Devices and
 * pipes may serve twice.
 */
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
    bool is_there, may_be_shared;
    struct stat info;
    char whole[PATH_MAX]; /* of one that is not there */
};

/* Where a file will be made: the folder by its real name; at the other end of a link. */
static void find_whole(struct named *f)
{
    char folder[PATH_MAX], real[PATH_MAX], *target = gd__link_target(f->path);
    const char *path = target ? target : f->path;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(base - path) : 1, slash ? path : ".");
    /* A name that does not fit is refused when it is opened. */
    const int n = snprintf(f->whole, sizeof f->whole, "%s/%s", realpath(folder, real) ? real : folder, base);
    f->may_be_shared = n < 0 || (size_t)n >= sizeof f->whole;
    free(target);
}

static void look(struct named *f, const char *option, const char *path)
{
    const bool is_stdin = !option && (!path || strcmp(path, "-") == 0);
    f->option = option;
    f->path = path;
    f->is_there = (is_stdin ? fstat(STDIN_FILENO, &f->info) : stat(path, &f->info)) == 0;
    f->may_be_shared = f->is_there ? !S_ISREG(f->info.st_mode) : is_stdin;
    if (!f->is_there && !is_stdin)
        find_whole(f);
}

static bool same(const struct named *a, const struct named *b)
{
    if (a->may_be_shared || b->may_be_shared || a->is_there != b->is_there)
        return false;
    if (a->is_there)
        return a->info.st_dev == b->info.st_dev && a->info.st_ino == b->info.st_ino;
    return strcmp(a->whole, b->whole) == 0;
}

/* A list of failures may be given back: with a journal it is written anew in the end, when it has been read. */
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
