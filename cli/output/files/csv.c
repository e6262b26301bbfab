/* SPDX-License-Identifier: MIT
 *
 * Comma-separated values: see csv.h.
 */
#include "cli/output/files/csv.h"

#include <stdbool.h>
#include <string.h>

static void put_quoted(struct gd__buffer *b, const char *text, size_t size)
{
    bool plain = true;
    for (size_t i = 0; i < size && plain; i++)
        plain = !strchr("\",\r\n", text[i]) || !text[i];
    if (plain) {
        gd__buffer_add(b, text, size);
        return;
    }
    gd__buffer_text(b, "\"");
    for (size_t i = 0; i < size; i++)
        gd__buffer_add(b, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
    gd__buffer_text(b, "\"");
}

static bool looks_like_formula(const char *text, size_t size)
{
    return size > 0 && text[0] && strchr("=+-@\t\r", text[0]);
}

void cli_csv_text(struct gd__buffer *b, const char *text, size_t size)
{
    struct gd__buffer marked = { 0 };
    if (looks_like_formula(text, size)) {
        gd__buffer_text(&marked, "'");
        gd__buffer_add(&marked, text, size);
        put_quoted(b, marked.data, marked.size);
        b->failed = b->failed || marked.failed;
        gd__buffer_free(&marked);
    } else {
        put_quoted(b, text, size);
    }
}

void cli_csv_field(struct gd__buffer *b, const char *text)
{
    gd__buffer_text(b, ",");
    if (text)
        cli_csv_text(b, text, strlen(text));
}
