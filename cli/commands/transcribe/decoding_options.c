/* SPDX-License-Identifier: MIT
 *
 * Values of the options of the decoding. The table of the worker's settings (apps/transcribe/engine/settings.c) checks
 * them, so that each limit is written down once. */
#include "cli/commands/transcribe/decoding_options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "apps/transcribe/engine/settings.h"
#include "base/failure.h"

int cli_set_setting_list(const struct cli_opt *opt, void *field, const char *text)
{
    char name[64], shown[64];
    snprintf(name, sizeof name, "%s", opt->name);
    snprintf(shown, sizeof shown, "--%s", opt->name);
    for (char *dash = strchr(name, '-'); dash; dash = strchr(dash, '-'))
        *dash = '_';
    return tr_settings_set(field, name, shown, text);
}

int cli_set_setting(const struct cli_opt *opt, void *field, const char *text)
{
    if (!*text)
        return gd__fail("option --%s needs a value: --%s %s", opt->name, opt->name, opt->value);
    return cli_set_setting_list(opt, field, text);
}

int cli_set_setting_on(const struct cli_opt *opt, void *field, const char *text)
{
    return cli_set_setting_list(opt, field, text ? text : "yes");
}

int cli_set_task(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    *(bool *)field = strcmp(text, "translate") == 0;
    if (!*(bool *)field && strcmp(text, "transcribe") != 0)
        return gd__fail("--task takes transcribe or translate, not \"%s\"", text);
    return 0;
}

int cli_set_split(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (strcmp(text, "auto") == 0)
        return 0;
    if (strcmp(text, "never") != 0)
        return gd__fail("--split takes auto or never, not \"%s\"", text);
    *(const char **)field = text;
    return 0;
}

int cli_set_batch_size(const struct cli_opt *opt, void *field, const char *text)
{
    return strcmp(text, "auto") == 0 ? 0 : cli_set_number(opt, field, text);
}

int cli_set_decoder(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    if (strcmp(text, "auto") == 0)
        return 0;
    if (strcmp(text, "lanes") != 0 && strcmp(text, "whisper.cpp") != 0)
        return gd__fail("--decoder takes auto, lanes or whisper.cpp, not \"%s\"", text);
    *(const char **)field = text;
    return 0;
}

/* "cuda" changes nothing: GPUs are used if there are any, of all vendors. */
int cli_set_device(const struct cli_opt *opt, void *field, const char *text)
{
    static const char *const gpus[] = { "cuda", "auto", "gpu" };
    (void)opt;
    *(bool *)field = strcasecmp(text, "cpu") == 0;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        if (strcasecmp(text, gpus[i]) == 0)
            return 0;
    }
    if (strncasecmp(text, "cuda:", 5) == 0)
        return gd__fail("--device %s: choose GPUs by their numbers, with --gpus %s", text, text + 5);
    return *(bool *)field ? 0 : gd__fail("--device takes cuda or cpu, not \"%s\"", text);
}
