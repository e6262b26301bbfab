/* The note that a callback adds to the record of its task. It is stored until the record is made, right after the
 * callback. */
#include <string.h>

#include "base/sized.h"
#include "journal/internal.h"

void gd__note_clear(struct gd__note_kept *n)
{
    n->set = false;
    n->text.used = 0;
}

/* Copies bytes into the note's memory. Returns NULL if bytes is NULL, or if there is no memory. */
static const char *copy_bytes(struct gd__bytes_buffer *b, const char *bytes, size_t size)
{
    char *at = bytes ? gd__buffer_room(b, size + 1) : NULL;
    if (!at)
        return NULL;
    memcpy(at, bytes, size);
    at[size] = '\0';
    b->used += size + 1;
    return at;
}

static size_t length_of(const char *s)
{
    return s ? strlen(s) + 1 : 0;
}

void gd_journal_add_note(struct gd_journal *j, const struct gd_journal_note *note)
{
    struct gd_journal_note n = { .size = 0 };
    if (!j || gd__sized_read(&n, sizeof n, note, "gd_journal_note") < 0)
        return;
    gd__note_clear(&j->note);
    n.stderr_size = n.stderr_end ? n.stderr_size : 0;
    n.input_size = n.input ? n.input_size : 0;
    /* Make room for everything first, so that no copy moves. If there is no memory, the record is made from the report
     * alone. */
    const size_t total = length_of(n.output) + n.stderr_size + 1 + length_of(n.failure) + n.input_size + 1;
    if (!gd__buffer_room(&j->note.text, total)) {
        j->note.note = (struct gd_journal_note){ .not_done = n.not_done };
        j->note.set = n.not_done;
        return;
    }
    struct gd__bytes_buffer *b = &j->note.text;
    n.output = copy_bytes(b, n.output, n.output ? strlen(n.output) : 0);
    n.stderr_end = copy_bytes(b, n.stderr_end, n.stderr_size);
    n.failure = copy_bytes(b, n.failure, n.failure ? strlen(n.failure) : 0);
    n.input = copy_bytes(b, n.input, n.input_size);
    j->note.note = n;
    j->note.set = true;
}
