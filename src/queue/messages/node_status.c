/* Writes and parses what a node says about itself: see node_status.h. */
#include "queue/messages/node_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"
#include "queue/messages/message.h"

#define NODE   "node."
#define DAY    86400.0 /* seconds */
#define HTTP   "http://"
#define HTTPS  "https://"
#define DIGITS "0123456789abcdef"

enum { SHOWN = 160 /* bytes of a text that an error message shows */ };

enum member {
    VERSION,
    HOST,
    PID,
    STATE,
    WORKERS,
    BUSY,
    DONE,
    FAILED,
    HELD,
    RATE,
    ADDRESS,
    NOTE,
    MEMBERS,
};

static const char *const names[MEMBERS] = {
    [VERSION] = "version", [HOST] = "host",          [PID] = "pid",      [STATE] = "state",
    [WORKERS] = "workers", [BUSY] = "busy",          [DONE] = "done",    [FAILED] = "failed",
    [HELD] = "held",       [RATE] = "tasks_per_day", [ADDRESS] = "http", [NOTE] = "note",
};

static const char *const states[] = {
    [GD__NODE_RUNNING] = "running",
    [GD__NODE_DRAINING] = "draining",
    [GD__NODE_LEFT] = "left",
};
enum { STATES = sizeof states / sizeof *states };

/* --- writing --- */

static void put_number(struct gd__buffer *to, enum member m, uint64_t n)
{
    gd__buffer_format(to, ",\"%s\":%" PRIu64, names[m], n < GD__QUEUE_NUMBER_MOST ? n : GD__QUEUE_NUMBER_MOST);
}

static bool is_page(const char *text)
{
    return (strncmp(text, HTTP, sizeof HTTP - 1) == 0 || strncmp(text, HTTPS, sizeof HTTPS - 1) == 0) &&
           !strchr(text, ' ');
}

/* Only printable characters are written, so JSON escapes need two bytes at most, and a status stays small. */
static void put_text(struct gd__buffer *to, enum member m, const char *text, size_t room)
{
    char printable[GD__NODE_NOTE_ROOM];
    const size_t size = gd__text_fit(printable, room, text, room);
    if ((size == 0 && m != HOST) || (m == ADDRESS && !is_page(printable)))
        return;
    gd__buffer_format(to, ",\"%s\":", names[m]);
    gd__json_put_string(to, printable, size);
}

static uint64_t per_day(double per_second)
{
    const double n = per_second * DAY;
    return !(n > 0) ? 0 : n < (double)GD__QUEUE_NUMBER_MOST ? (uint64_t)(n + 0.5) : GD__QUEUE_NUMBER_MOST;
}

void gd__node_status_write(struct gd__buffer *to, const struct gd__node_status *s)
{
    const bool known = s->state >= GD__NODE_RUNNING && s->state <= GD__NODE_LEFT;
    gd__buffer_format(to, "{\"version\":%d", GD__NODE_STATUS_VERSION);
    put_text(to, HOST, s->host, sizeof s->host);
    put_number(to, PID, s->pid);
    gd__buffer_format(to, ",\"%s\":\"%s\"", names[STATE], states[known ? s->state : GD__NODE_RUNNING]);
    put_number(to, WORKERS, s->workers);
    put_number(to, BUSY, s->busy);
    put_number(to, DONE, s->done);
    put_number(to, FAILED, s->failed);
    put_number(to, HELD, s->held);
    put_number(to, RATE, per_day(s->tasks_per_second));
    put_text(to, ADDRESS, s->http, sizeof s->http);
    put_text(to, NOTE, s->note, sizeof s->note);
    gd__buffer_text(to, "}");
}

/* --- parsing --- */

static int damaged(const char *what)
{
    return gd__error(GD_E_CORRUPT, "the status of a node: %s", what);
}

/* A text that is missing is empty. */
static int read_text(const struct gd__json *m, char *to, size_t room)
{
    char bytes[GD__NODE_STATUS_MOST];
    *to = '\0';
    if (m->kind == GD__JSON_NONE)
        return 0;
    if (m->kind != GD__JSON_STRING || m->size > sizeof bytes)
        return damaged("a text is not a string");
    (void)gd__text_fit(to, room, bytes, gd__json_decode(m, bytes));
    return 0;
}

static int read_number(const struct gd__json *m, uint64_t most, uint64_t *out)
{
    if (m->kind != GD__JSON_NUMBER || !gd__json_uint(m, out) || *out > most)
        return damaged("a number is missing or out of range");
    return 0;
}

