/* Parses what a user writes to choose devices: see gd_devices_open(). */
#ifndef GD_GPU_SPEC_H
#define GD_GPU_SPEC_H

#include <stdbool.h>
#include <stddef.h>

enum { GD__SPEC_MOST = 1024 }; /* the most simulated devices or CPU workers */

#define GD__SPEC_ANY (~0u) /* a count: as many as there are */

enum gd__spec_kind {
    GD__SPEC_ALL,  /* the text is NULL: all usable devices, even if there are none */
    GD__SPEC_AUTO, /* the same, but there must be at least one */
    GD__SPEC_LIST, /* by name: gd__spec_next() */
    GD__SPEC_SIM,
    GD__SPEC_CPU,
    GD__SPEC_FREE, /* free devices: see claim/claim.h */
};

struct gd__spec {
    enum gd__spec_kind kind;
    unsigned count; /* for SIM, CPU and FREE */
};

int gd__spec_parse(struct gd__spec *out, const char *text);

/* One entry of a list. */
enum gd__spec_entry_kind {
    GD__SPEC_NUMBERS, /* first to last */
    GD__SPEC_NAME,    /* a UUID, or the beginning of one */
    GD__SPEC_MIG,     /* instance last of GPU first */
};

struct gd__spec_entry {
    enum gd__spec_entry_kind kind;
    int first, last;
    const char *text; /* as written; points into the list */
    size_t length;
    bool in_group; /* the entry is part of a group: "0+1" */
    bool goes_on;  /* a "+" comes after it: the next entry is in the same group */
};

/* Reads the entry at *at and moves *at past it. Returns 1, or 0 at the end of the list, or GD_E_INVALID. text: the
 * beginning of the list. */
int gd__spec_next(const char *text, const char **at, struct gd__spec_entry *out);

/* Parses length bytes as a whole number from least to most. Returns -1 if they are not such a number. */
long gd__spec_number(const char *text, size_t length, long least, long most);

#endif
