/* The parts of a journal that need no run: recognising text, the window, the index, the lock. */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash/siphash.h"
#include "journal/internal.h"
#include "journal/lock/lock.h"
#include "journal/lookup/index.h"
#include "journal/lookup/window.h"
#include "support/directory.h"
#include "support/test.h"
#include <gpu_dispatch/error.h>

/* --- what is text --- */

static const struct {
    const char *bytes;
    size_t size;
    bool text;
} samples[] = {
    { "a", 1, true },
    { "\x7f", 1, true },
    { "\0", 1, false },
    { "\x80", 1, false },
    { "\xc3\xa4", 2, true },
    { "\xc3", 1, false },
    { "\xc3(", 2, false },
    { "\xc0\x80", 2, false }, /* an overlong encoding */
    { "\xc1\xbf", 2, false },
    { "\xe2\x82\xac", 3, true },
    { "\xe2\x82", 2, false },
    { "\xe0\x9f\xbf", 3, false },
    { "\xe0\xa0\x80", 3, true },
    { "\xed\x9f\xbf", 3, true },
    { "\xed\xa0\x80", 3, false }, /* half of a surrogate pair */
    { "\xf0\x90\x80\x80", 4, true },
    { "\xf0\x8f\xbf\xbf", 4, false },
    { "\xf4\x8f\xbf\xbf", 4, true },
    { "\xf4\x90\x80\x80", 4, false },
    { "\xf5\x80\x80\x80", 4, false },
    { "\xff", 1, false },
};

/* Tests every position, because some characters are checked one by one, and others eight at a time. */
TEST(text_is_recognised_at_every_position)
{
    CHECK(gd__group_is_text("", 0));
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        for (size_t before = 0; before < 20; before++) {
            for (size_t after = 0; after < 20; after++) {
                char *whole = malloc(before + samples[i].size + after); /* so that a read beyond the end is noticed */
                memset(whole, 'x', before + samples[i].size + after);
                memcpy(whole + before, samples[i].bytes, samples[i].size);
                CHECK_EQ(gd__group_is_text(whole, before + samples[i].size + after), samples[i].text);
                free(whole);
            }
        }
    }
}

/* --- rows --- */

static struct gd__row row_of(uint64_t id, uint64_t value, uint64_t version)
{
    static const unsigned char key[16] = "a key for tests";
    struct gd__row row = { .id = id, .version = version, .attempts = (uint32_t)(id % 7), .state = 1 + id % 2 };
    gd__siphash128(key, &value, sizeof value, row.key);
    return row;
}

static bool same(const struct gd__row *a, const struct gd__row *b)
{
    return a->id == b->id && a->version == b->version && a->attempts == b->attempts && a->state == b->state &&
           memcmp(a->key, b->key, 16) == 0;
}

/* --- the window --- */

static struct gd__window *window_of(uint64_t from, uint64_t n)
{
    struct gd__window *w = gd__window_new();
    CHECK(w != NULL);
    for (uint64_t i = 0; i < n; i++) {
        const struct gd__row row = row_of(from + i, from + i, 0);
        gd__window_add(w, &row);
    }
    return w;
}

static bool take(struct gd__window *w, uint64_t value, uint64_t version, struct gd__row *out)
{
    const struct gd__row wanted = row_of(1, value, version);
    return gd__window_take(w, wanted.key, version, out);
}

TEST(the_window_gives_each_row_once)
{
    struct gd__window *w = window_of(1, 100);
    for (uint64_t i = 1; i <= 100; i++) {
        const uint64_t id = i * 37 % 101;
        const struct gd__row wanted = row_of(id, id, 0);
        struct gd__row found;
        CHECK(take(w, id, 0, &found));
        CHECK(same(&found, &wanted));
        CHECK(!take(w, id, 0, &found));
    }
    CHECK_EQ(gd__window_passed(w), 0);
    CHECK_EQ(gd__window_room(w), GD__WINDOW_ROWS);
    gd__free(w);
}

