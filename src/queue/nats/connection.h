/* The first connection to a NATS server, with error messages for what can go wrong. */
#ifndef GD_QUEUE_NATS_CONNECTION_H
#define GD_QUEUE_NATS_CONNECTION_H

#include "queue/link.h"
#include "queue/names/address.h"
#include "queue/nats/access/credentials.h"
#include "queue/nats/library.h"

struct gd__nats_events {
    gd__nats_on_connection *lost, *back, *closed;
    gd__nats_on_error *error;
    gd__nats_delay *delay; /* before the next attempt to reconnect, in ms */
    void *user;
};

struct gd__nats_dial {
    const struct gd__queue_address *address;
    const struct gd__nats_options *options;
    const struct gd__nats_events *events;
    uint32_t timeout_ms;
};

/* Connects. If it fails, no function of events is called. Returns GD_E_BUSY if the failure may pass: see link.h. */
int gd__nats_connect(gd__nats_conn **out, const struct gd__nats *n, const struct gd__nats_dial *d,
                     struct gd__queue_server_facts *facts);

#endif
