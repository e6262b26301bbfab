/* SPDX-License-Identifier: MIT
 *
 * What every part of the command needs: the words of an error, a buffer that grows, a write that is whole.
 */
#ifndef GD_CLI_BYTES_H
#define GD_CLI_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/* --- errors: as in the library, per thread ------------------------------- */

/* Sets this thread's words: one line, or several where there is something to be copied; without a newline at the end.
 * What is longer than CLI_ERROR_ROOM is cut off. Returns -1, to be returned. */
enum { CLI_ERROR_ROOM = 4096 };
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The words of the last error of this thread, never NULL. */
const char *cli_error_text(void);

/* Who speaks: "gpu-dispatch", until it was called by another name. Static. */
void cli_set_name(const char *name);
const char *cli_name(void);

/* "gpu-dispatch: WORDS\n" on standard error, in one write. The words of an error have room in it. What a terminal would
 * act on becomes '?' (cli_show_plain()): words quote inputs, paths, workers and journals. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on lines of cli_say() go there instead: fn is called from whatever thread says something. NULL: to standard
 * error again. Not while another thread may say something. */
void cli_set_speaker(void (*fn)(void *user, const char *line, size_t size), void *user);

/* --- bytes ------------------------------------------------------------------ */

/* A buffer that grows. Zeroed is empty. A failed allocation is remembered in failed and everything after it is
 * dropped, so that only the end needs a check. */
struct cli_bytes {
    char *data;
    size_t size, room;
    bool failed;
};

void cli_bytes_add(struct cli_bytes *b, const void *data, size_t size);
void cli_bytes_text(struct cli_bytes *b, const char *text);
void cli_bytes_format(struct cli_bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_bytes_word(struct cli_bytes *b, const char *word); /* as one would have to type it in a shell */
void cli_bytes_free(struct cli_bytes *b);                   /* and leaves it empty */

/* Writes all of it, whatever the descriptor does: partial writes, interruptions, a non-blocking one that is full.
 * 0, or -1 with errno. */
int cli_write_all(int fd, const void *data, size_t size);

/* Forces the folder that holds path to the disk: a new name is there after power loss too. 0, or -1 with errno. */
int cli_sync_folder_of(const char *path);

#endif
