/* The words of the last error, per thread. See <gpu_dispatch/error.h>. */
#ifndef GD_BASE_ERROR_H
#define GD_BASE_ERROR_H

#include <gpu_dispatch/error.h>
#include <stdarg.h>

/* Sets the text and returns code. */
int gd__error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the text to "<format>: <strerror(errno)>", returns GD_E_NO_MEMORY for ENOMEM and GD_E_SYSTEM otherwise.
 * errno is kept. */
int gd__error_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts context in front of the present text: "context: text". Returns code. */
int gd__error_context(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
