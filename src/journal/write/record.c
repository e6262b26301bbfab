/* A record in memory, before it is written: a fixed part followed by its strings. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/internal.h"

enum { FIRST_ROOM = 1 << 16, TEXT_MOST = 1 << 20, INPUT_MOST = 900 * 1000 * 1000 };

char *gd__buffer_room(struct gd__bytes_buffer *b, size_t size)
{
    if (size <= b->room - b->used)
        return b->bytes + b->used;
    size_t room = b->room > 0 ? b->room : FIRST_ROOM;
    while (room - b->used < size)
        room *= 2;
    char *bytes = gd__realloc(b->bytes, room);
    if (!bytes)
        return NULL;
    b->bytes = bytes;
    b->room = room;
    return bytes + b->used;
}

struct piece {
    const void *bytes; /* NULL: none */
    size_t size;
};

static struct piece of_string(const char *s)
{
    return (struct piece){ s, s ? strlen(s) : 0 };
}

/* Returns the length of the bytes after they are cut to at most `most`. Does not split a UTF-8 character. */
static size_t cut_at(const unsigned char *bytes, size_t size, size_t most)
{
    if (size <= most)
        return size;
    size_t n = most;
    for (unsigned i = 0; i < 3 && n > 0 && (bytes[n] & 0xc0) == 0x80; i++)
        n--;
    return (bytes[n] & 0xc0) == 0x80 ? most : n;
}

/* Chooses the strings of a record. Strings that the note does not have come from the report. */
static void choose_texts(const struct gd_journal *j, const struct gd__journal_task *t, const struct gd_report *r,
                         struct piece text[GD__TEXTS])
{
    static const struct gd_journal_note nothing = { .size = 0 };
    const struct gd_journal_note *n = j->note.set ? &j->note.note : &nothing;
    const bool failed = r->failure != GD_FAILURE_NONE;
    text[GD__TEXT_VERSION] = of_string(t->has_version ? t->version : NULL);
    text[GD__TEXT_INPUT] =
        n->input ? (struct piece){ n->input, n->input_size } : (struct piece){ r->input, r->input_size };
    text[GD__TEXT_OUTPUT] = of_string(n->output);
    text[GD__TEXT_FAILURE] = of_string(!failed ? NULL : n->failure ? n->failure : gd_failure_name(r->failure));
    text[GD__TEXT_ERROR] = of_string(failed ? r->error : NULL);
    text[GD__TEXT_STDERR] = (struct piece){ n->stderr_end, n->stderr_end ? n->stderr_size : 0 };
    for (unsigned i = 0; i < GD__TEXTS; i++) {
        /* An input from a note is stored completely, up to a size that SQLite can store. A larger one would end the
         * run. */
        const size_t wanted = n->input ? INPUT_MOST : j->o.input_bytes;
        const size_t most = i != GD__TEXT_INPUT ? TEXT_MOST : wanted < INPUT_MOST ? wanted : INPUT_MOST;
        text[i].size = text[i].bytes ? cut_at(text[i].bytes, text[i].size, most) : 0;
    }
}

int gd__record_append(struct gd__bytes_buffer *b, const struct gd_journal *j, const struct gd__journal_task *t,
                      const struct gd_report *r)
{
    struct piece text[GD__TEXTS];
    choose_texts(j, t, r, text);
    size_t size = sizeof(struct gd__record);
    for (unsigned i = 0; i < GD__TEXTS; i++)
        size += text[i].size;
    size = (size + 7) & ~(size_t)7;
    char *at = gd__buffer_room(b, size);
    if (!at)
        return gd__error(GD_E_NO_MEMORY, "no memory for a record");
    const struct gd_journal_note *n = j->note.set ? &j->note.note : NULL;
    struct gd__record *out = (struct gd__record *)(void *)at;
    *out = (struct gd__record){
        .size = size,
        .id = t->id,
        .number = t->number,
        .start_ns = r->start_ns,
        .duration_ns = r->end_ns > r->start_ns && r->start_ns > 0 ? r->end_ns - r->start_ns : 0,
        .input_size = n && n->input ? n->input_size : r->input_size,
        .attempts = t->attempts + r->attempt,
        .worker = r->worker_id,
        .gpu = r->gpu_id,
        .exit_code = n && n->exit_code ? n->exit_code : r->exit_code,
        .signal = n && n->signal ? n->signal : r->signal,
        .state = r->failure == GD_FAILURE_NONE ? GD__FINAL_DONE : GD__FINAL_FAILED,
        .replaces = t->replaces,
    };
    memcpy(out->key, t->key, sizeof out->key);
    at += sizeof *out;
    for (unsigned i = 0; i < GD__TEXTS; i++) {
        out->length[i] = text[i].bytes ? (uint32_t)text[i].size : GD__NO_TEXT;
        if (text[i].size > 0)
            memcpy(at, text[i].bytes, text[i].size);
        at += text[i].size;
    }
    b->used += size;
    return 0;
}

const char *gd__record_text(const struct gd__record *r, enum gd__text which)
{
    const char *at = (const char *)(r + 1);
    for (unsigned i = 0; i < which; i++)
        at += r->length[i] == GD__NO_TEXT ? 0 : r->length[i];
    return at;
}

const struct gd__record *gd__record_at(const struct gd__bytes_buffer *b, size_t at)
{
    return (const struct gd__record *)(const void *)(b->bytes + at);
}
