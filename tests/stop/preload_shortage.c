/* SPDX-License-Identifier: MIT
 *
 * Pretends that the machine cannot start more processes. Workers start commands with posix_spawn. Here it fails with
 * EAGAIN once for each of the files $SHORT_COMMANDS.1 to .9, and removes that file. posix_spawnp, which starts workers,
 * does the same with $SHORT_WORKERS.1 to .9.
 */
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int spawn_fn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

static bool is_short(const char *variable)
{
    const char *name = getenv(variable);
    char path[4096];
    for (int i = 1; name && i <= 9; i++) {
        snprintf(path, sizeof path, "%s.%d", name, i);
        if (unlink(path) == 0)
            return true;
    }
    return false;
}

static spawn_fn *next(const char *name)
{
    union {
        void *object;
        spawn_fn *function;
    } found = { dlsym(RTLD_NEXT, name) };
    return found.function;
}

__attribute__((visibility("default"))) int posix_spawn(pid_t *pid, const char *path,
                                                       const posix_spawn_file_actions_t *actions,
                                                       const posix_spawnattr_t *attributes, char *const argv[],
                                                       char *const envp[])
{
    return is_short("SHORT_COMMANDS") ? EAGAIN : next("posix_spawn")(pid, path, actions, attributes, argv, envp);
}

__attribute__((visibility("default"))) int posix_spawnp(pid_t *pid, const char *path,
                                                        const posix_spawn_file_actions_t *actions,
                                                        const posix_spawnattr_t *attributes, char *const argv[],
                                                        char *const envp[])
{
    return is_short("SHORT_WORKERS") ? EAGAIN : next("posix_spawnp")(pid, path, actions, attributes, argv, envp);
}
