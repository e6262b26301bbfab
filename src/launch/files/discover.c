/* Finds files: reads each directory of a tree (tree.c) in large portions and checks every name once.
 *
 * On nearly every file system a directory contains the kind of each entry, so a plain file needs no system call. Only
 * links, entries of unknown kind and, if sizes are wanted, files whose name matches are looked up with fstatat(). Only
 * directories are opened. If an entry cannot be read, on_problem is called and the search goes on.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gpu_dispatch/launch.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "launch/files/pattern.h"
#include "launch/files/tree.h"
#include "launch/files/visited.h"

enum { BUFFER_SIZE = 128 * 1024 };

struct search {
    struct gd_discover what;
    struct gd__patterns patterns;
    struct gd__tree tree;
    struct gd__visited visited; /* directories entered; used only if links are followed */
    char *buffer;
    gd_file_fn *fn;
    void *user;
};

/* An entry of the current directory. */
struct entry {
    const char *name;
    size_t length;
    unsigned char type; /* DT_... */
    bool wanted;        /* its name matches the patterns for files */
    bool enter;         /* its name allows it to be entered as a directory */
    bool sized;         /* size is known */
    uint64_t size;
};

/* --- problems ------------------------------------------------------------- */

/* Reports a problem with the path in tree.path. */
static void report_problem(const struct search *s, const char *what, int why)
{
    char message[256];
    if (!s->what.on_problem)
        return;
    errno = why;
    snprintf(message, sizeof message, "%s: %m%s", what,
             why == EMFILE || why == ENFILE ? " (raise the limit: ulimit -n)" : "");
    s->what.on_problem(s->what.user, s->tree.path, message);
}

static int entry_problem(struct search *s, const struct entry *e, const char *what)
{
    const int why = errno, r = gd__tree_path(&s->tree, e->name, e->length);
    if (r == 0)
        report_problem(s, what, why);
    return r;
}

/* --- entries -------------------------------------------------------------- */

static int give_file(struct search *s, const struct entry *e)
{
    const int r = gd__tree_path(&s->tree, e->name, e->length);
    return r < 0 ? r : s->fn(s->user, s->tree.path, e->size);
}

static unsigned char type_of(const struct stat *st)
{
    return (unsigned char)IFTODT(st->st_mode);
}

/* Looks the entry up; flags are those of fstatat(). Returns false and sets errno if the lookup fails. */
static bool look_up(const struct search *s, struct entry *e, int flags)
{
    struct stat st;
    if (fstatat(gd__tree_fd(&s->tree), e->name, &st, flags) < 0)
        return false;
    e->type = type_of(&st);
    e->size = s->what.no_sizes ? 0 : (uint64_t)st.st_size;
    e->sized = true;
    return true;
}

static int visit_directory(struct search *s, const struct entry *e)
{
    return e->enter ? gd__tree_add(&s->tree, e->name, e->length) : 0;
}

/* Pipes, sockets and devices are never opened: opening or reading them may never return. */
static int visit_other(struct search *s, const struct entry *e)
{
    static const char *const kinds[] = {
        [DT_FIFO] = "a pipe", [DT_SOCK] = "a socket", [DT_CHR] = "a device", [DT_BLK] = "a device"
    };
    const char *kind = e->type < sizeof kinds / sizeof *kinds ? kinds[e->type] : NULL;
    if (!kind || !e->wanted || !s->what.on_other)
        return 0;
    const int r = gd__tree_path(&s->tree, e->name, e->length);
    if (r == 0)
        s->what.on_other(s->what.user, s->tree.path, kind);
    return r;
}

static int visit_file(struct search *s, struct entry *e)
{
    if (!e->wanted)
        return 0;
    if (!s->what.no_sizes && !e->sized && !look_up(s, e, AT_SYMLINK_NOFOLLOW))
        return entry_problem(s, e, "its size cannot be read");
    return e->type == DT_REG ? give_file(s, e) : visit_other(s, e); /* the target of a link may be of any kind */
}

static int visit_link(struct search *s, struct entry *e)
{
    if (!e->wanted && !(e->enter && s->what.follow))
        return 0;
    if (!look_up(s, e, 0))
        return e->wanted ? entry_problem(s, e, "the link cannot be followed") : 0;
    if (e->type == DT_DIR)
        return s->what.follow ? visit_directory(s, e) : 0;
    return visit_file(s, e);
}

