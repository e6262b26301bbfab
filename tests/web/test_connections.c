/* SPDX-License-Identifier: MIT
 *
 * Which clients may be connected, and for how long. A client is one end of a pair of sockets, so it sees the end of its
 * connection.
 */
#include "web/access/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/failure.h"
#include "support/test.h"

enum { AT_ONCE_MS = 1, HOUR_MS = 3600000 };

struct client {
    int fd, server_fd;
    struct web_connection *place;
};

static struct web_connections *open_with(unsigned strangers, unsigned known, unsigned request_ms, unsigned answer_ms)
{
    struct web_connections *s = NULL;
    const struct web_connection_limits limits = {
        .most_strangers = strangers, .most_known = known, .request_ms = request_ms, .answer_ms = answer_ms
    };
    if (web_connections_open(&s, &limits) < 0)
        FAIL("%s", gd__fail_text());
    return s;
}

static struct client come(struct web_connections *s, const char *from)
{
    struct client c;
    int pair[2];
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    const bool is_v4 = inet_pton(AF_INET, from, &in.sin_addr) == 1;
    CHECK(is_v4 || inet_pton(AF_INET6, from, &in6.sin6_addr) == 1);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    c.fd = pair[0];
    c.server_fd = pair[1];
    c.place = web_connections_add(s, pair[1], is_v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6);
    CHECK(c.place != NULL);
    return c;
}

static void leave(struct web_connections *s, struct client *c)
{
    web_connections_remove(s, c->place);
    close(c->server_fd);
    close(c->fd);
}

/* Waits until the connection is closed. */
static void check_dropped(const struct client *c)
{
    char byte;
    CHECK_EQ(recv(c->fd, &byte, 1, 0), 0);
}

static void check_connected(const struct client *c)
{
    char byte;
    CHECK_EQ(recv(c->fd, &byte, 1, MSG_DONTWAIT), -1);
    CHECK_EQ(errno, EAGAIN);
}

TEST(a_request_that_does_not_come_ends_the_connection)
{
    struct web_connections *s = open_with(8, 8, AT_ONCE_MS, HOUR_MS);
    struct client a = come(s, "10.0.0.1"), b = come(s, "10.0.0.1");
    check_dropped(&a);
    check_dropped(&b);
    leave(s, &b);
    leave(s, &a);
    web_connections_close(&s);
}

/* The answer to the trusted client began first. If it had a limit, it would have ended before the stranger's. */
TEST(an_answer_has_a_limit_for_strangers_only)
{
    struct web_connections *s = open_with(8, 8, HOUR_MS, AT_ONCE_MS);
    struct client trusted = come(s, "10.0.0.1"), stranger = come(s, "10.0.0.1");
    CHECK(web_connections_trust(s, trusted.place));
    web_connections_requested(s, trusted.place);
    web_connections_requested(s, stranger.place);
    check_dropped(&stranger);
    check_connected(&trusted);
    leave(s, &trusted);
    leave(s, &stranger);
    web_connections_close(&s);
}

/* The thread already waits, for a later time or without a time limit, when an earlier time limit is added. */
TEST(after_an_answer_the_next_request_has_its_time)
{
    struct web_connections *s = open_with(8, 8, AT_ONCE_MS, HOUR_MS);
    struct client first = come(s, "10.0.0.1");
    check_dropped(&first); /* now the thread waits without a time limit */
    leave(s, &first);
    struct client c = come(s, "10.0.0.1");
    web_connections_requested(s, c.place);
    web_connections_answered(s, c.place);
    check_dropped(&c);
    leave(s, &c);
    web_connections_close(&s);
}

TEST(another_stranger_replaces_the_oldest)
{
    struct web_connections *s = open_with(3, 8, HOUR_MS, HOUR_MS);
    struct client c[8];
    for (size_t i = 0; i < 8; i++)
        c[i] = come(s, "127.0.0.1");
    for (size_t i = 0; i < 5; i++)
        check_dropped(&c[i]);
    for (size_t i = 5; i < 8; i++)
        check_connected(&c[i]);
    for (size_t i = 0; i < 8; i++)
        leave(s, &c[i]);
    web_connections_close(&s);
}

