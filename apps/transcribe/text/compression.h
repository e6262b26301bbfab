/* SPDX-License-Identifier: MIT
 *
 * How well a text can be compressed. A high ratio (openai-whisper takes 2.4) shows that a model repeats itself.
 */
#ifndef GD_TRANSCRIBE_TEXT_COMPRESSION_H
#define GD_TRANSCRIBE_TEXT_COMPRESSION_H

#include <stdbool.h>
#include <stddef.h>

/* The size of the text in bytes, without white space at its ends, divided by its size after zlib has compressed it. This
 * is openai-whisper's compression_ratio. NAN if zlib is not installed or there is no memory. Any thread may call this. */
float tr_compression_ratio(const char *text, size_t size);

/* Whether ratios can be computed: zlib is installed. */
bool tr_compression_possible(void);

/* Whether the text of a window repeats itself, so that the window is to be decoded again: its ratio is larger than `most`.
 * This is what openai-whisper does with its compression_ratio_threshold. A ratio that is not known is not too large.
 * most is INFINITY: no text repeats itself. */
bool tr_compresses_too_well(const char *text, size_t size, double most);

#endif
