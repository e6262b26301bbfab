/* SPDX-License-Identifier: MIT
 *
 * Reading the result of a command: good results, and bytes that are not a result.
 */
#include "command/output.h"

#include "support/test.h"

static unsigned char data[256];

static size_t make(uint16_t exit_code, uint16_t signal, const char *out, const char *err)
{
    const struct gd__command_head head = { GD__COMMAND_MAGIC, exit_code, signal, strlen(out), strlen(err) };
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, out, head.out_size);
    memcpy(data + sizeof head + head.out_size, err, head.err_size);
    return sizeof head + head.out_size + head.err_size;
}

static void refuse(size_t size, const char *expected)
{
    struct gd_command_output o = { .size = sizeof o };
    memset(&o, 0x55, sizeof o);
    CHECK_EQ(gd_command_read(data, size, &o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), expected);
    CHECK(o.out == NULL && o.err == NULL && o.out_size == 0 && o.err_size == 0 && o.exit_code == 0 && o.signal == 0);
}

TEST(both_outputs)
{
    struct gd_command_output o = { .size = sizeof o };
    CHECK_EQ(gd_command_read(data, make(0, 0, "out", "errors"), &o), 0);
    CHECK_EQ(o.exit_code, 0);
    CHECK_EQ(o.signal, 0);
    CHECK_EQ(o.out_size, 3);
    CHECK_MEM(o.out, "out", 3);
    CHECK_EQ(o.err_size, 6);
    CHECK_MEM(o.err, "errors", 6);
}

TEST(exit_code_and_signal)
{
    struct gd_command_output o = { .size = sizeof o };
    CHECK_EQ(gd_command_read(data, make(255, 0, "", ""), &o), 0);
    CHECK_EQ(o.exit_code, 255);
    CHECK_EQ(gd_command_read(data, make(0, 9, "", ""), &o), 0);
    CHECK_EQ(o.signal, 9);
    CHECK_EQ(o.out_size + o.err_size, 0);
}

TEST(a_result_without_output_fits_in_a_record)
{
    CHECK_EQ(make(0, 0, "", ""), 24);
}

TEST(extra_bytes_are_ignored)
{
    struct gd_command_output o = { .size = sizeof o };
    const size_t size = make(0, 0, "a", "b");
    CHECK_EQ(gd_command_read(data, size + 10, &o), 0);
    CHECK_EQ(o.out_size, 1);
    CHECK_EQ(o.err_size, 1);
}

TEST(bytes_that_are_not_a_result)
{
    struct gd_command_output o = { .size = sizeof o };
    memset(data, 0, sizeof data);
    refuse(0, "0 bytes");
    refuse(23, "23 bytes");
    refuse(24, "not the result");
    CHECK_EQ(gd_command_read(NULL, 0, &o), GD_E_INVALID);
    CHECK_EQ(gd_command_read(NULL, 100, &o), GD_E_INVALID);
}

TEST(wrong_sizes)
{
    const size_t size = make(0, 0, "abc", "de");
    refuse(size - 1, "shorter");
    struct gd__command_head head;
    memcpy(&head, data, sizeof head);
    static const uint64_t table[][2] = { { 6, 0 },          { 0, 6 },          { UINT64_MAX, 0 },    { 0, UINT64_MAX },
                                         { 5, UINT64_MAX }, { UINT64_MAX, 1 }, { UINT64_MAX - 3, 8 } };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        head.out_size = table[i][0];
        head.err_size = table[i][1];
        memcpy(data, &head, sizeof head);
        refuse(size, "shorter");
    }
}

TEST_MAIN()
