/* The file of a deal: made by the first shard that needs it, and read by all shards.
 *
 *     gpu_dispatch deal 1
 *     shards 16
 *     entries 3
 *     3 "a/b.wav"
 *     16 "c.wav"
 *     1 "caf\u00e9.wav"
 *     checksum 0123456789abcdef0123456789abcdef
 *
 * Each entry is the shard (from 1), a blank, and the key as a JSON string. Keys may have any bytes: base/text/json.h
 * says how bytes that are not UTF-8 are written. The entries are in the order of their keys. The checksum is
 * gd__key_hash() of everything before that line, in hexadecimal digits. Each line ends with a newline.
 *
 * The file never changes after it has its name: it is written under a temporary name, flushed to disk, and then linked
 * to its name, which fails if that name exists. So all shards read the same deal, whichever of them came first. A shard
 * that is killed while it writes leaves a file NAME.XXXXXXXXXXXXXXXX.part, which can be removed.
 */
#ifndef GD_SHARD_DEAL_FILE_H
#define GD_SHARD_DEAL_FILE_H

#include "base/text/buffer.h"
#include "shard/deal.h"

/* Opens the deal at this path. Returns 1 and sets *out. Returns 0, with *out NULL, if there is no file. Returns
 * GD_E_CORRUPT if the file is damaged or not a deal, GD_E_UNSUPPORTED if it has another version, GD_E_MISMATCH if it is
 * for another number of shards than count, or another GD_E_... code. The caller closes it with gd__deal_close(). */
int gd__deal_open(struct gd__deal **out, const char *path, uint32_t count);

/* Deals the items (gd__deal_items(), which reorders them) and puts the file in place, unless there is one already. Then
 * opens the file that is there, whoever made it. Returns 0 or a GD_E_... code. */
int gd__deal_publish(struct gd__deal **out, const char *path, struct gd__deal_item *items, size_t n, uint32_t count);

/* The two parts of these functions without a file. The items must be as gd__deal_items() leaves them. name is for error
 * messages. gd__deal_parse() accepts only what gd__deal_write() writes, except that strings may be escaped differently.
 * It returns 0 or an error of gd__deal_open(). */
int gd__deal_write(struct gd__buffer *to, const struct gd__deal_item *items, size_t n, uint32_t count);
int gd__deal_parse(struct gd__deal **out, const char *text, size_t size, uint32_t count, const char *name);

#endif
