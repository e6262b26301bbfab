/* Reading a page. Nothing in it is believed: counts are held against the size of the file, and everything is copied
 * before it is looked at. */
#ifndef GD_STATS_PAGE_READER_H
#define GD_STATS_PAGE_READER_H

#include <stdbool.h>

#include "stats/page/layout.h"

/* Positions of a ring that were copied. */
struct gd__ring_copy {
    unsigned char *entries; /* n of them */
    uint64_t n;
    uint64_t missed; /* that ended since the last read and are not among them */
    size_t room;     /* bytes */
    uint64_t seen, ended;
};

struct gd__reader {
    int fd;                     /* -1: none */
    bool no_tasks, no_failures; /* they are counted as missed */
    struct gd__page_header header;
    struct gd__page_plan plan;
    struct gd__page_device *devices;
    /* as of the last read; a part that could not be read whole is as it was before */
    uint64_t awake_ns;
    struct gd__page_run run;
    struct gd__page_worker *workers;
    struct gd__ring_copy tasks, failures;
    uint64_t *sequences; /* private: before, after */
    unsigned char *changing;
};

/* Just the header, checked. GD_E_CORRUPT, GD_E_VERSION. */
int gd__reader_header(int fd, struct gd__page_header *out);

/* Takes fd over, also when it fails. */
int gd__reader_open(struct gd__reader *r, int fd);
void gd__reader_close(struct gd__reader *r);

int gd__reader_read(struct gd__reader *r); /* 0; GD_E_CORRUPT: the file is not what it was; GD_E_NO_MEMORY */

#endif