static int read_word(const struct gd__json *m, uint32_t *out)
{
    uint64_t n = 0;
    const int rc = read_number(m, UINT32_MAX, &n);
    *out = (uint32_t)n;
    return rc;
}

static int read_state(const struct gd__json *m, enum gd__node_state *out)
{
    char text[GD__NODE_HOST_ROOM];
    const int rc = read_text(m, text, sizeof text);
    for (unsigned i = GD__NODE_RUNNING; rc == 0 && i < STATES; i++) {
        if (strcmp(text, states[i]) == 0) {
            *out = (enum gd__node_state)i;
            return 0;
        }
    }
    return rc < 0 ? rc : damaged("its state is not known");
}

static int read_page(const struct gd__json *m, char to[GD__NODE_HTTP_ROOM])
{
    const int rc = read_text(m, to, GD__NODE_HTTP_ROOM);
    return rc == 0 && *to && !is_page(to) ? damaged("the address of its page does not begin with http") : rc;
}

static int read_version(const struct gd__json *m)
{
    uint64_t version = 0;
    const int rc = read_number(m, UINT64_MAX, &version);
    if (rc < 0 || version == 0)
        return damaged("it has no version");
    if (version > GD__NODE_STATUS_VERSION)
        return gd__error(GD_E_VERSION, "the status of a node was written by a newer version of gpu_dispatch");
    return 0;
}

static int read_members(struct gd__node_status *out, const struct gd__json m[MEMBERS])
{
    uint64_t rate = 0;
    int rc = read_version(&m[VERSION]);
    rc = rc < 0 ? rc : read_text(&m[HOST], out->host, sizeof out->host);
    rc = rc < 0 ? rc : read_number(&m[PID], GD__QUEUE_NUMBER_MOST, &out->pid);
    rc = rc < 0 ? rc : read_state(&m[STATE], &out->state);
    rc = rc < 0 ? rc : read_word(&m[WORKERS], &out->workers);
    rc = rc < 0 ? rc : read_word(&m[BUSY], &out->busy);
    rc = rc < 0 ? rc : read_number(&m[DONE], GD__QUEUE_NUMBER_MOST, &out->done);
    rc = rc < 0 ? rc : read_number(&m[FAILED], GD__QUEUE_NUMBER_MOST, &out->failed);
    rc = rc < 0 ? rc : read_number(&m[HELD], GD__QUEUE_NUMBER_MOST, &out->held);
    rc = rc < 0 ? rc : read_number(&m[RATE], GD__QUEUE_NUMBER_MOST, &rate);
    rc = rc < 0 ? rc : read_page(&m[ADDRESS], out->http);
    rc = rc < 0 ? rc : read_text(&m[NOTE], out->note, sizeof out->note);
    if (rc == 0)
        out->tasks_per_second = (double)rate / DAY;
    return rc;
}

int gd__node_status_parse(struct gd__node_status *out, const void *json, size_t size)
{
    struct gd__json m[MEMBERS];
    *out = (struct gd__node_status){ .state = GD__NODE_RUNNING };
    if (size > GD__NODE_STATUS_MOST)
        return damaged("it is too large");
    if (gd__json_scan_object(json, size, names, m, MEMBERS) < 0)
        return gd__error_context(GD_E_CORRUPT, "the status of a node");
    return read_members(out, m);
}

/* --- subjects --- */

char *gd__node_status_subject(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const char id[GD__QUEUE_NODE_ROOM])
{
    char state[sizeof NODE + GD__QUEUE_NODE_ROOM];
    (void)snprintf(state, sizeof state, NODE "%.*s", GD__QUEUE_NODE_ROOM - 1, id);
    return gd__queue_state_text(out, name, state);
}

char *gd__node_status_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name)
{
    return gd__queue_state_text(out, name, NODE "*");
}

int gd__node_status_id(char id[GD__QUEUE_NODE_ROOM], const char *name, const char *subject)
{
    char begin[GD__QUEUE_SUBJECT_ROOM], shown[SHOWN];
    const size_t size = strlen(gd__queue_state_text(begin, name, NODE));
    if (strncmp(subject, begin, size) == 0 && strlen(subject + size) == GD__QUEUE_NODE_ROOM - 1 &&
        strspn(subject + size, DIGITS) == GD__QUEUE_NODE_ROOM - 1) {
        memcpy(id, subject + size, GD__QUEUE_NODE_ROOM);
        return 0;
    }
    (void)gd__text_line(shown, sizeof shown, subject, strlen(subject));
    return gd__error(GD_E_CORRUPT, "the subject \"%s\" is not that of a node of the queue \"%s\"", shown, name);
}
