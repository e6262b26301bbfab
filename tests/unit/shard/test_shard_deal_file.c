/* SPDX-License-Identifier: MIT
 *
 * The file of a deal: its format, files that are damaged or hostile, and several shards that publish it at once.
 */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/hash/key.h"
#include "shard/deal_file.h"
#include "support/directory.h"
#include "unit/shard/deal_items.h"

/* --- helpers --- */

/* Appends the right checksum to the text, as a program would that wants to be believed. */
static struct gd__buffer with_checksum(const char *text, size_t size)
{
    struct gd__buffer b = { 0 };
    unsigned char hash[GD__HASH_SIZE];
    gd__key_hash(text, size, hash);
    gd__buffer_add(&b, text, size);
    gd__buffer_text(&b, "checksum ");
    for (size_t i = 0; i < sizeof hash; i++)
        gd__buffer_format(&b, "%02x", hash[i]);
    gd__buffer_text(&b, "\n");
    CHECK(!b.failed);
    return b;
}

/* Parses a copy that is exactly as large as the text, so that ASan detects a read past its end. */
static int parse(struct gd__deal **d, const char *text, size_t size, uint32_t count)
{
    char *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, text, size);
    const int rc = gd__deal_parse(d, copy, size, count, "x.deal");
    CHECK((rc == 0) == (*d != NULL));
    free(copy);
    return rc;
}

static struct gd__buffer write_items(struct gd__deal_item *items, size_t n, uint32_t count)
{
    struct gd__buffer b = { 0 };
    CHECK_EQ(gd__deal_items(items, &n, count), 0);
    CHECK_EQ(gd__deal_write(&b, items, n, count), 0);
    return b;
}

static void write_file(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(text, 1, size, f), size);
    CHECK_EQ(fclose(f), 0);
}

static struct gd__buffer read_file(const char *path)
{
    struct gd__buffer b = { 0 };
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    for (int c; (c = getc(f)) != EOF;) {
        const char byte = (char)c;
        gd__buffer_add(&b, &byte, 1);
    }
    CHECK_EQ(fclose(f), 0);
    CHECK(!b.failed);
    return b;
}