TEST(the_window_moves_on)
{
    struct gd__window *w = window_of(1, GD__WINDOW_ROWS);
    struct gd__row row;
    CHECK_EQ(gd__window_room(w), 0);
    for (uint64_t id = 1; id <= 20000; id++) {
        CHECK(take(w, id, 0, &row));
        CHECK_EQ(row.id, id);
        CHECK_EQ(gd__window_room(w), 1);
        const struct gd__row next = row_of(id + GD__WINDOW_ROWS, id + GD__WINDOW_ROWS, 0);
        gd__window_add(w, &next);
        CHECK_EQ(gd__window_from(w), id + 1);
    }
    CHECK_EQ(gd__window_passed(w), 0);
    gd__free(w);
}

TEST(the_window_drops_rows_that_are_far_behind)
{
    struct gd__window *w = window_of(1, GD__WINDOW_ROWS);
    struct gd__row row;
    CHECK(take(w, GD__WINDOW_ROWS, 0, &row)); /* the last: half of the rows are too far behind now */
    CHECK_GT(gd__window_passed(w), 0);
    CHECK_EQ(gd__window_passed(w), gd__window_room(w));
    CHECK(!take(w, 1, 0, &row));
    CHECK(take(w, GD__WINDOW_ROWS - 1, 0, &row));
    CHECK(!gd__window_has(w, 1));
    CHECK(gd__window_has(w, GD__WINDOW_ROWS - 2));
    CHECK(gd__window_has(w, GD__WINDOW_ROWS - 1)); /* taken, but still in the window */
    gd__free(w);
}

TEST(the_window_does_not_have_rows_that_were_not_added)
{
    struct gd__window *w = gd__window_new();
    for (uint64_t id = 10; id < 1000; id += 10) {
        const struct gd__row row = row_of(id, id, 0);
        gd__window_add(w, &row);
    }
    for (uint64_t id = 0; id < 1010; id++)
        CHECK_EQ(gd__window_has(w, id), id >= 10 && id < 1000 && id % 10 == 0);
    gd__free(w);
}

TEST(the_window_gives_equal_rows_in_order)
{
    struct gd__window *w = gd__window_new();
    struct gd__row row;
    for (uint64_t id = 1; id <= GD__WINDOW_ROWS; id++) {
        const struct gd__row one = row_of(id, 5, 0);
        gd__window_add(w, &one);
    }
    for (uint64_t id = 1; id <= GD__WINDOW_ROWS; id++) {
        CHECK(take(w, 5, 0, &row));
        CHECK_EQ(row.id, id);
    }
    CHECK(!take(w, 5, 0, &row));
    gd__free(w);
}

TEST(the_window_prefers_the_right_version)
{
    struct gd__window *w = gd__window_new();
    struct gd__row row;
    for (uint64_t id = 1; id <= 4; id++) {
        const struct gd__row one = row_of(id, 5, id);
        gd__window_add(w, &one);
    }
    CHECK(take(w, 5, 3, &row));
    CHECK_EQ(row.id, 3);
    CHECK(take(w, 5, 9, &row)); /* no such version: the first row */
    CHECK_EQ(row.id, 1);
    CHECK(take(w, 5, 4, &row));
    CHECK_EQ(row.id, 4);
    CHECK(take(w, 5, 4, &row));
    CHECK_EQ(row.id, 2);
    CHECK(!take(w, 5, 4, &row));
    gd__free(w);
}

/* --- the index --- */

enum { MANY = 100000 }; /* more than are collected at once */

static unsigned char *used;

static struct gd__index *index_of(uint64_t n, uint64_t (*value)(uint64_t id), uint64_t (*version)(uint64_t id))
{
    struct gd__index *x;
    used = calloc(1, n / 8 + 1);
    CHECK(used != NULL);
    CHECK_EQ(gd__index_open(&x, ".", n, used), 0);
    for (uint64_t id = 1; id <= n; id++) {
        const struct gd__row row = row_of(id, value(id), version ? version(id) : 0);
        CHECK_EQ(gd__index_add(x, &row), 0);
    }
    CHECK_EQ(gd__index_seal(x, NULL), 0);
    return x;
}

