/* SPDX-License-Identifier: MIT
 *
 * One transfer with libcurl. When the first byte of the answer arrives, its headers decide what is done with it:
 *
 *     200    the whole file: the part is thrown away, unless the file has the wrong size
 *     206    the rest: it must begin where the part ends, and be of the same version
 *     416    the server's file is shorter than the part, so it is another version
 *     other  an error; its page is not stored
 */
#include "apps/transcribe/download/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "apps/transcribe/fetch/curl.h"
#include "base/failure.h"

enum {
    STATUS_WHOLE = 200,
    STATUS_REST = 206,
    STATUS_FORBIDDEN = 403,
    STATUS_UNAUTHORISED = 401,
    STATUS_NOT_FOUND = 404,
    STATUS_NO_RANGE = 416,
    HEADER_ROOM = TR_VERSION + 32,
};

/* What the last answer's headers say. An answer that redirects is followed by another one. */
struct head {
    long status;
    bool has_length, has_range;
    uint64_t length;       /* of what is sent */
    uint64_t first, whole; /* of a range; whole is 0 if the server does not know it */
    char tag[TR_VERSION];  /* a strong entity tag */
    char date[TR_VERSION]; /* when the file was changed */
};

enum decision { UNDECIDED, STORE, IGNORE, REFUSE };

struct state {
    struct tr_transfer *t;
    const struct tr_curl *curl;
    void *handle;
    struct head head;
    enum decision decision;
    enum tr_transfer_end end; /* if refused */
    int write_error;          /* errno */
    bool too_long;
    char error[TR_CURL_ERROR_SIZE];
};

/* --- versions ----------------------------------------------------------------- */

bool tr_transfer_is_version(const char *text)
{
    const size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
            return false;
    }
    return size > 0 && size < TR_VERSION;
}

/* The name of the version that an answer has; empty if it has none. */
static const char *version_of(const struct head *h)
{
    return *h->tag ? h->tag : h->date;
}

/* --- headers ------------------------------------------------------------------ */

