/* Reads messages again whose places the index knows, as few requests as possible: those that are next to each other, or
 * almost, come with one request. */
#ifndef GD_QUEUE_READ_FETCH_H
#define GD_QUEUE_READ_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "queue/call.h"
#include "queue/read/index.h"

struct gd__read_fetched {
    uint32_t message;    /* index into the messages of the index */
    unsigned char *data; /* NULL: the server does not have it any more, or it has changed */
    size_t size;
    /* After it was opened: the position of each item. */
    uint32_t *items;
    uint32_t n_items;
    struct gd__queue_text host; /* of a record message */
};

/* A zeroed struct is empty. */
struct gd__read_fetch {
    struct gd__read_fetched *items; /* sorted by message */
    size_t n;
};

/* Reads n messages. The list is sorted, and repetitions are removed from it. Returns 0 or a negative code. */
int gd__read_fetch(struct gd__read_fetch *f, struct gd__caller *c, const struct gd__read_messages *messages,
                   enum gd__queue_kind kind, uint32_t *list, size_t n);
void gd__read_fetch_free(struct gd__read_fetch *f); /* also makes it empty again */

/* Finds an item. Returns false if the message is missing, or has no such item. */
bool gd__read_fetched_task(const struct gd__read_fetch *f, uint32_t message, uint32_t item, struct gd__queue_task *out);
bool gd__read_fetched_record(const struct gd__read_fetch *f, uint32_t message, uint32_t item,
                             struct gd__queue_record *out, struct gd__queue_text *host);

#endif
