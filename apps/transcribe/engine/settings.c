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

#include "apps/transcribe/engine/decoding/lists.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/parse.h"

enum kind { STRING, CLIPS, TOKENS, NUMBER, REAL, SWITCH, FORMATS };

/* Whether a setting is always written. Journals of earlier versions identify the work by this text, so a setting that
 * they did not have is left out if it has its default. */
enum since { FIRST, NEWER };

/* The first entry is always written: tr_settings_read_line() expects it at the beginning. */
static const struct entry {
    const char *name;
    enum kind kind;
    enum since since;
    size_t offset;
    double least, most; /* of a number */
    double none;        /* the value that "none" stands for; NAN: there is none */
} entries[] = {
#define MEMBER(member) offsetof(struct tr_settings, member)
    { "beam_size", NUMBER, FIRST, MEMBER(beam_size), 0, 8, NAN }, /* whisper.cpp has at most 8 decoders */
    { "accept_truncated", SWITCH, NEWER, MEMBER(accept_truncated), 0, 0, NAN },
    { "batch_size", NUMBER, NEWER, MEMBER(batch_size), 1, 256, NAN },
    { "best_of", NUMBER, NEWER, MEMBER(best_of), 1, 8, NAN },
    { "carry_initial_prompt", SWITCH, NEWER, MEMBER(carry_initial_prompt), 0, 0, NAN },
    { "clip_timestamps", CLIPS, NEWER, MEMBER(clip_timestamps), 0, 0, NAN },
    { "compression_ratio_threshold", REAL, NEWER, MEMBER(compression_ratio_threshold), 0, 1000, INFINITY },
    { "condition_on_previous_text", SWITCH, NEWER, MEMBER(condition_on_previous_text), 0, 0, NAN },
    { "decoder", STRING, NEWER, MEMBER(decoder), 0, 0, NAN },
    { "diarize_channels", SWITCH, NEWER, MEMBER(diarize_channels), 0, 0, NAN },
    { "entropy_threshold", REAL, NEWER, MEMBER(entropy_threshold), 0, 1000, 0 },
    { "formats", FORMATS, FIRST, MEMBER(places.formats), 0, 0, NAN },
    { "full_names", SWITCH, FIRST, MEMBER(places.full_names), 0, 0, NAN },
    { "highlight_words", SWITCH, NEWER, MEMBER(places.layout.highlight_words), 0, 0, NAN },
    { "hotwords", STRING, NEWER, MEMBER(hotwords), 0, 0, NAN },
    { "input_base", STRING, NEWER, MEMBER(input_base), 0, 0, NAN },
    { "input_dir", STRING, FIRST, MEMBER(places.input_dir), 0, 0, NAN },
    { "language", STRING, FIRST, MEMBER(language), 0, 0, NAN },
    { "length_penalty", REAL, NEWER, MEMBER(length_penalty), 0, 100, -1 },
    { "logprob_threshold", REAL, NEWER, MEMBER(logprob_threshold), -1000, 0, -INFINITY },
    { "max_initial_timestamp", REAL, NEWER, MEMBER(max_initial_timestamp), 0, 30, INFINITY },
    { "max_line_count", NUMBER, NEWER, MEMBER(places.layout.max_line_count), 0, 10000, NAN },
    { "max_line_width", NUMBER, NEWER, MEMBER(places.layout.max_line_width), 0, 10000, NAN },
    { "max_words_per_line", NUMBER, NEWER, MEMBER(places.layout.max_words_per_line), 0, 10000, NAN },
    { "model", STRING, FIRST, MEMBER(model), 0, 0, NAN },
    { "model_name", STRING, FIRST, MEMBER(model_name), 0, 0, NAN },
    { "no_gpu", SWITCH, FIRST, MEMBER(no_gpu), 0, 0, NAN },
    { "no_speech_threshold", REAL, NEWER, MEMBER(no_speech_threshold), 0, 1, INFINITY },
    { "output_dir", STRING, FIRST, MEMBER(places.output_dir), 0, 0, NAN },
    { "piece_seconds", NUMBER, FIRST, MEMBER(piece_seconds), 0, 86400, NAN },
    { "prompt", STRING, FIRST, MEMBER(prompt), 0, 0, NAN },
    { "split", STRING, NEWER, MEMBER(split), 0, 0, NAN },
    { "suppress_blank", SWITCH, NEWER, MEMBER(suppress_blank), 0, 0, NAN },
    { "suppress_tokens", TOKENS, NEWER, MEMBER(suppress_tokens), 0, 0, NAN },
    { "sync", SWITCH, FIRST, MEMBER(places.sync), 0, 0, NAN },
    { "temperature", REAL, FIRST, MEMBER(temperature), 0, 1, NAN }, /* whisper.cpp tries no temperature above 1 */
    /* Smaller steps would decode a bad window a hundred times and more. */
    { "temperature_increment_on_fallback", REAL, NEWER, MEMBER(temperature_increment_on_fallback), 0.01, 1, 0 },
    { "threads", NUMBER, FIRST, MEMBER(threads), 0, 1024, NAN },
    { "translate", SWITCH, FIRST, MEMBER(translate), 0, 0, NAN },
    { "vad_max_speech_duration_s", REAL, NEWER, MEMBER(vad_max_speech_duration_s), 1, 86400, INFINITY },
    { "vad_min_silence_duration_ms", NUMBER, NEWER, MEMBER(vad_min_silence_duration_ms), 0, 3600000, NAN },
    { "vad_min_speech_duration_ms", NUMBER, NEWER, MEMBER(vad_min_speech_duration_ms), 0, 3600000, NAN },
    { "vad_model", STRING, FIRST, MEMBER(vad_model), 0, 0, NAN },
    { "vad_speech_pad_ms", NUMBER, NEWER, MEMBER(vad_speech_pad_ms), 0, 30000, NAN },
    { "vad_threshold", REAL, NEWER, MEMBER(vad_threshold), 0, 1, NAN },
    { "without_timestamps", SWITCH, NEWER, MEMBER(without_timestamps), 0, 0, NAN },
    { "word_timestamps", SWITCH, FIRST, MEMBER(word_timestamps), 0, 0, NAN },
    { "workers", NUMBER, FIRST, MEMBER(workers), 0, 65536, NAN },
#undef MEMBER
};

