/* The first byte of a value; see value.c. Shared with show.c, which reads values without creating objects. */
#ifndef GD_PYTHON_VALUES_KINDS_H
#define GD_PYTHON_VALUES_KINDS_H

enum kind {
    KIND_NONE,
    KIND_FALSE,
    KIND_TRUE,
    KIND_INT,
    KIND_FLOAT,
    KIND_STR,
    KIND_BYTES,
    KIND_BYTEARRAY,
    KIND_PICKLE,
    KIND_BUFFERS,
};

enum { VERSION = 0x10, VERSION_MASK = 0xf0 };

#define TAG(kind) (VERSION | (kind))

#endif
