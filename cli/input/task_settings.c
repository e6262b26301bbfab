/* SPDX-License-Identifier: MIT
 *
 * Settings of single tasks. Anything else in the member "gpu_dispatch" is refused: a misspelt setting that is ignored
 * would not be noticed.
 */
#include "cli/input/task_settings.h"

#include <gpu_dispatch/dispatcher.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "base/text/parse.h"

#define MEMBER "gpu_dispatch"

enum { TEXT_MOST = 64 }; /* longer values are not durations or priorities */

/* Copies a value as a string: the bytes of a JSON string, or the text of anything else. Returns false if that is not
 * possible. */
static bool copy_text(const struct gd__json *value, char text[TEXT_MOST])
{
    if (value->size >= TEXT_MOST)
        return false;
    if (value->kind == GD__JSON_STRING) {
        const size_t length = gd__json_decode(value, text);
        text[length] = '\0';
        return strlen(text) == length; /* otherwise it contains a NUL */
    }
    memcpy(text, value->at, value->size);
    text[value->size] = '\0';
    return true;
}

/* How much of a value an error message shows. */
static int shown(const struct gd__json *value)
{
    return value->size < TEXT_MOST ? (int)value->size : TEXT_MOST;
}

static int read_priority(const struct gd__json *value, int *out)
{
    char text[TEXT_MOST], *end = text;
    long n = 0;
    const bool is_number = value->kind == GD__JSON_NUMBER && copy_text(value, text);
    if (is_number)
        n = strtol(text, &end, 10);
    if (!is_number || *end || n < GD_PRIORITY_MIN || n > GD_PRIORITY_MAX)
        return gd__fail("\"" MEMBER "\": priority is %.*s, but must be a whole number from %d to %d", shown(value),
                        value->at, GD_PRIORITY_MIN, GD_PRIORITY_MAX);
    *out = (int)n;
    return 0;
}

static int read_timeout(const struct gd__json *value, unsigned *out)
{
    char text[TEXT_MOST];
    const bool is_text = value->kind == GD__JSON_NUMBER || value->kind == GD__JSON_STRING;
    if (!is_text || !copy_text(value, text) || gd__parse_duration(text, out) < 0 || *out == 0)
        return gd__fail("\"" MEMBER "\": timeout is %.*s, but must be a number of seconds above 0, or a duration such "
                        "as \"30s\" or \"5m\"",
                        shown(value), value->at);
    return 0;
}

static int read_settings(struct cli_task_settings *out, const struct gd__json *settings)
{
    static const char *const names[] = { "priority", "timeout" };
    struct gd__json member[2];
    if (settings->kind != GD__JSON_OBJECT)
        return gd__fail("\"" MEMBER "\" is %.*s, but must be an object such as {\"priority\":2,\"timeout\":\"30s\"}",
                        shown(settings), settings->at);
    if (gd__json_scan_object(settings->at, settings->size, names, member, 2) < 0)
        return gd__fail("\"" MEMBER "\" has a member twice");
    if (gd__json_count(settings) != (size_t)(member[0].kind != GD__JSON_NONE) + (member[1].kind != GD__JSON_NONE))
        return gd__fail("\"" MEMBER "\" is %.*s, but may only have the members priority and timeout", shown(settings),
                        settings->at);
    if (member[0].kind != GD__JSON_NONE && read_priority(&member[0], &out->priority) < 0)
        return -1;
    return member[1].kind != GD__JSON_NONE ? read_timeout(&member[1], &out->timeout_ms) : 0;
}

/* Most lines have no such member. They are not scanned as JSON. */
static bool may_have_settings(const char *line, size_t size)
{
    return memmem(line, size, "\"" MEMBER "\"", sizeof "\"" MEMBER "\"" - 1) != NULL;
}

int cli_task_settings_read(struct cli_task_settings *out, const char *line, size_t size)
{
    static const char *const name = MEMBER;
    struct gd__json settings, top;
    *out = (struct cli_task_settings){ 0 };
    if (!may_have_settings(line, size))
        return 0;
    if (gd__json_scan_object(line, size, &name, &settings, 1) < 0) {
        /* The object has the member twice, or the line is not an object or not JSON. */
        const bool is_object = gd__json_scan(line, size, &top) == 0 && top.kind == GD__JSON_OBJECT;
        return is_object ? gd__fail("the member \"" MEMBER "\" occurs twice") : 0;
    }
    return settings.kind != GD__JSON_NONE ? read_settings(out, &settings) : 0;
}