/* How many files there are in the current directory. */
static unsigned count_files(void)
{
    unsigned n = 0;
    DIR *d = opendir(".");
    CHECK(d != NULL);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* --- the format --- */

static struct gd__deal_item three[] = { { "b\n\"\xff", 4, 5, 0 }, { "a/b.wav", 7, 9, 0 }, { "a\0", 2, 5, 0 } };

/* The checksum was made by another program. */
TEST(the_format)
{
    static const char expected[] = "gpu_dispatch deal 1\n"
                                   "shards 16\n"
                                   "entries 3\n"
                                   "2 \"a\\u0000\"\n"
                                   "1 \"a/b.wav\"\n"
                                   "3 \"b\\n\\\"\\udcff\"\n"
                                   "checksum 62b5623d03077e738e7e7f4e7e51cd8f\n";
    struct gd__buffer b = write_items(three, 3, 16);
    struct gd__deal *d = NULL;
    CHECK_EQ(b.size, sizeof expected - 1);
    CHECK_MEM(b.data, expected, b.size);
    CHECK_EQ(parse(&d, b.data, b.size, 16), 0);
    CHECK_EQ(gd__deal_shards(d), 16);
    CHECK_EQ(gd__deal_entries(d), 3);
    CHECK_EQ(gd__deal_owner(d, "a\0", 2), 1);
    CHECK_EQ(gd__deal_owner(d, "a/b.wav", 7), 0);
    CHECK_EQ(gd__deal_owner(d, "b\n\"\xff", 4), 2);
    CHECK_EQ(gd__deal_owner(d, "new.wav", 7), gd__shard_of_key("new.wav", 7, 16));
    gd__deal_close(&d);
    gd__buffer_free(&b);
}

TEST(a_deal_of_nothing)
{
    struct gd__deal_item none;
    struct gd__buffer b = write_items(&none, 0, 3);
    struct gd__deal *d = NULL;
    CHECK_EQ(parse(&d, b.data, b.size, 3), 0);
    CHECK_EQ(gd__deal_entries(d), 0);
    CHECK_EQ(gd__deal_owner(d, "a", 1), gd__shard_of_key("a", 1, 3));
    gd__deal_close(&d);
    gd__buffer_free(&b);
}

TEST(every_byte_can_be_in_a_key)
{
    unsigned char keys[256 * 257][2];
    struct gd__deal_item *items = calloc(256 * 257, sizeof *items);
    size_t n = 0;
    CHECK(items != NULL);
    for (unsigned i = 0; i < 256; i++) {
        keys[n][0] = (unsigned char)i;
        items[n] = (struct gd__deal_item){ keys[n], 1, i, 0 };
        n++;
        for (unsigned j = 0; j < 256; j++) {
            keys[n][0] = (unsigned char)i;
            keys[n][1] = (unsigned char)j;
            items[n] = (struct gd__deal_item){ keys[n], 2, i * j, 0 };
            n++;
        }
    }
    struct gd__buffer b = write_items(items, n, 5);
    struct gd__deal *d = NULL;
    CHECK_EQ(parse(&d, b.data, b.size, 5), 0);
    CHECK_EQ(gd__deal_entries(d), n);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(gd__deal_owner(d, items[i].key, items[i].key_size), items[i].shard);
    gd__deal_close(&d);
    gd__buffer_free(&b);
    free(items);
}

/* A list that has grown: the old tasks keep their owner, and each new task has one. */
TEST(each_task_has_one_owner_also_if_it_is_new)
{
    enum { DEALT = 200, ALL = 300 };
    for (uint32_t count = 1; count <= 100; count++) {
        char *keys = NULL;
        struct gd__deal_item *items = make_items(ALL, 1.5, count, &keys);
        shuffle(items, ALL, count);
        struct gd__buffer b = write_items(items, DEALT, count);
        struct gd__deal *d = NULL;
        CHECK_EQ(parse(&d, b.data, b.size, count), 0);
        for (size_t i = 0; i < ALL; i++) {
            const uint32_t owner = gd__deal_owner(d, items[i].key, items[i].key_size);
            CHECK_LT(owner, count);
            CHECK_EQ(owner, i < DEALT ? items[i].shard : gd__shard_of_key(items[i].key, items[i].key_size, count));
        }
        gd__deal_close(&d);
        gd__buffer_free(&b);
        free(items);
        free(keys);
    }
}

/* The same file, whatever the order of the list. */
TEST(the_order_of_the_list_does_not_change_the_file)
{
    char *keys = NULL;
    struct gd__deal_item *items = make_items(500, 1, 1, &keys);
    struct gd__buffer first = write_items(items, 500, 16);
    for (uint64_t seed = 0; seed < 20; seed++) {
        shuffle(items, 500, seed);
        struct gd__buffer b = write_items(items, 500, 16);
        CHECK_EQ(b.size, first.size);
        CHECK_MEM(b.data, first.data, b.size);
        gd__buffer_free(&b);
    }
    gd__buffer_free(&first);
    free(items);
    free(keys);
}

/* --- bad files --- */

TEST(a_file_that_was_cut_is_refused)
{
    struct gd__buffer b = write_items(three, 3, 16);
    struct gd__deal *d = NULL;
    for (size_t size = 0; size < b.size; size++) {
        if (parse(&d, b.data, size, 16) != GD_E_CORRUPT)
            FAIL("the first %zu bytes were accepted", size);
        CHECK_CONTAINS(gd_error_text(), "x.deal");
        CHECK_CONTAINS(gd_error_text(), "stop all shards, remove the file");
    }
    gd__buffer_free(&b);
}

TEST(a_changed_byte_is_noticed)
{
    struct gd__buffer b = write_items(three, 3, 16);
    struct gd__deal *d = NULL;
    for (size_t i = 0; i < b.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b.data[i] = (char)(b.data[i] ^ (1 << bit));
            const int rc = parse(&d, b.data, b.size, 16);
            if (rc != GD_E_CORRUPT && rc != GD_E_UNSUPPORTED)
                FAIL("bit %u of byte %zu: %d", bit, i, rc);
            b.data[i] = (char)(b.data[i] ^ (1 << bit));
        }
    }
    gd__buffer_add(&b, "x", 1);
    CHECK_EQ(parse(&d, b.data, b.size, 16), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "its last line is not a checksum");
    gd__buffer_free(&b);
}

#define HEAD(shards, entries) "gpu_dispatch deal 1\nshards " shards "\nentries " entries "\n"

