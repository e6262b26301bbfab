/* The spool of a node: a file with the record messages that the server has not confirmed yet.
 *
 * A record is written here before it is published. If the node is killed, or cannot reach the server, the next node with
 * the same file publishes the record. So work that was done is not lost, however the node ends.
 *
 * The file is a list of frames, and is only appended to:
 *
 *   frame   "GDsp", kind (1), zero (3), size of the contents (8), hash of the bytes before and of the contents (16),
 *           contents
 *   'q'     the name of the queue, or its name, a zero and what identifies it (16); always the first frame
 *   'k'     a message to keep: the text of its key, filled up with zeros to 56 bytes, and the message
 *   'f'     a message to forget: the text of its key
 *
 * Numbers are little-endian. A process that is killed in a write leaves a part of a frame at the end, which the next one
 * cuts off. Nothing after a damaged frame is read: a message contains the output of a task, which may look like a frame.
 * The tasks of such a record are run again. When all messages are forgotten, the file is cut after its first frame. When
 * most of it is not needed any more, it is written anew.
 *
 * A file is locked while a node uses it (flock). Not for several threads at once.
 */
#ifndef GD_QUEUE_SPOOL_SPOOL_H
#define GD_QUEUE_SPOOL_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/names/subject.h"
#include "queue/spool/frame.h"

struct gd__spool;

/* Opens the spool of a queue, and creates the file if it does not exist. Returns 0, GD_E_BUSY if another node uses it,
 * GD_E_MISMATCH if it has messages of another queue, GD_E_CORRUPT if it is not a spool, or another code. A queue on another
 * server, or that was made anew, is another queue, even if it has the same name: its tasks may have the same keys, and
 * the records of one must not become those of the other. */
int gd__spool_open(struct gd__spool **out, const char *path, const char *queue, const struct gd__spool_queue_id *id);

/* Like gd__spool_open(), with the first file of the user's state directory that no other node uses:
 * $XDG_STATE_HOME/gpu-dispatch/QUEUE-HOST.spool, or ~/.local/state/...; then QUEUE-HOST-2.spool, and so on. Files that
 * hold messages are preferred. */
int gd__spool_open_default(struct gd__spool **out, const char *queue, const struct gd__spool_queue_id *id,
                           const char *host);

/* Closes the file. If it holds no message, it is removed. */
void gd__spool_close(struct gd__spool **s);

const char *gd__spool_path(const struct gd__spool *s);
uint64_t gd__spool_count(const struct gd__spool *s); /* messages */
uint64_t gd__spool_cut(const struct gd__spool *s);   /* bytes that were cut off when it was opened */

/* Calls fn for each message, the oldest first, until fn returns a negative code. The message is borrowed. Returns 0 or
 * that code. */
typedef int gd__spool_fn(void *user, const struct gd__queue_key *key, const void *message, size_t size);
int gd__spool_each(struct gd__spool *s, gd__spool_fn *fn, void *user);

/* Adds a message. A message with the same key is replaced. to_disk: it also survives a power loss. Returns 0 or a negative
 * code; then the file is as before. */
int gd__spool_keep(struct gd__spool *s, const struct gd__queue_key *key, const void *message, size_t size,
                   bool to_disk);
/* Removes a message, if there is one with this key. It may be found again after a kill: to publish a record twice does no
 * harm. */
void gd__spool_forget(struct gd__spool *s, const struct gd__queue_key *key);

#endif
