/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as a JSON text, as a line of a program, and as an input. Nothing is read past the end. A value
 * that is found is inside the text and is valid by itself. A string that was written as JSON is read back with the same
 * bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static char *room_for(size_t n)
{
    char *room = malloc(n ? n : 1);
    MUST(room);
    return room;
}

static void look_at(const struct gd__json *v, const char *text, size_t size)
{
    struct gd__json again;
    uint64_t number;
    MUST(v->at >= text && v->size <= size && v->at + v->size <= text + size);
    MUST(gd__json_scan(v->at, v->size, &again) == 0);
    MUST(again.kind == v->kind && again.at == v->at && again.size == v->size);
    gd__json_uint(v, &number);
    if (v->kind == GD__JSON_STRING) {
        char *bytes = room_for(v->size);
        MUST(gd__json_decode(v, bytes) <= v->size);
        free(bytes);
    }
}

static void as_text(const char *text, size_t size)
{
    static const char *const names[] = { "id", "output", "error", "final", "kind" };
    struct gd__json top, members[5];
    const bool good = gd__json_scan(text, size, &top) == 0;
    if (good)
        look_at(&top, text, size);
    const bool object = gd__json_scan_object(text, size, names, members, 5) == 0;
    MUST(!object || (good && top.kind == GD__JSON_OBJECT));
    for (int i = 0; object && i < 5; i++)
        if (members[i].kind)
            look_at(&members[i], text, size);
}

static void as_bytes(const char *bytes, size_t size)
{
    struct gd__json top;
    char *text = room_for(gd__json_escaped_size(bytes, size)), *back = room_for(6 * size + 2);
    const size_t n = gd__json_escape(text, bytes, size);
    MUST(n == gd__json_escaped_size(bytes, size));
    MUST(gd__json_scan(text, n, &top) == 0 && top.kind == GD__JSON_STRING && top.size == n);
    MUST(memchr(text, '\n', n) == NULL);
    MUST(gd__json_decode(&top, back) == size && memcmp(back, bytes, size) == 0);
    free(text);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_text((const char *)data, size);
    as_bytes((const char *)data, size);
    return 0;
}
