/* SPDX-License-Identifier: MIT
 *
 * Arguments held in memory: one text, and a table of where each argument ends. The table takes 8 bytes for each
 * argument.
 */
#include "cli/input/column.h"

#include <string.h>

#include "base/text/buffer.h"

size_t cli_column_count(const struct cli_column *c)
{
    return c->files ? gd_files_count(c->files) : c->ends.size / sizeof(size_t);
}

void cli_column_add(struct cli_column *c, const void *data, size_t size)
{
    gd__buffer_add(&c->text, data, size);
    gd__buffer_add(&c->ends, &c->text.size, sizeof c->text.size);
}

bool cli_column_failed(const struct cli_column *c)
{
    return c->text.failed || c->ends.failed;
}

static size_t end_of(const struct cli_column *c, size_t i)
{
    size_t end;
    memcpy(&end, c->ends.data + i * sizeof end, sizeof end);
    return end;
}

void cli_column_get(const struct cli_column *c, size_t i, const char **data, size_t *size)
{
    *data = "";
    *size = 0;
    if (i >= cli_column_count(c))
        return;
    if (c->files) {
        *data = gd_files_path(c->files, i);
        *size = strlen(*data);
        return;
    }
    size_t start = i ? end_of(c, i - 1) : 0;
    *size = end_of(c, i) - start;
    if (*size)
        *data = c->text.data + start;
}

uint64_t cli_column_weight(const struct cli_column *c, size_t i)
{
    return c->files && i < gd_files_count(c->files) ? gd_files_size(c->files, i) : 0;
}

void cli_column_free(struct cli_column *c)
{
    gd__buffer_free(&c->text);
    gd__buffer_free(&c->ends);
    if (!c->borrowed)
        gd_files_close(&c->files);
}
