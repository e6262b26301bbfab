/* Which file systems count as shared with other machines. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file/shared.h"
#include "support/directory.h"
#include "support/test.h"

TEST(known_types)
{
    static const struct {
        const char *name;
        unsigned long type;
        bool shared;
    } rows[] = {
        { "ext4", 0xef53, false },      { "XFS", 0x58465342, false },     { "Btrfs", 0x9123683e, false },
        { "tmpfs", 0x01021994, false }, { "overlay", 0x794c7630, false }, { "ZFS", 0x2fc12fc1, false },
        { "F2FS", 0xf2f52010, false },  { "NFS", 0x6969, true },          { "Lustre", 0x0bd00bd0, true },
        { "GPFS", 0x47504653, true },   { "CIFS", 0xff534d42, true },     { "SMB2", 0xfe534d42, true },
        { "FUSE", 0x65735546, true },   { "9P", 0x01021997, true },       { "Ceph", 0x00c36400, true },
        { "BeeGFS", 0x19830326, true }, { "GFS2", 0x01161970, true },     { "OCFS2", 0x7461636f, true },
        { "AFS", 0x5346414f, true },    { "unknown", 0x12345678, true },  { "none", 0, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gd__file_type_is_shared(rows[i].type) != rows[i].shared)
            FAIL("%s", rows[i].name);
    /* On 32-bit machines the type is a signed number. */
    CHECK(!gd__file_type_is_shared((unsigned long)(long)(int)0x9123683eu));
}

TEST(a_file_that_does_not_exist_is_on_the_file_system_of_its_directory)
{
    directory_enter();
    unsetenv(GD__ENV_SHARED_FILES);
    const bool here = gd__file_is_shared(".");
    const int fd = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    close(fd);
    CHECK_EQ(gd__file_is_shared("file"), here);
    CHECK_EQ(gd__file_is_shared("new"), here);
    CHECK_EQ(gd__file_is_shared("./new"), here);
    CHECK_EQ(gd__file_is_shared("/proc/new"), true); /* a type that is not in the table */
    CHECK_EQ(gd__file_is_shared("no/such/new"), true);
}

TEST(a_variable_makes_every_file_system_shared)
{
    directory_enter();
    unsetenv(GD__ENV_SHARED_FILES);
    const bool here = gd__file_is_shared(".");
    setenv(GD__ENV_SHARED_FILES, "1", 1);
    CHECK(gd__file_is_shared("."));
    setenv(GD__ENV_SHARED_FILES, "0", 1);
    CHECK_EQ(gd__file_is_shared("."), here);
    setenv(GD__ENV_SHARED_FILES, "", 1);
    CHECK_EQ(gd__file_is_shared("."), here);
}

TEST_MAIN()
