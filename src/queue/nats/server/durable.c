/* Asks whether a server is durable: see durable.h. */
#include "queue/nats/server/durable.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text/json.h"
#include "queue/nats/server/tcp.h"

enum { ANSWER_MOST = 1 << 16, WAIT_MS = 250, WAIT_KNOWN_MS = 10000, ID_MOST = 128 };

static bool is_text(const struct gd__json *value, const char *text)
{
    char decoded[ID_MOST];
    if (value->kind != GD__JSON_STRING || value->size > sizeof decoded)
        return false;
    const size_t size = gd__json_decode(value, decoded);
    return size == strlen(text) && memcmp(decoded, text, size) == 0;
}

/* {"server_id":"N...","config":{"sync_interval":120000000000,"sync_always":true,...},...} */
int gd__nats_durable_parse(const char *answer, size_t size, const char *id)
{
    static const char *const names[] = { "server_id", "config" };
    static const char head[] = "HTTP/1.", end[] = "\r\n\r\n";
    struct gd__json m[2], value;
    const char *body = size > sizeof head && memcmp(answer, head, sizeof head - 1) == 0
                           ? memmem(answer, size, end, sizeof end - 1)
                           : NULL;
    if (!body || !*id)
        return -1;
    body += sizeof end - 1;
    if (gd__json_scan_object(body, size - (size_t)(body - answer), names, m, 2) < 0 || !is_text(&m[0], id) ||
        m[1].kind != GD__JSON_OBJECT || !gd__json_member(m[1].at, m[1].size, "sync_interval", &value))
        return -1;
    return gd__json_member(m[1].at, m[1].size, "sync_always", &value) && value.kind == GD__JSON_TRUE;
}

/* Returns 0 if the user has not named a port. */
static uint16_t known_port(void)
{
    const char *text = getenv(GD__ENV_MONITORING);
    const long port = text ? strtol(text, NULL, 10) : 0;
    return port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

int gd__nats_durable(const struct gd__queue_server *s, const char *id)
{
    /* HTTP/1.0: the answer ends with the connection, and is not in pieces. */
    static const char request[] = "GET /jsz HTTP/1.0\r\nHost: localhost\r\n\r\n";
    struct gd__queue_server monitoring = *s;
    const uint16_t known = known_port();
    const uint64_t deadline_ns = gd__now_ns() + (known ? WAIT_KNOWN_MS : WAIT_MS) * GD__NS_PER_MS;
    char *answer = gd__calloc(1, ANSWER_MOST);
    monitoring.port = known ? known : GD__NATS_MONITORING_PORT;
    int durable = -1, fd = answer ? gd__tcp_connect(&monitoring, deadline_ns) : -1;
    if (fd >= 0 && gd__tcp_write(fd, request, deadline_ns))
        durable = gd__nats_durable_parse(answer, gd__tcp_read(fd, answer, ANSWER_MOST, -1, deadline_ns), id);
    if (fd >= 0)
        gd__fd_close(&fd);
    gd__free(answer);
    return durable;
}
