/* Reads requests from the control socket and writes their answers: see protocol.h. */
#include "dispatch/control/protocol.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/json_write.h"

bool gd__control_line(const struct gd__control_input *in, size_t *size)
{
    const char *end = memchr(in->bytes, '\n', in->n);
    if (!end)
        return false;
    *size = (size_t)(end - in->bytes);
    return true;
}

void gd__control_drop(struct gd__control_input *in, size_t size)
{
    in->n -= size + 1;
    memmove(in->bytes, in->bytes + size + 1, in->n);
}

bool gd__control_is_full(const struct gd__control_input *in)
{
    return in->n == sizeof in->bytes && !memchr(in->bytes, '\n', in->n);
}

/* --- requests --- */

enum { DO, TASK, MS, GPU, WORKERS, N_MEMBERS };
static const char *const members[N_MEMBERS] = { "do", "task", "ms", "gpu", "workers" };

static const struct {
    const char *name;
    int value; /* the member that is stored in `value`; -1: none */
    bool optional;
} requests[GD__CONTROL_KINDS] = {
    [GD__CONTROL_PAUSE] = { "pause", -1, false },         [GD__CONTROL_RESUME] = { "resume", -1, false },
    [GD__CONTROL_DRAIN] = { "drain", -1, false },         [GD__CONTROL_CANCEL] = { "cancel", TASK, false },
    [GD__CONTROL_SET_TIMEOUT] = { "timeout", MS, false }, [GD__CONTROL_ADD] = { "add", WORKERS, true },
    [GD__CONTROL_REMOVE] = { "remove", WORKERS, true },   [GD__CONTROL_STATUS] = { "status", -1, false },
};

static int find_kind(const struct gd__json *name)
{
    char text[GD__CONTROL_LINE];
    if (name->kind != GD__JSON_STRING || name->size > sizeof text)
        return -1;
    const size_t n = gd__json_decode(name, text);
    for (int k = 0; k < GD__CONTROL_KINDS; k++)
        if (n == strlen(requests[k].name) && memcmp(text, requests[k].name, n) == 0)
            return k;
    return -1;
}

/* A member that is missing has no text. */
static int read_number(const struct gd__json *all, int member, uint64_t most, uint64_t *out)
{
    const struct gd__json *m = &all[member];
    if (m->at && m->kind == GD__JSON_NUMBER && gd__json_uint(m, out) && *out <= most)
        return 0;
    return gd__error(GD_E_INVALID, "\"%s\" must be a whole number from 0 to %llu", members[member],
                     (unsigned long long)most);
}

static int read_gpu(const struct gd__json *all, struct gd__control *out)
{
    uint64_t gpu = 0;
    if (out->kind != GD__CONTROL_ADD && out->kind != GD__CONTROL_REMOVE)
        return 0;
    const int rc = read_number(all, GPU, INT_MAX, &gpu);
    out->gpu_id = (int)gpu;
    return rc;
}

int gd__control_parse(const char *line, size_t size, struct gd__control *out)
{
    struct gd__json all[N_MEMBERS];
    memset(all, 0, sizeof all);
    *out = (struct gd__control){ .value = 1 };
    int rc = gd__json_scan_object(line, size, members, all, N_MEMBERS);
    if (rc < 0)
        return rc;
    const int kind = all[DO].at ? find_kind(&all[DO]) : -1;
    if (kind < 0)
        return gd__error(GD_E_INVALID, "\"do\" must be \"pause\", \"resume\", \"drain\", \"cancel\", \"timeout\", "
                                       "\"add\", \"remove\" or \"status\"");
    out->kind = (enum gd__control_kind)kind;
    const int value = requests[kind].value;
    if (value >= 0 && (all[value].at || !requests[kind].optional))
        rc = read_number(all, value, value == TASK ? UINT64_MAX : UINT32_MAX, &out->value);
    return rc < 0 ? rc : read_gpu(all, out);
}

/* --- answers --- */

size_t gd__control_write_answer(char to[GD__CONTROL_ANSWER], const struct gd__control_answer *a)
{
    size_t n = 0;
    _Static_assert(6 * GD__CONTROL_TEXT + 2 + 128 <= GD__CONTROL_ANSWER, "the longest answer fits");
    if (a->code < 0)
        n += (size_t)snprintf(to, 128, "{\"ok\":false,\"error\":\"%s\",\"message\":", gd_error_name(a->code));
    else
        n += (size_t)snprintf(to, 128, "{\"ok\":true,\"message\":");
    n += gd__json_escape(to + n, a->text, strnlen(a->text, sizeof a->text));
    to[n++] = '}';
    to[n++] = '\n';
    return n;
}

size_t gd__control_write_status(char to[GD__CONTROL_ANSWER], const struct gd_stats *s, bool stopping)
{
    const char *state = s->draining ? "draining" : stopping ? "stopping" : s->paused ? "paused" : "running";
    return (size_t)snprintf(to, GD__CONTROL_ANSWER,
                            "{\"ok\":true,\"message\":\"%s\",\"state\":\"%s\",\"running\":%llu,\"waiting\":%llu,"
                            "\"completed\":%llu,\"failed\":%llu,\"timeouts\":%llu,\"task_timeout_ms\":%llu}\n",
                            state, state, (unsigned long long)s->running, (unsigned long long)s->pending,
                            (unsigned long long)s->completed, (unsigned long long)s->failed,
                            (unsigned long long)s->timeouts, (unsigned long long)s->task_timeout_ms);
}
