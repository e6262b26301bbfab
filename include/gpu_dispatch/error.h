/* SPDX-License-Identifier: MIT
 *
 * Errors of libgpu_dispatch.
 *
 * A function that can fail returns 0 or a count on success and a negative GD_E_... code on failure. After a failure
 * gd_error_text() returns one line for the calling thread: what failed, on what, and what to do about it.
 *
 * A function that gets NULL where a pointer is required does not crash. It fails with GD_E_INVALID. Functions that
 * return a pointer return NULL, functions that return a figure return 0, and functions that return nothing do nothing.
 *
 * A failed task is not an error of a function: see enum gd_failure in dispatcher.h.
 */
#ifndef GPU_DISPATCH_ERROR_H
#define GPU_DISPATCH_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* One table for the codes, their names and their descriptions. */
#define GD_ERROR_TABLE(X)                                           \
    X(INVALID, -1, "invalid argument")                              \
    X(NO_MEMORY, -2, "out of memory")                               \
    X(SYSTEM, -3, "a system call failed")                           \
    X(UNSUPPORTED, -4, "not supported")                             \
    X(VERSION, -5, "program and library are of different versions") \
    X(BUSY, -6, "already in use")                                   \
    X(NO_DEVICES, -7, "no usable device")                           \
    X(NO_WORKERS, -8, "no workers left")                            \
    X(SETUP, -9, "All workers failed during setup")                 \
    X(SOURCE, -10, "the source of tasks failed")                    \
    X(SHUTDOWN, -11, "ended early by shutdown")                     \
    X(INTERRUPTED, -12, "ended early by a signal")                  \
    X(PLUGIN, -13, "the worker plugin cannot be used")              \
    X(PROTOCOL, -14, "the worker protocol was broken")              \
    X(FAILED, -15, "failed")                                        \
    X(NO_WORKER_MAIN, -16, "gd_worker_main() has not been called")  \
    X(TOO_LARGE, -17, "too large")                                  \
    X(EXISTS, -18, "already exists")                                \
    X(MISMATCH, -19, "does not match what the journal recorded")    \
    X(CORRUPT, -20, "damaged, or not made by gpu_dispatch")         \
    X(NO_JOB, -21, "no such job")                                   \
    X(JOURNAL, -22, "the journal could not be written")

enum gd_error {
    GD_OK = 0,
#define GD_ERROR_ENUM(name, code, description) GD_E_##name = (code),
    GD_ERROR_TABLE(GD_ERROR_ENUM)
#undef GD_ERROR_ENUM
};

/* Returns the name of a code, such as "GD_E_INVALID". Returns "GD_E_UNKNOWN" for any other number. The string is
 * static. */
const char *gd_error_name(int code);

/* Returns what a code means, such as "invalid argument". The string is static. */
const char *gd_error_description(int code);

/* Returns the error message of the last call that failed on this thread: one line, no newline, never NULL. Valid until
 * the next call that fails on this thread. */
const char *gd_error_text(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
