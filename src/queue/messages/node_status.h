/* What a node says about itself: a JSON object, published every few seconds under gd.NAME.s.node.ID. A new status
 * replaces the one before.
 *
 *   {"version":1,"host":"n17","pid":4711,"state":"running","workers":8,"busy":7,"done":120,"failed":1,"held":9,
 *    "tasks_per_day":34560,"http":"http://n17:8080/","note":"GPU 3 was lost"}
 *
 * http and note are left out if there is nothing to say. A newer node may add members, which are ignored here. The time
 * of the last sign of life is not in the status: the server knows when it stored the message, and clocks of machines
 * differ.
 *
 * A status may come from anybody who can write to the queue, and it is shown on terminals and on web pages. So parsing
 * makes its texts printable, and accepts no address but that of a web page.
 */
#ifndef GD_QUEUE_MESSAGES_NODE_STATUS_H
#define GD_QUEUE_MESSAGES_NODE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"
#include "queue/names/subject.h"

enum {
    GD__NODE_STATUS_VERSION = 1,
    GD__NODE_STATUS_MOST = 8192, /* bytes of a status; a larger one is refused */
    GD__NODE_HOST_ROOM = 256,
    GD__NODE_HTTP_ROOM = 512,
    GD__NODE_NOTE_ROOM = 512,
};

enum gd__node_state {
    GD__NODE_RUNNING = 1,
    GD__NODE_DRAINING, /* takes no more tasks, and leaves when what it runs has ended */
    GD__NODE_LEFT,     /* its last status */
};

struct gd__node_status {
    enum gd__node_state state;
    char host[GD__NODE_HOST_ROOM];
    uint64_t pid;
    uint32_t workers, busy;
    uint64_t done, failed; /* tasks whose record is from this node */
    uint64_t held;         /* tasks that it has taken and not recorded */
    double tasks_per_second;
    /* The address of its page, "http://..." or "https://..."; "": none. Everybody who reads the queue sees it, so it must
     * not contain a password or token. */
    char http[GD__NODE_HTTP_ROOM];
    char note[GD__NODE_NOTE_ROOM]; /* for people: why it leaves, what is wrong; "": nothing to say */
};

/* Appends a status. Texts are made printable and cut, numbers that are too large are written as the largest, so that a
 * written status can always be parsed. Errors: to->failed. */
void gd__node_status_write(struct gd__buffer *to, const struct gd__node_status *s);

/* Parses a status. Returns 0; GD_E_CORRUPT; or GD_E_VERSION if a newer version of gpu_dispatch has written it. */
int gd__node_status_parse(struct gd__node_status *out, const void *json, size_t size);

/* The subject of a status: "gd.NAME.s.node.ID". The id has 32 hexadecimal digits (small letters), chosen at random when
 * the node begins. Returns out. */
char *gd__node_status_subject(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const char id[GD__QUEUE_NODE_ROOM]);
/* The subjects of all of them: "gd.NAME.s.node.*". Returns out. */
char *gd__node_status_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name);
/* Finds the id in a subject that the server has sent. Returns 0 or GD_E_CORRUPT. */
int gd__node_status_id(char id[GD__QUEUE_NODE_ROOM], const char *name, const char *subject);

#endif
