/* The last error message, one buffer per thread.
 *
 * A message is first formatted into a buffer on the stack and then copied, so that the current message may be among the
 * arguments. Line ends and other control characters become blanks, so that a message is always one line.
 */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 2048 };

static _Thread_local char text[TEXT_SIZE];

static const struct {
    int code;
    const char *name;
    const char *description;
} table[] = { { GD_OK, "GD_OK", "no error" },
#define ROW(name, code, description) { (code), "GD_E_" #name, (description) },
              GD_ERROR_TABLE(ROW)
#undef ROW
};

static int row_of(int code)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].code == code)
            return (int)i;
    }
    return -1;
}

const char *gd_error_name(int code)
{
    int row = row_of(code);
    return row < 0 ? "GD_E_UNKNOWN" : table[row].name;
}

const char *gd_error_description(int code)
{
    int row = row_of(code);
    return row < 0 ? "unknown error" : table[row].description;
}

const char *gd_error_text(void)
{
    return text[0] ? text : "no error";
}

static void set_text(const char *from)
{
    size_t i = 0;
    for (; from[i] && i < TEXT_SIZE - 1; i++)
        text[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? ' ' : from[i];
    while (i > 0 && text[i - 1] == ' ')
        i--;
    text[i] = '\0';
}

/* Appends ": more" to the text in buffer, as far as it fits. */
static void append(char buffer[TEXT_SIZE], const char *more)
{
    size_t length = strlen(buffer);
    const char *parts[] = { length ? ": " : "", more };
    for (size_t i = 0; i < 2; i++) {
        size_t n = strnlen(parts[i], TEXT_SIZE - 1 - length);
        memcpy(buffer + length, parts[i], n);
        length += n;
    }
    buffer[length] = '\0';
}

int gd__error(int code, const char *format, ...)
{
    char buffer[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    set_text(buffer);
    return code;
}

int gd__error_errno(const char *format, ...)
{
    int kept = errno;
    char buffer[TEXT_SIZE], reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    errno = kept;
    snprintf(reason, sizeof reason, "%m");
    append(buffer, reason);
    set_text(buffer);
    errno = kept;
    return kept == ENOMEM ? GD_E_NO_MEMORY : GD_E_SYSTEM;
}

int gd__error_context(int code, const char *format, ...)
{
    char buffer[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    append(buffer, text[0] ? text : gd_error_description(code));
    set_text(buffer);
    return code;
}
