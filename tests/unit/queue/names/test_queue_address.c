/* SPDX-License-Identifier: MIT
 *
 * What a user writes after --queue.
 */
#include "base/error.h"
#include "queue/names/address.h"
#include "support/test.h"

#define TEN(text)  text text text text text text text text text text
#define NAME_64    TEN("abcdef") "WXYZ"
#define LABEL      "abcdefghijklmnopqrstuvwxyz0123456789012345678901234567890123."
#define HOST_253   LABEL LABEL LABEL LABEL "abcdefghi"
#define SERVERS_16 "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"

/* The servers, as gd__queue_server_text() writes them, with blanks between them. */
static const char *servers(const struct gd__queue_address *a)
{
    static char text[GD__QUEUE_SERVERS_MOST * GD__QUEUE_SERVER_TEXT_ROOM];
    char one[GD__QUEUE_SERVER_TEXT_ROOM];
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < a->n_servers; i++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "%s%s", i ? " " : "", gd__queue_server_text(one, a, i));
    return text;
}

TEST(valid_addresses)
{
    static const struct {
        const char *text, *servers, *name;
    } rows[] = {
        { "nats://host/NAME", "nats://host:4222", "NAME" },
        { "tls://host/NAME", "tls://host:4222", "NAME" },
        { "NATS://host/n", "nats://host:4222", "n" },
        { "Tls://Host.example.org/n", "tls://Host.example.org:4222", "n" },
        { "nats://host:1/n", "nats://host:1", "n" },
        { "nats://host:65535/n", "nats://host:65535", "n" },
        { "nats://host:04222/n", "nats://host:4222", "n" },
        { "nats://10.0.0.1:4223/a-b_9", "nats://10.0.0.1:4223", "a-b_9" },
        { "nats://a,b:5000,c/n", "nats://a:4222 nats://b:5000 nats://c:4222", "n" },
        { "nats://a:1,nats://b:2/n", "nats://a:1 nats://b:2", "n" },
        { "tls://a,TLS://b/n", "tls://a:4222 tls://b:4222", "n" },
        { "nats://[::1]/n", "nats://[::1]:4222", "n" },
        { "nats://[2001:db8::7]:99,[::ffff:10.0.0.1]/n", "nats://[2001:db8::7]:99 nats://[::ffff:10.0.0.1]:4222", "n" },
        { "nats://my_host-1./n", "nats://my_host-1.:4222", "n" },
        { "nats://nats/nats", "nats://nats:4222", "nats" },
        { "nats://host/" NAME_64, "nats://host:4222", NAME_64 },
        { "nats://host/-", "nats://host:4222", "-" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__queue_address a;
        if (gd__queue_address_parse(&a, rows[i].text) != 0)
            FAIL("%s: %s", rows[i].text, gd_error_text());
        if (strcmp(servers(&a), rows[i].servers) != 0 || strcmp(a.name, rows[i].name) != 0)
            FAIL("%s: servers %s, name %s", rows[i].text, servers(&a), a.name);
        CHECK_EQ(a.tls, strncasecmp(rows[i].text, "tls", 3) == 0);
    }
}

TEST(invalid_addresses)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "must begin with nats:// or tls://: write nats://host/NAME" },
        { "host/NAME", "must begin with nats://" },
        { "host", "must begin with nats://" },
        { "http://host/NAME", "must begin with nats://" },
        { "ws://host/NAME", "must begin with nats://" },
        { " nats://host/NAME", "must begin with nats://" },
        { "nats:host/NAME", "must begin with nats://" },
        { "nats:/host/NAME", "must begin with nats://" },
        { "nats://", "has no name: write nats://host/NAME" },
        { "nats://host", "has no name" },
        { "nats://host/", "has no name" },
        { "nats:///", "has no name" },
        { "nats:///NAME", "has no server: write nats://host/NAME" },
        { "nats://host/a.b", "\"a.b\" is not the name of a queue: write 1 to 64 letters" },
        { "nats://host/a/b", "is not the name of a queue" },
        { "nats://host/a/", "is not the name of a queue" },
        { "nats://host//a", "is not the name of a queue" },
        { "nats://host/a*", "is not the name of a queue" },
        { "nats://host/>", "is not the name of a queue" },
        { "nats://host/a b", "is not the name of a queue" },
        { "nats://host/a%20b", "is not the name of a queue" },
        { "nats://host/\xc3\xa9", "is not the name of a queue" },
        { "nats://host/a\n", "is not the name of a queue" },
        { "nats://host/" NAME_64 "x", "is not the name of a queue" },
        { "nats://,/n", "a server without a name" },
        { "nats://a,/n", "a server without a name" },
        { "nats://,a/n", "a server without a name" },
        { "nats://a,nats:///n", "a server without a name" },
        { "nats://:4222/n", "a server without a name" },
        { "nats://a:/n", "a port from 1 to 65535" },
        { "nats://a:0/n", "a port from 1 to 65535" },
        { "nats://a:65536/n", "a port from 1 to 65535" },
        { "nats://a:4294971518/n", "a port from 1 to 65535" },
        { "nats://a:99999999999999999999/n", "a port from 1 to 65535" },
        { "nats://a:4222x/n", "a port from 1 to 65535" },
        { "nats://a:+1/n", "a port from 1 to 65535" },
        { "nats://a: 1/n", "a port from 1 to 65535" },
        { "nats://::1/n", "write an IPv6 address in brackets" },
        { "nats://2001:db8::7/n", "write an IPv6 address in brackets" },
        { "nats://[::1/n", "'[' without ']'" },
        { "nats://[]/n", "is not an IPv6 address" },
        { "nats://[host]/n", "is not an IPv6 address" },
        { "nats://[10.0.0.1]/n", "is not an IPv6 address" },
        { "nats://[fe80::1%eth0]/n", "is not an IPv6 address" },
        { "nats://[::1]4222/n", "a port from 1 to 65535" },
        { "nats://[::1]:/n", "a port from 1 to 65535" },
        { "nats://ho st/n", "is not the name of a host" },
        { "nats://h*/n", "is not the name of a host" },
        { "nats://h\\n/n", "is not the name of a host" },
        { "nats://" HOST_253 "x/n", "is not the name of a host" },
        { "nats://a,tls://b/n", "another scheme than the first server" },
        { "tls://a,nats://b/n", "another scheme than the first server" },
        { "nats://" SERVERS_16 ",q/n", "more than 16 servers" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__queue_address a;
        const int rc = gd__queue_address_parse(&a, rows[i].text);
        if (rc != GD_E_INVALID || !strstr(gd_error_text(), rows[i].message))
            FAIL("%s: %d, \"%s\" without \"%s\"", rows[i].text, rc, gd_error_text(), rows[i].message);
    }
}

