/* A buffer of bytes that grows as something is added to it. */
#ifndef GD_BASE_TEXT_BUFFER_H
#define GD_BASE_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed is empty. If an allocation fails, failed is set and everything after it is dropped, so that only the end needs
 * a check. */
struct gd__buffer {
    char *data;
    size_t size, room;
    bool failed;
};

void gd__buffer_add(struct gd__buffer *b, const void *data, size_t size);
void gd__buffer_text(struct gd__buffer *b, const char *text);
/* For short texts: one of 512 bytes or more sets failed. */
void gd__buffer_format(struct gd__buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gd__buffer_shell_word(struct gd__buffer *b, const char *word); /* quoted, if a shell would need that */
void gd__buffer_free(struct gd__buffer *b);                         /* and leaves it empty */

/* Room for `more` bytes at the end, to be written by the caller, who then adds to b->size. NULL if b has failed. */
char *gd__buffer_reserve(struct gd__buffer *b, size_t more);

#endif
