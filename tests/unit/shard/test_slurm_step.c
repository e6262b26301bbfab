/* SPDX-License-Identifier: MIT
 *
 * The process of Slurm that started us is recognised by its command line. tests/cluster/slurm runs this under a real
 * Slurm. */
#include "shard/slurm_step.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

/* A process with this title. A child of it prints its process id, and both end when `input` is closed. */
struct child {
    pid_t pid, grandchild;
    int input;
};

static struct child start(const char *title)
{
    int input[2], output[2];
    char text[32] = "";
    CHECK_EQ(pipe2(input, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(output, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(input[0], 0);
        dup2(output[1], 1);
        execl("/bin/sh", title, "-c", "sh -c 'echo $$; read line'; exit 0", (char *)NULL);
        _exit(127);
    }
    close(input[0]);
    close(output[1]);
    CHECK(read(output[0], text, sizeof text - 1) > 0);
    close(output[0]);
    return (struct child){ pid, (pid_t)atoi(text), input[1] };
}

static bool is_batch(const char *title)
{
    const struct child c = start(title);
    const bool batch = gd__slurm_step_is_batch((uint64_t)c.pid);
    int status = -1;
    CHECK_EQ(gd__slurm_step_is_batch((uint64_t)c.grandchild), batch);
    close(c.input);
    CHECK_EQ(waitpid(c.pid, &status, 0), c.pid);
    CHECK_EQ(status, 0);
    return batch;
}

TEST(the_title_of_an_ancestor_tells_the_step)
{
    CHECK(is_batch("slurmstepd: [12.batch]"));
    CHECK(is_batch("slurmstepd: [12.batch]    "));
    CHECK(!is_batch("slurmstepd: [12.0]"));
    CHECK(!is_batch("slurmstepd: [12.4294967290]"));
    CHECK(!is_batch("slurmstepd: [12.interactive]"));
    CHECK(!is_batch("slurmstepd"));
    CHECK(!is_batch("sh"));
    CHECK(!is_batch("my slurmstepd: [12.batch]"));
}

TEST(processes_that_do_not_exist)
{
    CHECK(!gd__slurm_step_is_batch(0));
    CHECK(!gd__slurm_step_is_batch(UINT64_MAX));
}

TEST_MAIN()