TEST(longest_address)
{
    struct gd__queue_address a;
    char one[GD__QUEUE_SERVER_TEXT_ROOM];
    CHECK_EQ(strlen(HOST_253), GD__QUEUE_HOST_MOST);
    CHECK_EQ(gd__queue_address_parse(&a, "nats://" HOST_253 ":65535/n"), 0);
    CHECK_STR(gd__queue_server_text(one, &a, 0), "nats://" HOST_253 ":65535");
    CHECK_EQ(gd__queue_address_parse(&a, "nats://" SERVERS_16 "/n"), 0);
    CHECK_EQ(a.n_servers, 16);
    CHECK_STR(a.servers[15].host, "p");
}

/* A secret in an address is refused wherever it is, and the message does not show it. */
TEST(secrets)
{
    static const char *const texts[] = {
        "nats://user:s3cret@host/n", "nats://s3cret@host/n",      "tls://a,user:s3cret@b/n",     "user:s3cret@host/n",
        "nats://user:s3/cret@host/", "nats://host/n?user=s3cret", "nats://host/n#s3cret",        "nats://host/s3cret@n",
        "nats://u:s3cret@[::1]/n",   "nats://user:s3cret/n",      "nats://a,nats://u:s3cret@b/", "nats://u:s3?cret@h/n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gd__queue_address a;
        CHECK_EQ(gd__queue_address_parse(&a, texts[i]), GD_E_INVALID);
        if (strstr(gd_error_text(), "s3"))
            FAIL("%s: the message shows the secret: %s", texts[i], gd_error_text());
        if (!strstr(gd_error_text(), "--creds FILE or --nkey FILE") && !strstr(gd_error_text(), "host:port"))
            FAIL("%s: the message does not say what to use: %s", texts[i], gd_error_text());
    }
}

TEST_MAIN()
