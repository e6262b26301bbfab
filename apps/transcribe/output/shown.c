/* SPDX-License-Identifier: MIT
 *
 * Makes paths safe and short enough for error messages. A name may contain a newline, which would split a line, or
 * bytes that a terminal takes for a command. A path may also be longer than the room for the error message. Then its
 * middle is left out: the beginning shows which tree the file is in, and the end shows which file it is. */
#include "apps/transcribe/output/shown.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text/printable.h"

void tr_show(char *text, size_t size)
{
    gd__text_plain(text, size, false);
}

static bool in_character(char c)
{
    return (c & 0xc0) == 0x80;
}

const char *tr_shown(char room[TR_SHOWN], const char *path)
{
    const size_t size = strlen(path);
    size_t half = (TR_SHOWN - 4) / 2, tail = size - half;
    if (size < TR_SHOWN) {
        memcpy(room, path, size + 1);
    } else {
        while (half > 0 && in_character(path[half]))
            half--;
        while (in_character(path[tail]))
            tail++;
        snprintf(room, TR_SHOWN, "%.*s...%s", (int)half, path, path + tail);
    }
    tr_show(room, strlen(room));
    return room;
}

void tr_shown_name(char *out, size_t size, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t at = end;
    while (at > 0 && path[at - 1] != '/')
        at--;
    if (at == end)
        at = 0; /* "/" */
    const bool cut = end - at > size - 1;
    if (cut) {
        at = end - (size - 1 - strlen("..."));
        while (at < end && in_character(path[at]))
            at++;
    }
    const int n = snprintf(out, size, "%s%.*s", cut ? "..." : "", (int)(end - at), path + at);
    tr_show(out, n > 0 ? (size_t)n : 0);
}
