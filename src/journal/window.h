/* The rows of a journal that come next, in the order of their ids, to be found by key.
 *
 * A run that is resumed mostly gets its tasks in the order in which it got them before: then the next one is here. Rows
 * are added at the end, each is taken at most once, and those behind are let go as taking moves on.
 */
#ifndef GD_JOURNAL_WINDOW_H
#define GD_JOURNAL_WINDOW_H

#include "journal/rows.h"

enum { GD__WINDOW_ROWS = 4096 };

struct gd__window;

struct gd__window *gd__window_new(void); /* NULL: no memory. Release with gd__free() */

uint64_t gd__window_room(const struct gd__window *w);
void gd__window_add(struct gd__window *w, const struct gd__row *row); /* while there is room; ids ascend */

/* Takes the first row with that key, one of that version if there is any. False: there is none. */
bool gd__window_take(struct gd__window *w, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                     struct gd__row *out);

/* Whether gd__window_take() would find one. */
bool gd__window_holds(const struct gd__window *w, const unsigned char key[GD__HASH_SIZE]);

/* Whether a row with that id is here, taken or not. */
bool gd__window_has(const struct gd__window *w, uint64_t id);
/* The least id of which that can be said: rows below it have been let go. */
uint64_t gd__window_from(const struct gd__window *w);

/* How many rows were let go without having been taken. */
uint64_t gd__window_passed(const struct gd__window *w);

#endif
