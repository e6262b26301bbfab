/* Blocking requests on a link, for programs that work step by step: a push, a reader, the first steps of a node.
 *
 * A caller opens a link with a listener of its own. Its functions wait until the server has answered. If an answer is
 * lost, or the server cannot answer now, they ask again, after delays that grow and differ from machine to machine. If
 * that takes longer than the caller's patience, they return an error.
 *
 *     struct gd__caller *c;
 *     gd__caller_open(&c, &(struct gd__caller_config){ .server = "host:4222", .stop_fd = -1 }, open_link, user);
 *     rc = gd__call(c, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = s }, NULL, NULL, &answer);
 *     gd__caller_close(&c);
 *
 * Publications may also be sent without waiting for each of them: gd__call_publish(), gd__call_flush().
 *
 * Threads: a caller belongs to one thread. Another thread uses a caller of its own on the same link:
 * gd__caller_share().
 *
 * Return values: 0, or
 *   GD_E_INTERRUPTED   the stop descriptor became readable
 *   GD_E_TOO_LARGE     the server does not accept a message of this size
 *   GD_E_FAILED        the server did not answer for too long, or refused the request; the error message says which
 *   GD_E_NO_MEMORY, GD_E_SYSTEM
 */
#ifndef GD_QUEUE_CALL_H
#define GD_QUEUE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/link.h"

enum {
    GD__CALL_PATIENCE_MS = 60000,
    GD__CALL_WINDOW = 1000,           /* publications without an answer */
    GD__CALL_WINDOW_BYTES = 16 << 20, /* of them, unless a single one is larger */
    GD__CALL_READ_MESSAGES = 500,     /* in one request of gd__call_read() */
    GD__CALL_READ_BYTES = 8 << 20,
};

struct gd__caller;

struct gd__caller_config {
    const char *server;   /* for error messages: "host:4222"; copied; NULL: "the server" */
    uint32_t patience_ms; /* how long a request is repeated; 0: GD__CALL_PATIENCE_MS */
    int stop_fd;          /* every function ends early when it is readable; borrowed; -1: none */
    uint32_t window;      /* 0: GD__CALL_WINDOW; at most 65536 */
};

/* Opens the link, with this listener. Returns 0 or a negative code. */
typedef int gd__link_open_fn(void *user, const struct gd__queue_listener *listener, struct gd__queue_link **out);

int gd__caller_open(struct gd__caller **out, const struct gd__caller_config *config, gd__link_open_fn *open_link,
                    void *user);

/* A caller for another thread, on the link of `first`, with the same configuration. Close it before `first`. */
int gd__caller_share(struct gd__caller **out, struct gd__caller *first);

/* Forgets publications without an answer. The last caller closes the link. NULL and *c == NULL are allowed. */
void gd__caller_close(struct gd__caller **c);

/* From now on. For the last requests of a program that was asked to stop: stop_fd -1, and little patience. */
void gd__caller_set(struct gd__caller *c, uint32_t patience_ms, int stop_fd);

struct gd__queue_link *gd__caller_link(struct gd__caller *c);

/* Called for each item of READ, PULL and SUBJECTS, on the thread of the caller. Returns 0, or another value to stop:
 * then gd__call() returns this value. The item is borrowed until the function returns. It must not call functions of the
 * same caller. */
typedef int gd__call_item_fn(void *user, const struct gd__queue_answer *item);

/* Sends a request and waits for its end. request->id is not used. If the request is repeated, items of SUBJECTS may come
 * twice; a READ continues after the last item. *end gets the last answer, whose kind is OK, NONE or REFUSED; what it
 * points to stays valid until the next function of this caller. end may be NULL: then NONE and REFUSED are errors.
 *
 * REFUSED after a repetition may mean that the first publication was stored, and only its answer was lost. */
int gd__call(struct gd__caller *c, const struct gd__queue_request *request, gd__call_item_fn *each, void *user,
             struct gd__queue_answer *end);

/* Reads all messages of a stream that match the filter (NULL: all), from a sequence to the end. The newest ones may be
 * missing. */
int gd__call_read(struct gd__caller *c, enum gd__queue_kind stream, const char *filter, uint64_t from,
                  gd__call_item_fn *each, void *user);

/* Reads all messages of a stream from a sequence to `until`, and perhaps later ones. The replica that answers may be behind:
 * then the leader is asked for the next message. A message that is not there has been removed. until: as the leader has
 * told. */
int gd__call_read_all(struct gd__caller *c, enum gd__queue_kind stream, uint64_t from, uint64_t until,
                      gd__call_item_fn *each, void *user);

/* Waits for at most ms milliseconds, or until stop_fd is readable: then returns GD_E_INTERRUPTED. */
int gd__call_pause(struct gd__caller *c, uint32_t ms);

/* --- many publications at once --- */

struct gd__published {
    uint64_t tag;      /* of the publication */
    bool accepted;     /* false: the server refused it, because its condition does not hold */
    bool repeated;     /* it was sent more than once: if it was refused, the message on the server may be this one */
    uint64_t sequence; /* if accepted */
};

/* Called on the thread of the caller, in gd__call_publish() and gd__call_flush(). Returns 0, or another value: then that
 * function returns it. */
typedef int gd__published_fn(void *user, const struct gd__published *p);
void gd__call_when_published(struct gd__caller *c, gd__published_fn *fn, void *user);

/* Called on the thread of the caller before publications are sent again, in gd__call_publish(), gd__call_flush() and
 * gd__call_read(); with such a function, gd__call() sends none of them again. It may use gd__call() and gd__call_pause()
 * of the same caller. Returns 0, or another value: then nothing is sent again, and these functions return the value. */
typedef int gd__repeat_fn(void *user);
void gd__call_before_repetitions(struct gd__caller *c, gd__repeat_fn *fn, void *user);

struct gd__publication {
    const char *subject; /* copied */
    const void *data;    /* copied */
    size_t size;
    enum gd__queue_condition condition;
    uint64_t sequence; /* of the condition */
    uint64_t tag;
};

/* Sends a publication. Waits only while the window is full. After an error, all publications without an answer are
 * forgotten: the server may have stored them or not. After GD_E_INTERRUPTED they are not, and only this one was not sent:
 * gd__caller_set() and gd__call_flush() wait for the others. */
int gd__call_publish(struct gd__caller *c, const struct gd__publication *p);
/* Waits until the server has answered all publications. */
int gd__call_flush(struct gd__caller *c);

#endif
