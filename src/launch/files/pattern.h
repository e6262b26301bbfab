/* Shell patterns for base names. They are parsed once, so that each name costs one or two comparisons. */
#ifndef GD_LAUNCH_FILES_PATTERN_H
#define GD_LAUNCH_FILES_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

struct gd__pattern; /* private to pattern.c */

struct gd__patterns {
    struct gd__pattern *items;
    size_t count; /* 0: every name */
    bool hidden;  /* names that begin with a dot are treated like any other */
};

/* list is borrowed. If it is NULL or empty, every name matches, except hidden names if `hidden` is false. Returns 0,
 * GD_E_INVALID or GD_E_NO_MEMORY. */
int gd__patterns_open(struct gd__patterns *p, const char *const *list, bool hidden);
void gd__patterns_close(struct gd__patterns *p);
bool gd__patterns_match(const struct gd__patterns *p, const char *name, size_t length);

#endif
