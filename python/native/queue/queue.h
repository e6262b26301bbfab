/* Queues, for gpu_dispatch._queue: the options of a queue as a dict, the types Push and Reader.
 *
 * Strings of a user are pushed as their text, without a tag (see value.c), so that they are the same tasks as those of
 * `gpu-dispatch push`: Python programs and commands can use one queue. Texts and tags cannot be confused, because a tag is
 * a control character. All other items are values as value.c encodes them. All machines must have the same byte order.
 */
#ifndef GD_PYTHON_QUEUE_QUEUE_H
#define GD_PYTHON_QUEUE_QUEUE_H

#include "python/native/native.h"

/* Reads a dict. The list `keep` keeps what the options point to. */
int queue_read_options(struct gd_queue_options *o, PyObject *dict, PyObject *keep);

/* An error of a queue as gpu_dispatch.QueueError, others as native_error(). Returns NULL. */
PyObject *queue_error(int code);

int queue_push_init(PyObject *module);   /* the type Push */
int queue_reader_init(PyObject *module); /* the type Reader */

#endif
