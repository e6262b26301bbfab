/* In a library built without SQLite, every journal call fails, and the error message gives the reason. */
#include <gpu_dispatch/gpu_dispatch.h>

#include "support/test.h"

TEST(every_call_says_how_to_get_journals)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    struct gd_journal_reader *r;
    if (gd_journal_available())
        SKIP("this library has SQLite");
    o.path = "run.db";
    CHECK_EQ(gd_journal_open(&j, &o), GD_E_UNSUPPORTED);
    CHECK_CONTAINS(gd_error_text(), "libsqlite3-dev");
    CHECK(j == NULL);
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), GD_E_UNSUPPORTED);
    CHECK(r == NULL);
    CHECK_EQ(gd_journal_follow(NULL, "x", 1), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_journal_get_counts(NULL, NULL), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_journal_reader_summary(NULL, NULL), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_journal_reader_each(NULL, NULL, NULL, NULL), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_journal_reader_failures(NULL, NULL, NULL), GD_E_UNSUPPORTED);
    gd_journal_add_note(NULL, NULL);
    CHECK_EQ(gd_journal_close(&j), 0);
    gd_journal_reader_close(&r);
}

TEST(a_program_can_check_for_journals)
{
#ifdef GD_HAVE_SQLITE
    CHECK(gd_journal_available());
#endif
    CHECK_STR(gd_error_name(GD_E_JOURNAL), "GD_E_JOURNAL");
}

TEST_MAIN()
