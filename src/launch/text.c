/* Figures and foreign words as people read them on a terminal.
 *
 * A figure has two or three digits that mean something and the unit that suits it. A unit is chosen by what would be
 * printed, not by the value itself: 999.96 ms rounds to 1000.0, and so is "1.0s". Times are written as --timeout and
 * its like take them.
 *
 * Words come from workers and names from anywhere: bytes that could move a cursor or end a line are made visible.
 */
#include "launch/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* --- figures --- */

/* Whole seconds count, and what is left of them below the smaller part is not shown: as clocks do. */
static void two_parts(char out[GD__TEXT_FIGURE], double seconds, unsigned large, char large_name, unsigned small,
                      char small_name)
{
    const unsigned long long whole = (unsigned long long)(seconds + 0.5);
    snprintf(out, GD__TEXT_FIGURE, "%llu%c%02llu%c", whole / large, large_name, whole % large / small, small_name);
}

static void one_part(char out[GD__TEXT_FIGURE], double value, double decimals_below, const char *unit)
{
    snprintf(out, GD__TEXT_FIGURE, value < decimals_below ? "%.1f%s" : "%.0f%s", value, unit);
}

void gd__text_seconds(char out[GD__TEXT_FIGURE], double seconds)
{
    const double us = seconds * 1e6, ms = seconds * 1e3;
    if (!(seconds > 0))
        snprintf(out, GD__TEXT_FIGURE, "0s");
    else if (us < 999.5)
        one_part(out, us, 9.95, "us");
    else if (ms < 999.5)
        one_part(out, ms, 99.95, "ms");
    else if (seconds < 59.95)
        one_part(out, seconds, 59.95, "s");
    else if (seconds < 3599.5)
        two_parts(out, seconds, 60, 'm', 1, 's');
    else if (seconds < 86399.5)
        two_parts(out, seconds, 3600, 'h', 60, 'm');
    else if (seconds < 1e9)
        two_parts(out, seconds, 86400, 'd', 3600, 'h');
    else
        snprintf(out, GD__TEXT_FIGURE, "%.3gd", seconds / 86400);
}

void gd__text_rate(char *out, size_t room, double per_second, const char *what)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = { { 1, "s" }, { 60, "min" }, { 3600, "h" } };
    size_t i = 0;
    while (i < 2 && per_second * units[i].seconds < 0.995)
        i++;
    const double rate = per_second * units[i].seconds;
    if (rate < 9.95)
        snprintf(out, room, "%.1f %s/%s", rate, what, units[i].name);
    else if (rate < 1e9)
        snprintf(out, room, "%.0f %s/%s", rate, what, units[i].name);
    else
        snprintf(out, room, "%.3g %s/%s", rate, what, units[i].name);
}

int gd__text_noun(uint64_t count, const char *what)
{
    const size_t length = strlen(what);
    return (int)(count == 1 && length > 1 && what[length - 1] == 's' ? length - 1 : length);
}

/* --- words --- */

/* The length of the UTF-8 character that begins here and may be shown as it is; 0: it may not. */
static size_t shown_as_it_is(const unsigned char *at, size_t left)
{
    static const unsigned char least[] = { 0, 0, 0xa0, 0xa0, 0x90 }; /* of a second byte, after the first such lead */
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f;
    const size_t length = at[0] >= 0xc2 && at[0] < 0xe0   ? 2
                          : (at[0] & 0xf0) == 0xe0        ? 3
                          : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                          : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Neither C1 controls (U+0080 to U+009F) nor overlong forms, surrogates or what lies past U+10FFFF. */
    const bool first = at[0] == 0xc2 || at[0] == 0xe0 || at[0] == 0xf0;
    if ((first && at[1] < least[length]) || (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90))
        return 0;
    /* Nor what ends a line or changes the direction of a text: U+2028 to U+202E, U+2066 to U+2069. */
    const bool turns = at[0] == 0xe2 && ((at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae) ||
                                         (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
    return turns ? 0 : length;
}

/* One character, as it is shown. Returns its length there, and in *took its length here. */
static size_t show(char out[5], const unsigned char *at, size_t left, size_t *took)
{
    *took = shown_as_it_is(at, left);
    if (*took > 0) {
        memcpy(out, at, *took);
        return *took;
    }
    *took = 1;
    if (at[0] == '\t') {
        out[0] = ' ';
        return 1;
    }
    return (size_t)snprintf(out, 5, "\\x%02x", at[0]);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Narrows to the first line that has something in it. */
static const char *first_line(const char *bytes, size_t *size)
{
    size_t from = 0, to;
    while (from < *size && is_blank(bytes[from]))
        from++;
    for (to = from; to < *size && bytes[to] != '\n';)
        to++;
    while (to > from && is_blank(bytes[to - 1]))
        to--;
    *size = to - from;
    return bytes + from;
}

/* How long all of it would be. */
static size_t shown_length(const unsigned char *at, size_t size)
{
    char one[5];
    size_t length = 0, took;
    for (size_t i = 0; i < size; i += took)
        length += show(one, at + i, size - i, &took);
    return length;
}

/* As many characters as fit. */
static size_t copy_shown(char *out, size_t room, const unsigned char *at, size_t size)
{
    char one[5];
    size_t length = 0, took;
    for (size_t i = 0; i < size; i += took) {
        const size_t n = show(one, at + i, size - i, &took);
        if (length + n >= room)
            break;
        memcpy(out + length, one, n);
        length += n;
    }
    out[length] = '\0';
    return length;
}

size_t gd__text_line(char *out, size_t room, const char *bytes, size_t size)
{
    const size_t most = room * 4; /* nobody shows megabytes to count what is cut */
    const unsigned char *at = (const unsigned char *)first_line(bytes, &size);
    if (size <= most && shown_length(at, size) < room)
        return copy_shown(out, room, at, size);
    const size_t length = copy_shown(out, room - 3, at, size);
    memcpy(out + length, "...", 4);
    return length + 3;
}

size_t gd__text_name(char *out, size_t room, const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)first_line(bytes, &size);
    if (size <= room * 4 && shown_length(at, size) < room)
        return copy_shown(out, room, at, size);
    if (size > room * 4) { /* what is far from the end is not shown anyway */
        at += size - room * 4;
        size = room * 4;
    }
    while (size > 0 && shown_length(at, size) >= room - 3) {
        size_t took = shown_as_it_is(at, size);
        took = took > 0 ? took : 1;
        at += took;
        size -= took;
    }
    memcpy(out, "...", 4);
    return 3 + copy_shown(out + 3, room - 3, at, size);
}
