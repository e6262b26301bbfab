/* SPDX-License-Identifier: MIT
 *
 * Prints the messages of the command. All messages go through this file, so that a live view can print them above
 * itself. */
#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/printable.h"

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
    char line[GD__FAIL_ROOM + 64];
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
    gd__text_plain(line, end, true);
    line[end++] = '\n';
    if (speaker)
        speaker(speaker_user, line, end);
    else /* if standard error cannot be written, there is nowhere to report that */
        (void)gd__write_all(STDERR_FILENO, line, end);
}
