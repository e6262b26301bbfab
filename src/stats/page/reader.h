/* Reading a page. Its contents are not trusted: counts are compared with the size of the file, and everything is copied
 * before it is used. */
#ifndef GD_STATS_PAGE_READER_H
#define GD_STATS_PAGE_READER_H

#include <stdbool.h>

#include "stats/page/layout.h"

/* Positions of a ring that were copied. */
struct gd__ring_copy {
    unsigned char *entries; /* n of them */
    uint64_t n;
    uint64_t missed; /* ended since the last read, but not copied */
    size_t room;     /* bytes */
    uint64_t seen, ended;
};

struct gd__reader {
    int fd;                     /* -1: closed */
    bool no_tasks, no_failures; /* do not copy them; count them as missed */
    struct gd__page_header header;
    struct gd__page_plan plan;
    struct gd__page_device *devices;
    /* From the last read. A part that could not be read completely keeps its earlier contents. */
    uint64_t awake_ns;
    struct gd__page_run run;
    struct gd__page_worker *workers;
    struct gd__ring_copy tasks, failures, requests;
    uint64_t *sequences; /* private: the numbers before the data was copied, then those after */
    unsigned char *changing;
};

/* Reads and checks only the header. Returns GD_E_CORRUPT or GD_E_VERSION on failure. */
int gd__reader_header(int fd, struct gd__page_header *out);

/* Takes over fd, even on failure. */
int gd__reader_open(struct gd__reader *r, int fd);
void gd__reader_close(struct gd__reader *r);

int gd__reader_read(struct gd__reader *r); /* returns 0, GD_E_CORRUPT (the file was changed) or GD_E_NO_MEMORY */

#endif
