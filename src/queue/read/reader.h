/* A reader of a queue: the index of its tasks and records, and the connection.
 *
 *   open.c      connects
 *   reader.c    opening and closing, what is new on the server
 *   figures.c   counts
 *   nodes.c     what the nodes say about themselves
 *   records.c   records with their inputs and outputs, in any order
 *   follow.c    records as they appear
 */
#ifndef GD_QUEUE_READ_READER_H
#define GD_QUEUE_READ_READER_H

#include <gpu_dispatch/queue.h>

#include "base/text/buffer.h"
#include "queue/call.h"
#include "queue/push/state.h"
#include "queue/read/index.h"

enum { GD__READER_ERROR_ROOM = 512, GD__READER_ALIVE_SECONDS = 30 };

struct gd_queue_reader {
    struct gd__caller *caller;
    char *spill_dir; /* NULL: not given */
    struct gd__read_index index;
    struct gd__queue_server_facts server;
    struct gd__buffer command;              /* with a NUL */
    struct gd__buffer texts;                /* of the current record */
    char file_error[GD__READER_ERROR_ROOM]; /* of the current record */
    uint64_t records_until; /* records with a higher sequence belong to tasks that the index may not have yet */
    bool is_incomplete;     /* there was no memory for a part of the index */
    struct gd__push_watch push;
    int (*on_wait)(void *user);
    void *on_wait_user;
};

typedef int gd__reader_record_fn(void *user, const struct gd_queue_record *record);

/* Makes a reader on a connection. It owns the caller from now on, also if this fails. Returns 0 or a negative code, also
 * if the queue does not exist. */
int gd__reader_new(struct gd_queue_reader **out, struct gd__caller *caller, const char *name, const char *spill_dir);

/* Reads what is new. Returns 0; 1 if the server has lost messages, so that the index was made anew; or a negative
 * code. */
int gd__reader_update(struct gd_queue_reader *r);

/* Reads a state: "push", "command". last->kind is OK or NONE; what it points to is borrowed until the next call. */
int gd__reader_state(struct gd_queue_reader *r, const char *state, struct gd__queue_answer *last);
int gd__reader_clock(struct gd_queue_reader *r, uint64_t *now_us); /* of the server; 0: not known */
int gd__reader_push_is_open(struct gd_queue_reader *r, bool *is_open);

/* Calls fn for the records of n tasks, in this order. tasks: indices into the index; each of them has a record. Returns
 * 0, the first other value of fn, or a negative code. */
int gd__reader_emit(struct gd_queue_reader *r, const uint32_t *tasks, size_t n, gd__reader_record_fn *fn, void *user);
/* The same for all tasks that have a record, in the order in which they were pushed. */
int gd__reader_emit_all(struct gd_queue_reader *r, gd__reader_record_fn *fn, void *user);

#endif
