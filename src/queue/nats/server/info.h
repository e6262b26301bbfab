/* The first line that a NATS server sends to a client, and a short connection to read it.
 *
 * libnats does not tell the version of a server, and reports most failures as "no server available". So each server is
 * asked once, before libnats connects. The line is sent before the client logs in and before TLS begins. It is not proof
 * of anything, only a description. Servers that begin with TLS (handshake_first) send none, and libnats 3.4 cannot use
 * them.
 */
#ifndef GD_QUEUE_NATS_SERVER_INFO_H
#define GD_QUEUE_NATS_SERVER_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/names/address.h"

struct gd__nats_info {
    char version[32], id[64];
    uint64_t max_payload;
    bool tls_required, tls_available, tls_verify; /* tls_verify: clients need a certificate */
    bool needs_credentials, jetstream;
};

/* Parses a line, with or without its end. Returns 0 or GD_E_CORRUPT. */
int gd__nats_info_parse(struct gd__nats_info *out, const char *line, size_t size);

/* Whether a version such as "2.12.3" or "2.13.0-RC.1" is at least the one that queues need. */
#define GD__NATS_OLDEST "2.12.3"
bool gd__nats_version_works(const char *version);

/* Connects to the server and reads its line. Returns 0, or a negative code with an error message that says what is wrong:
 * GD_E_BUSY if that may pass, because the server is starting; GD_E_UNSUPPORTED if it cannot hold a queue. */
int gd__nats_info_read(struct gd__nats_info *out, const struct gd__queue_server *server, uint64_t deadline_ns);

#endif
