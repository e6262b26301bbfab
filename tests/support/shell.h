/* SPDX-License-Identifier: MIT
 *
 * For tests of the command. They run it in a shell, as a person does:
 *
 *     struct ran r = sh("seq 3 | gpu-dispatch run --gpus sim:2 -k -- echo got {}");
 *     CHECK_EQ(r.status, 0);
 *     CHECK_STR(r.out, "got 1\ngot 2\ngot 3\n");
 *
 * Each call runs `bash -c` with the directory of the built command first in PATH, in an empty directory that belongs to
 * the case (`$PWD` and `$HOME`; it is removed at the end of the program). The shell has no input, and environment
 * variables that could change the result are removed. Its whole output is collected. The outputs stay valid until the
 * case ends.
 */
#ifndef GD_TESTS_SUPPORT_SHELL_H
#define GD_TESTS_SUPPORT_SHELL_H

#include <fcntl.h>
#include <ftw.h>

#include "support/test.h"

struct ran {
    int status; /* exit code, or 128 + signal */
    char *out;  /* NUL-terminated, may contain NULs */
    size_t out_size;
    char *err;
    size_t err_size;
};

static char shell_dir[64];

TEST_UNUSED static int shell_remove(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

TEST_UNUSED static void shell_clean(void)
{
    if (*shell_dir)
        nftw(shell_dir, shell_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* The directory of this case. The first call creates it. */
TEST_UNUSED static const char *sh_dir(void)
{
    static pid_t owner;
    if (owner == getpid())
        return shell_dir;
    owner = getpid();
    strcpy(shell_dir, "/tmp/gd-test-XXXXXX");
    if (!mkdtemp(shell_dir))
        FAIL("mkdtemp: %s", strerror(errno));
    atexit(shell_clean);
    return shell_dir;
}

/* All outputs are kept in a list, so that leak checkers do not report them. */
struct shell_kept {
    struct shell_kept *before;
    char text[];
};
static struct shell_kept *shell_kept;

TEST_UNUSED static char *shell_read(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    CHECK(end >= 0);
    struct shell_kept *kept = malloc(sizeof *kept + (size_t)end + 1);
    CHECK(kept != NULL);
    kept->before = shell_kept;
    shell_kept = kept;
    char *text = kept->text;
    for (off_t at = 0; at < end;) {
        ssize_t n = pread(fd, text + at, (size_t)(end - at), at);
        CHECK(n > 0);
        at += n;
    }
    text[end] = '\0';
    *size = (size_t)end;
    close(fd);
    return text;
}

/* A script that sh_start_script() has started. sh_wait() waits for its end. */
struct sh_running {
    pid_t pid;
    int out, err;
};

/* Removes variables that would change the behaviour of the command or of other programs: devices, tokens, shells,
 * proxies, the terminal, a scheduler. */
TEST_UNUSED static void sh_clean_variables(void)
{
    static const char *const unset[] = { "ALL_PROXY",
                                         "BASH_ENV",
                                         "COLUMNS",
                                         "CUDA_VISIBLE_DEVICES",
                                         "ENV",
                                         "GPU_DISPATCH_HTTP_TOKEN",
                                         "GPU_DISPATCH_JOURNAL_MS",
                                         "GPU_DISPATCH_SIM",
                                         "GPU_DISPATCH_SIM_XID",
                                         "GPU_DISPATCH_TRANSCRIBER",
                                         "HIP_VISIBLE_DEVICES",
                                         "HTTP_PROXY",
                                         "JOB_COMPLETION_INDEX",
                                         "LINES",
                                         "NO_COLOR",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "PARALLEL",
                                         "PARALLEL_HOME",
                                         "PARALLEL_SHELL",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "RANK",
                                         "ROCR_VISIBLE_DEVICES",
                                         "SLURM_ARRAY_TASK_ID",
                                         "SLURM_JOB_ID",
                                         "SLURM_STEP_ID",
                                         "WORLD_SIZE",
                                         "XDG_CACHE_HOME",
                                         "XDG_CONFIG_HOME",
                                         "XDG_DATA_HOME",
                                         "ZE_AFFINITY_MASK",
                                         "all_proxy",
                                         "http_proxy" };
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        unsetenv(unset[i]);
}

TEST_UNUSED static struct sh_running sh_start_script(const char *script)
{
    struct sh_running r = { .out = memfd_create("out", MFD_CLOEXEC), .err = memfd_create("err", MFD_CLOEXEC) };
    const char *build = getenv("GD_COMMAND_DIR");
    const char *dir = sh_dir();
    CHECK(r.out >= 0 && r.err >= 0);
    if (!build)
        FAIL("GD_COMMAND_DIR is not set: run this through meson test");
    fflush(NULL);
    r.pid = fork();
    CHECK(r.pid >= 0);
    if (r.pid == 0) {
        char path[8192];
        snprintf(path, sizeof path, "%s:%s", build, getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
        setenv("PATH", path, 1);
        setenv("LC_ALL", "C", 1); /* so that sort gives the same order everywhere */
        setenv("HOME", dir, 1);
        setenv("SHELL", "/bin/bash", 1);
        sh_clean_variables();
        int null = open("/dev/null", O_RDONLY);
        if (chdir(dir) < 0 || dup2(null, 0) < 0 || dup2(r.out, 1) < 0 || dup2(r.err, 2) < 0)
            _exit(127);
        execlp("bash", "bash", "-c", script, (char *)NULL);
        _exit(127);
    }
    return r;
}

TEST_UNUSED static struct ran sh_wait(struct sh_running r)
{
    struct ran ran;
    int status;
    while (waitpid(r.pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran.out = shell_read(r.out, &ran.out_size);
    ran.err = shell_read(r.err, &ran.err_size);
    return ran;
}

__attribute__((format(printf, 1, 2))) TEST_UNUSED static struct ran sh(const char *format, ...)
{
    char *script = NULL;
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&script, format, args) >= 0);
    va_end(args);
    struct ran r = sh_wait(sh_start_script(script));
    free(script);
    return r;
}

#endif
