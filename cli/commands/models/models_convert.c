/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models convert`: runs the converter, which is a program in Python, and checks what it has written. The
 * converter is installed with the data of this program.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/transcribe/model/model.h"
#include "apps/transcribe/model/places.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "cli/commands/models/models.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

#define PYTHON "python3"

extern char **environ;

/* medium.pt becomes medium.bin. The caller frees it. NULL: no memory. */
static char *default_output(const char *checkpoint)
{
    const size_t size = strlen(checkpoint), suffix = size > 3 && strcmp(checkpoint + size - 3, ".pt") == 0 ? 3 : 0;
    char *path = NULL;
    return asprintf(&path, "%.*s.bin", (int)(size - suffix), checkpoint) < 0 ? NULL : path;
}

/* Starts a program with no signals blocked. Returns 0 with its exit status, or -1 with gd__fail_text(). */
static int run(char *const *words, int *status)
{
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    int error = posix_spawnattr_init(&attributes);
    if (error)
        return gd__fail("%s cannot be started: %s", words[0], strerror(error));
    sigemptyset(&none);
    error = posix_spawnattr_setsigmask(&attributes, &none);
    if (!error)
        error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (!error)
        error = posix_spawnp(&pid, words[0], NULL, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    if (error)
        return gd__fail("%s cannot be started: %s%s", words[0], strerror(error),
                        error == ENOENT ? ": install Python 3" : "");
    while (waitpid(pid, status, 0) < 0) {
        if (errno != EINTR)
            return gd__fail("waiting for %s failed: %s", words[0], strerror(errno));
    }
    return 0;
}

static char *writable(const char *text)
{
    return text ? strdup(text) : NULL;
}

/* The converter prints its own error messages. */
static int convert(const char *converter, const char *checkpoint, const char *out, const char *assets)
{
    char *words[] = { writable(PYTHON), writable(converter),  writable("--assets"), writable(assets ? assets : ""),
                      writable("--"),   writable(checkpoint), writable(out),        NULL };
    enum { WORDS = sizeof words / sizeof *words - 1, ASSETS = 2 };
    int status = 0, rc = 0;
    char *used[WORDS + 1] = { 0 };
    for (size_t i = 0, n = 0; i < WORDS; i++) {
        if (!words[i])
            rc = gd__fail("no memory for the conversion");
        if (assets || i < ASSETS || i > ASSETS + 1)
            used[n++] = words[i];
    }
    if (rc == 0)
        rc = run(used, &status);
    for (size_t i = 0; i < WORDS; i++)
        free(words[i]);
    if (rc == 0 && status != 0)
        rc = gd__fail("%s was not converted", checkpoint);
    return rc;
}

/* Prints what was made, and the command that uses it. */
static int report(const char *out)
{
    struct tr_model model;
    struct gd__buffer command = { 0 };
    char size[GD__TEXT_FIGURE];
    if (tr_model_check(&model, out) < 0)
        return -1;
    gd__buffer_text(&command, "gpu-dispatch transcribe --model ");
    gd__buffer_shell_word(&command, out);
    gd__buffer_add(&command, "", 1);
    cli_say("%s: %s, %s; use it with %s", out, gd__text_size(size, sizeof size, model.bytes),
            model.multilingual ? "multilingual" : "English", command.failed ? "--model" : command.data);
    puts(out);
    gd__buffer_free(&command);
    tr_model_free(&model);
    return 0;
}

int cli_models_convert(const struct cli_models *m)
{
    const char *checkpoint = m->words.items[1];
    char *converter = tr_places_data("convert_model.py", "apps/transcribe/convert/convert_model.py");
    char *out = m->words.n > 2 ? strdup(m->words.items[2]) : default_output(checkpoint);
    int rc = 0;
    if (!out)
        rc = gd__fail("no memory for the conversion");
    else if (!converter)
        rc = gd__fail("the converter convert_model.py is not installed: install this program again");
    else if (access(checkpoint, R_OK) < 0)
        rc = gd__fail("%s: cannot be read: %s", checkpoint, strerror(errno));
    else if (access(out, F_OK) == 0)
        rc = gd__fail("%s: exists already: delete it, or give another name for the model", out);
    else if (convert(converter, checkpoint, out, m->assets) < 0 || report(out) < 0)
        rc = -1;
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    free(converter);
    free(out);
    return rc < 0 ? CLI_MODELS_FAILED : 0;
}
