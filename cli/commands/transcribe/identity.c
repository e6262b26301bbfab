/* SPDX-License-Identifier: MIT
 *
 * Makes the text by which a journal identifies a transcription: "transcribe " and the worker's settings (settings.h),
 * separated by blanks. Names and values have a fixed order and include the defaults, so equal work has equal text, no
 * matter which options were given. For display, the text is converted back to a command line. */
#include "cli/commands/transcribe/identity.h"

#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/model/model.h"
#include "apps/transcribe/model/published.h"
#include "base/text/buffer.h"
#include "cli/commands/transcribe/transcribe_options.h"

#define BEGINNING "transcribe "

void cli_transcribe_identify(struct gd__buffer *b, const struct tr_settings *s)
{
    struct tr_settings same = *s;
    struct gd__buffer text = { 0 };
    same.threads = same.workers = same.batch_size = 0;
    same.input_base = NULL;
    same.no_gpu = same.places.sync = false;
    tr_settings_write(&text, &same);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\n')
            text.data[i] = ' ';
    }
    gd__buffer_text(b, BEGINNING);
    gd__buffer_add(b, text.data, text.size > 0 ? text.size - 1 : 0); /* without the last newline */
    b->failed |= text.failed;
    gd__buffer_free(&text);
}

bool cli_transcribe_is(const char *command)
{
    return strncmp(command, BEGINNING, strlen(BEGINNING)) == 0;
}

/* --- as a command line ---------------------------------------------------------------- */

static void add_value(struct gd__buffer *b, const char *option, const char *value)
{
    if (!value)
        return;
    gd__buffer_text(b, option);
    gd__buffer_shell_word(b, value);
}

static void add_flag(struct gd__buffer *b, const char *option, bool given)
{
    gd__buffer_text(b, given ? option : "");
}

/* If the model has the name of a known size, the user most likely gave that size. */
static void add_model(struct gd__buffer *b, const struct tr_settings *s)
{
    char name[TR_MODEL_NAME];
    tr_model_name(name, s->model);
    const char *size = s->model_name ? s->model_name : name;
    if (tr_published_find(size))
        add_value(b, " --model-size ", size);
    else
        add_value(b, " --model ", s->model);
}

static void add_formats(struct gd__buffer *b, unsigned formats)
{
    const char *before = " --format ";
    for (int f = 0; formats != 1U << TR_TXT && f < TR_FORMATS; f++) {
        if (!(formats & 1U << f))
            continue;
        gd__buffer_text(b, before);
        gd__buffer_text(b, tr_format_name((enum tr_format)f));
        before = ",";
    }
}

/* Defaults are left out. */
static void add_line(struct gd__buffer *b, const struct tr_settings *s)
{
    const struct tr_places *p = &s->places;
    gd__buffer_text(b, "transcribe");
    add_value(b, " --input-dir ", p->input_dir);
    add_model(b, s);
    add_value(b, " --language ", s->language);
    add_flag(b, " --translate", s->translate);
    add_value(b, " --initial-prompt ", s->prompt);
    if (s->beam_size > 0)
        gd__buffer_format(b, " --beam-size %u", s->beam_size);
    if (s->temperature > 0)
        gd__buffer_format(b, " --temperature %g", s->temperature);
    add_flag(b, " --word-timestamps", s->word_timestamps && !tr_layout_is_set(&p->layout));
    add_value(b, " --vad ", s->vad_model);
    add_formats(b, p->formats);
    add_flag(b, " --full-names", p->full_names);
    tr_settings_options(b, s);
    if (p->output_dir && strcmp(p->output_dir, CLI_USUAL_OUTPUT) != 0)
        add_value(b, " --output-dir ", p->output_dir);
}

void cli_transcribe_show(struct gd__buffer *b, const char *command)
{
    struct tr_settings s;
    char *kept = NULL;
    if (cli_transcribe_is(command) && tr_settings_read_line(&s, &kept, command + strlen(BEGINNING)) == 0)
        add_line(b, &s);
    else
        gd__buffer_text(b, command);
    free(kept);
}
