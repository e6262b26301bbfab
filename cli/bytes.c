/* SPDX-License-Identifier: MIT
 *
 * Errors, buffers, whole writes.
 *
 * Errors are words per thread, as in the library: the source runs on a thread of its own and its complaint must not
 * meet another's. Writes go round until everything is out: a pipe takes part of it, a signal interrupts, and a
 * terminal that somebody else made non-blocking (the descriptor is shared with the shell's other programs) is full.
 */
#include "cli/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/text.h"

static _Thread_local char error_words[CLI_ERROR_ROOM];

int cli_error(const char *format, ...)
{
    char words[sizeof error_words]; /* the arguments may point into the old words */
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    memcpy(error_words, words, sizeof words);
    return -1;
}

const char *cli_error_text(void)
{
    return error_words;
}

static const char *own_name = "gpu-dispatch";

void cli_set_name(const char *name)
{
    own_name = name;
}

const char *cli_name(void)
{
    return own_name;
}

static void (*speaker)(void *user, const char *line, size_t size);
static void *speaker_user;

void cli_set_speaker(void (*fn)(void *user, const char *line, size_t size), void *user)
{
    speaker_user = user;
    speaker = fn;
}

void cli_say(const char *format, ...)
{
    char line[CLI_ERROR_ROOM + 64];
    size_t start = (size_t)snprintf(line, sizeof line, "%s: ", own_name);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line + start, sizeof line - start - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    size_t end = start + (size_t)length;
    if (end > sizeof line - 2)
        end = sizeof line - 2;
    cli_show_plain(line, end, true);
    line[end++] = '\n';
    if (speaker)
        speaker(speaker_user, line, end);
    else /* where a complaint can't be written there is nobody to complain to */
        (void)cli_write_all(STDERR_FILENO, line, end);
}

/* Room for so many more; false once memory has run out. */
static bool reserve(struct cli_bytes *b, size_t more)
{
    if (b->failed || more > SIZE_MAX / 2 - b->size)
        b->failed = true;
    if (b->failed || b->size + more <= b->room)
        return !b->failed;
    size_t room = b->room ? b->room * 2 : 256;
    if (room < b->size + more)
        room = b->size + more;
    char *data = realloc(b->data, room);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->room = room;
    return true;
}

void cli_bytes_add(struct cli_bytes *b, const void *data, size_t size)
{
    if (size == 0 || !reserve(b, size))
        return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void cli_bytes_text(struct cli_bytes *b, const char *text)
{
    cli_bytes_add(b, text, strlen(text));
}

void cli_bytes_format(struct cli_bytes *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        b->failed = true; /* for short things only: what is long comes through cli_bytes_add() */
    else
        cli_bytes_add(b, text, (size_t)length);
}

void cli_bytes_word(struct cli_bytes *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^{}#";
    if (*word && word[strspn(word, plain)] == '\0') {
        cli_bytes_text(b, word);
        return;
    }
    cli_bytes_text(b, "'");
    for (; *word; word++)
        cli_bytes_add(b, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    cli_bytes_text(b, "'");
}

void cli_bytes_free(struct cli_bytes *b)
{
    free(b->data);
    *b = (struct cli_bytes){ 0 };
}

int cli_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n >= 0) {
            at += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };
            if (poll(&p, 1, -1) < 0 && errno != EINTR)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

int cli_sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (fd < 0)
        return -1;
    /* Some file systems have no way to do so, and no need. */
    const int result = fsync(fd) < 0 && errno != EINVAL ? -1 : 0, saved = errno;
    close(fd);
    errno = saved;
    return result;
}
