/* Writes and reads the markers of suspects: see marker.h. */
#include "queue/messages/marker.h"

#include <string.h>

#include "base/error.h"

static const unsigned char magic[4] = { 'G', 'D', 'Q', 'm' };
enum { VERSION_AT = 4, FLAGS_AT = 6, ALONE_AT = 8, NONCE_AT = 12, TOGETHER = 1 };

static void put(unsigned char *to, uint32_t n, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

static uint32_t get(const unsigned char *from, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++)
        n |= (uint32_t)from[i] << (8 * i);
    return n;
}

void gd__queue_marker_write(unsigned char out[GD__QUEUE_MARKER_SIZE], const struct gd__queue_marker *marker)
{
    memcpy(out, magic, sizeof magic);
    put(out + VERSION_AT, GD__QUEUE_MARKER_VERSION, 2);
    put(out + FLAGS_AT, marker->together ? TOGETHER : 0, 2);
    put(out + ALONE_AT, marker->alone, 4);
    memcpy(out + NONCE_AT, marker->nonce, GD__QUEUE_NONCE_SIZE);
}

int gd__queue_marker_read(struct gd__queue_marker *out, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    *out = (struct gd__queue_marker){ 0 };
    if (size < FLAGS_AT || memcmp(b, magic, sizeof magic) != 0)
        return gd__error(GD_E_CORRUPT, "the queue has a marker that is damaged or was not made by gpu_dispatch");
    if (get(b + VERSION_AT, 2) > GD__QUEUE_MARKER_VERSION)
        return gd__error(
            GD_E_VERSION,
            "the queue has a marker of version %u, made by a newer gpu_dispatch. This one reads version %d: "
            "install the newer gpu_dispatch on this machine too",
            (unsigned)get(b + VERSION_AT, 2), GD__QUEUE_MARKER_VERSION);
    if (size != GD__QUEUE_MARKER_SIZE || get(b + VERSION_AT, 2) == 0 || get(b + FLAGS_AT, 2) > TOGETHER)
        return gd__error(GD_E_CORRUPT, "the queue has a marker that is damaged");
    out->together = get(b + FLAGS_AT, 2) == TOGETHER;
    out->alone = get(b + ALONE_AT, 4);
    memcpy(out->nonce, b + NONCE_AT, GD__QUEUE_NONCE_SIZE);
    return 0;
}
