/* SPDX-License-Identifier: MIT
 *
 * Fetches inputs: see fetch.h.
 */
#include "apps/transcribe/fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "apps/transcribe/fetch/curl.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"

enum {
    NAME_ROOM = 256,
    STATUS_NOT_FOUND = 404,
    STATUS_TIMEOUT = 408,
    STATUS_TOO_EARLY = 425,
    STATUS_TOO_MANY = 429,
};

int tr_fetch_possible(void)
{
    return tr_curl_open() ? 0 : -1;
}

/* --- addresses --------------------------------------------------------------- */

int tr_fetch_check_address(const char *what, const char *base)
{
    const bool http = strncasecmp(base, "http://", 7) == 0, https = strncasecmp(base, "https://", 8) == 0;
    const char *host = base + (https ? 8 : 7);
    if (!http && !https)
        return gd__fail("the address of the %s must begin with http:// or https://", what);
    if (*host == '\0' || *host == '/')
        return gd__fail("the address of the %s names no host: write https://HOST/DIRECTORY", what);
    if (memchr(host, '@', strcspn(host, "/?#"))) /* does not repeat the address: it has a password */
        return gd__fail("the address of the %s must not contain a user or a password, because other users can see it: "
                        "write them to ~/.netrc",
                        what);
    if (strpbrk(host, "?#"))
        return gd__fail("%s: the address of the %s must not contain '?' or '#', because paths are appended to it", base,
                        what);
    for (const char *p = base; *p; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            return gd__fail("the address of the %s contains a blank or a character that is not ASCII: encode it as "
                            "%%20 and the like",
                            what);
    }
    return 0;
}

int tr_fetch_check_base(const char *base)
{
    return tr_fetch_check_address("inputs", base);
}

/* The characters that mean themselves in a path (RFC 3986), and the slash. */
static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~/", c));
}

static bool has_dots(const char *path)
{
    while (*path) {
        const size_t size = strcspn(path, "/");
        if ((size == 1 && path[0] == '.') || (size == 2 && path[0] == '.' && path[1] == '.'))
            return true;
        path += size + (path[size] == '/');
    }
    return false;
}

int tr_fetch_address(struct gd__buffer *b, const char *base, const char *path)
{
    size_t size = strlen(base);
    while (size > 0 && base[size - 1] == '/')
        size--;
    path += strspn(path, "/");
    if (*path == '\0' || has_dots(path))
        return gd__fail("a path that is empty or has the component \".\" or \"..\" cannot be fetched");
    gd__buffer_add(b, base, size);
    gd__buffer_add(b, "/", 1);
    for (; *path; path++) {
        if (is_plain((unsigned char)*path))
            gd__buffer_add(b, path, 1);
        else
            gd__buffer_format(b, "%%%02X", (unsigned)(unsigned char)*path);
    }
    gd__buffer_add(b, "", 1);
    return b->failed ? gd__fail("no memory for an address") : 0;
}

/* --- fetching ----------------------------------------------------------------- */

struct fetching {
    const struct tr_curl *curl;
    void *handle;
    int fd;
    int write_error;      /* errno */
    char name[NAME_ROOM]; /* of the file, for messages */
    char error[TR_CURL_ERROR_SIZE];
};

static int say(char message[TR_MESSAGE_MAX], int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int say(char message[TR_MESSAGE_MAX], int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, TR_MESSAGE_MAX, format, args);
    va_end(args);
    return code;
}

static const char *temporary_directory(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

/* Not every file system has files without a name. */
static int open_temporary(void)
{
    char path[4096];
    int fd = open(temporary_directory(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT))
        return fd;
    if (snprintf(path, sizeof path, "%s/gpu-dispatch-XXXXXX", temporary_directory()) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static size_t write_part(char *data, size_t one, size_t size, void *user)
{
    struct fetching *f = user;
    size_t done = 0;
    (void)one; /* always 1 */
    while (done < size) {
        const ssize_t n = write(f->fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            f->write_error = errno;
            return 0; /* ends the transfer */
        }
        done += (size_t)n;
    }
    return size;
}

static bool set_pointers(struct fetching *f, const char *address)
{
    const struct tr_curl *c = f->curl;
    return c->setopt(f->handle, TR_CURL_URL, address) == TR_CURL_OK &&
           c->setopt(f->handle, TR_CURL_ERRORBUFFER, f->error) == TR_CURL_OK &&
           c->setopt(f->handle, TR_CURL_WRITEDATA, (void *)f) == TR_CURL_OK &&
           c->setopt(f->handle, TR_CURL_WRITEFUNCTION, write_part) == TR_CURL_OK;
}

static int judge_status(const struct fetching *f, char message[TR_MESSAGE_MAX])
{
    long status = 0;
    (void)f->curl->getinfo(f->handle, TR_CURL_RESPONSE_CODE, &status);
    const bool passing =
        status >= 500 || status == STATUS_TIMEOUT || status == STATUS_TOO_EARLY || status == STATUS_TOO_MANY;
    if (status >= 200 && status < 300)
        return 0;
    if (status == STATUS_NOT_FOUND)
        return say(message, TR_UNFIT, "%s is not on the server of the inputs (status 404)", f->name);
    return say(message, passing ? TR_UNREAD : TR_UNFIT, "%s cannot be fetched: the server answered with status %ld",
               f->name, status);
}

static int judge(const struct fetching *f, int result, char message[TR_MESSAGE_MAX])
{
    if (f->write_error)
        return say(message, TR_UNREAD, "%s cannot be stored in %s: %s; make room there, or set TMPDIR", f->name,
                   temporary_directory(), strerror(f->write_error));
    if (result == TR_CURL_OK)
        return judge_status(f, message);
    const bool lasting = result == TR_CURL_URL_MALFORMAT || result == TR_CURL_UNSUPPORTED_PROTOCOL;
    return say(message, lasting ? TR_UNFIT : TR_UNREAD, "%s cannot be fetched: %s", f->name,
               f->error[0] ? f->error : f->curl->text(result));
}

static int transfer(struct fetching *f, const char *address, char message[TR_MESSAGE_MAX])
{
    int rc = say(message, TR_UNREAD, "%s cannot be fetched: libcurl could not be prepared", f->name);
    f->handle = f->curl->init();
    if (f->handle && tr_curl_set_usual(f->curl, f->handle, TR_CURL_HTTP_AND_HTTPS) && set_pointers(f, address))
        rc = judge(f, f->curl->perform(f->handle), message);
    if (f->handle)
        f->curl->cleanup(f->handle);
    return rc;
}

int tr_fetch(const char *base, const char *path, char message[TR_MESSAGE_MAX])
{
    struct fetching f = { .curl = tr_curl_open(), .fd = -1 };
    struct gd__buffer address = { 0 };
    int rc;
    tr_shown_name(f.name, sizeof f.name, path);
    if (!f.curl || tr_fetch_address(&address, base, path) < 0)
        rc = say(message, TR_UNFIT, "%s: %s", f.name, gd__fail_text());
    else if ((f.fd = open_temporary()) < 0)
        rc = say(message, TR_UNREAD, "%s cannot be stored in %s: %s; set TMPDIR to another directory", f.name,
                 temporary_directory(), strerror(errno));
    else
        rc = transfer(&f, address.data, message);
    gd__buffer_free(&address);
    if (rc < 0 && f.fd >= 0)
        close(f.fd);
    return rc < 0 ? rc : f.fd;
}
