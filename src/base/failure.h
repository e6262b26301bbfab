/* Error messages of code on top of the library: the command, its views, transcription. The library itself has
 * base/error.h, whose message belongs to the calls of the public interface. */
#ifndef GD_BASE_FAILURE_H
#define GD_BASE_FAILURE_H

/* Sets this thread's error message. It is one line, or several if it contains something to copy, and has no newline at
 * its end. A message longer than GD__FAIL_ROOM is cut. Always returns -1, so that callers can write `return
 * gd__fail(...)`. */
enum { GD__FAIL_ROOM = 4096 };
int gd__fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last error message of this thread; never NULL. */
const char *gd__fail_text(void);

#endif
