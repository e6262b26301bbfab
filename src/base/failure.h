/* Error messages of code that uses the library: the command, its views, transcription. The library itself uses
 * base/error.h, because its message belongs to the functions of the public API. */
#ifndef GD_BASE_FAILURE_H
#define GD_BASE_FAILURE_H

/* Sets this thread's error message. It is one line, or several lines if it contains a command that the user can copy.
 * It has no newline at its end. A message longer than GD__FAIL_ROOM is cut. Always returns -1, so that callers can
 * write `return gd__fail(...)`. */
enum { GD__FAIL_ROOM = 4096 };
int gd__fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last error message of this thread; never NULL. */
const char *gd__fail_text(void);

#endif
