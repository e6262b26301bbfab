/* SPDX-License-Identifier: MIT
 *
 * The names of files that each shard has for itself, and the reverse.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "shard/names.h"
#include "support/directory.h"

static const struct {
    const char *path, *of_shard, *deal;
} names[] = {
    { "run.db", "run.3-of-16.db", "run.of-16.deal" },
    { "out.jsonl", "out.3-of-16.jsonl", "out.of-16.deal" },
    { "run", "run.3-of-16", "run.of-16.deal" },
    { "a/run.db", "a/run.3-of-16.db", "a/run.of-16.deal" },
    { "/a/run", "/a/run.3-of-16", "/a/run.of-16.deal" },
    { "/run.db", "/run.3-of-16.db", "/run.of-16.deal" },
    { "a.b/run", "a.b/run.3-of-16", "a.b/run.of-16.deal" },
    { "a.b/c.d/run.db", "a.b/c.d/run.3-of-16.db", "a.b/c.d/run.of-16.deal" },
    { "./run", "./run.3-of-16", "./run.of-16.deal" },
    { "../run.db", "../run.3-of-16.db", "../run.of-16.deal" },
    { "run.tar.gz", "run.tar.3-of-16.gz", "run.tar.of-16.deal" },
    { ".run", ".run.3-of-16", ".run.of-16.deal" },
    { ".run.db", ".run.3-of-16.db", ".run.of-16.deal" },
    { "a/.run", "a/.run.3-of-16", "a/.run.of-16.deal" },
    { "run.", "run.3-of-16.", "run.of-16.deal" },
    { "...", "...3-of-16.", "...of-16.deal" },
    { "run 1.db", "run 1.3-of-16.db", "run 1.of-16.deal" },
    { "r\xc3\xbcn\xff.db", "r\xc3\xbcn\xff.3-of-16.db", "r\xc3\xbcn\xff.of-16.deal" },
    { "run.1-of-2", "run.3-of-16.1-of-2", "run.of-16.deal" },
    { "run.1-of-2.db", "run.1-of-2.3-of-16.db", "run.1-of-2.of-16.deal" },
    { "run.3-of-16.db", "run.3-of-16.3-of-16.db", "run.3-of-16.of-16.deal" },
};

TEST(names_of_shards)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *out = NULL;
        CHECK_EQ(gd__shard_path(&out, names[i].path, (struct gd_shard){ 2, 16 }), 0);
        CHECK_STR(out, names[i].of_shard);
        gd__free(out);
        CHECK_EQ(gd__shard_deal_path(&out, names[i].path, 16), 0);
        CHECK_STR(out, names[i].deal);
        gd__free(out);
    }
}

TEST(the_largest_numbers_fit)
{
    char *out = NULL;
    CHECK_EQ(gd__shard_path(&out, "run.db", (struct gd_shard){ 999999, 1000000 }), 0);
    CHECK_STR(out, "run.1000000-of-1000000.db");
    gd__free(out);
}

TEST(names_are_read_back)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gd_shard s = { 77, 77 };
        char *base = NULL;
        if (gd__shard_path_split(names[i].of_shard, &base, &s) != 1)
            FAIL("%s was not recognised", names[i].of_shard);
        CHECK_STR(base, names[i].path);
        CHECK_EQ(s.index, 2);
        CHECK_EQ(s.count, 16);
        gd__free(base);

        const char *slash = strrchr(names[i].of_shard, '/');
        s = (struct gd_shard){ 77, 77 };
        CHECK(gd__shard_is_sibling(names[i].path, slash ? slash + 1 : names[i].of_shard, &s));
        CHECK_EQ(s.index, 2);
        CHECK_EQ(s.count, 16);
    }
}

TEST(other_names_are_not_of_shards)
{
    static const char *const rows[] = {
        "",
        "run",
        "run.db",
        "run.of-16.deal",
        "run.0-of-16.db",
        "run.17-of-16.db",
        "run.03-of-16.db",
        "run.3-of-016.db",
        "run.3-of-0.db",
        "run.3-of-1000001.db",
        "run.3-of-99999999999999999999.db",
        "run.4294967297-of-4294967298.db",
        "run.+3-of-16.db",
        "run.-3-of-16.db",
        "run.3-of-.db",
        "run.-of-16.db",
        "run.3-of-16x.db",
        "run.3-of-16-wal",
        "run.3-of-16.db-wal.x.y",
        "run.3_of_16.db",
        "run3-of-16.db",
        "3-of-16.db",
        ".3-of-16.db", /* a name before the dot is missing */
        ".3-of-16",
        "a.3-of-16/run.db",
        "a.3-of-16/run",
        "a/.3-of-16.db",
        "a/",
        "run.3-of-16/",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd_shard s;
        char *base = NULL;
        if (gd__shard_path_split(rows[i], &base, &s) != 0)
            FAIL("%s was read as a shard of %s", rows[i], base);
        CHECK(base == NULL);
    }
}

