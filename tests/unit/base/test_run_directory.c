/* SPDX-License-Identifier: MIT
 *
 * The private directory of a user's runs: where it is, and which directories are refused.
 */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpu_dispatch/error.h>

#include "base/file/run_directory.h"
#include "support/directory.h"

static void use(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory_path, name);
    setenv("GPU_DISPATCH_JOBS", path, 1);
}

TEST(the_directory_is_made_with_mode_700)
{
    struct stat s;
    directory_enter();
    use("jobs");
    CHECK_EQ(gd__run_directory_open(0, false, NULL), GD_E_NO_JOB);
    const int fd = gd__run_directory_open(0, true, NULL);
    CHECK_GE(fd, 3);
    CHECK_EQ(stat("jobs", &s), 0);
    CHECK_EQ(s.st_mode & 0777, 0700);
    CHECK_EQ(gd__run_directory_open(1, true, NULL), GD_E_NO_JOB); /* there is no second choice */
    close(fd);
}

TEST(a_directory_that_others_can_use_is_refused)
{
    directory_enter();
    CHECK_EQ(mkdir("open", 0700), 0);
    CHECK_EQ(chmod("open", 0755), 0);
    use("open");
    CHECK_EQ(gd__run_directory_open(0, true, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "chmod 700");
    CHECK_EQ(mkdir("real", 0700), 0);
    CHECK_EQ(symlink("real", "link"), 0);
    use("link");
    CHECK_LT(gd__run_directory_open(0, true, NULL), 0);
    make_file("file", 3);
    use("file");
    CHECK_LT(gd__run_directory_open(0, true, NULL), 0);
    if (geteuid() == 0) {
        CHECK_EQ(mkdir("others", 0700), 0);
        CHECK_EQ(chown("others", 12345, 0), 0);
        use("others");
        CHECK_EQ(gd__run_directory_open(0, true, NULL), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), "another user");
    }
}

TEST(a_runtime_directory_of_another_user_is_not_used)
{
    directory_enter();
    unsetenv("GPU_DISPATCH_JOBS");
    setenv("XDG_RUNTIME_DIR", directory_path, 1);
    const int own = gd__run_directory_open(0, true, NULL);
    CHECK_GE(own, 0);
    close(own);
    CHECK_EQ(access("gpu-dispatch", F_OK), 0);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    CHECK_EQ(gd__run_directory_open(0, true, NULL), GD_E_NO_JOB);
    if (geteuid() == 0) {
        CHECK_EQ(chown(directory_path, 12345, 0), 0);
        setenv("XDG_RUNTIME_DIR", directory_path, 1);
        CHECK_EQ(gd__run_directory_open(0, true, NULL), GD_E_NO_JOB);
    }
}

TEST_MAIN()