/* If the line is this header, returns where its value begins. */
static const char *value_of(const char *line, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static bool parse_u64(const char *text, const char **end, uint64_t *out)
{
    char *stop;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return *text >= '0' && *text <= '9' && errno == 0;
}

/* "bytes 100-199/200", or "/" and a star if the size of the whole is not known. */
static void take_range(struct head *h, const char *text)
{
    uint64_t last;
    const char *end;
    if (strncasecmp(text, "bytes ", 6) != 0 || !parse_u64(text + 6, &end, &h->first) || *end != '-' ||
        !parse_u64(end + 1, &end, &last) || *end != '/')
        return;
    h->has_range = parse_u64(end + 1, &end, &h->whole) || strcmp(end, "*") == 0;
}

static void take_header(struct head *h, const char *line)
{
    const char *value, *end;
    if (strncmp(line, "HTTP/", 5) == 0) {
        *h = (struct head){ 0 };
        value = strchr(line, ' ');
        h->status = value ? strtol(value, NULL, 10) : 0;
    } else if ((value = value_of(line, "Content-Length"))) {
        h->has_length = parse_u64(value, &end, &h->length);
    } else if ((value = value_of(line, "Content-Range"))) {
        take_range(h, value);
    } else if ((value = value_of(line, "ETag")) && *value == '"' && tr_transfer_is_version(value)) {
        snprintf(h->tag, sizeof h->tag, "%s", value);
    } else if ((value = value_of(line, "Last-Modified")) && tr_transfer_is_version(value)) {
        snprintf(h->date, sizeof h->date, "%s", value);
    }
}

static size_t read_header(char *data, size_t one, size_t size, void *user)
{
    struct state *s = user;
    char line[HEADER_ROOM] = { 0 };
    size_t n = size;
    (void)one; /* always 1 */
    while (n > 0 && strchr("\r\n \t", data[n - 1]))
        n--;
    if (n < sizeof line) {
        memcpy(line, data, n);
        line[n] = '\0';
        take_header(&s->head, line);
    }
    return size;
}

/* --- deciding ----------------------------------------------------------------- */

static enum decision refuse(struct state *s, enum tr_transfer_end end)
{
    s->end = end;
    return REFUSE;
}

static enum decision decide_whole(struct state *s)
{
    struct tr_transfer *t = s->t;
    if (s->head.has_length && s->head.length != t->total) {
        gd__fail("the server's file has %" PRIu64 " bytes instead of %" PRIu64 ", so it is another file",
                 s->head.length, t->total);
        return refuse(s, TR_TRANSFER_FAILED);
    }
    if (ftruncate(t->fd, 0) < 0 || lseek(t->fd, 0, SEEK_SET) < 0) {
        gd__fail("the file cannot be written: %s", strerror(errno));
        return refuse(s, TR_TRANSFER_FAILED);
    }
    t->have = 0;
    snprintf(t->version, sizeof t->version, "%s", version_of(&s->head));
    t->started(t->user, t);
    return STORE;
}

static enum decision decide_rest(struct state *s)
{
    const struct head *h = &s->head;
    if (!h->has_range || h->first != s->t->have || (h->whole && h->whole != s->t->total) ||
        strcmp(version_of(h), s->t->version) != 0)
        return refuse(s, TR_TRANSFER_OTHER);
    return STORE;
}

static void decide(struct state *s)
{
    const long status = s->head.status;
    if (status == STATUS_WHOLE)
        s->decision = decide_whole(s);
    else if (status == STATUS_REST && s->t->have > 0)
        s->decision = decide_rest(s);
    else if (status == STATUS_NO_RANGE && s->t->have > 0)
        s->decision = refuse(s, TR_TRANSFER_OTHER);
    else
        s->decision = IGNORE;
}

/* --- storing ------------------------------------------------------------------ */

static bool store(struct state *s, const char *data, size_t size)
{
    struct tr_transfer *t = s->t;
    if (size > t->total - t->have) {
        s->too_long = true;
        return false;
    }
    while (size > 0) {
        const ssize_t n = write(t->fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            s->write_error = errno;
            return false;
        }
        data += n;
        size -= (size_t)n;
        t->have += (uint64_t)n;
    }
    if (t->progress)
        t->progress(t->user, t->have, t->total);
    return true;
}

static size_t write_part(char *data, size_t one, size_t size, void *user)
{
    struct state *s = user;
    (void)one; /* always 1 */
    if (s->decision == UNDECIDED)
        decide(s);
    if (s->decision == IGNORE)
        return size;
    return s->decision == STORE && store(s, data, size) ? size : 0; /* 0 ends the transfer */
}

/* --- the end ------------------------------------------------------------------ */

static int judge_status(const struct state *s)
{
    const long status = s->head.status;
    if (status == STATUS_WHOLE || status == STATUS_REST)
        return 0;
    if (status == STATUS_NOT_FOUND)
        return gd__fail("the server does not have it (status 404)");
    if (status == STATUS_FORBIDDEN || status == STATUS_UNAUTHORISED)
        return gd__fail("the server refuses it (status %ld)", status);
    return gd__fail("the server answered with status %ld%s", status, status >= 500 ? ": try again later" : "");
}

static int judge_size(const struct state *s)
{
    if (s->too_long)
        return gd__fail("the server sends more than the %" PRIu64 " bytes of the file, so it is another file",
                        s->t->total);
    if (s->t->have < s->t->total)
        return gd__fail("the connection ended after %" PRIu64 " of %" PRIu64 " bytes", s->t->have, s->t->total);
    return 0;
}

static enum tr_transfer_end judge(struct state *s, int result)
{
    int rc;
    if (s->decision == UNDECIDED && result == TR_CURL_OK)
        decide(s); /* an answer without a body */
    if (s->decision == REFUSE)
        return s->end;
    if (s->write_error)
        rc = gd__fail("the file cannot be written: %s", strerror(s->write_error));
    else if (result == TR_CURL_UNSUPPORTED_PROTOCOL && s->head.status >= 300 && s->head.status < 400)
        rc = gd__fail("the server redirects to an address that is not encrypted or not HTTP, which is refused");
    else if (result != TR_CURL_OK && !s->too_long)
        rc = gd__fail("%s", s->error[0] ? s->error : s->curl->text(result));
    else
        rc = judge_status(s) < 0 ? -1 : judge_size(s);
    return rc < 0 ? TR_TRANSFER_FAILED : TR_TRANSFER_WHOLE;
}

static bool set_pointers(struct state *s)
{
    const struct tr_curl *c = s->curl;
    return c->setopt(s->handle, TR_CURL_URL, s->t->address) == TR_CURL_OK &&
           c->setopt(s->handle, TR_CURL_ERRORBUFFER, s->error) == TR_CURL_OK &&
           c->setopt(s->handle, TR_CURL_HEADERDATA, (void *)s) == TR_CURL_OK &&
           c->setopt(s->handle, TR_CURL_HEADERFUNCTION, read_header) == TR_CURL_OK &&
           c->setopt(s->handle, TR_CURL_WRITEDATA, (void *)s) == TR_CURL_OK &&
           c->setopt(s->handle, TR_CURL_WRITEFUNCTION, write_part) == TR_CURL_OK;
}

/* Asks only for the rest, and only if the version is still the same. *headers must stay until the transfer ends. */
static bool set_range(struct state *s, void **headers)
{
    char range[32], line[TR_VERSION + 16];
    if (s->t->have == 0)
        return true;
    snprintf(range, sizeof range, "%" PRIu64 "-", s->t->have);
    snprintf(line, sizeof line, "If-Range: %s", s->t->version);
    *headers = s->curl->list_add(NULL, line);
    return *headers && s->curl->setopt(s->handle, TR_CURL_RANGE, range) == TR_CURL_OK &&
           s->curl->setopt(s->handle, TR_CURL_HTTPHEADER, *headers) == TR_CURL_OK;
}

enum tr_transfer_end tr_transfer(struct tr_transfer *t)
{
    struct state s = { .t = t, .curl = tr_curl_open() };
    enum tr_transfer_end end = TR_TRANSFER_FAILED;
    void *headers = NULL;
    if (!s.curl)
        return TR_TRANSFER_FAILED;
    s.handle = s.curl->init();
    if (s.handle && tr_curl_set_usual(s.curl, s.handle, tr_curl_safe_redirects(t->address)) && set_pointers(&s) &&
        set_range(&s, &headers))
        end = judge(&s, s.curl->perform(s.handle));
    else
        gd__fail("libcurl could not be prepared");
    if (s.handle)
        s.curl->cleanup(s.handle);
    s.curl->list_free(headers);
    return end;
}
