/* SPDX-License-Identifier: MIT
 *
 * Recognises what people often have instead of a model in whisper.cpp's format, and makes an error message that says how
 * to get such a model.
 */
#ifndef GD_TRANSCRIBE_MODEL_FOREIGN_H
#define GD_TRANSCRIBE_MODEL_FOREIGN_H

#include <stddef.h>

enum { TR_FOREIGN_BYTES = 128 }; /* how many bytes at the beginning of a file are looked at */

/* Both return -1 with gd__fail_text(). shown is the path for the message. */
int tr_foreign_file(const char *shown, const unsigned char *begin, size_t size);
int tr_foreign_directory(const char *shown, int fd);

#endif
