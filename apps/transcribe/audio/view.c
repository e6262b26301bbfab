/* SPDX-License-Identifier: MIT
 *
 * Reading for the parsers of headers.
 */
#include "apps/transcribe/audio/view.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool read_at(int fd, uint64_t at, uint8_t *to, size_t n)
{
    while (n > 0) {
        const ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : 0; /* 0: the file has become shorter, which is not an error */
            return false;
        }
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

bool tr_view_get(struct tr_view *v, uint64_t at, void *to, size_t n)
{
    if (at > v->size || n > v->size - at)
        return false;
    if (n == 0)
        return true;
    if (at + n <= v->begin_size) {
        memcpy(to, v->begin + at, n);
        return true;
    }
    if (v->end && at >= v->size - v->end_size) {
        memcpy(to, v->end + (at - (v->size - v->end_size)), n);
        return true;
    }
    if (v->fd < 0)
        return false;
    const bool whole = read_at(v->fd, v->from + at, to, n);
    if (!whole && errno != 0)
        v->error = errno;
    return whole;
}

size_t tr_view_some(struct tr_view *v, uint64_t at, void *to, size_t most)
{
    const uint64_t left = at < v->size ? v->size - at : 0, begun = at < v->begin_size ? v->begin_size - at : 0;
    size_t n = left < most ? (size_t)left : most;
    if (tr_view_get(v, at, to, n))
        return n;
    n = begun < n ? (size_t)begun : n;
    return tr_view_get(v, at, to, n) ? n : 0;
}

uint64_t tr_little(const uint8_t *b, int n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | b[n];
    return value;
}

uint64_t tr_big(const uint8_t *b, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | b[i];
    return value;
}

bool tr_begins_with(const uint8_t *b, const char *word)
{
    return memcmp(b, word, strlen(word)) == 0;
}
