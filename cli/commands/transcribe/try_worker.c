/* SPDX-License-Identifier: MIT
 *
 * Loads the transcription worker in a child process. Code of its libraries runs when they are loaded, and those of GPUs
 * cannot be unloaded. In a child process that harms nothing: the worker processes are not forked from the child.
 *
 * The child writes one byte to a pipe, LOADED or FAILED, and after it what the plugin says about itself, or the reason.
 */
#include "cli/commands/transcribe/try_worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/transcribe/engine/about.h"
#include "base/failure.h"
#include "base/file/write.h"

enum { LOADED = '+', FAILED = '-' };

static char *ask(void *plugin)
{
    tr_about_fn *about = NULL;
    void *found = dlsym(plugin, TR_ABOUT);
    memcpy(&about, &found, sizeof about); /* C has no conversion from an object to a function */
    return about ? about() : NULL;
}

/* Returns the exit status of the child. */
static int try_in_child(const char *path, int to)
{
    struct gd__buffer b = { 0 };
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = plugin ? NULL : dlerror();
    char *about = plugin ? ask(plugin) : NULL;
    gd__buffer_add(&b, plugin ? "+" : "-", 1);
    gd__buffer_text(&b, why ? why : about ? about : "");
    return b.failed || gd__write_all(to, b.data, b.size) < 0;
}

/* Reads to the end. */
static int read_answer(int from, struct gd__buffer *b)
{
    for (;;) {
        char *to = gd__buffer_reserve(b, 4096);
        const ssize_t n = to ? read(from, to, 4096) : -1;
        if (n < 0 && to && errno == EINTR)
            continue;
        if (n < 0)
            return gd__fail("cannot try to load the transcription worker: %s", to ? strerror(errno) : "out of memory");
        if (n == 0)
            return 0;
        b->size += (size_t)n;
    }
}

static int judge(const char *path, const struct gd__buffer *answer, int status, struct gd__buffer *about)
{
    if (answer->size > 0 && answer->data[0] == LOADED && status == 0) {
        gd__buffer_add(about, answer->data + 1, answer->size - 1);
        return about->failed ? gd__fail("out of memory") : 0;
    }
    if (answer->size > 0 && answer->data[0] == FAILED)
        return gd__fail("the transcription worker cannot be loaded: %.*s; its libraries belong in the same directory: "
                        "build it again (make transcribe), and install it again if it was installed",
                        (int)answer->size - 1, answer->data + 1);
    return gd__fail(
        "the transcription worker %s cannot be loaded: the process that tried it ended with %s %d; build it "
        "again (make transcribe)",
        path, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int cli_transcriber_try(const char *path, struct gd__buffer *about)
{
    struct gd__buffer answer = { 0 };
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return gd__fail("cannot try to load the transcription worker: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0)
        _exit(try_in_child(path, ends[1]));
    int rc = child < 0 ? gd__fail("cannot try to load the transcription worker: %s", strerror(errno)) : 0;
    close(ends[1]);
    if (rc == 0)
        rc = read_answer(ends[0], &answer);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (rc == 0)
        rc = judge(path, &answer, status, about);
    gd__buffer_free(&answer);
    return rc;
}
