/* SPDX-License-Identifier: MIT
 *
 * gpu-dispatch-host, the program that runs worker plugins. $GPU_DISPATCH_HOST is its path. A valid plugin,
 * plugin_echo.so, is in the directory $GD_TEST_PLUGINS.
 */
#include "unit/worker/worker_fixture.h"

#include <limits.h>

static const char *host(void)
{
    const char *path = getenv("GPU_DISPATCH_HOST");
    if (!path)
        SKIP("GPU_DISPATCH_HOST is not set");
    return path;
}

static const char *plugin(void)
{
    static char path[PATH_MAX];
    const char *directory = getenv("GD_TEST_PLUGINS");
    if (!directory)
        SKIP("GD_TEST_PLUGINS is not set");
    snprintf(path, sizeof path, "%s/plugin_echo.so", directory);
    return path;
}

static void start_host(const char *argument)
{
    prepare();
    f->program = host();
    f->argument = argument;
    start("");
}

/* Runs the host directly, as a user could. Stores its output in `output` and returns its exit code. */
static int run_directly(const char *first, const char *second, char *output, size_t size)
{
    int pipe_fds[2];
    const char *path = host();
    CHECK_EQ(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], 1);
        dup2(pipe_fds[1], 2);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        execl(path, "gpu-dispatch-host", first, second, (char *)NULL);
        _exit(97);
    }
    close(pipe_fds[1]);
    FILE *from = fdopen(pipe_fds[0], "r");
    CHECK(from != NULL);
    output[fread(output, 1, size - 1, from)] = 0;
    fclose(from);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(plugin_does_tasks)
{
    start_host(plugin());
    CHECK_EQ(next(), GD__R_READY);
    expect("hello", GD__R_SUCCESS, "hello");
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_BYE);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, 0);
}

static void expect_refused(const char *argument, const char *expected)
{
    start_host(argument);
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_CONTAINS(f->bytes, expected);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_SETUP);
}

TEST(missing_plugin_is_a_setup_failure)
{
    expect_refused("/nowhere/plugin.so", "/nowhere/plugin.so: cannot open shared object file");
}

TEST(other_files_are_a_setup_failure)
{
    expect_refused("/etc/passwd", "/etc/passwd");
}

TEST(library_without_the_function_is_a_setup_failure)
{
    expect_refused("libm.so.6", "does not export " GD_PLUGIN_SYMBOL "()");
}

TEST(no_plugin_is_a_setup_failure)
{
    expect_refused(NULL, "it takes one plugin");
}

TEST(the_host_started_directly_prints_its_usage)
{
    char output[2000];
    CHECK_EQ(run_directly(NULL, NULL, output, sizeof output), 2);
    CHECK_CONTAINS(output, "--check PLUGIN.so");
    CHECK_EQ(run_directly(plugin(), NULL, output, sizeof output), 2);
}

TEST(check_prints_the_functions_of_a_plugin)
{
    char output[2000];
    CHECK_EQ(run_directly("--check", plugin(), output, sizeof output), 0);
    CHECK_CONTAINS(output, "plugin_echo.so: process\n");
}

TEST(check_prints_what_is_wrong)
{
    char output[2000];
    CHECK_EQ(run_directly("--check", "libm.so.6", output, sizeof output), 1);
    CHECK_CONTAINS(output, "does not export " GD_PLUGIN_SYMBOL "()");
    CHECK_EQ(run_directly("--check", "/nowhere/plugin.so", output, sizeof output), 1);
    CHECK_CONTAINS(output, "cannot open shared object file");
}

WORKER_TEST_MAIN()
