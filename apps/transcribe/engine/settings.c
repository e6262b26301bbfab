/* SPDX-License-Identifier: MIT
 *
 * Writes and reads the worker's settings as text. One table gives the name, member and type of each setting, for
 * reading and for writing.
 *
 * Reading copies the text once and decodes escapes in place, because an escape is never shorter than its character.
 * Strings point into that copy.
 */
#include "apps/transcribe/engine/settings.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/parse.h"

enum kind { STRING, NUMBER, SWITCH, FORMATS, TEMPERATURE };

static const struct entry {
    const char *name;
    enum kind kind;
    size_t offset;
    unsigned most; /* largest value of a number */
} entries[] = {
#define MEMBER(member) offsetof(struct tr_settings, member)
    { "beam_size", NUMBER, MEMBER(beam_size), 8 }, /* whisper.cpp has at most 8 decoders */
    { "formats", FORMATS, MEMBER(places.formats), 0 },
    { "full_names", SWITCH, MEMBER(places.full_names), 0 },
    { "input_dir", STRING, MEMBER(places.input_dir), 0 },
    { "language", STRING, MEMBER(language), 0 },
    { "model", STRING, MEMBER(model), 0 },
    { "model_name", STRING, MEMBER(model_name), 0 },
    { "no_gpu", SWITCH, MEMBER(no_gpu), 0 },
    { "output_dir", STRING, MEMBER(places.output_dir), 0 },
    { "piece_seconds", NUMBER, MEMBER(piece_seconds), 86400 },
    { "prompt", STRING, MEMBER(prompt), 0 },
    { "sync", SWITCH, MEMBER(places.sync), 0 },
    { "temperature", TEMPERATURE, MEMBER(temperature), 0 },
    { "threads", NUMBER, MEMBER(threads), 1024 },
    { "translate", SWITCH, MEMBER(translate), 0 },
    { "vad_model", STRING, MEMBER(vad_model), 0 },
    { "word_timestamps", SWITCH, MEMBER(word_timestamps), 0 },
    { "workers", NUMBER, MEMBER(workers), 65536 },
#undef MEMBER
};

enum { ENTRIES = sizeof entries / sizeof *entries };

/* --- writing ---------------------------------------------------------------------- */

static void add_escaped(struct gd__buffer *b, const char *text)
{
    while (*text) {
        const size_t plain = strcspn(text, "\n\r\\");
        gd__buffer_add(b, text, plain);
        text += plain;
        if (*text) {
            gd__buffer_text(b, *text == '\n' ? "\\n" : *text == '\r' ? "\\r" : "\\\\");
            text++;
        }
    }
}

static void add_formats(struct gd__buffer *b, unsigned set)
{
    const char *before = "";
    for (int f = 0; f < TR_FORMATS; f++) {
        if (set & 1u << f) {
            gd__buffer_text(b, before);
            gd__buffer_text(b, tr_format_name((enum tr_format)f));
            before = ",";
        }
    }
}

/* Writes the digits as integers, because %f would use the decimal point of the locale, which may be a comma. */
static void add_temperature(struct gd__buffer *b, double value)
{
    const long millionths = lround(fmin(fmax(value, 0), 1) * 1e6);
    gd__buffer_format(b, "%ld.%06ld", millionths / 1000000, millionths % 1000000);
}

static void add_value(struct gd__buffer *b, const struct entry *e, const void *member)
{
    switch (e->kind) {
    case STRING:
        if (*(const char *const *)member)
            add_escaped(b, *(const char *const *)member);
        break;
    case NUMBER:
        gd__buffer_format(b, "%u", *(const unsigned *)member);
        break;
    case SWITCH:
        gd__buffer_text(b, *(const bool *)member ? "yes" : "no");
        break;
    case FORMATS:
        add_formats(b, *(const unsigned *)member);
        break;
    case TEMPERATURE:
        add_temperature(b, *(const double *)member);
        break;
    }
}

void tr_settings_write(struct gd__buffer *b, const struct tr_settings *s)
{
    for (const struct entry *e = entries; e < entries + ENTRIES; e++) {
        gd__buffer_text(b, e->name);
        gd__buffer_text(b, "=");
        add_value(b, e, (const char *)s + e->offset);
        gd__buffer_text(b, "\n");
    }
}

/* --- reading ---------------------------------------------------------------------- */

static bool unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '\\') {
            text++;
            if (*text != 'n' && *text != 'r' && *text != '\\')
                return false;
            *to++ = *text == 'n' ? '\n' : *text == 'r' ? '\r' : '\\';
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return true;
}

