/* SPDX-License-Identifier: MIT
 *
 * Receives the log of whisper.cpp. Messages come from any computing thread, as lines or parts of lines (level CONT
 * continues the last line). Without this file whisper.cpp prints a hundred lines for a model and several for each audio
 * file. */
#include "apps/transcribe/engine/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <whisper.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool silent;
static enum ggml_log_level level; /* level of the current line */
static char first_error[256];
static char kept[256]; /* a copy that whisper.cpp's threads don't write to */

static void keep(const char *text)
{
    if (first_error[0])
        return;
    snprintf(first_error, sizeof first_error, "%s", text);
    first_error[strcspn(first_error, "\n")] = '\0';
}

#ifdef TR_HAVE_ABORT_CALLBACK
/* Called instead of ggml's default, which prints a stack trace or starts a debugger if there is one. */
static void on_abort(const char *message)
{
    const char *why = tr_log_error();
    fprintf(stderr, "whisper.cpp aborted: %s%s%s%s\n", why ? why : message, why ? " (" : "", why ? message : "",
            why ? ")" : "");
}
#endif

static void on_log(enum ggml_log_level new_level, const char *text, void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (new_level != GGML_LOG_LEVEL_CONT)
        level = new_level;
    if (new_level == GGML_LOG_LEVEL_ERROR)
        keep(text);
    const bool shown = (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) && !atomic_load(&silent);
    pthread_mutex_unlock(&lock);
    if (shown)
        fputs(text, stderr);
}

void tr_log_begin(void)
{
    pthread_mutex_lock(&lock);
    first_error[0] = '\0';
    pthread_mutex_unlock(&lock);
    whisper_log_set(on_log, NULL); /* sets ggml's callback too */
#ifdef TR_HAVE_ABORT_CALLBACK
    ggml_set_abort_callback(on_abort);
#endif
}

void tr_log_quiet(bool quiet)
{
    atomic_store(&silent, quiet);
}

const char *tr_log_error(void)
{
    pthread_mutex_lock(&lock);
    memcpy(kept, first_error, sizeof kept);
    pthread_mutex_unlock(&lock);
    return kept[0] ? kept : NULL;
}
