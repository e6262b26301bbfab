/* SPDX-License-Identifier: MIT
 *
 * Files that must be on this machine: pages of runs, control sockets, addresses of web pages, and the locks of GPUs. A
 * directory on a network file system is refused, or another one is used.
 */
#include <gpu_dispatch/error.h>

#include "base/file/run_directory.h"
#include "base/file/shared.h"
#include "cluster/fuse/mounts.h"
#include "gpu/claim/lock_files.h"
#include "support/shell.h"

static void set_to(const char *variable, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory_path, name);
    setenv(variable, path, 1);
}

static void begin(struct mount *a)
{
    mounts_enter();
    mount_begin(a, "a", NULL);
    CHECK_EQ(mkdir("local", 0700), 0);
    CHECK_EQ(mkdir("a/d", 0700), 0);
}

TEST(the_file_system_is_recognised)
{
    struct mount a;
    begin(&a);
    CHECK(gd__file_is_shared("a"));
    CHECK(gd__file_is_shared("a/d/run.db")); /* it does not exist */
    CHECK(gd__place_is_shared("a/d"));
    CHECK(!gd__file_is_shared("local/run.db"));
    CHECK(!gd__place_is_shared("local"));
    CHECK(!gd__place_is_shared("missing/x"));
    setenv(GD__ENV_SHARED_FILES, "1", 1);
    CHECK(!gd__place_is_shared("local"));
    mount_end(&a);
}

TEST(a_directory_for_pages_is_refused)
{
    struct mount a;
    begin(&a);
    set_to("GPU_DISPATCH_JOBS", "a/jobs");
    CHECK_EQ(gd__run_directory_open(0, true, NULL), GD_E_UNSUPPORTED);
    CHECK_CONTAINS(gd_error_text(), "a/jobs is on a file system that other machines may use: set GPU_DISPATCH_JOBS");
    CHECK_LT(access("a/jobs", F_OK), 0);
    set_to("GPU_DISPATCH_JOBS", "a/d");
    CHECK_EQ(gd__run_directory_open(0, false, NULL), GD_E_UNSUPPORTED);
    set_to("GPU_DISPATCH_JOBS", "local");
    const int fd = gd__run_directory_open(0, true, NULL);
    CHECK_GE(fd, 0);
    close(fd);
    mount_end(&a);
}

TEST(the_runtime_directory_is_not_used)
{
    struct mount a;
    char path[PATH_MAX];
    begin(&a);
    unsetenv("GPU_DISPATCH_JOBS");
    set_to("XDG_RUNTIME_DIR", "a/d");
    CHECK_EQ(gd__run_directory_open(0, true, path), GD_E_NO_JOB);
    CHECK_LT(access("a/d/gpu-dispatch", F_OK), 0);
    const int fd = gd__run_directory_open(1, true, path);
    CHECK_GE(fd, 0);
    CHECK_CONTAINS(path, "/dev/shm/");
    close(fd);
    mount_end(&a);
}

TEST(a_directory_for_the_locks_of_gpus_is_refused)
{
    struct mount a;
    struct gd__lock_directory d;
    begin(&a);
    set_to(GD__ENV_LOCKS, "a/d");
    CHECK_EQ(gd__lock_directory_open(&d), GD_E_UNSUPPORTED);
    CHECK_CONTAINS(gd_error_text(), "set GPU_DISPATCH_LOCKS to a directory on a local one");
    set_to(GD__ENV_LOCKS, "local");
    CHECK_EQ(gd__lock_directory_open(&d), 0);
    gd__lock_directory_close(&d);
    mount_end(&a);
}

/* The run goes on, and says why other programs do not see it. */
TEST(a_run_says_that_it_is_not_published)
{
    struct mount a;
    begin(&a);
    set_to("GPU_DISPATCH_JOBS", "a/d");
    struct ran r = sh("gpu-dispatch run --gpus sim:1 -- echo {} ::: x");
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.out, "x\n");
    CHECK_CONTAINS(r.err, "other programs cannot see this run: ");
    CHECK_CONTAINS(r.err, "a/d is on a file system that other machines may use");
    r = sh("gpu-dispatch top --list");
    CHECK_NE(r.status, 0);
    CHECK_CONTAINS(r.err, "a/d is on a file system that other machines may use");
    mount_end(&a);
}

TEST(a_run_that_locks_gpus_there_does_not_start)
{
    struct mount a;
    begin(&a);
    set_to(GD__ENV_LOCKS, "a/d");
    const struct ran r = sh("GPU_DISPATCH_SIM=1 gpu-dispatch run --gpus free:1 -- echo {} ::: x");
    CHECK_NE(r.status, 0);
    CHECK_STR(r.out, "");
    CHECK_CONTAINS(r.err, "is on a file system that other machines may use: set GPU_DISPATCH_LOCKS");
    mount_end(&a);
}

TEST_MAIN()