static int read_switch(const char *name, const char *value, bool *out)
{
    static const char *const words[] = { "no", "yes", "0", "1", "false", "true", "off", "on" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *out = i % 2;
            return 0;
        }
    }
    return gd__fail("%s takes yes or no, not \"%.100s\"", name, value);
}

/* A value above 1 is refused. whisper.cpp would have no temperature to try, and would return no text. */
static int read_temperature(const char *value, double *out)
{
    double found = 0, scale = 1;
    const char *at = value;
    for (; *at >= '0' && *at <= '9'; at++)
        found = found * 10 + (*at - '0');
    if (*at == '.' && at[1])
        for (at++; *at >= '0' && *at <= '9'; at++)
            found += (*at - '0') * (scale /= 10);
    if (*at || found > 1)
        return gd__fail("temperature takes a number from 0 to 1, not \"%.100s\"", value);
    *out = round(found * 1e6) / 1e6;
    return 0;
}

static int read_number(const struct entry *e, const char *value, unsigned *out)
{
    uint64_t found;
    if (gd__parse_number(e->name, value, 0, e->most, &found) < 0)
        return -1;
    *out = (unsigned)found;
    return 0;
}

static int read_value(const struct entry *e, const char *value, void *member)
{
    if (!*value)
        return 0;
    switch (e->kind) {
    case STRING:
        *(const char **)member = value;
        return 0;
    case NUMBER:
        return read_number(e, value, member);
    case SWITCH:
        return read_switch(e->name, value, member);
    case FORMATS:
        return tr_formats_parse(value, member);
    case TEMPERATURE:
        return read_temperature(value, member);
    }
    return 0;
}

static const struct entry *find_entry(const char *name)
{
    const char *names[ENTRIES];
    for (size_t i = 0; i < ENTRIES; i++) {
        names[i] = entries[i].name;
        if (strcmp(name, names[i]) == 0)
            return &entries[i];
    }
    const char *near = gd__nearest_word(name, names, ENTRIES);
    gd__fail("\"%.100s\" is not a setting of the transcription worker%s%s%s", name, near ? ": did you mean " : "",
             near ? near : "", near ? "?" : "");
    return NULL;
}

/* Reads one line, without its newline. seen has a bit for each entry. */
static int read_line(struct tr_settings *s, char *line, unsigned *seen)
{
    char *value = strchr(line, '=');
    if (!value)
        return gd__fail("settings are lines of name=value: \"%.100s\" is not one", line);
    *value++ = '\0';
    const struct entry *e = find_entry(line);
    if (!e)
        return -1;
    const unsigned bit = 1u << (e - entries);
    if (*seen & bit)
        return gd__fail("the setting %s is given twice", e->name);
    *seen |= bit;
    if (!unescape(value))
        return gd__fail(
            "the value of %s has a backslash that is not part of \\n, \\r or \\\\: write \\\\ for a backslash",
            e->name);
    return read_value(e, value, (char *)s + e->offset);
}

static int read_lines(struct tr_settings *s, char *text)
{
    _Static_assert(ENTRIES <= 32, "a bit for each");
    unsigned seen = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const size_t size = strlen(line);
        if (size > 0 && line[size - 1] == '\r') /* part of a line end "\r\n"; a '\r' in a value is escaped */
            line[size - 1] = '\0';
        if (*line && read_line(s, line, &seen) < 0)
            return -1;
    }
    if (s->language && strcasecmp(s->language, "auto") == 0)
        s->language = NULL;
    if (!s->model)
        return gd__fail("no model was given: model=PATH of a file in whisper.cpp's format");
    return 0;
}

int tr_settings_read(struct tr_settings *s, char **kept, const char *text, size_t size)
{
    *s = (struct tr_settings){ .places.formats = 1u << TR_TXT };
    *kept = NULL;
    if (size > 0 && memchr(text, 0, size))
        return gd__fail("the settings contain a NUL: they must be lines of name=value");
    char *copy = strndup(size ? text : "", size);
    if (!copy)
        return gd__fail("no memory for the settings");
    if (read_lines(s, copy) < 0) {
        free(copy);
        return -1;
    }
    *kept = copy;
    return 0;
}

int tr_settings_read_line(struct tr_settings *s, char **kept, const char *line)
{
    char *copy = strdup(line), *at = copy;
    *kept = NULL;
    if (!copy)
        return gd__fail("no memory for the settings");
    for (const struct entry *e = entries + 1; e < entries + ENTRIES; e++) {
        char name[64];
        snprintf(name, sizeof name, " %s=", e->name);
        char *found = strstr(at, name);
        if (found) {
            *found = '\n';
            at = found;
        }
    }
    const int result = tr_settings_read(s, kept, copy, strlen(copy));
    free(copy);
    return result;
}
