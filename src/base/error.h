/* The last error message of each thread. See <gpu_dispatch/error.h>. */
#ifndef GD_BASE_ERROR_H
#define GD_BASE_ERROR_H

#include <gpu_dispatch/error.h>
#include <stdarg.h>

/* Sets the message and returns code. */
int gd__error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the message to "<format>: <strerror(errno)>". Returns GD_E_NO_MEMORY for ENOMEM and GD_E_SYSTEM otherwise. errno
 * is kept. */
int gd__error_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts context in front of the current message: "context: message". Returns code. */
int gd__error_context(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