static bool take_indexed(struct gd__index *x, uint64_t value, uint64_t version, struct gd__row *out)
{
    const struct gd__row wanted = row_of(1, value, version);
    const int rc = gd__index_take(x, wanted.key, version, out);
    CHECK_GE(rc, 0);
    if (rc == 0)
        return false;
    CHECK(!(used[out->id / 8] >> (out->id % 8) & 1));
    used[out->id / 8] |= (unsigned char)(1u << (out->id % 8));
    return true;
}

static uint64_t itself(uint64_t id)
{
    return id;
}

static uint64_t always_five(uint64_t id)
{
    (void)id;
    return 5;
}

static uint64_t in_pairs(uint64_t id)
{
    return id / 2;
}

TEST(the_index_finds_every_row_once)
{
    directory_enter();
    struct gd__index *x = index_of(MANY, itself, NULL);
    struct gd__row row;
    for (uint64_t i = 1; i <= MANY; i++) {
        const uint64_t id = i * 7919 % (MANY + 1); /* 7919 and 100001 have no common divisor */
        const struct gd__row wanted = row_of(id, id, 0);
        CHECK(id == 0 || take_indexed(x, id, 0, &row));
        CHECK(id == 0 || same(&row, &wanted));
    }
    for (uint64_t id = MANY + 1; id < 2 * MANY; id += 17)
        CHECK(!take_indexed(x, id, 0, &row));
    CHECK(!take_indexed(x, 77, 0, &row));
    gd__index_close(&x);
    CHECK(x == NULL);
}

/* More rows than the cache has pages for: some of them must be read. */
TEST(an_index_that_cannot_be_read_names_its_directory)
{
    directory_enter();
    struct gd__index *x = index_of(3 * MANY, itself, NULL);
    struct gd__row row;
    int rc = 0;
    gd__fault_begin(1);
    for (uint64_t id = 1; id <= 3 * MANY && rc >= 0; id++) {
        const struct gd__row wanted = row_of(id, id, 0);
        rc = gd__index_take(x, wanted.key, 0, &row);
    }
    gd__fault_begin(0);
    CHECK_LT(rc, 0);
    CHECK_CONTAINS(gd_error_text(), " the temporary index of the journal's tasks in .:");
    gd__index_close(&x);
}

TEST(the_index_copes_with_equal_rows)
{
    directory_enter();
    struct gd__index *x = index_of(MANY, always_five, NULL);
    struct gd__row row;
    used[MANY / 2 / 8] = 0xff; /* this row was found elsewhere */
    unsigned n = 0;
    while (take_indexed(x, 5, 0, &row))
        n++;
    CHECK_EQ(n, MANY - 8);
    for (unsigned i = 0; i < 100000; i++) /* each lookup must be fast, although so many rows are equal */
        CHECK(!take_indexed(x, 5, 0, &row));
    gd__index_close(&x);
}

TEST(the_index_gives_both_of_two_equal_rows)
{
    directory_enter();
    struct gd__index *x = index_of(100000, in_pairs, NULL);
    struct gd__row row;
    for (uint64_t v = 1; v < 50000; v++) {
        CHECK(take_indexed(x, v, 0, &row));
        CHECK_EQ(row.id, 2 * v);
        CHECK(take_indexed(x, v, 0, &row));
        CHECK_EQ(row.id, 2 * v + 1);
        CHECK(!take_indexed(x, v, 0, &row));
    }
    gd__index_close(&x);
}

TEST(the_index_prefers_the_right_version)
{
    directory_enter();
    struct gd__index *x = index_of(10, always_five, itself);
    struct gd__row row;
    CHECK(take_indexed(x, 5, 7, &row));
    CHECK_EQ(row.id, 7);
    CHECK(take_indexed(x, 5, 99, &row));
    CHECK_EQ(row.id, 1);
    gd__index_close(&x);
}