enum { ENTRIES = sizeof entries / sizeof *entries };

const struct tr_settings tr_settings_defaults = {
    .places.formats = 1u << TR_TXT,
    .temperature_increment_on_fallback = 0.2,
    .length_penalty = -1,
    .entropy_threshold = 2.4,
    .compression_ratio_threshold = INFINITY,
    .logprob_threshold = -1,
    .no_speech_threshold = 0.6,
    .condition_on_previous_text = true,
    .suppress_blank = true,
    .max_initial_timestamp = 1,
    .vad_threshold = 0.5,
    .vad_min_speech_duration_ms = 250,
    .vad_min_silence_duration_ms = 100,
    .vad_max_speech_duration_s = INFINITY,
    .vad_speech_pad_ms = 30,
};

static const void *member_of(const struct tr_settings *s, const struct entry *e)
{
    return (const char *)s + e->offset;
}

/* Only for newer settings, whose strings are NULL by default. */
static bool is_default(const struct entry *e, const struct tr_settings *s)
{
    const void *here = member_of(s, e), *usual = member_of(&tr_settings_defaults, e);
    switch (e->kind) {
    case STRING:
    case CLIPS:
    case TOKENS:
        return !*(const char *const *)here;
    case NUMBER:
    case FORMATS:
        return *(const unsigned *)here == *(const unsigned *)usual;
    case REAL:
        return *(const double *)here == *(const double *)usual;
    case SWITCH:
        return *(const bool *)here == *(const bool *)usual;
    }
    return false;
}

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
static void add_real(struct gd__buffer *b, const struct entry *e, double value)
{
    if (value == e->none) {
        gd__buffer_text(b, "none");
        return;
    }
    const long long millionths = llround(fabs(fmin(fmax(value, e->least), e->most)) * 1e6);
    gd__buffer_format(b, "%s%lld.%06lld", value < 0 && millionths > 0 ? "-" : "", millionths / 1000000,
                      millionths % 1000000);
}

static void add_value(struct gd__buffer *b, const struct entry *e, const void *member)
{
    switch (e->kind) {
    case STRING:
    case CLIPS:
    case TOKENS:
        if (*(const char *const *)member)
            add_escaped(b, *(const char *const *)member);
        break;
    case NUMBER:
        gd__buffer_format(b, "%u", *(const unsigned *)member);
        break;
    case REAL:
        add_real(b, e, *(const double *)member);
        break;
    case SWITCH:
        gd__buffer_text(b, *(const bool *)member ? "yes" : "no");
        break;
    case FORMATS:
        add_formats(b, *(const unsigned *)member);
        break;
    }
}

void tr_settings_write(struct gd__buffer *b, const struct tr_settings *s)
{
    for (const struct entry *e = entries; e < entries + ENTRIES; e++) {
        if (e->since == NEWER && is_default(e, s))
            continue;
        gd__buffer_text(b, e->name);
        gd__buffer_text(b, "=");
        add_value(b, e, member_of(s, e));
        gd__buffer_text(b, "\n");
    }
}

/* Appends a value as a word for a shell. Zeros at the end of a number are left out. */
static void add_word(struct gd__buffer *b, const struct entry *e, const void *member)
{
    const size_t before = b->size;
    if (e->kind == STRING || e->kind == CLIPS || e->kind == TOKENS)
        gd__buffer_shell_word(b, *(const char *const *)member);
    else
        add_value(b, e, member);
    if (e->kind != REAL || b->failed || !memchr(b->data + before, '.', b->size - before))
        return;
    while (b->data[b->size - 1] == '0')
        b->size--;
    b->size -= b->data[b->size - 1] == '.';
}

