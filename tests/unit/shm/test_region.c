/* SPDX-License-Identifier: MIT
 *
 * Sealed shared memory: which side can write to it, its fixed size, the effect of limits, and which descriptors are
 * refused. */
#include "support/test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fault.h"
#include "shm/region.h"

enum { PAGE = 4096 };

static struct gd__region region = GD__REGION_NONE;

/* Returns the number of open descriptors. */
static int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void create(size_t size, enum gd__region_side side)
{
    CHECK_EQ(gd__region_create(&region, "test", size, size, side), 0);
    CHECK_EQ(region.size, size);
}

TEST(only_we_can_write_to_our_region)
{
    create(4 * PAGE, GD__REGION_WE_WRITE);
    memset(region.base, 7, region.size);
    CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0) == MAP_FAILED);
    CHECK_EQ(write(region.fd, "x", 1), -1);
    char *theirs = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, region.fd, 0);
    CHECK(theirs != MAP_FAILED);
    CHECK_EQ(theirs[9], 7);
    CHECK_EQ(mprotect(theirs, PAGE, PROT_READ | PROT_WRITE), -1);
}

TEST(the_other_side_writes_its_region_and_we_read_it)
{
    create(2 * PAGE, GD__REGION_THEY_WRITE);
    char *theirs = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
    CHECK(theirs != MAP_FAILED);
    theirs[3] = 5;
    CHECK_EQ(((const char *)region.base)[3], 5);
}

TEST(a_region_of_the_other_side_is_read_only_here)
{
    create(PAGE, GD__REGION_THEY_WRITE);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)region.base = 1;
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST(a_region_cannot_be_resized_or_unsealed)
{
    create(2 * PAGE, GD__REGION_THEY_WRITE);
    CHECK_EQ(ftruncate(region.fd, PAGE), -1);
    CHECK_EQ(ftruncate(region.fd, 3 * PAGE), -1);
    CHECK_EQ(fcntl(region.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    CHECK(fcntl(region.fd, F_GETFD) & FD_CLOEXEC);
}

TEST(a_region_is_sparse)
{
    create((size_t)1 << 34, GD__REGION_WE_WRITE);
    ((char *)region.base)[(size_t)1 << 33] = 1;
    struct stat status;
    CHECK_EQ(fstat(region.fd, &status), 0);
    CHECK_LE(status.st_blocks, 4096); /* 2 MiB at most, if huge pages are on */
}

TEST(large_regions_are_aligned_for_huge_pages)
{
    enum { HUGE_PAGE = 2 << 20 };
    struct gd__region other;
    create(3 * HUGE_PAGE + PAGE, GD__REGION_THEY_WRITE);
    CHECK_EQ(gd__region_attach(&other, dup(region.fd), region.size, 1), 0);
    CHECK_EQ((uintptr_t)region.base % HUGE_PAGE, 0);
    CHECK_EQ((uintptr_t)other.base % HUGE_PAGE, 0);
    memset(other.base, 3, other.size); /* the whole region can be written */
    CHECK_EQ(((const char *)region.base)[region.size - 1], 3);
    gd__region_close(&other);
}

/* Returns the number of mappings. */
static int mappings(void)
{
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

TEST(alignment_leaves_no_mapping_behind)
{
    mappings(); /* the first call allocates the buffer of stdio */
    const int before = mappings();
    for (int i = 0; i < 20; i++) {
        create((size_t)(3 << 20) + PAGE, GD__REGION_WE_WRITE);
        gd__region_close(&region);
    }
    CHECK_LE(mappings(), before);
}

TEST(attach_shares_the_memory)
{
    create(2 * PAGE, GD__REGION_THEY_WRITE);
    struct gd__region other;
    CHECK_EQ(gd__region_attach(&other, dup(region.fd), 2 * PAGE, 1), 0);
    memcpy(other.base, "hello", 6);
    CHECK_STR(region.base, "hello");
    gd__region_close(&other);
    CHECK_STR(region.base, "hello");
}

TEST(attach_refuses_another_size)
{
    create(2 * PAGE, GD__REGION_THEY_WRITE);
    struct gd__region other;
    size_t sizes[] = { 0, PAGE, 3 * PAGE, SIZE_MAX };
    int before = open_fds();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_EQ(gd__region_attach(&other, dup(region.fd), sizes[i], 1), GD_E_PROTOCOL);
        CHECK_EQ(other.fd, -1);
    }
    CHECK_EQ(open_fds(), before); /* gd__region_attach() closes the descriptor on failure */
}

TEST(attach_refuses_unsealed_memory)
{
    struct gd__region other;
    int fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK_EQ(ftruncate(fd, PAGE), 0);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0); /* the size can still become smaller */
    CHECK_EQ(gd__region_attach(&other, fd, PAGE, 1), GD_E_PROTOCOL);
    CHECK_CONTAINS(gd_error_text(), "not sealed");
}

TEST(attach_refuses_other_files)
{
    struct gd__region other;
    CHECK_EQ(gd__region_attach(&other, -1, PAGE, 0), GD_E_SYSTEM);
    CHECK_EQ(gd__region_attach(&other, open("/dev/null", O_RDWR | O_CLOEXEC), PAGE, 0), GD_E_SYSTEM);
}

TEST(attach_refuses_to_write_to_a_read_only_region)
{
    create(PAGE, GD__REGION_WE_WRITE);
    struct gd__region other;
    CHECK_EQ(gd__region_attach(&other, dup(region.fd), PAGE, 1), GD_E_SYSTEM);
    CHECK_EQ(gd__region_attach(&other, dup(region.fd), PAGE, 0), 0);
}

TEST(sizes_must_be_whole_pages)
{
    CHECK_EQ(gd__region_create(&region, "test", 0, 0, GD__REGION_WE_WRITE), GD_E_INVALID);
    CHECK_EQ(gd__region_create(&region, "test", PAGE + 1, PAGE, GD__REGION_WE_WRITE), GD_E_INVALID);
    CHECK_EQ(gd__region_create(&region, "test", 2 * PAGE, 1, GD__REGION_WE_WRITE), GD_E_INVALID);
}

TEST(a_file_size_limit_halves_the_region_and_sends_no_signal)
{
    struct rlimit limit = { 10 * PAGE, 10 * PAGE };
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(gd__region_create(&region, "test", 64 * PAGE, PAGE, GD__REGION_WE_WRITE), 0);
    CHECK_EQ(region.size, 8 * PAGE);
    gd__region_close(&region);
    CHECK_EQ(gd__region_create(&region, "test", 64 * PAGE, 20 * PAGE, GD__REGION_WE_WRITE), GD_E_SYSTEM);
    CHECK_EQ(region.fd, -1);
}

TEST(halving_stops_at_the_smallest_allowed_size)
{
    struct rlimit limit = { 10 * PAGE, 10 * PAGE };
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(gd__region_create(&region, "test", 16 * PAGE, 9 * PAGE, GD__REGION_THEY_WRITE), 0);
    CHECK_EQ(region.size, 9 * PAGE);
}

TEST(an_address_space_limit_halves_the_region)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the mappings of a sanitizer are larger than the limit");
#endif
    struct rlimit limit = { (rlim_t)2 << 30, (rlim_t)2 << 30 };
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK_EQ(gd__region_create(&region, "test", (size_t)1 << 36, 1 << 20, GD__REGION_THEY_WRITE), 0);
    CHECK_GE(region.size, 256 << 20);
    CHECK_LT(region.size, (long long)2 << 30);
}

