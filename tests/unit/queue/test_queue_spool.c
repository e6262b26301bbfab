/* SPDX-License-Identifier: MIT
 *
 * The spool of a node: what is kept is found again, wherever the process is killed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "queue/spool/frame.h"
#include "queue/spool/spool.h"
#include "support/test.h"

static char directory[] = "spool-test-XXXXXX";
static char path[128], log_path[128];

static void make_place(void)
{
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/a.spool", directory);
    snprintf(log_path, sizeof log_path, "%s/b.spool", directory);
}

static void remove_place(void)
{
    unlink(path);
    unlink(log_path);
    rmdir(directory);
}

static struct gd__queue_key key(unsigned i)
{
    return gd__queue_task_key(&i, sizeof i, 0);
}

static struct gd__spool_queue_id own_id = { .is_known = true, .bytes = { 1, 2, 3 } };

static struct gd__spool *open_spool(const char *file)
{
    struct gd__spool *s = NULL;
    const int rc = gd__spool_open(&s, file, "songs", &own_id);
    if (rc < 0)
        FAIL("%s: %s", file, gd_error_text());
    return s;
}

static void keep(struct gd__spool *s, unsigned i)
{
    char message[300];
    const struct gd__queue_key k = key(i);
    memset(message, (int)(i & 0x7f), sizeof message);
    CHECK_EQ(gd__spool_keep(s, &k, message, 1 + i % sizeof message, i % 16 == 0), 0);
}

static void forget(struct gd__spool *s, unsigned i)
{
    const struct gd__queue_key k = key(i);
    gd__spool_forget(s, &k);
}

/* Sets a bit for each message that is found, and checks its bytes. */
static int see(void *user, const struct gd__queue_key *k, const void *message, size_t size)
{
    uint64_t *seen = user;
    for (unsigned i = 0; i < 64; i++) {
        const struct gd__queue_key expected = key(i);
        if (!gd__queue_key_same(k, &expected))
            continue;
        CHECK_EQ(size, 1 + i);
        for (size_t n = 0; n < size; n++)
            CHECK_EQ(((const char *)message)[n], (char)i);
        CHECK_EQ(*seen & (UINT64_C(1) << i), 0);
        *seen |= UINT64_C(1) << i;
        return 0;
    }
    FAIL("a key that was never kept");
}

static uint64_t seen(struct gd__spool *s)
{
    uint64_t bits = 0;
    CHECK_EQ(gd__spool_each(s, see, &bits), 0);
    CHECK_EQ(gd__spool_count(s), (uint64_t)__builtin_popcountll(bits));
    return bits;
}

TEST(messages_are_kept_until_they_are_forgotten)
{
    make_place();
    struct gd__spool *s = open_spool(path);
    for (unsigned i = 0; i < 4; i++)
        keep(s, i);
    forget(s, 1);
    forget(s, 9); /* was never kept */
    CHECK_EQ(seen(s), 0xd);
    gd__spool_close(&s);
    s = open_spool(path);
    CHECK_EQ(seen(s), 0xd);
    CHECK_EQ(gd__spool_cut(s), 0);
    keep(s, 0); /* replaces the first one */
    CHECK_EQ(seen(s), 0xd);
    for (unsigned i = 0; i < 4; i++)
        forget(s, i);
    CHECK_EQ(seen(s), 0);
    gd__spool_close(&s);
    CHECK(access(path, F_OK) < 0); /* nothing is left to keep */
    remove_place();
}

TEST(many_messages)
{
    make_place();
    struct gd__spool *s = open_spool(path);
    for (unsigned i = 0; i < 5000; i++) {
        keep(s, i);
        if (i >= 64)
            forget(s, i - 64 + 32);
        if (i == 31)
            for (unsigned k = 0; k < 32; k++)
                forget(s, k);
    }
    CHECK_EQ(gd__spool_count(s), 32);
    gd__spool_close(&s);
    s = open_spool(path);
    CHECK_EQ(gd__spool_count(s), 32);
    gd__spool_close(&s);
    remove_place();
}