/* The checksums of all these files are right. */
static const struct {
    const char *text;
    int code;
    const char *message;
} hostile[] = {
    { "", GD_E_CORRUPT, "is not the file of a deal" },
    { "\n", GD_E_CORRUPT, "is not the file of a deal" },
    { "SQLite format 3\n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal \n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal x\n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal 1 \n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal 01\n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal 4294967297\n", GD_E_CORRUPT, "is not the file of a deal" },
    { "gpu_dispatch deal 2\nshards 4\nentries 0\n", GD_E_UNSUPPORTED, "has version 2 of the format" },
    { "gpu_dispatch deal 0\nshards 4\nentries 0\n", GD_E_UNSUPPORTED, "has version 0 of the format" },
    { "gpu_dispatch deal 1\n", GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("0", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("-4", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("04", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("4 ", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("1000001", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { HEAD("99999999999999999999999", "0"), GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { "gpu_dispatch deal 1\nentries 0\nshards 4\n", GD_E_CORRUPT, "line 2: this is not a number of shards" },
    { "gpu_dispatch deal 1\nshards 4\n", GD_E_CORRUPT, "line 3: this is not a number of entries" },
    { HEAD("4", "x"), GD_E_CORRUPT, "line 3: this is not a number of entries" },
    { HEAD("4", ""), GD_E_CORRUPT, "line 3: this is not a number of entries" },
    { HEAD("4", "18446744073709551616"), GD_E_CORRUPT, "line 3: this is not a number of entries" },
    { HEAD("4", "18446744073709551615"), GD_E_CORRUPT, "line 3: the file is too short for so many entries" },
    { HEAD("4", "1"), GD_E_CORRUPT, "line 3: the file is too short for so many entries" },
    { HEAD("4", "2") "1 \"\"\n", GD_E_CORRUPT, "line 3: the file is too short for so many entries" },
    { HEAD("4", "2") "1 \"abcdefgh\"\n", GD_E_CORRUPT, "line 5: an entry is missing" },
    { HEAD("4", "0") "1 \"a\"\n", GD_E_CORRUPT, "line 4: there are more entries than the file claims to have" },
    { HEAD("4", "1") "1 \"a\"\n2 \"b\"\n", GD_E_CORRUPT,
      "line 5: there are more entries than the file claims to have" },
    { HEAD("4", "1") "1 \"a\"\n\n", GD_E_CORRUPT, "line 5: there are more entries than the file claims to have" },
    { HEAD("4", "1") "1 \"a\"", GD_E_CORRUPT, "line 4: an entry is missing" },
    { HEAD("4", "1") "0 \"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "5 \"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "01 \"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "-1 \"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "1\t\"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "1\"abc\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") " \"abcd\"\n", GD_E_CORRUPT, "line 4: the entry does not begin with the number of a shard" },
    { HEAD("4", "1") "18446744073709551617 \"a\"\n", GD_E_CORRUPT, "line 4: the entry does not begin" },
    { HEAD("4", "1") "1 abcdef\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 \"a\n\n\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 \"a\\x\"\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 \"a\tb\"\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 \"a\" \n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1  \"a\"\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 \"a\"\"b\"\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 [\"a\"]\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "1") "1 12345\n", GD_E_CORRUPT, "line 4: the key is not a JSON string" },
    { HEAD("4", "2") "1 \"b\"\n1 \"a\"\n", GD_E_CORRUPT, "line 5: the keys are not in order" },
    { HEAD("4", "2") "1 \"a\"\n1 \"a\"\n", GD_E_CORRUPT, "line 5: the keys are not in order" },
    { HEAD("4", "2") "1 \"a\"\n2 \"\\u0061\"\n", GD_E_CORRUPT, "line 5: the keys are not in order" },
    { HEAD("4", "2") "1 \"ab\"\n1 \"a\"\n", GD_E_CORRUPT, "line 5: the keys are not in order" },
    { HEAD("8", "1") "1 \"a\"\n", GD_E_MISMATCH, "x.deal is a deal for 8 shards, and this run has 4" },
    { HEAD("1000000", "1") "1 \"a\"\n", GD_E_MISMATCH, "x.deal is a deal for 1000000 shards, and this run has 4" },
};

TEST(hostile_files_are_refused)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct gd__buffer b = with_checksum(hostile[i].text, strlen(hostile[i].text));
        struct gd__deal *d = NULL;
        const int rc = parse(&d, b.data, b.size, 4);
        if (rc != hostile[i].code)
            FAIL("%s: %d", hostile[i].text, rc);
        CHECK_CONTAINS(gd_error_text(), hostile[i].message);
        gd__buffer_free(&b);
    }
}

TEST(a_good_file_that_is_escaped_differently)
{
    static const char text[] = HEAD("4", "2") "3 \"\"\n4 \"\\u0061\\/\"\n";
    struct gd__buffer b = with_checksum(text, sizeof text - 1);
    struct gd__deal *d = NULL;
    CHECK_EQ(parse(&d, b.data, b.size, 4), 0);
    CHECK_EQ(gd__deal_owner(d, "", 0), 2);
    CHECK_EQ(gd__deal_owner(d, "a/", 2), 3);
    gd__deal_close(&d);
    gd__buffer_free(&b);
}

/* --- the file --- */

TEST(a_missing_file_is_not_an_error)
{
    struct gd__deal *d = NULL;
    directory_enter();
    CHECK_EQ(gd__deal_open(&d, "run.of-16.deal", 16), 0);
    CHECK(d == NULL);
    CHECK_EQ(gd__deal_open(&d, "missing/run.of-16.deal", 16), 0);
}

TEST(things_that_are_not_files)
{
    struct gd__deal *d = NULL;
    directory_enter();
    CHECK_EQ(mkdir("directory", 0755), 0);
    CHECK_EQ(mkfifo("pipe", 0644), 0);
    CHECK_EQ(symlink("loop", "loop"), 0);
    make_file("file", 1);
    CHECK_EQ(gd__deal_open(&d, "directory", 16), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "directory is not a file");
    CHECK_EQ(gd__deal_open(&d, "pipe", 16), GD_E_CORRUPT);
    CHECK_EQ(gd__deal_open(&d, "/dev/zero", 16), GD_E_CORRUPT);
    CHECK_EQ(gd__deal_open(&d, "loop", 16), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "cannot open loop");
    CHECK_EQ(gd__deal_open(&d, "file/x", 16), GD_E_SYSTEM);
    CHECK_EQ(gd__deal_open(&d, "file", 16), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "file is not the file of a deal");
}

TEST(a_file_of_2_gib_is_not_read)
{
    struct gd__deal *d = NULL;
    directory_enter();
    make_file("large", (size_t)1 << 31); /* it has no data on disk */
    CHECK_EQ(gd__deal_open(&d, "large", 16), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "large is too large for a deal");
}

TEST(the_first_deal_stays)
{
    struct gd__deal *d = NULL;
    struct stat before, after;
    directory_enter();
    CHECK_GE(publish_items("run.of-16.deal", 100, 16, 1), 0);
    CHECK_EQ(count_files(), 1);
    CHECK_EQ(stat("run.of-16.deal", &before), 0);
    CHECK_EQ(before.st_mode & 0777, 0644);
    CHECK_EQ(before.st_nlink, 1);
    struct gd__buffer first = read_file("run.of-16.deal");
    CHECK_EQ(gd__deal_open(&d, "run.of-16.deal", 16), 1);
    CHECK_EQ(gd__deal_entries(d), 100);
    gd__deal_close(&d);

    CHECK_GE(publish_items("run.of-16.deal", 200, 16, 2), 0); /* the list has grown */
    CHECK_EQ(stat("run.of-16.deal", &after), 0);
    CHECK_EQ(after.st_ino, before.st_ino);
    struct gd__buffer second = read_file("run.of-16.deal");
    CHECK_EQ(second.size, first.size);
    CHECK_MEM(second.data, first.data, first.size);
    CHECK_EQ(count_files(), 1);
    gd__buffer_free(&first);
    gd__buffer_free(&second);

    CHECK_EQ(publish_items("run.of-16.deal", 100, 8, 1), GD_E_MISMATCH);
    CHECK_EQ(gd__deal_open(&d, "run.of-16.deal", 8), GD_E_MISMATCH);
}

/* A link to a place where the file does not exist yet is not followed: link(2) reports that the name exists. */
TEST(a_name_that_leads_nowhere)
{
    directory_enter();
    CHECK_EQ(symlink("elsewhere", "run.of-4.deal"), 0);
    CHECK_EQ(publish_items("run.of-4.deal", 10, 4, 1), GD_E_BUSY);
    CHECK_EQ(count_files(), 1);
}

TEST(a_damaged_file_is_not_replaced)
{
    directory_enter();
    write_file("run.of-16.deal", "hello\n", 6);
    CHECK_EQ(publish_items("run.of-16.deal", 100, 16, 1), GD_E_CORRUPT);
    struct gd__buffer b = read_file("run.of-16.deal");
    CHECK_EQ(b.size, 6);
    gd__buffer_free(&b);
    CHECK_EQ(count_files(), 1);
}

TEST(a_missing_directory_is_an_error)
{
    directory_enter();
    CHECK_EQ(publish_items("missing/run.of-16.deal", 10, 16, 1), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "cannot create missing/run.of-16.deal.");
}

/* Makes link(2) fail from now on, as file systems without links do. */
static bool forbid_links(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_link
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 1, 0),
#endif
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = { sizeof program / sizeof *program, program };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* A process that waits until the parent closes the gate, publishes its own list, and reports the owners. */
static void publish_behind_gate(int gate, int results, const char *path, uint64_t seed)
{
    char byte;
    CHECK_EQ(read(gate, &byte, 1), 0);
    const int owners = publish_items(path, 500 + seed % 100, 8, seed);
    if (owners < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(write(results, &owners, sizeof owners), sizeof owners);
    _exit(0);
}

/* Shards start at once, each with another list. All of them must get the same deal. */
static void publish_at_once(const char *path, uint64_t seed)
{
    enum { SHARDS = 8 };
    int gate[2], results[2], first = -1, owners, n = 0;
    CHECK_EQ(pipe(gate), 0);
    CHECK_EQ(pipe(results), 0);
    for (unsigned i = 0; i < SHARDS; i++) {
        const pid_t pid = fork();
        CHECK_GE(pid, 0);
        if (pid == 0) {
            close(gate[1]);
            publish_behind_gate(gate[0], results[1], path, seed + i);
        }
    }
    close(gate[1]);
    close(results[1]);
    while (read(results[0], &owners, sizeof owners) == sizeof owners) {
        first = n++ == 0 ? owners : first;
        CHECK_EQ(owners, first);
    }
    CHECK_EQ(n, SHARDS);
    close(gate[0]);
    close(results[0]);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

TEST(shards_that_publish_at_once_get_the_same_deal)
{
    directory_enter();
    for (unsigned round = 0; round < 20; round++) {
        char path[32];
        snprintf(path, sizeof path, "%u.deal", round);
        publish_at_once(path, round * 100);
        CHECK_EQ(count_files(), round + 1); /* no temporary file is left */
    }
}

TEST(a_file_system_without_links)
{
    directory_enter();
    if (!forbid_links())
        SKIP("seccomp is not available");
    CHECK_EQ(link(".", "x"), -1);
    CHECK_EQ(errno, EPERM);
    CHECK_GE(publish_items("run.of-16.deal", 100, 16, 1), 0);
    CHECK_EQ(count_files(), 1);
    struct gd__buffer first = read_file("run.of-16.deal");
    CHECK_GE(publish_items("run.of-16.deal", 200, 16, 2), 0);
    struct gd__buffer second = read_file("run.of-16.deal");
    CHECK_EQ(second.size, first.size);
    gd__buffer_free(&first);
    gd__buffer_free(&second);
    CHECK_EQ(symlink("elsewhere", "run.of-4.deal"), 0); /* it cannot be opened, but is not replaced */
    CHECK_EQ(publish_items("run.of-4.deal", 10, 4, 1), GD_E_BUSY);
    CHECK_EQ(count_files(), 2);
}

/* Each allocation and each call fails once. Nothing is left behind, and the next attempt succeeds. */
TEST(each_failed_call_is_an_error)
{
    directory_enter();
    for (unsigned long nth = 1;; nth++) {
        gd__fault_begin(nth);
        const int rc = publish_items("run.of-16.deal", 10, 16, 1);
        const unsigned long calls = gd__fault_count();
        gd__fault_begin(0);
        if (calls < nth) {
            CHECK_GE(rc, 0);
            CHECK_GE(nth, 12);
            break;
        }
        if (rc != GD_E_NO_MEMORY)
            FAIL("call %lu: %d %s", nth, rc, gd_error_text());
        struct gd__deal *d = NULL;
        const int found = gd__deal_open(&d, "run.of-16.deal", 16);
        CHECK_GE(found, 0); /* it is complete or absent */
        gd__deal_close(&d);
        CHECK_EQ(count_files(), found);
        CHECK(found == 0 || unlink("run.of-16.deal") == 0);
    }
}

/* A directory that is full: the temporary file is removed, and the error message names it. */
TEST(a_full_disk_is_an_error)
{
    const struct rlimit limit = { 100, 100 };
    directory_enter();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(publish_items("run.of-16.deal", 1000, 16, 1), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "cannot write run.of-16.deal.");
    CHECK_EQ(count_files(), 0);
}

TEST_MAIN()
