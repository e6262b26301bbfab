/* Whether a server has messages on its disk before it confirms them.
 *
 * This is the setting sync_interval of the server. The server does not tell it to ordinary clients. It tells it to anyone
 * who reads its monitoring page, which the shipped configuration puts on port 8222 of the same host. If nothing listens
 * there, or it is another server, it cannot be learned.
 */
#ifndef GD_QUEUE_NATS_SERVER_DURABLE_H
#define GD_QUEUE_NATS_SERVER_DURABLE_H

#include <stddef.h>

#include "queue/names/address.h"

enum { GD__NATS_MONITORING_PORT = 8222 };

/* Another port of the monitoring page. */
#define GD__ENV_MONITORING "GPU_DISPATCH_NATS_MONITORING"

/* Reads an answer of /jsz. id: of the server that is meant. Returns 1 (durable), 0 (not), or -1 (not known). */
int gd__nats_durable_parse(const char *answer, size_t size, const char *id);

/* Asks the host of this server. Waits for at most a quarter of a second: a firewall may be between. If the user has named
 * the port, waits for at most 10 seconds. */
int gd__nats_durable(const struct gd__queue_server *s, const char *id);

#endif
