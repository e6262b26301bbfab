/* A walk over a tree of folders, of any depth, with a bounded number of descriptors: see tree.c. */
#ifndef GD_LAUNCH_FILES_TREE_H
#define GD_LAUNCH_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct gd__tree {
    char *path; /* of the present folder, '/' at its end; then room for a name */
    size_t path_size;
    struct gd__level *levels; /* the folders from the first to the present one; private to tree.c */
    size_t depth, levels_size;
    char *names; /* folders that wait: each with its NUL, those of deeper levels behind those of higher ones */
    size_t names_used, names_size;
    size_t n_open;      /* levels whose descriptor is open */
    size_t lowest_open; /* no level from 1 to before this is open */
    bool follow;
};

enum gd__tree_step {
    GD__TREE_END = 0,
    GD__TREE_FOLDER = 1,  /* the present folder is another one: read it */
    GD__TREE_PROBLEM = 2, /* a folder could not be opened: path is its path, errno the reason. Go on. */
};

/* Opens dir, which becomes the present folder. 0 or a code with words. */
int gd__tree_open(struct gd__tree *t, const char *dir, bool follow);
void gd__tree_close(struct gd__tree *t); /* a tree that could not be opened, too */

int gd__tree_fd(const struct gd__tree *t); /* of the present folder, from GD__TREE_FOLDER until the next step */

/* Puts the path of something in the present folder, or (name NULL) its own, into path. 0 or GD_E_NO_MEMORY. */
int gd__tree_path(struct gd__tree *t, const char *name, size_t length);

/* A folder in the present one, to be entered later. 0 or GD_E_NO_MEMORY. */
int gd__tree_add(struct gd__tree *t, const char *name, size_t length);

/* To the next folder that waits: a gd__tree_step, or GD_E_NO_MEMORY. */
int gd__tree_next(struct gd__tree *t);

#endif