/* The name of a setting's option, with dashes. Only one option has another name, because it takes a value. */
static void add_option(struct gd__buffer *b, const struct entry *e)
{
    gd__buffer_text(b, " --");
    if (e->offset == offsetof(struct tr_settings, diarize_channels)) {
        gd__buffer_text(b, "diarize channels");
        return;
    }
    for (const char *c = e->name; *c; c++)
        gd__buffer_add(b, *c == '_' ? "-" : c, 1);
}

void tr_settings_options(struct gd__buffer *b, const struct tr_settings *s)
{
    for (const struct entry *e = entries; e < entries + ENTRIES; e++) {
        if (e->since != NEWER || is_default(e, s))
            continue;
        add_option(b, e);
        if (e->kind == SWITCH && *(const bool *)member_of(s, e))
            continue;
        gd__buffer_text(b, " ");
        add_word(b, e, member_of(s, e));
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

/* A plain decimal number: no exponent, no "nan". */
static bool parse_decimal(const char *text, double *out)
{
    const bool negative = *text == '-';
    double found = 0, scale = 1;
    const char *at = text + negative;
    for (; *at >= '0' && *at <= '9'; at++)
        found = found * 10 + (*at - '0');
    if (*at == '.' && at[1])
        for (at++; *at >= '0' && *at <= '9'; at++)
            found += (*at - '0') * (scale /= 10);
    *out = round((negative ? -found : found) * 1e6) / 1e6;
    return !*at && text[negative];
}

static int read_real(const struct entry *e, const char *shown, const char *value, double *out)
{
    double found;
    const bool can_be_none = !isnan(e->none);
    if (can_be_none && strcasecmp(value, "none") == 0) {
        *out = e->none;
        return 0;
    }
    if (parse_decimal(value, &found) && ((found >= e->least && found <= e->most) || found == e->none)) {
        *out = found;
        return 0;
    }
    return gd__fail("%s takes a number from %g to %g%s, not \"%.100s\"", shown, e->least, e->most,
                    can_be_none ? ", or none" : "", value);
}

static int read_number(const struct entry *e, const char *shown, const char *value, unsigned *out)
{
    uint64_t found;
    if (gd__parse_number(shown, value, (uint64_t)e->least, (uint64_t)e->most, &found) < 0)
        return -1;
    *out = (unsigned)found;
    return 0;
}

/* Only checks the list. Engines parse it again. */
static int read_clips(const char *shown, const char *value, const char **out)
{
    struct tr_clips clips;
    if (tr_clips_parse(&clips, shown, value) < 0)
        return -1;
    *out = clips.n > 0 ? value : NULL; /* NULL: the whole file */
    tr_clips_free(&clips);
    return 0;
}

static int read_tokens(const char *shown, const char *value, const char **out)
{
    struct tr_token_list list;
    if (tr_token_list_parse(&list, shown, value) < 0)
        return -1;
    *out = list.n > 0 || list.non_speech ? value : NULL;
    tr_token_list_free(&list);
    return 0;
}

static int read_value(const struct entry *e, const char *shown, const char *value, void *member)
{
    if (!*value)
        return 0;
    switch (e->kind) {
    case STRING:
        *(const char **)member = value;
        return 0;
    case CLIPS:
        return read_clips(shown, value, member);
    case TOKENS:
        return read_tokens(shown, value, member);
    case NUMBER:
        return read_number(e, shown, value, member);
    case REAL:
        return read_real(e, shown, value, member);
    case SWITCH:
        return read_switch(shown, value, member);
    case FORMATS:
        return tr_formats_parse(value, member);
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
static int read_line(struct tr_settings *s, char *line, uint64_t *seen)
{
    char *value = strchr(line, '=');
    if (!value)
        return gd__fail("settings are lines of name=value: \"%.100s\" is not one", line);
    *value++ = '\0';
    const struct entry *e = find_entry(line);
    if (!e)
        return -1;
    const uint64_t bit = UINT64_C(1) << (e - entries);
    if (*seen & bit)
        return gd__fail("the setting %s is given twice", e->name);
    *seen |= bit;
    if (!unescape(value))
        return gd__fail(
            "the value of %s has a backslash that is not part of \\n, \\r or \\\\: write \\\\ for a backslash",
            e->name);
    return read_value(e, e->name, value, (char *)s + e->offset);
}

static int read_lines(struct tr_settings *s, char *text)
{
    _Static_assert(ENTRIES <= 64, "a bit for each");
    uint64_t seen = 0;
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
    s->word_timestamps |= tr_layout_is_set(&s->places.layout);
    if (!s->model)
        return gd__fail("no model was given: model=PATH of a file in whisper.cpp's format");
    return 0;
}

int tr_settings_read(struct tr_settings *s, char **kept, const char *text, size_t size)
{
    *s = tr_settings_defaults;
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

int tr_settings_set(struct tr_settings *s, const char *name, const char *shown, const char *value)
{
    const struct entry *e = find_entry(name);
    return e ? read_value(e, shown, value, (char *)s + e->offset) : -1;
}