static off_t size_of(const char *file)
{
    struct stat st;
    CHECK_EQ(stat(file, &st), 0);
    return st.st_size;
}

/* There is always a message that is not confirmed yet, so the file is never cut. */
TEST(the_file_does_not_grow_for_ever)
{
    static char message[1 << 20];
    make_place();
    struct gd__spool *s = open_spool(path);
    for (unsigned i = 0; i < 200; i++) {
        const struct gd__queue_key k = key(1000 + i);
        CHECK_EQ(gd__spool_keep(s, &k, message, sizeof message, false), 0);
        if (i == 0)
            keep(s, 5);
        forget(s, 1000 + i - 1);
        CHECK_LT(size_of(path), 24 << 20);
    }
    forget(s, 1199);
    CHECK_EQ(seen(s), 1 << 5);
    gd__spool_close(&s);
    s = open_spool(path);
    CHECK_EQ(seen(s), 1 << 5);
    gd__spool_close(&s);
    remove_place();
}

static void write_file(const char *file, const char *bytes, size_t size)
{
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

/* A file is only appended to, so a process that is killed leaves the beginning of it. Each beginning is tried. */
TEST(killed_at_every_byte)
{
    char bytes[4096];
    size_t ends[8];
    make_place();
    struct gd__spool *s = open_spool(path);
    ends[0] = (size_t)size_of(path);
    for (unsigned i = 0; i < 6; i++) {
        keep(s, i);
        ends[i + 1] = (size_t)size_of(path);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = read(fd, bytes, sizeof bytes);
    CHECK_EQ((size_t)size, ends[6]);
    close(fd);
    for (size_t cut = 0; cut <= (size_t)size; cut++) {
        unsigned whole = 0;
        while (whole < 6 && ends[whole + 1] <= cut)
            whole++;
        write_file(log_path, bytes, cut);
        struct gd__spool *killed = open_spool(log_path);
        CHECK_EQ(seen(killed), (UINT64_C(1) << whole) - 1);
        keep(killed, 10); /* and it can be used */
        gd__spool_close(&killed);
        killed = open_spool(log_path);
        CHECK_EQ(seen(killed), ((UINT64_C(1) << whole) - 1) | 1 << 10);
        gd__spool_close(&killed);
    }
    gd__spool_close(&s);
    remove_place();
}

/* Whatever byte is changed: no other message is found than those that were kept. */
TEST(changed_at_every_byte)
{
    char bytes[1024];
    make_place();
    struct gd__spool *s = open_spool(path);
    for (unsigned i = 0; i < 3; i++)
        keep(s, i);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const size_t size = (size_t)read(fd, bytes, sizeof bytes);
    close(fd);
    for (size_t i = 0; i < size; i++) {
        struct gd__spool *damaged = NULL;
        bytes[i] ^= 0x20;
        write_file(log_path, bytes, size);
        const int rc = gd__spool_open(&damaged, log_path, "songs", &own_id);
        CHECK(rc == 0 || rc == GD_E_CORRUPT || rc == GD_E_MISMATCH);
        if (rc == 0) {
            CHECK_LT(seen(damaged), 4);
            CHECK_GT(gd__spool_cut(damaged), 0);
        }
        gd__spool_close(&damaged);
        bytes[i] ^= 0x20;
    }
    gd__spool_close(&s);
    remove_place();
}

TEST(other_files_are_refused_and_not_changed)
{
    struct gd__spool *s = NULL, *second = NULL;
    make_place();
    write_file(path, "hello\n", 6);
    CHECK_EQ(gd__spool_open(&s, path, "songs", &own_id), GD_E_CORRUPT);
    CHECK_EQ(size_of(path), 6);
    unlink(path);
    s = open_spool(path);
    CHECK_EQ(gd__spool_open(&second, path, "songs", &own_id), GD_E_BUSY);
    CHECK(strstr(gd_error_text(), "--spool") != NULL);
    keep(s, 1);
    gd__spool_close(&s);
    CHECK_EQ(gd__spool_open(&s, path, "films", &own_id), GD_E_MISMATCH);
    CHECK(strstr(gd_error_text(), "songs") != NULL);
    CHECK_EQ(symlink("a.spool", log_path), 0);
    CHECK(gd__spool_open(&s, log_path, "songs", &own_id) < 0);
    remove_place();
}

/* A queue on another server may have the same name, and tasks with the same keys. */
TEST(records_of_another_queue_with_the_same_name_are_refused)
{
    const struct gd__spool_queue_id another = { .is_known = true, .bytes = { 4 } }, unknown = { .is_known = false };
    struct gd__spool *s = NULL;
    make_place();
    s = open_spool(path);
    keep(s, 1);
    gd__spool_close(&s);
    CHECK_EQ(gd__spool_open(&s, path, "songs", &another), GD_E_MISMATCH);
    CHECK_CONTAINS(gd_error_text(), "another queue that is also called \"songs\"");
    CHECK_EQ(gd__spool_open(&s, path, "songs", &unknown), 0);
    CHECK_EQ(seen(s), 1 << 1);
    gd__spool_close(&s);
    s = open_spool(path); /* nothing has changed */
    CHECK_EQ(seen(s), 1 << 1);
    gd__spool_close(&s);
    remove_place();
}

/* A node was killed before it had kept a message. */
TEST(a_file_without_messages_is_for_any_queue)
{
    struct gd__buffer b = { .data = NULL };
    struct gd__spool *s = NULL;
    make_place();
    gd__spool_frame_queue(&b, "films", &own_id);
    write_file(path, b.data, b.size);
    s = open_spool(path);
    keep(s, 2);
    gd__spool_close(&s);
    CHECK_EQ(gd__spool_open(&s, path, "films", &own_id), GD_E_MISMATCH);
    s = open_spool(path);
    CHECK_EQ(seen(s), 1 << 2);
    gd__spool_close(&s);
    gd__buffer_free(&b);
    remove_place();
}

/* Nodes on one machine get different files, and a file that a dead node has left is used first. */
TEST(the_default_file)
{
    struct gd__spool *a = NULL, *b = NULL;
    char state[256], cwd[128], first[512], second[512];
    make_place();
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    snprintf(state, sizeof state, "%s/%s/state", cwd, directory);
    setenv("XDG_STATE_HOME", state, 1);
    CHECK_EQ(gd__spool_open_default(&a, "songs", &own_id, "node/7"), 0);
    CHECK_EQ(gd__spool_open_default(&b, "songs", &own_id, "node/7"), 0);
    snprintf(first, sizeof first, "%s/gpu-dispatch/songs-node_7.spool", state);
    snprintf(second, sizeof second, "%s/gpu-dispatch/songs-node_7-2.spool", state);
    CHECK_STR(gd__spool_path(a), first);
    CHECK_STR(gd__spool_path(b), second);
    keep(b, 3);
    gd__spool_close(&b);
    gd__spool_close(&a);
    CHECK_EQ(gd__spool_open_default(&a, "songs", &own_id, "node/7"), 0);
    CHECK_STR(gd__spool_path(a), second);
    CHECK_EQ(seen(a), 1 << 3);
    forget(a, 3);
    gd__spool_close(&a);
    snprintf(first, sizeof first, "%s/gpu-dispatch", state);
    CHECK_EQ(rmdir(first), 0);
    rmdir(state);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    CHECK(gd__spool_open_default(&a, "songs", &own_id, "node") < 0);
    CHECK(strstr(gd_error_text(), "--spool") != NULL);
    remove_place();
}

TEST_MAIN()
