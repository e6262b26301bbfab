/* What a NATS server says about itself: see info.h. */
#include "queue/nats/server/info.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "queue/nats/server/tcp.h"

enum {
    LINE_MOST = 1 << 16, /* a server of a large cluster names all others */
    SHOWN = 64,
};

/* ---- the line ---- */

enum { VERSION, ID, PAYLOAD, TLS_REQUIRED, TLS_AVAILABLE, TLS_VERIFY, AUTH_REQUIRED, JETSTREAM, MEMBERS };

static void copy_text(char *to, size_t room, const struct gd__json *value)
{
    char decoded[2 * SHOWN];
    to[0] = '\0';
    if (value->kind == GD__JSON_STRING && value->size <= sizeof decoded)
        (void)gd__text_line(to, room, decoded, gd__json_decode(value, decoded));
}

int gd__nats_info_parse(struct gd__nats_info *out, const char *line, size_t size)
{
    static const char *const names[MEMBERS] = {
        "version",       "server_id",  "max_payload",   "tls_required",
        "tls_available", "tls_verify", "auth_required", "jetstream",
    };
    struct gd__json m[MEMBERS];
    *out = (struct gd__nats_info){ .max_payload = 0 };
    if (size < 5 || memcmp(line, "INFO ", 5) != 0 || gd__json_scan_object(line + 5, size - 5, names, m, MEMBERS) < 0)
        return gd__error(GD_E_CORRUPT, "not the first line of a NATS server");
    copy_text(out->version, sizeof out->version, &m[VERSION]);
    copy_text(out->id, sizeof out->id, &m[ID]);
    if (m[PAYLOAD].kind == GD__JSON_NUMBER)
        (void)gd__json_uint(&m[PAYLOAD], &out->max_payload);
    out->tls_required = m[TLS_REQUIRED].kind == GD__JSON_TRUE;
    out->tls_available = m[TLS_AVAILABLE].kind == GD__JSON_TRUE;
    out->tls_verify = m[TLS_VERIFY].kind == GD__JSON_TRUE;
    out->needs_credentials = m[AUTH_REQUIRED].kind == GD__JSON_TRUE;
    out->jetstream = m[JETSTREAM].kind == GD__JSON_TRUE;
    return 0;
}

/* Reads "2.12.3": three numbers with dots between them. What follows is ignored. */
static bool read_version(const char *text, unsigned long out[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        out[i] = strtoul(text, &end, 10);
        if (i < 2 && *end != '.')
            return false;
        text = end + 1;
    }
    return true;
}

bool gd__nats_version_works(const char *version)
{
    unsigned long oldest[3], v[3];
    if (!read_version(GD__NATS_OLDEST, oldest) || !read_version(version, v))
        return false;
    for (int i = 0; i < 3; i++)
        if (v[i] != oldest[i])
            return v[i] > oldest[i];
    return true;
}

/* ---- the connection ---- */

static int not_nats(const char *server, const char *line, size_t size)
{
    char shown[SHOWN];
    if (size == 0)
        return gd__error(
            GD_E_BUSY,
            "%s accepted the connection and sent nothing: it is starting, or it is not a NATS server, or one that "
            "begins with TLS (handshake_first), which is not supported",
            server);
    (void)gd__text_line(shown, sizeof shown, line, size);
    return gd__error(GD_E_FAILED, "%s is not a NATS server: it sent \"%s\". Check the port (NATS: %d)", server, shown,
                     GD__QUEUE_PORT);
}

int gd__nats_info_read(struct gd__nats_info *out, const struct gd__queue_server *s, uint64_t deadline_ns)
{
    char server[GD__QUEUE_SERVER_TEXT_ROOM];
    gd__tcp_server_text(server, s);
    char *line = gd__calloc(1, LINE_MOST);
    if (!line)
        return gd__error_errno("cannot connect to %s", server);
    int fd = gd__tcp_connect(s, deadline_ns), rc = fd < 0 ? fd : 0;
    if (fd >= 0) {
        const size_t size = gd__tcp_read(fd, line, LINE_MOST, '\n', deadline_ns);
        const char *end = memchr(line, '\n', size);
        if (!end || gd__nats_info_parse(out, line, (size_t)(end - line)) < 0)
            rc = not_nats(server, line, size);
        gd__fd_close(&fd);
    }
    gd__free(line);
    if (rc == 0 && !gd__nats_version_works(out->version))
        return gd__error(GD_E_UNSUPPORTED,
                         "the NATS server %s has version %s, which is too old: queues need " GD__NATS_OLDEST
                         " or later (https://github.com/nats-io/nats-server/releases)",
                         server, out->version[0] ? out->version : "?");
    if (rc == 0 && !out->jetstream)
        return gd__error(GD_E_UNSUPPORTED,
                         "the NATS server %s has JetStream disabled, which stores queues: start it with -js, or with "
                         "the configuration gpu-dispatch.conf",
                         server);
    return rc;
}
