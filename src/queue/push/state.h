/* The lock of a queue's push: what gd.NAME.s.push contains, and when it counts.
 *
 *   {"version":1,"open":true,"host":"n17","pid":4711,"started":1763312345,"process":"8a1f...",
 *    "nonce":"00112233445566778899aabbccddeeff"}
 *
 * One push at a time adds tasks. It publishes this message on condition that there is none, or that the last one is that
 * of a push that has ended ("open":false) or died. While it goes on, it publishes the message again every
 * GD__PUSH_BEAT_MS, so its sequence changes. A push whose message has not changed for GD__PUSH_DEAD_MS, by the clock of
 * the one who looks, has died: clocks of different machines are never compared. Time in which nobody could reach the
 * server does not count: of the time between two looks, at most GD__PUSH_LOOK_MS does.
 *
 * "process" identifies the process within its machine (boot, PID namespace, start time). So another push on the same
 * machine sees at once that the process is gone.
 */
#ifndef GD_QUEUE_PUSH_STATE_H
#define GD_QUEUE_PUSH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"
#include "queue/link.h"

enum {
    GD__PUSH_BEAT_MS = 5000,
    GD__PUSH_DEAD_MS = 30000,
    GD__PUSH_LOOK_MS = 10000,
    GD__PUSH_NONCE_ROOM = 33, /* 32 hexadecimal digits and a NUL */
    GD__PUSH_HOST_ROOM = 256,
    GD__PUSH_PROCESS_ROOM = 128,
    GD__PUSH_STATE_MOST = 4096, /* bytes; a larger message is refused */
};

struct gd__push_state {
    bool open;
    char host[GD__PUSH_HOST_ROOM];
    uint64_t pid;
    uint64_t started; /* Unix time */
    char process[GD__PUSH_PROCESS_ROOM];
    char nonce[GD__PUSH_NONCE_ROOM];
};

/* Appends the text. Errors: to->failed. */
void gd__push_state_write(struct gd__buffer *to, const struct gd__push_state *s);

/* Parses what a server has sent. The host becomes printable. Returns 0; GD_E_CORRUPT; or GD_E_VERSION if a newer version
 * of gpu_dispatch has written it. */
int gd__push_state_parse(struct gd__push_state *out, const void *json, size_t size);

/* Decides whether a push is going on, from answers to GD__ASK_LAST for the subject. Pure. A zeroed struct has seen
 * nothing. */
struct gd__push_watch {
    uint64_t sequence;  /* of the last message that was seen; 0: none */
    uint64_t looked_ns; /* the last time */
    uint64_t still_ns;  /* how long it has not changed */
};

/* Returns true if the message is that of a push that goes on, as far as this watch can know: a push that died counts
 * until the watch has seen the same message for GD__PUSH_DEAD_MS. A message that cannot be parsed counts as open for
 * that time too. *state, unless it is NULL, gets the contents; without valid ones, zeros. */
bool gd__push_is_open(struct gd__push_watch *w, uint64_t now_ns, const struct gd__queue_answer *last,
                      struct gd__push_state *state);

#endif
