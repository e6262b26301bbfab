/* The values of placeholders, and quoting.
 *
 * Both give the same bytes as GNU parallel's expressions, even in odd cases:
 *
 *   {.}   s:\.[^/.]*$::      removes everything from the last dot on, if no slash follows it
 *   {/}   s:.*\/::           in the first line with a slash, removes everything up to its last slash
 *   {//}  dirname()          of Perl's File::Basename
 *   {/.}  {/}, then {.}
 *
 * Quoting: a value that has only letters, digits and -_.+/ is not quoted. Any other value is put in single quotes, and
 * each single quote in it is put in double quotes.
 */
#include <string.h>

#include "base/alloc.h"
#include "command/template.h"

enum { FIRST_CAPACITY = 256 };

static bool grow(struct gd__text *t, size_t more)
{
    size_t capacity = t->capacity ? t->capacity : FIRST_CAPACITY;
    if (t->failed || more > SIZE_MAX / 4 - t->size)
        return false;
    while (capacity < t->size + more)
        capacity *= 2;
    char *bytes = gd__realloc(t->bytes, capacity);
    if (!bytes)
        return false;
    t->bytes = bytes;
    t->capacity = capacity;
    return true;
}

void gd__text_put(struct gd__text *t, const char *bytes, size_t size)
{
    if (size > t->capacity - t->size && !grow(t, size)) {
        t->failed = true;
        return;
    }
    if (size)
        memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

void gd__text_free(struct gd__text *t)
{
    gd__free(t->bytes);
    *t = (struct gd__text){ 0 };
}

/* ---- placeholders ---- */

static size_t without_extension(const char *text, size_t size)
{
    for (size_t i = size; i > 0 && text[i - 1] != '/'; i--) {
        if (text[i - 1] == '.')
            return i - 1;
    }
    return size;
}

/* The part that {/} removes: [*from, *to). It is within one line, because a dot in Perl does not match a line end. */
static void find_directories(const char *text, size_t size, size_t *from, size_t *to)
{
    const char *slash = size ? memchr(text, '/', size) : NULL;
    *from = *to = 0;
    if (!slash)
        return;
    const char *line = memrchr(text, '\n', (size_t)(slash - text));
    const char *end = memchr(slash, '\n', size - (size_t)(slash - text));
    *from = line ? (size_t)(line + 1 - text) : 0;
    end = end ? end : text + size;
    *to = (size_t)((const char *)memrchr(slash, '/', (size_t)(end - slash)) + 1 - text);
}

static void put_base(struct gd__text *t, const char *text, size_t size)
{
    size_t from, to;
    find_directories(text, size, &from, &to);
    gd__text_put(t, text, from);
    gd__text_put(t, text + to, size - to);
}

/* The length without trailing slashes, but at least the first byte. */
static size_t without_slashes(const char *text, size_t size)
{
    while (size > 1 && text[size - 1] == '/')
        size--;
    return size;
}

/* The length of the directory before the last slash; 0: no slash. */
static size_t directory_of(const char *text, size_t size)
{
    const char *slash = size ? memrchr(text, '/', size) : NULL;
    return slash ? without_slashes(text, (size_t)(slash + 1 - text)) : 0;
}

static void put_directory(struct gd__text *t, const char *text, size_t size)
{
    size_t directory = directory_of(text, size);
    if (size && text[size - 1] == '/') /* a slash at the end: the parent of that directory */
        directory = directory_of(text, directory);
    if (directory)
        gd__text_put(t, text, directory);
    else
        gd__text_put(t, ".", 1);
}

void gd__value_put(struct gd__text *t, enum gd__part_kind kind, const char *argument, size_t size)
{
    const size_t before = t->size;
    switch (kind) {
    case GD__PART_NO_EXTENSION:
        gd__text_put(t, argument, without_extension(argument, size));
        break;
    case GD__PART_BASE:
        put_base(t, argument, size);
        break;
    case GD__PART_DIRECTORY:
        put_directory(t, argument, size);
        break;
    case GD__PART_BASE_NO_EXTENSION:
        put_base(t, argument, size);
        if (!t->failed && t->bytes)
            t->size = before + without_extension(t->bytes + before, t->size - before);
        break;
    default:
        gd__text_put(t, argument, size);
    }
}

/* ---- quoting ---- */

static bool needs_no_quotes(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("-_.+/", c) != NULL);
}

static size_t plain_length(const char *value, size_t size)
{
    size_t i = 0;
    while (i < size && needs_no_quotes((unsigned char)value[i]))
        i++;
    return i;
}

/* If the value begins or ends with a single quote, no empty '' is written there. Between two adjacent single quotes of the
 * value, an empty '' is written, as GNU parallel does. */
static void put_in_quotes(struct gd__text *t, const char *value, size_t size)
{
    const char *at = value, *end = value + size;
    for (;;) {
        const char *quote = memchr(at, '\'', (size_t)(end - at));
        const char *stop = quote ? quote : end;
        if (at < stop || (at > value && quote)) {
            gd__text_put(t, "'", 1);
            gd__text_put(t, at, (size_t)(stop - at));
            gd__text_put(t, "'", 1);
        }
        if (!quote)
            return;
        gd__text_put(t, "\"'\"", 3);
        at = quote + 1;
    }
}

void gd__quoted_put(struct gd__text *t, const char *value, size_t size)
{
    if (size == 0)
        gd__text_put(t, "''", 2);
    else if (plain_length(value, size) == size)
        gd__text_put(t, value, size);
    else
        put_in_quotes(t, value, size);
}
