/* A buffer of bytes that grows: see buffer.h. */
#include "base/text/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *gd__buffer_reserve(struct gd__buffer *b, size_t more)
{
    if (b->failed || more > SIZE_MAX / 2 - b->size) {
        b->failed = true;
        return NULL;
    }
    if (b->size + more > b->room) {
        size_t room = b->room ? b->room * 2 : 256;
        if (room < b->size + more)
            room = b->size + more;
        char *data = realloc(b->data, room);
        if (!data) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->room = room;
    }
    return b->data + b->size;
}

void gd__buffer_add(struct gd__buffer *b, const void *data, size_t size)
{
    char *to = size > 0 ? gd__buffer_reserve(b, size) : NULL;
    if (!to)
        return;
    memcpy(to, data, size);
    b->size += size;
}

void gd__buffer_text(struct gd__buffer *b, const char *text)
{
    gd__buffer_add(b, text, strlen(text));
}

void gd__buffer_format(struct gd__buffer *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        b->failed = true;
    else
        gd__buffer_add(b, text, (size_t)length);
}

void gd__buffer_shell_word(struct gd__buffer *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^{}#";
    if (*word && word[strspn(word, plain)] == '\0') {
        gd__buffer_text(b, word);
        return;
    }
    gd__buffer_text(b, "'");
    for (; *word; word++)
        gd__buffer_add(b, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    gd__buffer_text(b, "'");
}

void gd__buffer_free(struct gd__buffer *b)
{
    free(b->data);
    *b = (struct gd__buffer){ 0 };
}
