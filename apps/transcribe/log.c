/* SPDX-License-Identifier: MIT
 *
 * whisper.cpp's log. It comes from whichever thread computes, in lines or parts of lines (level CONT goes on with the
 * one before). By itself it writes a hundred lines for a model and several for each file.
 */
#include "log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <whisper.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool silent;
static enum ggml_log_level level; /* of the line that is being said */
static char last_error[256];
static char kept[256]; /* a copy that whisper's threads don't write to */

static void keep(const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    last_error[strcspn(last_error, "\n")] = '\0';
}

static void on_log(enum ggml_log_level said, const char *text, void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (said != GGML_LOG_LEVEL_CONT)
        level = said;
    if (said == GGML_LOG_LEVEL_ERROR)
        keep(text);
    const bool shown = (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) && !atomic_load(&silent);
    pthread_mutex_unlock(&lock);
    if (shown)
        fputs(text, stderr);
}

void tr_log_begin(void)
{
    pthread_mutex_lock(&lock);
    last_error[0] = '\0';
    pthread_mutex_unlock(&lock);
    whisper_log_set(on_log, NULL); /* sets ggml's too */
}

void tr_log_quiet(bool quiet)
{
    atomic_store(&silent, quiet);
}

const char *tr_log_error(void)
{
    pthread_mutex_lock(&lock);
    memcpy(kept, last_error, sizeof kept);
    pthread_mutex_unlock(&lock);
    return kept[0] ? kept : NULL;
}
