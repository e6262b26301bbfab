/* The address of a queue: which servers hold it, and its name.
 *
 *   nats://host/NAME                       one server, port 4222
 *   nats://a:4222,b,[2001:db8::7]/NAME     several servers of one cluster
 *   tls://host/NAME                        the same, but a connection without TLS is refused
 *
 * An address appears in lists of processes, in logs and in shell histories. So it must not contain secrets: a user, a
 * password or a token is refused, and the error message does not repeat the address.
 */
#ifndef GD_QUEUE_NAMES_ADDRESS_H
#define GD_QUEUE_NAMES_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GD__QUEUE_NAME_MOST = 64,         /* bytes of the name of a queue */
    GD__QUEUE_HOST_MOST = 253,        /* bytes of the name of a host, as in the DNS */
    GD__QUEUE_SERVERS_MOST = 16,      /* servers in one address; a client learns the others from the servers */
    GD__QUEUE_PORT = 4222,            /* if the address has no port */
    GD__QUEUE_SERVER_TEXT_ROOM = 272, /* enough for "nats://[host]:65535" and a NUL */
};

struct gd__queue_server {
    char host[GD__QUEUE_HOST_MOST + 1]; /* an IPv6 address has no brackets here */
    uint16_t port;
};

struct gd__queue_address {
    bool tls;
    char name[GD__QUEUE_NAME_MOST + 1];
    size_t n_servers; /* at least 1 */
    struct gd__queue_server servers[GD__QUEUE_SERVERS_MOST];
};

/* Parses an address. Returns 0 or GD_E_INVALID with an error message that says what to write instead. */
int gd__queue_address_parse(struct gd__queue_address *out, const char *text);

/* Writes server i as "nats://host:port" or "tls://host:port", the form that client libraries take. Returns out. */
char *gd__queue_server_text(char out[GD__QUEUE_SERVER_TEXT_ROOM], const struct gd__queue_address *a, size_t i);

/* Checks the name of a queue: 1 to GD__QUEUE_NAME_MOST letters (a-z, A-Z), digits, '-' and '_'. Returns 0 or
 * GD_E_INVALID. */
int gd__queue_name_check(const char *name, size_t size);

#endif
