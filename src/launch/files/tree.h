/* A walk over a tree of directories of any depth, with a bounded number of descriptors: see tree.c. */
#ifndef GD_LAUNCH_FILES_TREE_H
#define GD_LAUNCH_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct gd__tree {
    char *path; /* of the current directory, with '/' at its end; then space for a name */
    size_t path_size;
    struct gd__level *levels; /* the directories from the first to the current one; private to tree.c */
    size_t depth, levels_size;
    /* The names of the waiting directories, each with its NUL. Names of deeper levels come last. */
    char *names;
    size_t names_used, names_size;
    size_t n_open;      /* levels whose descriptor is open */
    size_t lowest_open; /* levels 1 to lowest_open - 1 are closed */
    bool follow;
};

enum gd__tree_step {
    GD__TREE_END = 0,
    GD__TREE_DIRECTORY = 1, /* another directory is the current one now: read it */
    GD__TREE_PROBLEM = 2,   /* a directory could not be opened; path and errno are set. Call gd__tree_next() again. */
};

/* Opens dir, which becomes the current directory. Returns 0 or a negative code. */
int gd__tree_open(struct gd__tree *t, const char *dir, bool follow);
void gd__tree_close(struct gd__tree *t); /* may be called for a tree that could not be opened */

int gd__tree_fd(const struct gd__tree *t); /* of the current directory, from GD__TREE_DIRECTORY until the next step */

/* Sets path to the path of an entry of the current directory or, if name is NULL, of the directory itself. Returns 0 or
 * GD_E_NO_MEMORY. */
int gd__tree_path(struct gd__tree *t, const char *name, size_t length);

/* Adds a subdirectory of the current directory, to be entered later. Returns 0 or GD_E_NO_MEMORY. */
int gd__tree_add(struct gd__tree *t, const char *name, size_t length);

/* Goes to the next waiting directory. Returns a gd__tree_step, or GD_E_NO_MEMORY. */
int gd__tree_next(struct gd__tree *t);

#endif