TEST(the_index_is_small_in_memory)
{
    directory_enter();
    struct gd__index *x = index_of(20 * MANY, itself, NULL);
    struct gd__row row;
    for (uint64_t id = 1; id <= 20 * MANY; id += 50)
        CHECK(take_indexed(x, id, 0, &row));
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    if (!f)
        SKIP("this kernel does not report resident memory");
    char line[256];
    unsigned long kb, resident = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Rss: %lu kB", &kb) == 1)
            resident = kb;
    fclose(f);
    if (TEST_SLOWDOWN == 1)            /* sanitizers use more memory */
        CHECK_LT(resident, 24 * 1024); /* the index has 80 MB */
    CHECK_GT(resident, 0);
    gd__index_close(&x);
}

/* Builds an index of several batches. Returns the error, or 0. */
static int build(struct gd__index **x, const atomic_bool *interrupted)
{
    enum { ROWS = 40000 };
    static unsigned char none[ROWS / 8 + 1];
    int rc = gd__index_open(x, ".", ROWS, none);
    for (uint64_t id = 1; rc == 0 && id <= ROWS; id++) {
        const struct gd__row row = row_of(id, id, 0);
        rc = gd__index_add(*x, &row);
    }
    return rc == 0 ? gd__index_seal(*x, interrupted) : rc;
}

TEST(building_the_index_can_be_interrupted)
{
    directory_enter();
    struct gd__index *x;
    atomic_bool interrupted = true;
    CHECK_EQ(build(&x, &interrupted), GD_E_SHUTDOWN);
    gd__index_close(&x);
    interrupted = false;
    CHECK_EQ(build(&x, &interrupted), 0);
    gd__index_close(&x);
}

TEST(building_the_index_fails_if_a_call_fails)
{
    directory_enter();
    struct gd__index *x;
    gd__fault_begin(0);
    CHECK_EQ(build(&x, NULL), 0);
    gd__index_close(&x);
    const unsigned long calls = gd__fault_count();
    CHECK_GT(calls, 100);
    for (unsigned long nth = 1; nth <= calls; nth += nth < 60 ? 1 : 37) {
        gd__fault_begin(nth);
        CHECK_LT(build(&x, NULL), 0);
        gd__index_close(&x);
    }
    gd__fault_begin(0);
}

TEST(an_index_without_room_is_an_error)
{
    directory_enter();
    struct gd__index *x;
    CHECK_LT(gd__index_open(&x, "nowhere", 10, NULL), 0);
    CHECK_CONTAINS(gd_error_text(), "temporary file in nowhere");
    CHECK(x == NULL);
}

/* --- the lock --- */

TEST(a_journal_is_held_once)
{
    directory_enter();
    struct gd__journal_lock a, b;
    uint64_t pid;
    CHECK(!gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    CHECK_EQ(gd__journal_lock_take(&b, "run.db"), GD_E_BUSY);
    char words[64];
    snprintf(words, sizeof words, "process %ld", (long)getpid());
    CHECK_CONTAINS(gd_error_text(), words);
    CHECK(gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(pid, getpid());
    gd__journal_lock_release(&a);
    CHECK(access("run.db-lock", F_OK) < 0);
    CHECK_EQ(gd__journal_lock_take(&b, "run.db"), 0);
    gd__journal_lock_release(&b);
}

TEST(a_dead_process_holds_nothing)
{
    directory_enter();
    struct gd__journal_lock h;
    uint64_t pid;
    const pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(access("run.db-lock", F_OK), 0);
    CHECK(!gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    gd__journal_lock_release(&h);
}

TEST(a_lock_file_that_was_replaced_is_left_alone)
{
    directory_enter();
    struct gd__journal_lock a, b;
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    CHECK_EQ(unlink("run.db-lock"), 0);
    CHECK_EQ(gd__journal_lock_take(&b, "run.db"), 0); /* the file was replaced: there are two locks now */
    gd__journal_lock_release(&a);
    CHECK_EQ(access("run.db-lock", F_OK), 0); /* the file of the lock b */
    gd__journal_lock_release(&b);
}

TEST_MAIN()