TEST(siblings_have_the_same_stem_and_suffix)
{
    static const char *const others[] = { "run.db",
                                          "run.3-of-16.jsonl",
                                          "run.3-of-16",
                                          "run2.3-of-16.db",
                                          "ru.3-of-16.db",
                                          "run.3-of-16.db-",
                                          "run.3-of-16.db-lock",
                                          "run.3-of-16.db.part",
                                          "",
                                          "run",
                                          "run.",
                                          "run.x.3-of-16.db",
                                          "run.03-of-16.db",
                                          "run.3-of-2.db",
                                          "r",
                                          "Run.3-of-16.db",
                                          "run.3-of-16.3-of-16.db" };
    struct gd_shard s;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (gd__shard_is_sibling("a/run.db", others[i], &s))
            FAIL("%s was taken for a sibling", others[i]);
    }
    CHECK(gd__shard_is_sibling("a/run.db", "run.1-of-1.db", &s));
    CHECK_EQ(s.index, 0);
    CHECK_EQ(s.count, 1);
}

TEST(a_path_must_name_a_file)
{
    static const char *const rows[] = { "", "/", "a/", ".", "..", "a/.", "a/.." };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd_shard s, *list;
        size_t n;
        char *out = NULL;
        CHECK_EQ(gd__shard_path(&out, rows[i], (struct gd_shard){ 0, 2 }), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), "does not end with the name of a file");
        CHECK_EQ(gd__shard_deal_path(&out, rows[i], 2), GD_E_INVALID);
        CHECK(out == NULL);
        CHECK_EQ(gd__shard_siblings(&list, &n, rows[i]), GD_E_INVALID);
        CHECK(!gd__shard_is_sibling(rows[i], ".1-of-2", &s));
    }
}

TEST(siblings_in_a_directory)
{
    static const struct gd_shard expected[] = { { 0, 2 }, { 1, 2 }, { 0, 16 }, { 2, 16 }, { 9, 16 } };
    struct gd_shard *list = NULL;
    size_t n = 77;
    directory_enter();
    make_file("d.1-of-2/run.3-of-16.db", 1);
    make_file("d.1-of-2/run.10-of-16.db", 1);
    make_file("d.1-of-2/run.1-of-16.db", 1);
    make_file("d.1-of-2/run.2-of-2.db", 1);
    make_file("d.1-of-2/run.1-of-2.db", 1);
    make_file("d.1-of-2/run.1-of-2.db-wal", 1);
    make_file("d.1-of-2/run.1-of-2.db-lock", 1);
    make_file("d.1-of-2/run.of-16.deal", 1);
    make_file("d.1-of-2/run.db", 1);
    make_file("d.1-of-2/other.4-of-16.db", 1);
    CHECK_EQ(gd__shard_siblings(&list, &n, "d.1-of-2/run.db"), 0);
    CHECK_EQ(n, 5);
    CHECK_MEM(list, expected, sizeof expected);
    gd__free(list);

    CHECK_EQ(chdir("d.1-of-2"), 0);
    CHECK_EQ(gd__shard_siblings(&list, &n, "run.db"), 0);
    CHECK_EQ(n, 5);
    gd__free(list);
    CHECK_EQ(gd__shard_siblings(&list, &n, "nothing.db"), 0);
    CHECK_EQ(n, 0);
    CHECK(list == NULL);
    CHECK_EQ(gd__shard_siblings(&list, &n, "missing/run.db"), 0);
    CHECK_EQ(n, 0);
    CHECK_EQ(gd__shard_siblings(&list, &n, "run.db/run.db"), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "cannot read the directory run.db/");
    CHECK_EQ(n, 0);
}

TEST(more_siblings_than_the_first_room)
{
    struct gd_shard *list = NULL;
    size_t n = 0;
    directory_enter();
    for (unsigned i = 100; i > 0; i--) {
        char name[64];
        snprintf(name, sizeof name, "run.%u-of-100", i);
        make_file(name, 0);
    }
    CHECK_EQ(gd__shard_siblings(&list, &n, "run"), 0);
    CHECK_EQ(n, 100);
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(list[i].index, i);
    gd__free(list);
}

TEST(each_failed_call_is_an_error)
{
    directory_enter();
    make_file("run.1-of-2.db", 0);
    for (unsigned long nth = 1;; nth++) {
        struct gd_shard *list = NULL, s;
        char *path = NULL, *base = NULL;
        size_t n = 0;
        gd__fault_begin(nth);
        const int made = gd__shard_path(&path, "run.db", (struct gd_shard){ 0, 2 });
        const int split = gd__shard_path_split("run.1-of-2.db", &base, &s);
        const int listed = gd__shard_siblings(&list, &n, "run.db");
        const unsigned long calls = gd__fault_count();
        gd__fault_begin(0);
        CHECK(made == 0 || (made == GD_E_NO_MEMORY && !path));
        CHECK(split == 1 || (split == GD_E_NO_MEMORY && !base));
        CHECK((listed == 0 && n == 1) || (listed == GD_E_NO_MEMORY && !list && n == 0));
        CHECK((made == 0 && split == 1 && listed == 0) == (calls < nth));
        gd__free(path);
        gd__free(base);
        gd__free(list);
        if (calls < nth) {
            CHECK_EQ(nth, 6); /* path, base, directory, opendir, list */
            break;
        }
    }
}

TEST_MAIN()
