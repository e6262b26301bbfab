/* The next rows of a journal in the order of their ids. They can be found by key.
 *
 * A resumed run mostly gets its tasks in the same order as before, so the window has the row of the next task. Rows are
 * added at the end. Each is taken at most once. Rows far behind the last taken row are dropped.
 */
#ifndef GD_JOURNAL_LOOKUP_WINDOW_H
#define GD_JOURNAL_LOOKUP_WINDOW_H

#include "journal/lookup/rows.h"

enum { GD__WINDOW_ROWS = 4096 };

struct gd__window;

struct gd__window *gd__window_new(void); /* NULL: no memory. Release with gd__free() */

uint64_t gd__window_room(const struct gd__window *w);
void gd__window_add(struct gd__window *w, const struct gd__row *row); /* while there is room; ids ascend */

/* Takes the first row with that key, preferably one of that version. Returns false if no row has that key. */
bool gd__window_take(struct gd__window *w, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                     struct gd__row *out);

/* Whether gd__window_take() would find a row with that key. */
bool gd__window_holds(const struct gd__window *w, const unsigned char key[GD__HASH_SIZE]);

/* Whether a row with that id is in the window, taken or not. */
bool gd__window_has(const struct gd__window *w, uint64_t id);
/* The lowest id that gd__window_has() can find. Rows with lower ids were dropped. */
uint64_t gd__window_from(const struct gd__window *w);

/* How many rows were dropped without being taken. */
uint64_t gd__window_passed(const struct gd__window *w);

#endif
