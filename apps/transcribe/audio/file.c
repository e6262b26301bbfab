/* SPDX-License-Identifier: MIT
 *
 * Reading and seeking for decoders.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/transcribe/audio/decoder.h"

/* Puts f->mend in place of the four bytes at f->mend_at, if they are among the `got` bytes that were read at offset
 * `at`. */
static void mend(const struct tr_file *f, uint8_t *bytes, uint64_t at, size_t got)
{
    for (size_t i = 0; f->mend_at && i < sizeof f->mend; i++) {
        const uint64_t place = f->mend_at + i;
        if (place >= at && place - at < got)
            bytes[place - at] = f->mend[i];
    }
}

ssize_t tr_file_read(struct tr_file *f, void *to, size_t size)
{
    size_t done = 0;
    const uint64_t left = f->at < f->size ? f->size - f->at : 0;
    size = size < left ? size : (size_t)left;
    while (done < size) {
        const ssize_t n = pread(f->fd, (char *)to + done, size - done, (off_t)(f->from + f->at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            f->error = errno;
            return -1;
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    mend(f, to, f->at, done);
    f->at += done;
    return (ssize_t)done;
}

int64_t tr_file_seek(struct tr_file *f, int64_t offset, int whence)
{
    const uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : f->size;
    int64_t place;
    if (__builtin_add_overflow((int64_t)base, offset, &place) || place < 0)
        return -1;
    f->at = (uint64_t)place;
    return place;
}
