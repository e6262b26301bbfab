/* A buffer of bytes that grows. */
#ifndef GD_BASE_TEXT_BUFFER_H
#define GD_BASE_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* A zeroed struct is an empty buffer. If an allocation fails, failed is set and everything added later is dropped, so
 * that it is enough to check failed at the end. */
struct gd__buffer {
    char *data;
    size_t size, room;
    bool failed;
};

void gd__buffer_add(struct gd__buffer *b, const void *data, size_t size);
void gd__buffer_text(struct gd__buffer *b, const char *text);
/* For short texts: a text of 512 bytes or more sets failed. */
void gd__buffer_format(struct gd__buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gd__buffer_shell_word(struct gd__buffer *b, const char *word); /* with quotes, if a shell needs them */
void gd__buffer_free(struct gd__buffer *b);                         /* also makes it an empty buffer again */

/* Returns room for `more` bytes at the end. The caller writes them and then adds their number to b->size. Returns NULL
 * if b has failed. */
char *gd__buffer_reserve(struct gd__buffer *b, size_t more);

#endif
