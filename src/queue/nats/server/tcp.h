/* Short TCP connections with a deadline, to learn something about a server. */
#ifndef GD_QUEUE_NATS_SERVER_TCP_H
#define GD_QUEUE_NATS_SERVER_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/names/address.h"

/* Tries all addresses of the host. Returns a descriptor, or a negative code with an error message that says what is wrong:
 * GD_E_BUSY if that may pass, because the server is starting. */
int gd__tcp_connect(const struct gd__queue_server *s, uint64_t deadline_ns);

/* Reads until the byte `stop` has come (-1: until the end), the room is full, or the time is over. Returns how many
 * bytes. */
size_t gd__tcp_read(int fd, char *to, size_t room, int stop, uint64_t deadline_ns);

/* Returns false if the text could not be sent in time. */
bool gd__tcp_write(int fd, const char *text, uint64_t deadline_ns);

/* "host:4222", "[::1]:4222"; for messages. Returns out. */
char *gd__tcp_server_text(char out[GD__QUEUE_SERVER_TEXT_ROOM], const struct gd__queue_server *s);

#endif
