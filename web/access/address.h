/* SPDX-License-Identifier: MIT
 *
 * The address of the page: [ADDRESS:]PORT as the user writes it, a socket that listens on it, and the URL for a
 * browser.
 */
#ifndef GD_WEB_ACCESS_ADDRESS_H
#define GD_WEB_ACCESS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct web_address {
    struct sockaddr_storage at;
    socklen_t size;
    unsigned port;
    bool loopback;  /* the address can be reached only from this machine */
    bool any;       /* every address of this machine */
    char host[128]; /* as in a URL: "127.0.0.1", "[::1]" */
};

/* text is like "8080", "0.0.0.0:8080", "[::1]:8080" or "localhost:8080". Returns 0, or -1 with gd__fail_text(). */
int web_address_parse(struct web_address *a, const char *text);

/* Returns a socket that listens on the address, or -1 with gd__fail_text(). Children do not inherit the socket. If the
 * port is 0, sets it to the port that the system chose. */
int web_address_listen(struct web_address *a);

/* Writes a URL like "http://127.0.0.1:8080/". It has the machine's name if `any` is set. */
void web_address_url(const struct web_address *a, char *out, size_t size);

#endif
