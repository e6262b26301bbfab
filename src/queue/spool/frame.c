/* The frames of a spool file: see frame.h. */
#include "queue/spool/frame.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "queue/messages/message.h"

enum { KIND_AT = 4, SIZE_AT = 8, HASH_AT = 16 };
static const unsigned char magic[4] = { 'G', 'D', 's', 'p' };
static const unsigned char hash_key[16] = "gpu-dispatch-gds"; /* makes the hash differ from those of other files */

static void put_size(unsigned char *to, uint64_t size)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (unsigned char)(size >> (8 * i));
}

static uint64_t get_size(const unsigned char *from)
{
    uint64_t size = 0;
    for (unsigned i = 0; i < 8; i++)
        size |= (uint64_t)from[i] << (8 * i);
    return size;
}

/* The hash of the first 16 bytes and of the contents. The hash itself lies between the two, so both are hashed, and then
 * the two hashes. */
static void frame_hash(const unsigned char *frame, uint64_t contents, unsigned char out[GD__HASH_SIZE])
{
    unsigned char both[2 * GD__HASH_SIZE];
    gd__siphash128(hash_key, frame, HASH_AT, both);
    gd__siphash128(hash_key, frame + GD__SPOOL_HEAD, contents, both + GD__HASH_SIZE);
    gd__siphash128(hash_key, both, sizeof both, out);
}

/* --- writing --- */

static void add_frame(struct gd__buffer *b, enum gd__spool_kind kind, const void *first, size_t first_size,
                      const void *second, size_t second_size)
{
    const size_t contents = first_size + second_size;
    unsigned char *frame = (unsigned char *)gd__buffer_reserve(b, GD__SPOOL_HEAD + contents);
    if (!frame)
        return;
    memset(frame, 0, GD__SPOOL_HEAD);
    memcpy(frame, magic, sizeof magic);
    frame[KIND_AT] = (unsigned char)kind;
    put_size(frame + SIZE_AT, contents);
    memcpy(frame + GD__SPOOL_HEAD, first, first_size);
    if (second_size > 0)
        memcpy(frame + GD__SPOOL_HEAD + first_size, second, second_size);
    frame_hash(frame, contents, frame + HASH_AT);
    b->size += GD__SPOOL_HEAD + contents;
}

void gd__spool_frame_queue(struct gd__buffer *b, const char *name, const struct gd__spool_queue_id *id)
{
    add_frame(b, GD__SPOOL_QUEUE, name, strlen(name) + id->is_known, id->bytes, id->is_known ? sizeof id->bytes : 0);
}

void gd__spool_frame_keep(struct gd__buffer *b, const struct gd__queue_key *key, const void *message, size_t size)
{
    char text[GD__QUEUE_KEY_ROOM] = { 0 };
    gd__queue_key_text(text, key);
    add_frame(b, GD__SPOOL_KEEP, text, sizeof text, message, size);
}

void gd__spool_frame_forget(struct gd__buffer *b, const struct gd__queue_key *key)
{
    char text[GD__QUEUE_KEY_ROOM] = { 0 };
    gd__queue_key_text(text, key);
    add_frame(b, GD__SPOOL_FORGET, text, sizeof text, NULL, 0);
}

/* --- reading --- */

static bool parse_key(struct gd__queue_key *out, const unsigned char *at)
{
    char text[GD__QUEUE_KEY_ROOM];
    memcpy(text, at, sizeof text);
    const size_t length = strnlen(text, sizeof text);
    for (size_t i = length; i < sizeof text; i++)
        if (text[i] != '\0')
            return false;
    return length < sizeof text && gd__queue_key_parse(out, text) == 0;
}

/* The name, or the name, a zero and the id. */
static bool parse_queue(struct gd__spool_frame *out, const unsigned char *contents, uint64_t size)
{
    const uint64_t length = strnlen((const char *)contents, size);
    if (length > GD__QUEUE_NAME_MOST || gd__queue_name_check((const char *)contents, length) < 0)
        return false;
    memcpy(out->name, contents, length);
    out->id.is_known = length < size;
    if (!out->id.is_known)
        return true;
    if (size - length != 1 + sizeof out->id.bytes)
        return false;
    memcpy(out->id.bytes, contents + length + 1, sizeof out->id.bytes);
    return true;
}

static bool parse_contents(struct gd__spool_frame *out, const unsigned char *contents, uint64_t size)
{
    switch (out->kind) {
    case GD__SPOOL_QUEUE:
        return parse_queue(out, contents, size);
    case GD__SPOOL_KEEP:
        return size > GD__QUEUE_KEY_ROOM && size - GD__QUEUE_KEY_ROOM <= GD__QUEUE_MESSAGE_MOST &&
               parse_key(&out->key, contents);
    case GD__SPOOL_FORGET:
        return size == GD__QUEUE_KEY_ROOM && parse_key(&out->key, contents);
    }
    return false;
}

bool gd__spool_frame_parse(struct gd__spool_frame *out, const unsigned char *bytes, uint64_t size)
{
    static const unsigned char zeros[3];
    unsigned char hash[GD__HASH_SIZE];
    *out = (struct gd__spool_frame){ .at = 0 };
    if (size < GD__SPOOL_HEAD || memcmp(bytes, magic, sizeof magic) != 0 ||
        memcmp(bytes + KIND_AT + 1, zeros, sizeof zeros) != 0)
        return false;
    const uint64_t contents = get_size(bytes + SIZE_AT);
    if (contents > size - GD__SPOOL_HEAD)
        return false;
    out->kind = (enum gd__spool_kind)bytes[KIND_AT];
    out->size = GD__SPOOL_HEAD + contents;
    if (!parse_contents(out, bytes + GD__SPOOL_HEAD, contents))
        return false;
    frame_hash(bytes, contents, hash);
    return memcmp(hash, bytes + HASH_AT, sizeof hash) == 0;
}

int gd__spool_scan_open(struct gd__spool_scan *scan, int fd)
{
    struct stat st;
    *scan = (struct gd__spool_scan){ .bytes = NULL };
    if (fstat(fd, &st) < 0)
        return gd__error_errno("cannot read the spool file");
    if (st.st_size == 0)
        return 0;
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return gd__error_errno("cannot map the spool file");
    scan->bytes = bytes;
    scan->size = (uint64_t)st.st_size;
    return 0;
}

int gd__spool_scan_next(struct gd__spool_scan *scan, struct gd__spool_frame *out)
{
    if (scan->at == scan->size || !gd__spool_frame_parse(out, scan->bytes + scan->at, scan->size - scan->at))
        return 0;
    out->at = scan->at;
    scan->at += out->size;
    return 1;
}

void gd__spool_scan_close(struct gd__spool_scan *scan)
{
    if (scan->bytes)
        munmap((void *)(uintptr_t)scan->bytes, scan->size);
    scan->bytes = NULL;
}
