/* Error messages of code that uses the library: see failure.h. There is one message per thread. The source of a run has
 * its own thread, and its error message must not overwrite the message of another thread. */
#include "base/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[GD__FAIL_ROOM];

int gd__fail(const char *format, ...)
{
    char text[sizeof message]; /* the arguments may point into the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof text);
    return -1;
}

const char *gd__fail_text(void)
{
    return message;
}
