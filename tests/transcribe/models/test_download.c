/* SPDX-License-Identifier: MIT
 *
 * Downloads of models: whole, resumed, and several at once.
 */
#include "apps/transcribe/fetch/curl.h"
#include "apps/transcribe/model/sha256.h"
#include "transcribe/models/model_server.h"

TEST(a_model)
{
    enter();
    succeed();
    CHECK_CONTAINS(server.request, "GET /audio/ggml-thing.bin HTTP/1.1\r\n");
    CHECK(!strstr(server.request, "Range:"));
    CHECK_EQ(events[TR_DOWNLOAD_STARTS], 1);
    CHECK_EQ(events[TR_DOWNLOAD_CHECKS], 1);
    CHECK(events[TR_DOWNLOAD_PROGRESS] > 0);
}

TEST(a_model_that_is_there)
{
    enter();
    succeed();
    CHECK(tr_model_is_verified(MODEL, sum));
    CHECK_EQ(download(), 1);
    CHECK_STR(path, MODEL);
    CHECK_EQ(server.requests, 1);
}

TEST(a_model_with_a_long_checksum)
{
    struct tr_sha256 sha;
    enter();
    tr_sha256_begin(&sha);
    tr_sha256_add(&sha, server.content, SIZE);
    tr_sha256_end(&sha, sum);
    succeed();
    CHECK_EQ(download(), 1);
}

TEST(another_file_with_its_name)
{
    enter();
    make_file(MODEL, 100);
    CHECK_EQ(download(), -1);
    CHECK_CONTAINS(gd__fail_text(), MODEL ": exists, but is not the model thing: its SHA-1 is ");
    CHECK_CONTAINS(gd__fail_text(), "Delete or rename it first");
    CHECK_EQ(server.requests, 0);
    check_exists(MODEL, true);
}

TEST(directories_are_created)
{
    enter();
    const struct tr_download d = { .model = &thing, .directory = "a/b//c/", .base = http_base };
    CHECK_EQ(tr_download(&d, &path), 0);
    check_exists("a/b/c/ggml-thing.bin", true);
}

TEST(a_model_that_was_moved)
{
    enter();
    server.location = "/elsewhere/blob";
    succeed();
    CHECK_EQ(server.requests, 2);
    CHECK_CONTAINS(server.request, "GET /elsewhere/blob HTTP/1.1\r\n");
}

/* The entity tag is that of the file, not that of the redirection. */
TEST(a_moved_model_is_resumed)
{
    enter();
    server.location = "/elsewhere/blob";
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.cut = EVERYTHING;
    succeed();
    CHECK_CONTAINS(server.request, "\r\nRange: bytes=1000-\r\n");
    CHECK_CONTAINS(server.request, "\r\nIf-Range: \"one\"\r\n");
}

/* The redirection has a version, but the file has none. */
TEST(a_moved_model_without_a_version)
{
    enter();
    server.location = "/elsewhere/blob";
    server.tag = NULL;
    server.cut = 1000;
    fail("could not be downloaded", 0);
}

/* A redirection to HTTP is refused if only HTTPS is allowed. */
static void check_redirection_is_refused(void)
{
    const struct tr_curl *c = tr_curl_open();
    void *handle = c->init();
    CHECK(handle && tr_curl_set_usual(c, handle, TR_CURL_HTTPS));
    CHECK_EQ(c->setopt(handle, TR_CURL_URL, http_base), TR_CURL_OK);
    CHECK_EQ(c->perform(handle), TR_CURL_UNSUPPORTED_PROTOCOL);
    c->cleanup(handle);
}

TEST(redirections_stay_encrypted)
{
    CHECK_EQ(tr_curl_safe_redirects("https://host/x"), TR_CURL_HTTPS);
    CHECK_EQ(tr_curl_safe_redirects("HTTPS://host/x"), TR_CURL_HTTPS);
    CHECK_EQ(tr_curl_safe_redirects("http://host/x"), TR_CURL_HTTP_AND_HTTPS);
    enter();
    server.location = "file:///etc/passwd";
    fail("redirects to an address that is not encrypted or not HTTP, which is refused", 0);
    char elsewhere[ADDRESS_ROOM + 10];
    snprintf(elsewhere, sizeof elsewhere, "%sx", http_base);
    server.location = elsewhere;
    check_redirection_is_refused();
}

TEST(a_proxy_from_the_environment)
{
    enter();
    const struct tr_download d = { .model = &thing, .directory = "models", .base = "http://models.invalid/x" };
    setenv("http_proxy", http_base, 1);
    CHECK_EQ(tr_download(&d, &path), 0);
    CHECK_CONTAINS(server.request, "GET http://models.invalid/x/ggml-thing.bin HTTP/1.1\r\n");
}

TEST(a_server_that_starts_slowly)
{
    enter();
    server.slow = true;
    server.cut = 50;
    fail("could not be downloaded", 50);
    server.cut = EVERYTHING;
    succeed();
}

/* --- resuming --- */

TEST(connections_that_are_cut)
{
    static const size_t cuts[] = { 1, 1000, 16384, SIZE / 2, SIZE - 1 };
    char range[64];
    enter();
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        server.cut = cuts[i];
        fail("thing: could not be downloaded from http://127.0.0.1:", cuts[i]);
        server.cut = EVERYTHING;
        succeed();
        CHECK_EQ(events[TR_DOWNLOAD_GOES_ON], 1);
        snprintf(range, sizeof range, "\r\nRange: bytes=%zu-\r\n", cuts[i]);
        CHECK_CONTAINS(server.request, range);
        CHECK_CONTAINS(server.request, "\r\nIf-Range: \"one\"\r\n");
        CHECK_EQ(unlink(MODEL), 0);
    }
}

