/* Finds out by which step of a Slurm job a process was started.
 *
 * sbatch passes on the environment of the shell in which it is called. So if a batch job is submitted in a step of
 * srun, its script has all variables of that step, and they may all be plausible. But Slurm starts each step through a
 * process of its own, whose command line is "slurmstepd: [12.0]" for step 0 of job 12, or "slurmstepd: [12.batch]" for
 * the batch script. The nearest of them among the ancestors of a process tells what started it.
 *
 * In a container with its own process ids, or where processes of other users are hidden, there is no such ancestor. Then
 * only the environment is left.
 */
#include "shard/slurm_step.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 512, ANCESTORS_MOST = 1000 };

/* Reads the beginning of a file of /proc/PID. The text is "" if it can't be read. */
static void read_text(uint64_t pid, const char *name, char text[TEXT_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu/%s", (unsigned long long)pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
}

/* Returns 0 if there is no parent that we can see. The name of the program, in parentheses, may contain anything. */
static uint64_t parent_of(uint64_t pid)
{
    char text[TEXT_MAX];
    read_text(pid, "stat", text);
    const char *name_end = strrchr(text, ')');
    return name_end && strlen(name_end) > 4 ? strtoull(name_end + 4, NULL, 10) : 0; /* ") S 123" */
}

bool gd__slurm_step_is_batch(uint64_t pid)
{
    for (int i = 0; pid > 0 && i < ANCESTORS_MOST; i++, pid = parent_of(pid)) {
        char text[TEXT_MAX];
        read_text(pid, "cmdline", text);
        if (strncmp(text, "slurmstepd: [", 13) == 0)
            return strstr(text, ".batch]") != NULL;
    }
    return false;
}
