/* Sends messages through a connection of libnats, on any thread. */
#ifndef GD_QUEUE_NATS_SENDER_H
#define GD_QUEUE_NATS_SENDER_H

#include <pthread.h>

#include "queue/nats/language/jetstream.h"
#include "queue/nats/library.h"

/* Messages of libnats that are not needed any more. libnats frees a message on a thread of its own, and waking that thread
 * for each message would cost more than all the rest. So they are given to it in groups. Not thread-safe. */
enum { GD__NATS_SPENT_MOST = 512, GD__NATS_SPENT_BYTES = 1 << 20 };

/* A zeroed struct is empty. */
struct gd__nats_spent {
    gd__nats_msg *messages[GD__NATS_SPENT_MOST];
    size_t n, bytes;
};

/* Adds a message. If there are enough, moves all of them to *full, which the caller then destroys, without a lock. */
void gd__nats_spent_add(struct gd__nats_spent *s, gd__nats_msg *message, size_t bytes, struct gd__nats_spent *full);
void gd__nats_spent_destroy(struct gd__nats_spent *s, const struct gd__nats *n);

struct gd__nats_sender {
    const struct gd__nats *n;
    gd__nats_conn *connection; /* borrowed */
    bool is_pipe_ignored;      /* when the sender was opened */
    pthread_mutex_t lock;      /* protects what follows */
    struct gd__nats_spent sent;
};

void gd__nats_sender_init(struct gd__nats_sender *s, const struct gd__nats *n);
void gd__nats_sender_destroy(struct gd__nats_sender *s);

/* The calling thread has all signals blocked, for ever. */
void gd__nats_sender_own_thread(void);

/* Each returns a status of libnats. */
int gd__nats_send(struct gd__nats_sender *s, const struct gd__js_message *m, const char *reply);
int gd__nats_send_notice(struct gd__nats_sender *s, const char *subject, const char *text);

#endif
