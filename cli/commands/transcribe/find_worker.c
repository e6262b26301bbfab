/* SPDX-License-Identifier: MIT
 *
 * Finds the transcription worker. It is the first of these files that exists:
 *
 *   $GPU_DISPATCH_TRANSCRIBER           if it is set; the file must exist
 *   DIR/apps/transcribe/transcribe.so   in a build directory; DIR is the directory of this program
 *   DIR/../libexec/gpu_dispatch/transcribe.so
 *   DIR/transcribe.so
 *   transcribe.so in the directory that was chosen for it when gpu-dispatch was built
 */
#include "cli/commands/transcribe/find_worker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/say.h"

#define VARIABLE "GPU_DISPATCH_TRANSCRIBER"

/* Returns a path with a slash in it, because dlopen() would search the system's libraries for a name without one. */
static char *from_variable(const char *path)
{
    char *whole = NULL;
    if (access(path, R_OK) < 0) {
        cli_say(VARIABLE " is %s, which cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    if (asprintf(&whole, "%s%s", strchr(path, '/') ? "" : "./", path) < 0)
        cli_say("out of memory");
    return whole;
}

/* The path if it can be read, or NULL. */
static char *readable_path(const char *directory, const char *rest)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, rest) < 0)
        return NULL;
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *beside_us(void)
{
    static const char *const places[] = { "apps/transcribe/transcribe.so", "../libexec/gpu_dispatch/transcribe.so",
                                          "transcribe.so" };
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *found = NULL;
    if (n <= 0)
        return NULL;
    self[n] = '\0';
    *strrchr(self, '/') = '\0'; /* the system returns an absolute path */
    for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++)
        found = readable_path(self, places[i]);
    return found;
}

/* Searches the directory of the worker host, as configured at build time. */
static char *installed(void)
{
    static const char host[] = GD_HOST_PATH;
    char *directory = strndup(host, (size_t)(strrchr(host, '/') - host));
    char *found = directory ? readable_path(directory, "transcribe.so") : NULL;
    free(directory);
    return found;
}

char *cli_transcriber_find(void)
{
    const char *variable = getenv(VARIABLE);
    if (variable && *variable)
        return from_variable(variable);
    char *found = beside_us();
    if (!found)
        found = installed();
    if (found)
        return found;
    cli_say("the transcription worker (transcribe.so) was not found: gpu-dispatch was built without whisper.cpp");
    cli_say("to get it, run `make transcribe` in the source tree, or install whisper.cpp, libsndfile and libsoxr and "
            "build again");
    cli_say("if it is installed elsewhere, set " VARIABLE "=/path/to/transcribe.so");
    return NULL;
}
