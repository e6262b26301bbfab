/* Parses the address of a queue.
 *
 *   address = scheme "://" server { "," [ scheme "://" ] server } "/" name
 *   scheme  = "nats" | "tls"          upper and lower case are the same; all servers have the same scheme
 *   server  = host [ ":" port ]
 *   host    = letters, digits, "-", ".", "_"  |  "[" IPv6 address "]"
 *
 * The name becomes a part of subjects and of stream names on the server, where '.', '*', '>', spaces and path separators
 * have a meaning of their own. So only letters, digits, '-' and '_' are allowed.
 */
#include "queue/names/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text/printable.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

enum {
    SHOWN = 128,  /* bytes of the user's text that a message shows */
    ADDRESS = 16, /* bytes of an IPv6 address */
};

/* A part of the address that is being parsed. */
struct part {
    const char *at;
    size_t size;
};

static int invalid(struct part p, const char *what)
{
    char shown[SHOWN];
    (void)gd__text_line(shown, sizeof shown, p.at, p.size);
    return gd__error(GD_E_INVALID, "the address of a queue: \"%s\" %s", shown, what);
}

/* Returns the length of "nats://" or "tls://" at the beginning of the text, or 0. */
static size_t scheme_length(const char *text, size_t size, bool *tls)
{
    static const struct {
        const char *text;
        bool tls;
    } schemes[] = { { "nats://", false }, { "tls://", true } };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const size_t length = strlen(schemes[i].text);
        if (size >= length && strncasecmp(text, schemes[i].text, length) == 0) {
            *tls = schemes[i].tls;
            return length;
        }
    }
    return 0;
}

/* Secrets are looked for first, and in the whole text: a password may contain any character. */
static int check_secrets(const char *text)
{
    if (strchr(text, '@'))
        return gd__error(GD_E_INVALID, "the address of a queue must not contain a user, a password or a token, because "
                                       "other users can see it in the list of processes. Write it without the part "
                                       "before '@', and set NATS_USER and NATS_PASSWORD, or NATS_TOKEN, or use "
                                       "--creds FILE or --nkey FILE");
    if (strpbrk(text, "?#"))
        return gd__error(GD_E_INVALID, "the address of a queue ends with its name: write nats://host/NAME without '?' "
                                       "and '#'. For credentials set NATS_USER and NATS_PASSWORD, or NATS_TOKEN, or "
                                       "use --creds FILE or --nkey FILE");
    return 0;
}

int gd__queue_name_check(const char *name, size_t size)
{
    size_t valid = 0;
    while (valid < size && name[valid] != '\0' && strchr(LETTERS DIGITS "-_", name[valid]))
        valid++;
    if (size == 0 || valid < size || size > GD__QUEUE_NAME_MOST) {
        char shown[SHOWN];
        (void)gd__text_line(shown, sizeof shown, name, size);
        return gd__error(GD_E_INVALID,
                         "\"%s\" is not the name of a queue: write 1 to %d letters (a-z, A-Z), digits, '-' and '_'",
                         shown, GD__QUEUE_NAME_MOST);
    }
    return 0;
}

/* Reads what follows the host: nothing, or ":" and a port. The message does not show the port: in "user:password", it
 * would be the password. */
static int parse_port(struct gd__queue_server *s, const char *text, size_t size)
{
    unsigned port = 0;
    size_t i = 1;
    s->port = GD__QUEUE_PORT;
    if (size == 0)
        return 0;
    for (; i < size && text[i] >= '0' && text[i] <= '9' && port <= UINT16_MAX; i++)
        port = port * 10 + (unsigned)(text[i] - '0');
    if (text[0] != ':' || size < 2 || i < size || port == 0 || port > UINT16_MAX)
        return invalid((struct part){ s->host, strlen(s->host) },
                       "is followed by something else than a port: write host:port with a port from 1 to 65535");
    s->port = (uint16_t)port;
    return 0;
}

static int parse_ipv6(struct gd__queue_server *s, struct part server)
{
    unsigned char bytes[ADDRESS];
    const char *close = memchr(server.at, ']', server.size);
    const size_t size = close ? (size_t)(close - server.at) - 1 : 0;
    if (!close || size > GD__QUEUE_HOST_MOST)
        return invalid(server, "has '[' without ']': write an IPv6 address as [2001:db8::7]");
    memcpy(s->host, server.at + 1, size);
    s->host[size] = '\0';
    if (strlen(s->host) != size || inet_pton(AF_INET6, s->host, bytes) != 1)
        return invalid(server, "is not an IPv6 address in brackets: write it as [2001:db8::7]");
    return parse_port(s, close + 1, server.size - size - 2);
}