/* Each attempt gets a little more. */
TEST(a_connection_that_is_cut_many_times)
{
    enter();
    for (size_t cut = 20000; cut < SIZE; cut += 40000) {
        server.cut = cut;
        fail("could not be downloaded", cut);
    }
    server.cut = EVERYTHING;
    succeed();
}

TEST(a_connection_that_is_cut_before_the_content)
{
    enter();
    server.cut = 0;
    fail("could not be downloaded", 0);
    server.cut = EVERYTHING;
    succeed();
}

TEST(a_server_without_ranges)
{
    enter();
    server.no_ranges = true;
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.cut = EVERYTHING;
    succeed();
    CHECK_CONTAINS(server.request, "\r\nRange: bytes=1000-\r\n");
}

/* Without the name of a version, nothing is resumed. */
TEST(a_server_without_versions)
{
    enter();
    server.tag = NULL;
    server.cut = 1000;
    fail("could not be downloaded", 0);
    server.tag = "W/\"weak\"";
    fail("could not be downloaded", 0);
    server.cut = EVERYTHING;
    succeed();
    CHECK(!strstr(server.request, "Range:"));
}

TEST(a_server_with_dates)
{
    enter();
    server.tag = NULL;
    server.date = "Tue, 17 Nov 2026 10:00:00 GMT";
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.cut = EVERYTHING;
    succeed();
    CHECK_CONTAINS(server.request, "\r\nIf-Range: Tue, 17 Nov 2026 10:00:00 GMT\r\n");
}

/* The second server ignores the condition, and sends the rest of another file. */
static void change_between(bool careless)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    publish(2);
    server.tag = "\"two\"";
    server.cut = EVERYTHING;
    server.careless = careless;
    succeed();
    CHECK_EQ(server.requests, careless ? 3 : 2);
}

TEST(a_model_that_changes_between_two_attempts)
{
    change_between(false);
}

TEST(a_model_that_changes_on_a_careless_server)
{
    change_between(true);
}

TEST(a_part_that_is_complete)
{
    enter();
    make_directories("models");
    const int fd = open(PART, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_EQ(write(fd, server.content, SIZE), SIZE);
    close(fd);
    succeed();
    CHECK_EQ(server.requests, 0);
}

TEST(a_part_that_is_too_long)
{
    enter();
    make_file(PART, SIZE + 1);
    succeed();
    CHECK(!strstr(server.request, "Range:"));
}

TEST(a_version_that_is_damaged)
{
    enter();
    server.cut = 1000;
    fail("could not be downloaded", 1000);
    server.cut = EVERYTHING;
    FILE *f = fopen(VERSION, "we");
    CHECK(f && fputs("\"one\"\r\nX-Header: 1", f) >= 0 && fclose(f) == 0);
    succeed();
    CHECK(!strstr(server.request, "X-Header"));
    CHECK_EQ(server.requests, 2); /* the rest was not asked for */
}

/* --- two at once --- */

static int begun[2], waits[2];

static void tell(const int pipe_[2])
{
    CHECK_EQ(write(pipe_[1], "x", 1), 1);
}

static void await(const int pipe_[2])
{
    char c;
    CHECK_EQ(read(pipe_[0], &c, 1), 1);
}

/* Half of the file is sent. The other half follows when the second download waits. */
static void let_the_other_wait(void)
{
    tell(begun);
    await(waits);
}

static void tell_that_it_waits(void *user, enum tr_download_event event, uint64_t have, uint64_t total)
{
    (void)user, (void)have, (void)total;
    if (event == TR_DOWNLOAD_WAITS)
        tell(waits);
}

TEST(two_downloads_of_the_same_model)
{
    int status;
    CHECK_EQ(pipe(begun), 0);
    CHECK_EQ(pipe(waits), 0);
    enter();
    const pid_t other = fork();
    if (other == 0) {
        const struct tr_download d = { &thing, "models", "http://127.0.0.1:1/", tell_that_it_waits, NULL };
        await(begun);
        _exit(tr_download(&d, &path) == 1 ? 0 : 1);
    }
    server.middle = let_the_other_wait;
    succeed();
    CHECK_EQ(waitpid(other, &status, 0), other);
    CHECK_EQ(status, 0);
    check_exists(MODEL, true);
    check_exists(PART, false);
}

static void wait_and_mend(void)
{
    server.middle = NULL;
    let_the_other_wait();
    server.content[0] ^= 1;
}

/* The first download fails and removes its part. The second one waits for it, and succeeds. */
TEST(a_download_after_one_that_fails)
{
    int status;
    CHECK_EQ(pipe(begun), 0);
    CHECK_EQ(pipe(waits), 0);
    enter();
    const pid_t other = fork();
    if (other == 0) {
        const struct tr_download d = { &thing, "models", http_base, tell_that_it_waits, NULL };
        await(begun);
        _exit(tr_download(&d, &path));
    }
    server.content[0] ^= 1;
    server.middle = wait_and_mend;
    CHECK_EQ(download(), -1);
    CHECK_CONTAINS(gd__fail_text(), "is not this model");
    CHECK_EQ(waitpid(other, &status, 0), other);
    CHECK_EQ(status, 0);
    CHECK_EQ(download(), 1);
}

TEST_MAIN()