TEST(the_address_with_the_most_strangers_loses_one)
{
    struct web_connections *s = open_with(4, 8, HOUR_MS, HOUR_MS);
    struct client good = come(s, "10.0.0.1"), bad[20];
    for (size_t i = 0; i < 20; i++)
        bad[i] = come(s, "10.0.0.2");
    check_connected(&good);
    for (size_t i = 0; i < 17; i++)
        check_dropped(&bad[i]);
    for (size_t i = 17; i < 20; i++)
        check_connected(&bad[i]);
    for (size_t i = 0; i < 20; i++)
        leave(s, &bad[i]);
    leave(s, &good);
    web_connections_close(&s);
}

TEST(one_network_of_ipv6_is_one_client)
{
    struct web_connections *s = open_with(2, 8, HOUR_MS, HOUR_MS);
    struct client good = come(s, "2001:db8:1::1"), a = come(s, "2001:db8:2::1"), b = come(s, "2001:db8:2::2");
    check_connected(&good);
    check_dropped(&a);
    check_connected(&b);
    leave(s, &good);
    leave(s, &a);
    leave(s, &b);
    good = come(s, "::ffff:10.0.0.1"); /* but each IPv4 address is a separate client */
    a = come(s, "::ffff:10.0.0.2");
    b = come(s, "::ffff:10.0.0.2");
    check_connected(&good);
    check_dropped(&a);
    check_connected(&b);
    leave(s, &good);
    leave(s, &a);
    leave(s, &b);
    web_connections_close(&s);
}

/* All local addresses count as one client. Otherwise a user of this machine could use many of them, each once. */
TEST(this_machine_is_one_client)
{
    static const char *const from[] = { "127.0.0.1", "127.1.2.3", "::ffff:127.0.0.4", "127.255.0.1" };
    struct web_connections *s = open_with(4, 8, HOUR_MS, HOUR_MS);
    struct client good = come(s, "10.0.0.1"), also_good = come(s, "10.0.0.1"), c[4];
    for (size_t i = 0; i < 4; i++)
        c[i] = come(s, from[i]);
    check_connected(&good);
    check_connected(&also_good);
    for (size_t i = 0; i < 4; i++) {
        (i < 2 ? check_dropped : check_connected)(&c[i]);
        leave(s, &c[i]);
    }
    leave(s, &good);
    leave(s, &also_good);
    web_connections_close(&s);
}

TEST(strangers_do_not_replace_clients_with_the_token)
{
    struct web_connections *s = open_with(2, 2, HOUR_MS, HOUR_MS);
    struct client a = come(s, "127.0.0.1"), b = come(s, "127.0.0.1");
    CHECK(web_connections_trust(s, a.place));
    CHECK(web_connections_trust(s, b.place));
    CHECK(web_connections_trust(s, b.place)); /* again, with its next request */
    struct client c[5];
    for (size_t i = 0; i < 5; i++)
        c[i] = come(s, "127.0.0.1");
    check_connected(&a);
    check_connected(&b);
    CHECK(!web_connections_trust(s, c[4].place)); /* there is no room */
    leave(s, &a);
    CHECK(web_connections_trust(s, c[4].place));
    CHECK(!web_connections_trust(s, c[0].place)); /* has lost its connection */
    for (size_t i = 0; i < 5; i++)
        leave(s, &c[i]);
    leave(s, &b);
    web_connections_close(&s);
}

/* The server has not noticed the close yet, because it does not check a client that waits for events. */
TEST(a_client_that_closed_its_connection_takes_no_place)
{
    struct web_connections *s = open_with(4, 1, HOUR_MS, HOUR_MS);
    struct client a = come(s, "127.0.0.1"), b = come(s, "127.0.0.1");
    CHECK(web_connections_trust(s, a.place));
    CHECK(!web_connections_trust(s, b.place));
    CHECK_EQ(shutdown(a.fd, SHUT_RDWR), 0);
    CHECK(web_connections_trust(s, b.place));
    leave(s, &a);
    leave(s, &b);
    web_connections_close(&s);
}

TEST(a_dropped_client_takes_no_place)
{
    struct web_connections *s = open_with(1, 1, HOUR_MS, HOUR_MS);
    struct client a = come(s, "127.0.0.1"), b = come(s, "127.0.0.1");
    check_dropped(&a);
    web_connections_answered(s, a.place); /* does not revive it */
    leave(s, &a);
    struct client c = come(s, "127.0.0.1");
    check_dropped(&b);
    check_connected(&c);
    leave(s, &b);
    leave(s, &c);
    web_connections_close(&s);
}

TEST_MAIN()