static int visit(struct search *s, struct entry *e)
{
    if (e->type == DT_UNKNOWN && (e->wanted || e->enter) && !look_up(s, e, AT_SYMLINK_NOFOLLOW))
        return entry_problem(s, e, "its type cannot be read");
    switch (e->type) {
    case DT_REG:
        return visit_file(s, e);
    case DT_DIR:
        return visit_directory(s, e);
    case DT_LNK:
        return visit_link(s, e);
    default:
        return visit_other(s, e);
    }
}

/* --- directories ---------------------------------------------------------- */

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static int visit_all(struct search *s, size_t filled)
{
    int r = 0;
    for (size_t at = 0; at < filled && r == 0;) {
        const struct dirent64 *d = (const void *)(s->buffer + at);
        at += d->d_reclen;
        if (is_dots(d->d_name))
            continue;
        struct entry e = { .name = d->d_name, .length = strlen(d->d_name), .type = d->d_type };
        e.wanted = d->d_type != DT_DIR && gd__patterns_match(&s->patterns, e.name, e.length);
        e.enter = s->what.recursive && (s->what.hidden || *e.name != '.');
        r = visit(s, &e);
    }
    return r;
}

/* Returns 1 if the current directory was not entered before. A directory that is reached a second time, through a link,
 * has the same device and inode. */
static int is_new(struct search *s)
{
    struct stat st;
    if (!s->what.follow)
        return 1;
    if (fstat(gd__tree_fd(&s->tree), &st) == 0)
        return gd__visited_add(&s->visited, st.st_dev, st.st_ino);
    const int why = errno;
    gd__tree_path(&s->tree, NULL, 0);
    report_problem(s, "cannot be read", why);
    return 0;
}

static int read_directory(struct search *s)
{
    for (;;) {
        const ssize_t n = getdents64(gd__tree_fd(&s->tree), s->buffer, BUFFER_SIZE);
        if (n < 0) {
            const int why = errno;
            gd__tree_path(&s->tree, NULL, 0);
            report_problem(s, "cannot be read to its end", why);
        }
        const int r = n > 0 ? visit_all(s, (size_t)n) : 0;
        if (r != 0 || n <= 0)
            return r;
    }
}

static int search_tree(struct search *s)
{
    for (int step = GD__TREE_DIRECTORY; step != GD__TREE_END; step = gd__tree_next(&s->tree)) {
        if (step == GD__TREE_PROBLEM)
            report_problem(s, "cannot be opened", errno);
        int r = step < 0 ? step : 0;
        if (step == GD__TREE_DIRECTORY) {
            r = is_new(s);
            if (r > 0)
                r = read_directory(s);
        }
        if (r != 0)
            return r;
    }
    return 0;
}

/* --- the call ------------------------------------------------------------- */

static int read_what(struct gd_discover *out, const struct gd_discover *what)
{
    *out = (struct gd_discover)GD_DISCOVER_INIT;
    return what ? gd__sized_read(out, sizeof *out, what, "gd_discover") : 0;
}

int gd_discover_files(const char *dir, const struct gd_discover *what, gd_file_fn *fn, void *user)
{
    struct search s = { .fn = fn, .user = user };
    if (!dir || !*dir || !fn)
        return gd__error(GD_E_INVALID, fn ? "no directory to search: give one, or \".\" for the current one"
                                          : "no function to call for each file");
    int r = read_what(&s.what, what);
    if (r == 0)
        r = gd__patterns_open(&s.patterns, s.what.patterns, s.what.hidden);
    if (r < 0)
        return r;
    s.buffer = gd__calloc(1, BUFFER_SIZE);
    if (!s.buffer) {
        r = gd__error(GD_E_NO_MEMORY, "no memory to read directories");
    } else {
        r = gd__tree_open(&s.tree, dir, s.what.follow);
        if (r == 0)
            r = search_tree(&s);
    }
    gd__visited_free(&s.visited);
    gd__tree_close(&s.tree);
    gd__free(s.buffer);
    gd__patterns_close(&s.patterns);
    return r;
}