static int parse_server(struct gd__queue_server *s, struct part server)
{
    if (server.size > 0 && server.at[0] == '[')
        return parse_ipv6(s, server);
    const char *colon = server.size > 0 ? memchr(server.at, ':', server.size) : NULL;
    const size_t size = colon ? (size_t)(colon - server.at) : server.size;
    size_t valid = 0;
    if (colon && memchr(colon + 1, ':', server.size - size - 1))
        return gd__error(GD_E_INVALID, "the address of a queue has a server with several colons: write an IPv6 address "
                                       "in brackets, as [2001:db8::7]");
    if (size == 0)
        return gd__error(GD_E_INVALID, "the address of a queue has a server without a name: write nats://host/NAME, or "
                                       "nats://host1,host2/NAME for several servers");
    while (valid < size && strchr(LETTERS DIGITS "-._", server.at[valid]))
        valid++;
    if (valid < size || size > GD__QUEUE_HOST_MOST)
        return invalid((struct part){ server.at, size },
                       "is not the name of a host: write 1 to 253 letters, digits, '-', '.' and '_'");
    memcpy(s->host, server.at, size);
    s->host[size] = '\0';
    return parse_port(s, server.at + size, server.size - size);
}

/* Parses the servers of a list that is not empty. */
static int parse_servers(struct gd__queue_address *out, struct part list)
{
    for (;;) {
        const char *comma = memchr(list.at, ',', list.size);
        struct part server = { list.at, comma ? (size_t)(comma - list.at) : list.size };
        bool tls = out->tls;
        const size_t scheme = scheme_length(server.at, server.size, &tls);
        if (tls != out->tls)
            return invalid(server, "has another scheme than the first server: write nats:// or tls:// once, before "
                                   "the first server");
        server = (struct part){ server.at + scheme, server.size - scheme };
        if (out->n_servers == GD__QUEUE_SERVERS_MOST)
            return gd__error(GD_E_INVALID,
                             "the address of a queue has more than %d servers: write some of them, a client learns "
                             "the others from them",
                             GD__QUEUE_SERVERS_MOST);
        const int rc = parse_server(&out->servers[out->n_servers], server);
        if (rc < 0)
            return rc;
        out->n_servers++;
        if (!comma)
            return 0;
        list = (struct part){ comma + 1, list.size - (size_t)(comma + 1 - list.at) };
    }
}

/* Returns where the name begins: after the first "/" that is not part of a scheme. NULL: there is no name. */
static const char *find_name(const char *text)
{
    bool tls = false;
    for (const char *p = text; *p; p++) {
        if (*p == '/')
            return p + 1;
        if (*p == ',')
            p += scheme_length(p + 1, strlen(p + 1), &tls);
    }
    return NULL;
}

int gd__queue_address_parse(struct gd__queue_address *out, const char *text)
{
    const struct part whole = { text, strlen(text) };
    *out = (struct gd__queue_address){ 0 };
    int rc = check_secrets(text);
    if (rc < 0)
        return rc;
    const size_t scheme = scheme_length(text, whole.size, &out->tls);
    if (scheme == 0)
        return invalid(whole, "must begin with nats:// or tls://: write nats://host/NAME");
    const char *servers = text + scheme, *name = find_name(servers);
    if (!name || *name == '\0')
        return invalid(whole, "has no name: write nats://host/NAME");
    if (name == servers + 1)
        return invalid(whole, "has no server: write nats://host/NAME");
    rc = gd__queue_name_check(name, strlen(name));
    if (rc == 0)
        rc = parse_servers(out, (struct part){ servers, (size_t)(name - 1 - servers) });
    if (rc < 0)
        return rc;
    memcpy(out->name, name, strlen(name) + 1);
    return 0;
}

char *gd__queue_server_text(char out[GD__QUEUE_SERVER_TEXT_ROOM], const struct gd__queue_address *a, size_t i)
{
    const struct gd__queue_server *s = &a->servers[i];
    const char *scheme = a->tls ? "tls" : "nats";
    if (strchr(s->host, ':'))
        (void)snprintf(out, GD__QUEUE_SERVER_TEXT_ROOM, "%s://[%s]:%u", scheme, s->host, s->port);
    else
        (void)snprintf(out, GD__QUEUE_SERVER_TEXT_ROOM, "%s://%s:%u", scheme, s->host, s->port);
    return out;
}
