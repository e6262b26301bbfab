/* SPDX-License-Identifier: MIT
 *
 * Small parts of a connection to a NATS server: the server's first line, nkeys, and the library that may be missing.
 */
#include <gpu_dispatch/queue.h>

#include "base/error.h"
#include "queue/nats/access/nkey.h"
#include "queue/nats/library.h"
#include "queue/nats/server/durable.h"
#include "queue/nats/server/info.h"
#include "support/test.h"

/* ---- libnats ---- */

TEST(a_missing_library_is_reported_with_what_to_install)
{
    setenv(GD__ENV_LIBNATS, "/nonexistent/libnats.so", 1);
    CHECK(!gd_queue_available());
    CHECK_CONTAINS(gd_error_text(), "needs libnats");
    CHECK_CONTAINS(gd_error_text(), "apt install libnats3.4");
}

TEST(another_library_is_reported)
{
    setenv(GD__ENV_LIBNATS, "libm.so.6", 1);
    CHECK(!gd_queue_available());
    CHECK_CONTAINS(gd_error_text(), "it lacks nats_Open");
}

TEST(opening_the_library_changes_no_signal)
{
    signal(SIGPIPE, SIG_DFL);
    if (!gd_queue_available())
        SKIP("no libnats");
    CHECK(signal(SIGPIPE, SIG_DFL) == SIG_DFL);
}

/* ---- the first line of a server ---- */

static int parse(struct gd__nats_info *i, const char *line)
{
    return gd__nats_info_parse(i, line, strlen(line));
}

TEST(the_first_line_of_a_server)
{
    struct gd__nats_info i;
    CHECK_EQ(parse(&i, "INFO {\"server_id\":\"NDK\",\"version\":\"2.15.1\",\"headers\":true,\"max_payload\":1048576,"
                       "\"jetstream\":true,\"auth_required\":true,\"tls_required\":true} \r"),
             0);
    CHECK_STR(i.version, "2.15.1");
    CHECK_STR(i.id, "NDK");
    CHECK_EQ(i.max_payload, 1048576);
    CHECK(i.jetstream && i.tls_required && i.needs_credentials && !i.tls_available && !i.tls_verify);
    CHECK_EQ(parse(&i, "INFO {}"), 0);
    CHECK_STR(i.version, "");
    CHECK(!i.jetstream);
    CHECK_EQ(parse(&i, ""), GD_E_CORRUPT);
    CHECK_EQ(parse(&i, "INFO"), GD_E_CORRUPT);
    CHECK_EQ(parse(&i, "INFO x"), GD_E_CORRUPT);
    CHECK_EQ(parse(&i, "HTTP/1.1 200 OK"), GD_E_CORRUPT);
    CHECK_EQ(parse(&i, "INFO {\"version\":\"\\u001b[2J\"}"), 0);
    CHECK_STR(i.version, "\\x1b[2J"); /* safe to print */
}

TEST(versions)
{
    static const char *const old[] = { "", "2", "2.12", "2.12.2", "2.9.10", "1.99.99", "2.12.x", "x2.13.0", "2.12.-3" };
    static const char *const good[] = { "2.12.3", "2.12.10", "2.13.0-RC.1", "2.15.1", "3.0.0", "10.0.0" };
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        CHECK(!gd__nats_version_works(old[i]));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(gd__nats_version_works(good[i]));
}

/* ---- the monitoring page ---- */

static int parse_page(const char *answer)
{
    return gd__nats_durable_parse(answer, strlen(answer), "NDK");
}

#define PAGE "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"

TEST(the_monitoring_page_of_a_server)
{
    CHECK_EQ(parse_page(PAGE "{\"server_id\":\"NDK\",\"config\":{\"sync_interval\":1,\"sync_always\":true}}"), 1);
    CHECK_EQ(parse_page(PAGE "{\"server_id\":\"NDK\",\"config\":{\"sync_interval\":1}}"), 0);
    CHECK_EQ(parse_page(PAGE "{\"server_id\":\"OTHER\",\"config\":{\"sync_interval\":1,\"sync_always\":true}}"), -1);
    CHECK_EQ(parse_page(PAGE "{\"server_id\":\"NDK\",\"config\":{}}"), -1);
    CHECK_EQ(parse_page(PAGE "{\"server_id\":\"NDK\"}"), -1);
    CHECK_EQ(parse_page(PAGE "<html>"), -1);
    CHECK_EQ(parse_page(PAGE), -1);
    CHECK_EQ(parse_page("{\"server_id\":\"NDK\",\"config\":{\"sync_interval\":1}}"), -1);
    CHECK_EQ(parse_page(""), -1);
    CHECK_EQ(gd__nats_durable_parse(PAGE "{\"server_id\":\"\",\"config\":{\"sync_interval\":1}}",
                                    sizeof PAGE "{\"server_id\":\"\",\"config\":{\"sync_interval\":1}}" - 1, ""),
             -1);
}

/* ---- nkeys ---- */

/* Made for this test. */
#define SEED   "SUAI532EF4KCCWHLBKRLQJ5Y4AGVREN4BW7UK4CQ6FVIHCWXZQL7OZXFPU"
#define PUBLIC "UB3R7LMCXT7XAUNCE56FZLUMX5USRZTXRW65XGRP3RK63RYLWCAF756A"

TEST(the_seed_of_a_user_is_found)
{
    unsigned char seed[GD__NKEY_BYTES];
    static const char file[] = "# comment\n" SEED "\r\n";
    char bad[] = SEED;
    CHECK(gd__nkey_seed(seed, SEED, strlen(SEED)));
    CHECK(gd__nkey_seed(seed, file, sizeof file - 1));
    CHECK(!gd__nkey_seed(seed, SEED, strlen(SEED) - 1));
    CHECK(!gd__nkey_seed(seed, "", 0));
    bad[20] = bad[20] == 'A' ? 'B' : 'A';
    CHECK(!gd__nkey_seed(seed, bad, strlen(bad))); /* the checksum */
    bad[20] = '1';
    CHECK(!gd__nkey_seed(seed, bad, strlen(bad))); /* not base32 */
}

TEST(the_public_key_of_a_seed)
{
    char path[] = "/tmp/gd-nkey-XXXXXX", text[GD__NKEY_PUBLIC_ROOM];
    const struct gd__nats *n = gd__nats_library();
    if (!n)
        SKIP("no libnats");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, SEED "\n", strlen(SEED) + 1), (ssize_t)strlen(SEED) + 1);
    close(fd);
    CHECK_EQ(gd__nkey_public(text, n, path), 0);
    CHECK_STR(text, PUBLIC);
    unlink(path);
    CHECK(gd__nkey_public(text, n, path) < 0);
    CHECK_CONTAINS(gd_error_text(), path);
}

TEST_MAIN()
