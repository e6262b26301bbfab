/* The frames of a spool file: see spool.h. */
#ifndef GD_QUEUE_SPOOL_FRAME_H
#define GD_QUEUE_SPOOL_FRAME_H

#include "base/text/buffer.h"
#include "queue/names/subject.h"

enum gd__spool_kind {
    GD__SPOOL_QUEUE = 'q',
    GD__SPOOL_KEEP = 'k',
    GD__SPOOL_FORGET = 'f',
};

enum {
    GD__SPOOL_HEAD = 32,                                        /* bytes of a frame before its contents */
    GD__SPOOL_MESSAGE_AT = GD__SPOOL_HEAD + GD__QUEUE_KEY_ROOM, /* where the message begins in a 'k' frame */
};

/* Identifies a queue, even among those with the same name: on other servers, or made anew on the same one. */
struct gd__spool_queue_id {
    bool is_known;
    unsigned char bytes[GD__HASH_SIZE];
};

/* Add a frame to the end of *b. */
void gd__spool_frame_queue(struct gd__buffer *b, const char *name, const struct gd__spool_queue_id *id);
void gd__spool_frame_keep(struct gd__buffer *b, const struct gd__queue_key *key, const void *message, size_t size);
void gd__spool_frame_forget(struct gd__buffer *b, const struct gd__queue_key *key);

struct gd__spool_frame {
    enum gd__spool_kind kind;
    uint64_t at, size;                  /* of the whole frame, in the file */
    char name[GD__QUEUE_NAME_MOST + 1]; /* of a queue */
    struct gd__spool_queue_id id;
    struct gd__queue_key key;
};

/* Reads the frames of a file one after the other. The file is mapped, so it must not become shorter meanwhile. */
struct gd__spool_scan {
    const unsigned char *bytes; /* NULL: the file is empty */
    uint64_t size, at;
};

int gd__spool_scan_open(struct gd__spool_scan *scan, int fd);
/* Returns 1, or 0 at the end of the file or of its valid part. */
int gd__spool_scan_next(struct gd__spool_scan *scan, struct gd__spool_frame *out);
void gd__spool_scan_close(struct gd__spool_scan *scan);

/* Parses the frame at the beginning of these bytes. Returns false if it is not complete or not valid. */
bool gd__spool_frame_parse(struct gd__spool_frame *out, const unsigned char *bytes, uint64_t size);

#endif
