/* From a user's options to an open link: used by pushes, readers and nodes. */
#ifndef GD_QUEUE_CONNECT_H
#define GD_QUEUE_CONNECT_H

#include <gpu_dispatch/queue.h>

#include "queue/link.h"
#include "queue/names/address.h"

enum {
    GD__QUEUE_LEASE_LEAST_MS = 1000, /* a shorter lease would run out because of a slow network */
    GD__QUEUE_LEASE_MOST_MS = 24 * 3600 * 1000,
    GD__QUEUE_REPLICAS_MOST = 5, /* as in JetStream */
};

/* Copies the options over their defaults, and checks them. Strings are borrowed. Returns 0 or a negative code with an
 * error message. */
int gd__queue_options_read(struct gd_queue_options *out, const struct gd_queue_options *in);

/* What happens while a server does not answer. */
struct gd__queue_patience {
    bool is_endless;                           /* otherwise for connect_timeout_ms */
    void (*say)(void *user, const char *line); /* called once, when the waiting begins; NULL: not wanted */
    /* Waits for ms milliseconds. Returns false to give up. NULL: sleeps */
    bool (*pause)(void *user, unsigned ms);
    void *user;
};

/* Checks the options, parses the address and connects to its server. address may be NULL. A server that does not answer,
 * as one that is just restarting, is tried again, after delays that grow and differ from machine to machine. patience may
 * be NULL. Returns 0, GD_E_INTERRUPTED if patience->pause has returned false, or another negative code with an error
 * message. Close the link with link->ops->close(). */
int gd__queue_connect(struct gd__queue_link **out, struct gd__queue_address *address,
                      const struct gd_queue_options *options, const struct gd__queue_listener *listener,
                      const struct gd__queue_patience *patience);

/* gd__queue_secrets_warning() of binding.h. */
void gd__queue_find_warning(const struct gd_queue_options *o, char *out, size_t room);

#endif
