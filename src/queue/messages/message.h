/* The messages of a queue: tasks on their way to a node, and the records of their ends.
 *
 * The format is binary. A JSON text would be larger (payloads and outputs are any bytes), and would be parsed for every
 * task of a bundle on every node; here the parts of a message are used where they are, and nothing is allocated. Numbers
 * are little-endian. A text or a piece of data is its size, in 4 bytes, and its bytes.
 *
 *   message   "GDQ", kind (1: 't' or 'r'), version (2), flags (2), number of items (4), size of the message (4)
 *             flags are 0, or 1 in a task message that is a suspect: its tasks were in a bundle that killed a node, or one
 *             of them has killed a worker
 *             in a record message: nonce (16), host (text)
 *             the items
 *   task      hash (16), repeat (4), again (4), time limit in ms (4), number (8), weight (8), version (text), payload (data)
 *   record    hash (16), repeat (4), again (4), attempts (4), number (8), start in us (8), duration in us (8), exit code (4),
 *             signal (4), state (1), gpu (text), failure (text), error (text), end of stderr (text), output (data)
 *   data      form (1), then: nothing | size (4), bytes | name (text), size of the file (8), hash of the file (16)
 *
 * The items are in a fixed order, and a record message has a record for each task of its task message, in the same
 * order. So both have the same key, and a reader who knows the key from the subject detects a message that has other
 * contents. If a node gives a part of a bundle back, the record message has GD__QUEUE_MOVED for these tasks.
 *
 * Everything that comes from the server is untrusted. A message is accepted only if each of its bytes is valid: there is
 * one way to write it. A later version may have other items, so a message with a higher version is refused.
 */
#ifndef GD_QUEUE_MESSAGES_MESSAGE_H
#define GD_QUEUE_MESSAGES_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"
#include "queue/names/subject.h"

enum {
    GD__QUEUE_MESSAGE_VERSION = 1,
    GD__QUEUE_NONCE_SIZE = 16,
    GD__QUEUE_MESSAGE_MOST = 64 << 20, /* bytes: the largest max_payload of a server */
    /* The most bytes of each part: */
    GD__QUEUE_INLINE_MOST =
        GD__QUEUE_MESSAGE_MOST,      /* a payload or an output in a message; the server may accept less */
    GD__QUEUE_FILES_FROM = 64 << 10, /* if there is a spill directory, larger payloads and outputs are files */
    GD__QUEUE_FILE_MOST = 255,
    GD__QUEUE_VERSION_MOST = 4096,
    GD__QUEUE_HOST_TEXT_MOST = 255,
    GD__QUEUE_GPU_MOST = 255,
    GD__QUEUE_FAILURE_MOST = 255,
    GD__QUEUE_ERROR_MOST = 4096,
    GD__QUEUE_STDERR_MOST = 16 << 10,
    /* The room that a node needs in a record message for each task, in any case: an end whose output is left out. */
    GD__QUEUE_RECORD_LEAST = 256,
    GD__QUEUE_HEADERS_MOST = 512, /* bytes of a message that the server counts, besides its contents */
};
#define GD__QUEUE_NUMBER_MOST (UINT64_C(1) << 53) /* of all 64-bit numbers, as in journals */

/* Bytes of a message, or of the caller. Not a C string. */
struct gd__queue_text {
    const char *at;
    size_t size;
};

enum gd__queue_form {
    GD__QUEUE_NOTHING = 0, /* no output; a payload of 0 bytes is inline */
    GD__QUEUE_INLINE = 1,
    GD__QUEUE_FILE = 2, /* in the spill directory */
};

struct gd__queue_data {
    enum gd__queue_form form;
    struct gd__queue_text bytes; /* if inline */
    /* If in a file. The name has no '/' and does not begin with '.', so it cannot lead out of the directory. The size and
     * the hash tell the reader whether it sees the whole file already. */
    struct gd__queue_text file;
    uint64_t file_size;
    unsigned char file_hash[GD__HASH_SIZE]; /* gd__key_hash() */
};

