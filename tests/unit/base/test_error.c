/* SPDX-License-Identifier: MIT
 *
 * The error message. Each thread has its own. It is one line, and callers can put context before it. Also the
 * allocation wrappers, which set errno on failure.
 */
#include "support/test.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"

TEST(starts_without_an_error)
{
    CHECK_STR(gd_error_text(), "no error");
}

TEST(error_sets_the_text_and_returns_the_code)
{
    CHECK_EQ(gd__error(GD_E_INVALID, "window is %d, must be %s", 3, "even"), GD_E_INVALID);
    CHECK_STR(gd_error_text(), "window is 3, must be even");
}

TEST(the_message_of_errno_is_used_and_errno_is_kept)
{
    errno = ENOENT;
    CHECK_EQ(gd__error_errno("open %s", "/x"), GD_E_SYSTEM);
    CHECK_EQ(errno, ENOENT);
    CHECK_STR(gd_error_text(), "open /x: No such file or directory");
}

TEST(enomem_is_out_of_memory)
{
    errno = ENOMEM;
    CHECK_EQ(gd__error_errno("mmap"), GD_E_NO_MEMORY);
    CHECK_CONTAINS(gd_error_text(), "mmap: ");
}

TEST(context_is_put_before_the_message)
{
    gd__error(GD_E_SETUP, "no model");
    CHECK_EQ(gd__error_context(GD_E_SETUP, "worker %d", 2), GD_E_SETUP);
    CHECK_STR(gd_error_text(), "worker 2: no model");
    gd__error_context(GD_E_SETUP, "run");
    CHECK_STR(gd_error_text(), "run: worker 2: no model");
}

TEST(context_without_a_message_uses_the_message_of_the_code)
{
    gd__error_context(GD_E_BUSY, "run");
    CHECK_STR(gd_error_text(), "run: already in use");
}

TEST(the_current_message_may_be_an_argument)
{
    gd__error(GD_E_FAILED, "inner");
    gd__error(GD_E_FAILED, "outer (%s)", gd_error_text());
    CHECK_STR(gd_error_text(), "outer (inner)");
}

TEST(the_message_is_one_line)
{
    gd__error(GD_E_FAILED, "a\nb\tc\x1b[0m\n\n");
    CHECK_STR(gd_error_text(), "a b c [0m");
}

TEST(long_messages_are_cut)
{
    char *big = malloc(100001);
    memset(big, 'x', 100000);
    big[100000] = 0;
    gd__error(GD_E_FAILED, "%s", big);
    CHECK_GT(strlen(gd_error_text()), 500);
    CHECK_LT(strlen(gd_error_text()), 100000);
    gd__error_context(GD_E_FAILED, "%s", big);
    errno = EIO;
    gd__error_errno("%s", big);
    for (int i = 0; i < 3000; i++)
        gd__error_context(GD_E_FAILED, "more");
    CHECK_LT(strlen(gd_error_text()), 100000);
    free(big);
}

static void *fail_elsewhere(void *arg)
{
    (void)arg;
    CHECK_STR(gd_error_text(), "no error");
    gd__error(GD_E_FAILED, "theirs");
    return NULL;
}

TEST(each_thread_has_its_own_message)
{
    pthread_t thread;
    gd__error(GD_E_FAILED, "ours");
    CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(gd_error_text(), "ours");
}

TEST(every_code_has_a_name_and_a_message)
{
    CHECK_STR(gd_error_name(GD_OK), "GD_OK");
    CHECK_STR(gd_error_name(GD_E_INVALID), "GD_E_INVALID");
    CHECK_STR(gd_error_description(GD_E_SETUP), "All workers failed during setup");
    for (int code = GD_E_INVALID; code >= GD_E_JOURNAL; code--) {
        CHECK(strcmp(gd_error_name(code), "GD_E_UNKNOWN") != 0);
        CHECK(gd_error_description(code)[0]);
    }
}

TEST(other_numbers_are_unknown)
{
    int others[] = { 1, -1000, INT32_MAX, INT32_MIN, GD_E_JOURNAL - 1 };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        CHECK_STR(gd_error_name(others[i]), "GD_E_UNKNOWN");
        CHECK_STR(gd_error_description(others[i]), "unknown error");
    }
}

TEST(allocating_zero_bytes_gives_a_pointer)
{
    void *p[] = { gd__calloc(0, 8), gd__calloc(8, 0), gd__realloc(NULL, 0), gd__memdup(NULL, 0), gd__strdup("") };
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        CHECK(p[i] != NULL);
        gd__free(p[i]);
    }
}

TEST(calloc_is_zeroed_and_checks_for_overflow)
{
    char *p = gd__calloc(10, 10);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(p[i], 0);
    gd__free(p);
    volatile size_t huge = SIZE_MAX / 2;
    CHECK(gd__calloc(huge, 3) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

TEST(copies_are_independent)
{
    char text[] = "abc";
    char *copy = gd__strdup(text), *bytes = gd__memdup(text, 2);
    text[0] = 'x';
    CHECK_STR(copy, "abc");
    CHECK_MEM(bytes, "ab", 2);
    gd__free(copy);
    gd__free(bytes);
}

TEST_MAIN()
