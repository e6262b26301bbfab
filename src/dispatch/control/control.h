/* Requests to a running job: pause, resume, drain, cancel one task, change the time limit, add and remove workers.
 *
 *   requests.c   what each request does; the queue of requests from other threads
 *   socket.c     the socket through which other processes of the same user make requests
 *   protocol.c   the lines on that socket
 *
 * A request is carried out on the run's thread. The scheduler decides (core/control.c).
 */
#ifndef GD_DISPATCH_CONTROL_CONTROL_H
#define GD_DISPATCH_CONTROL_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct gd_dispatcher;

enum gd__control_kind {
    GD__CONTROL_PAUSE,
    GD__CONTROL_RESUME,
    GD__CONTROL_DRAIN,
    GD__CONTROL_CANCEL,      /* task `value` */
    GD__CONTROL_SET_TIMEOUT, /* to `value` ms; 0: none */
    GD__CONTROL_ADD,         /* `value` workers of the device gpu_id */
    GD__CONTROL_REMOVE,      /* likewise */
    GD__CONTROL_STATUS,      /* changes nothing: the socket answers it */
    GD__CONTROL_KINDS
};

struct gd__control {
    enum gd__control_kind kind;
    uint64_t value;
    int gpu_id;
};

enum { GD__CONTROL_TEXT = 256 };

/* The outcome of a request: code is 0, or negative if it was refused. */
struct gd__control_answer {
    int code;
    char text[GD__CONTROL_TEXT];
};

/* The queue of requests. Any thread adds to it, the run's thread takes from it. */
struct gd__control_queue {
    pthread_mutex_t lock;
    struct gd__control_entry *first, *last;
    _Atomic unsigned n;
};

/* Called by the run's thread. Passes the outcome to on_control too. */
void gd__control_do(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out);
/* Carries out the requests of other threads. */
void gd__control_take(struct gd_dispatcher *d);
void gd__control_free(struct gd_dispatcher *d);

/* The control socket of a run that is published: the file NAME.control beside its page NAME. If it can't be made, the
 * run goes on without it. */
struct gd__control_socket;
void gd__control_listen(struct gd_dispatcher *d);
void gd__control_hang_up(struct gd_dispatcher *d); /* may be called twice */

#endif