struct gd__queue_task {
    struct gd__queue_key key;
    uint64_t number; /* position in the list of its push */
    uint64_t weight;
    uint32_t timeout_ms;           /* 0: the time limit of the run */
    struct gd__queue_text version; /* gd_item_key() */
    struct gd__queue_data payload;
};

enum gd__queue_state {
    GD__QUEUE_DONE = 1,
    GD__QUEUE_FAILED = 2,
    GD__QUEUE_MOVED = 3, /* not run: the task is in another task message, together with all others of this state */
};

struct gd__queue_record {
    struct gd__queue_key key;
    enum gd__queue_state state;
    uint32_t attempts;
    uint64_t number;
    uint64_t started_us, run_us; /* Unix time, and duration */
    int32_t exit_code, signal;
    struct gd__queue_text gpu;     /* "0", "0+1" */
    struct gd__queue_text failure; /* the class: "timeout"; empty unless the task failed */
    struct gd__queue_text error, stderr_end;
    struct gd__queue_data output;
};

/* --- writing --- */

struct gd__queue_writer {
    struct gd__buffer message; /* after gd__queue_message_end(): what to publish */
    size_t most;
    enum gd__queue_kind kind;
    uint32_t count;
    bool suspect; /* of a task message: may be set before gd__queue_message_end() */
};

/* Begin a message of at most `most` bytes: what the server accepts. The nonce identifies the node and the attempt. */
void gd__queue_tasks_begin(struct gd__queue_writer *w, size_t most);
void gd__queue_records_begin(struct gd__queue_writer *w, size_t most, const unsigned char nonce[GD__QUEUE_NONCE_SIZE],
                             struct gd__queue_text host);

/* Add an item. Return 0; GD_E_TOO_LARGE if it does not fit into this message any more, which then stays as it was;
 * GD_E_INVALID if no message can hold it; or GD_E_NO_MEMORY. The texts of a record are cut if they are too long, so that
 * a task's end can always be recorded: of stderr_end the end is kept, of the others the beginning,
 * up to a NUL. */
int gd__queue_tasks_add(struct gd__queue_writer *w, const struct gd__queue_task *task);
int gd__queue_records_add(struct gd__queue_writer *w, const struct gd__queue_record *record);

/* Completes the message and sets *key to its key. Returns 0, GD_E_INVALID if it has no items, or GD_E_NO_MEMORY. */
int gd__queue_message_end(struct gd__queue_writer *w, struct gd__queue_key *key);
void gd__queue_writer_free(struct gd__queue_writer *w);

/* How many tasks a task message may have, so that the message with their records fits too, if each record has so many
 * bytes: GD__QUEUE_RECORD_LEAST or more. At least 1. max_payload: of the server. */
uint32_t gd__queue_bundle_most(uint64_t max_payload, uint32_t record_bytes);

/* --- reading --- */

/* What has been read points into the message, which must stay. */
struct gd__queue_reader {
    const unsigned char *at;
    size_t left;
    uint32_t items; /* left to read */
    const char *wrong;
    bool suspect;                              /* of a task message */
    unsigned char nonce[GD__QUEUE_NONCE_SIZE]; /* of a record message */
    struct gd__queue_text host;
};

/* Check the whole message, so that reading its items cannot fail. key: the key in the subject of the message, which must
 * be that of its contents; NULL: do not compare. Return 0, GD_E_CORRUPT, or GD_E_VERSION if a newer version of
 * gpu_dispatch has written the message. They do not check that the keys of a bundle differ from each other. */
int gd__queue_tasks_open(struct gd__queue_reader *r, const void *message, size_t size, const struct gd__queue_key *key);
int gd__queue_records_open(struct gd__queue_reader *r, const void *message, size_t size,
                           const struct gd__queue_key *key);

/* Read the next item. Return false at the end. */
bool gd__queue_tasks_next(struct gd__queue_reader *r, struct gd__queue_task *out);
bool gd__queue_records_next(struct gd__queue_reader *r, struct gd__queue_record *out);

#endif
