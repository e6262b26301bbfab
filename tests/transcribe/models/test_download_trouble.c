/* SPDX-License-Identifier: MIT
 *
 * Downloads of models that fail: what is reported, and what is kept.
 */
#include <sys/resource.h>

#include "transcribe/models/model_server.h"

TEST(a_wrong_checksum)
{
    enter();
    server.content[SIZE / 3] ^= 1;
    fail("is not this model: its SHA-1 is ", 0);
    CHECK_CONTAINS(gd__fail_text(), sum);
    CHECK_CONTAINS(gd__fail_text(), "It was removed: try again, or use another server with --base");
    server.content[SIZE / 3] ^= 1;
    succeed();
}

/* Two versions with the same name were put together. */
TEST(a_server_that_mixes_versions)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.cut = EVERYTHING;
    publish(2);
    fail("is not this model", 0);
    succeed();
}

TEST(another_size)
{
    enter();
    thing.bytes = SIZE - 1;
    CHECK_EQ(tr_download(&(struct tr_download){ .model = &thing, .directory = "models", .base = http_base }, &path),
             -1);
    CHECK_CONTAINS(gd__fail_text(), "the server's file has 300001 bytes instead of 300000, so it is another file");
    check_exists(PART, false);
    server.no_length = true;
    CHECK_EQ(tr_download(&(struct tr_download){ .model = &thing, .directory = "models", .base = http_base }, &path),
             -1);
    CHECK_CONTAINS(gd__fail_text(), "the server sends more than the 300000 bytes");
}

TEST(an_end_that_looks_regular)
{
    enter();
    server.no_length = true;
    server.cut = SIZE - 7;
    fail("the connection ended after 299994 of 300001 bytes", SIZE - 7);
    server.cut = EVERYTHING;
    succeed();
}

TEST(answers_that_are_errors)
{
    static const struct {
        int status;
        const char *message;
    } answers[] = {
        { 404, "the server does not have it (status 404)" },
        { 403, "the server refuses it (status 403)" },
        { 401, "the server refuses it (status 401)" },
        { 503, "the server answered with status 503: try again later" },
        { 400, "the server answered with status 400" },
        { 204, "the server answered with status 204" },
    };
    enter();
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        server.status = answers[i].status;
        fail(answers[i].message, 0);
        CHECK_CONTAINS(gd__fail_text(), "/audio/ggml-thing.bin: ");
    }
}

TEST(an_error_does_not_harm_the_part)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.status = 503;
    fail("status 503", 1000);
    server.status = 0;
    server.cut = EVERYTHING;
    succeed();
    CHECK_CONTAINS(server.request, "\r\nRange: bytes=1000-\r\n");
}

/* The server says that its file is shorter than the part. */
TEST(a_range_that_the_server_refuses)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.status = 416;
    fail("status 416", 0);
    server.status = 0;
    server.cut = EVERYTHING;
    succeed();
}

TEST(no_server)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    snprintf(http_base, sizeof http_base, "http://127.0.0.1:1/");
    fail("thing: could not be downloaded from http://127.0.0.1:1/ggml-thing.bin: ", 1000);
}

/* A limit of the size of files stands in for a full disk. */
TEST(a_file_that_cannot_be_written)
{
    const struct rlimit little = { 50000, RLIM_INFINITY }, much = { RLIM_INFINITY, RLIM_INFINITY };
    enter();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    fail("the file cannot be written: File too large", 50000);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &much), 0);
    succeed();
    CHECK_CONTAINS(server.request, "\r\nRange: bytes=50000-\r\n");
}

TEST(a_directory_that_cannot_be_created)
{
    enter();
    make_file("file", 1);
    const struct tr_download d = { .model = &thing, .directory = "file/models", .base = http_base };
    CHECK_EQ(tr_download(&d, &path), -1);
    CHECK_CONTAINS(gd__fail_text(), "file/models: the directory cannot be created: Not a directory");
    CHECK_EQ(server.requests, 0);
}

/* A link could lead the download to any file of the user. */
TEST(a_part_that_is_a_link)
{
    enter();
    make_file("precious", 10);
    make_directories("models");
    CHECK_EQ(symlink("../precious", PART), 0);
    CHECK_EQ(download(), -1);
    CHECK_CONTAINS(gd__fail_text(), PART ": cannot be written: ");
    CHECK_EQ(server.requests, 0);
}

TEST_MAIN()
