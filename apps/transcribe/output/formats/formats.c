/* SPDX-License-Identifier: MIT
 *
 * The names of the formats, and their writers. They are the formats of Whisper's own program, without its
 * faults, and two of whisper.cpp:
 *
 *     txt, tsv, lrc, csv   tables.c
 *     srt, vtt             subtitles.c
 *     json                 json.c
 *
 * Segments without text are only in the json.
 */
#include <string.h>
#include <strings.h>

#include "apps/transcribe/output/formats/layout.h"
#include "apps/transcribe/output/formats/write.h"
#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/parse.h"

static const char *const names[TR_FORMATS] = {
    [TR_TXT] = "txt", [TR_SRT] = "srt", [TR_VTT] = "vtt", [TR_JSON] = "json",
    [TR_TSV] = "tsv", [TR_LRC] = "lrc", [TR_CSV] = "csv",
};

const char *tr_format_name(enum tr_format f)
{
    return names[f];
}

/* --- names ------------------------------------------------------------------------ */

static int find_format(const char *word, size_t size)
{
    for (int f = 0; f < TR_FORMATS; f++) {
        if (strlen(names[f]) == size && strncasecmp(names[f], word, size) == 0)
            return f;
    }
    return -1;
}

static int no_such_format(const char *word, size_t size)
{
    char copy[32];
    const size_t n = size < sizeof copy ? size : sizeof copy - 1;
    memcpy(copy, word, n);
    copy[n] = '\0';
    const char *near = gd__nearest_word(copy, names, TR_FORMATS);
    return gd__fail("\"%s\" is not a format%s%s%s: the formats are txt, srt, vtt, json, tsv, lrc, csv, or all", copy,
                    near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

int tr_formats_parse(const char *list, unsigned *set)
{
    unsigned found = 0;
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t size = strcspn(at, ",");
        const char *next = at + size;
        while (size > 0 && at[size - 1] == ' ')
            size--;
        const int f = find_format(at, size);
        if (f >= 0)
            found |= 1u << f;
        else if (size == 3 && strncasecmp(at, "all", 3) == 0)
            found |= (1u << TR_FORMATS) - 1;
        else
            return no_such_format(at, size);
        at = next;
        if (!*at)
            break;
    }
    *set = found;
    return 0;
}

/* --- writing ----------------------------------------------------------------------- */

void tr_format_write(struct gd__buffer *out, enum tr_format f, const struct tr_transcript *t, const struct tr_layout *l)
{
    static tr_writer *const writers[TR_FORMATS] = {
        [TR_TXT] = tr_write_txt, [TR_JSON] = tr_write_json, [TR_TSV] = tr_write_tsv,
        [TR_LRC] = tr_write_lrc, [TR_CSV] = tr_write_csv,
    };
    static const struct tr_layout none = { 0 };
    if (writers[f])
        writers[f](out, t);
    else
        (f == TR_SRT ? tr_write_srt : tr_write_vtt)(out, t, l ? l : &none);
}
