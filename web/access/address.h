/* SPDX-License-Identifier: MIT
 *
 * The address of the page: [ADDRESS:]PORT as people write it, a socket that listens there, and the URL for a browser.
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
    bool loopback;  /* it cannot be reached from outside this machine */
    bool any;       /* every address of this machine */
    char host[128]; /* as in a URL: "127.0.0.1", "[::1]" */
};

/* "8080", "0.0.0.0:8080", "[::1]:8080", "localhost:8080". 0, or -1 with gd__fail_text(). */
int web_address_parse(struct web_address *a, const char *text);

/* A socket that listens there, not inherited by children; sets the port if it was 0. -1 with gd__fail_text(). */
int web_address_listen(struct web_address *a);

/* "http://127.0.0.1:8080/"; with the machine's name if it listens on every address. */
void web_address_url(const struct web_address *a, char *out, size_t size);

#endif