TEST(a_size_above_any_address_space_is_halved_too)
{
    CHECK_EQ(gd__region_create(&region, "test", (size_t)1 << 62, PAGE, GD__REGION_THEY_WRITE), 0);
    CHECK_GE(region.size, (long long)1 << 30);
}

TEST(closing_twice_and_closing_an_empty_region_are_allowed)
{
    int before = open_fds();
    create(PAGE, GD__REGION_WE_WRITE);
    gd__region_close(&region);
    gd__region_close(&region);
    CHECK_EQ(region.fd, -1);
    CHECK_EQ(open_fds(), before);
    struct gd__region zeroed = { 0 };
    gd__region_close(&zeroed); /* must not close descriptor 0 */
    CHECK_GE(fcntl(0, F_GETFD), 0);
}

#ifdef GD_TEST_HOOKS
TEST(any_failing_call_is_an_error_without_a_leak)
{
    int before = open_fds(), failures = 0;
    for (unsigned long n = 1;; n++) {
        gd__fault_begin(n);
        int code = gd__region_create(&region, "test", PAGE, PAGE, GD__REGION_WE_WRITE);
        if (code == 0)
            break;
        failures++;
        CHECK_EQ(code, GD_E_NO_MEMORY);
        CHECK_EQ(open_fds(), before);
    }
    CHECK_EQ(failures, 4); /* memfd, ftruncate, mmap, seal */
    gd__fault_begin(1);
    struct gd__region other;
    CHECK_EQ(gd__region_attach(&other, dup(region.fd), PAGE, 0), GD_E_NO_MEMORY);
    CHECK_EQ(open_fds(), before + 1);
}
#endif

TEST_MAIN()
