/* What a user writes to choose devices: see gd_devices_open(). */
#ifndef GD_GPU_SPEC_H
#define GD_GPU_SPEC_H

#include <stddef.h>

enum { GD__SPEC_MOST = 1024 }; /* simulated devices, CPU workers */

enum gd__spec_kind {
    GD__SPEC_ALL,  /* NULL: whatever there is */
    GD__SPEC_AUTO, /* the same, but there must be one */
    GD__SPEC_LIST, /* by name: gd__spec_next() */
    GD__SPEC_SIM,
    GD__SPEC_CPU,
};

struct gd__spec {
    enum gd__spec_kind kind;
    unsigned count; /* SIM and CPU */
};

int gd__spec_parse(struct gd__spec *out, const char *text);

/* One entry of a list. */
enum gd__spec_entry_kind {
    GD__SPEC_NUMBERS, /* first to last */
    GD__SPEC_NAME,    /* a UUID, or a beginning of one */
    GD__SPEC_MIG,     /* instance last of GPU first */
};

struct gd__spec_entry {
    enum gd__spec_entry_kind kind;
    int first, last;
    const char *text; /* as it was written; within the list */
    size_t length;
};

/* The entry at *at, which is moved past it. 1: there was one, 0: the end, else GD_E_INVALID. text: the whole list, for
 * the words of an error. */
int gd__spec_next(const char *text, const char **at, struct gd__spec_entry *out);

/* A whole number between least and most, nothing behind it within length. -1: it is none. */
long gd__spec_number(const char *text, size_t length, long least, long most);

#endif
