/* The lock of a queue's push: see state.h. */
#include "queue/push/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"

enum { STATE_VERSION = 1 };

void gd__push_state_write(struct gd__buffer *to, const struct gd__push_state *s)
{
    gd__buffer_format(to, "{\"version\":%d,\"open\":%s,\"host\":", STATE_VERSION, s->open ? "true" : "false");
    gd__json_put_string(to, s->host, strlen(s->host));
    gd__buffer_format(to, ",\"pid\":%" PRIu64 ",\"started\":%" PRIu64 ",\"process\":", s->pid, s->started);
    gd__json_put_string(to, s->process, strlen(s->process));
    gd__buffer_format(to, ",\"nonce\":\"%s\"}", s->nonce);
}

static bool read_text(const struct gd__json *value, char *out, size_t room)
{
    char text[GD__PUSH_STATE_MOST];
    if (value->kind != GD__JSON_STRING || value->size > sizeof text)
        return false;
    (void)gd__text_line(out, room, text, gd__json_decode(value, text));
    return true;
}

static bool read_nonce(const struct gd__json *value, char out[GD__PUSH_NONCE_ROOM])
{
    const size_t size = GD__PUSH_NONCE_ROOM - 1;
    if (value->kind != GD__JSON_STRING || value->size != size + 2)
        return false;
    memcpy(out, value->at + 1, size);
    out[size] = '\0';
    return strspn(out, "0123456789abcdef") == size;
}

static int damaged(void)
{
    return gd__error(GD_E_CORRUPT, "the queue's note about the push that is going on was not made by gpu_dispatch");
}

int gd__push_state_parse(struct gd__push_state *out, const void *json, size_t size)
{
    enum { VERSION, OPEN, HOST, PID, STARTED, PROCESS, NONCE, MEMBERS };
    static const char *const names[MEMBERS] = { "version", "open", "host", "pid", "started", "process", "nonce" };
    struct gd__json m[MEMBERS];
    uint64_t version;
    *out = (struct gd__push_state){ 0 };
    if (size > GD__PUSH_STATE_MOST || gd__json_scan_object(json, size, names, m, MEMBERS) < 0 ||
        m[VERSION].kind != GD__JSON_NUMBER || !gd__json_uint(&m[VERSION], &version) || version == 0)
        return damaged();
    if (version > STATE_VERSION)
        return gd__error(GD_E_VERSION, "a newer gpu_dispatch pushes to this queue: install it on this machine too");
    const bool is_good = (m[OPEN].kind == GD__JSON_TRUE || m[OPEN].kind == GD__JSON_FALSE) &&
                         read_text(&m[HOST], out->host, sizeof out->host) && m[PID].kind == GD__JSON_NUMBER &&
                         gd__json_uint(&m[PID], &out->pid) && m[STARTED].kind == GD__JSON_NUMBER &&
                         gd__json_uint(&m[STARTED], &out->started) &&
                         read_text(&m[PROCESS], out->process, sizeof out->process) && read_nonce(&m[NONCE], out->nonce);
    out->open = m[OPEN].kind == GD__JSON_TRUE;
    if (is_good)
        return 0;
    *out = (struct gd__push_state){ 0 };
    return damaged();
}

bool gd__push_is_open(struct gd__push_watch *w, uint64_t now_ns, const struct gd__queue_answer *last,
                      struct gd__push_state *state)
{
    struct gd__push_state parsed = { 0 };
    const bool exists = last->kind == GD__ANSWER_OK;
    const bool closed = exists && gd__push_state_parse(&parsed, last->data, last->size) == 0 && !parsed.open;
    if (state)
        *state = parsed;
    if (!exists || closed) {
        *w = (struct gd__push_watch){ 0 };
        return false;
    }
    const uint64_t most = GD__PUSH_LOOK_MS * GD__NS_PER_MS, gap = now_ns - w->looked_ns;
    if (w->sequence != last->sequence)
        *w = (struct gd__push_watch){ .sequence = last->sequence };
    else
        w->still_ns += gap < most ? gap : most;
    w->looked_ns = now_ns;
    return w->still_ns < GD__PUSH_DEAD_MS * GD__NS_PER_MS;
}
