/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models`: speech models for `gpu-dispatch transcribe`. It has three parts: a list, downloads, and the
 * conversion of OpenAI's checkpoints.
 */
#include "cli/commands/models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/parse.h"
#include "cli/commands.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

#define AT(field) .offset = offsetof(struct cli_models, field)

static const struct cli_opt table[] = {
    { "model-dir", 0, "DIR",
      "list: search DIR first; download: put the models there (default: $GPU_DISPATCH_MODELS, $WHISPER_MODEL_DIR or "
      "~/.cache/whisper.cpp)",
      cli_set_text, AT(model_dir), .group = "Options" },
    { "json", 0, NULL, "list: print a JSON object", cli_set_flag, AT(json) },
    { "check", 0, NULL, "list: read the models that are found, and compare their checksums with the published ones",
      cli_set_flag, AT(check) },
    { "base", 0, "URL",
      "download: use URL/ggml-NAME.bin instead of the published address (default: $" CLI_MODELS_URL ")", cli_set_text,
      AT(base) },
    { "assets", 0, "DIR",
      "convert: directory with mel_filters.npz and *.tiktoken (default: those of the Python package openai-whisper)",
      cli_set_text, AT(assets) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "models",
    .usage = "usage: gpu-dispatch models [list] [OPTIONS]\n"
             "       gpu-dispatch models download [OPTIONS] NAME...\n"
             "       gpu-dispatch models convert [OPTIONS] FILE.pt [OUT.bin]\n"
             "\n"
             "Lists the speech models on this machine and those that are published, downloads\n"
             "published models, and converts OpenAI's checkpoints to the format of\n"
             "whisper.cpp. A download that was interrupted continues where it ended. A file\n"
             "gets its final name only when it is complete and its checksum is right.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch models\n"
             "  gpu-dispatch models download base large-v3-turbo\n"
             "  gpu-dispatch models download --model-dir /srv/models small.en\n"
             "  gpu-dispatch models convert medium.pt\n",
    .table = table,
    .after = "The proxies in $https_proxy, $http_proxy and $no_proxy are used. A user and a\n"
             "password for a server come from ~/.netrc.\n"
             "\n"
             "Exit status: 0 done; 1 a model could not be downloaded or converted; 255 any\n"
             "other error.\n"
             "More: man gpu-dispatch-models.\n",
};

static const struct part {
    const char *name;
    int (*run)(const struct cli_models *m);
    size_t least, most; /* arguments after the name */
    const char *takes;
} parts[] = {
    { "list", cli_models_list, 0, 0, "no arguments: gpu-dispatch models list" },
    { "download", cli_models_download, 1, SIZE_MAX, "names of models: gpu-dispatch models download base" },
    { "convert", cli_models_convert, 1, 2,
      "a checkpoint and, if you want, a name for the model: gpu-dispatch models convert "
      "FILE.pt [OUT.bin]" },
};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* Options and arguments may be mixed. After "--" there are only arguments. */
static int read_line(struct cli_models *m, int argc, char **argv)
{
    for (int at = 0; at < argc;) {
        bool only_words;
        const int first = cli_opts_parse_part(&options, m, argc - at, argv + at, &only_words);
        if (first < 0)
            return -1;
        at += first;
        do {
            if (at < argc && cli_set_list(NULL, &m->words, argv[at++]) < 0)
                return -1;
        } while (only_words && at < argc);
    }
    return 0;
}

static const struct part *find_part(const struct cli_models *m)
{
    const char *names[N_PARTS], *name = m->words.n ? m->words.items[0] : "list";
    for (size_t i = 0; i < N_PARTS; i++) {
        if (strcmp(name, parts[i].name) == 0)
            return &parts[i];
        names[i] = parts[i].name;
    }
    const char *near = gd__nearest_word(name, names, N_PARTS);
    if (near)
        gd__fail("models %s: did you mean models %s?", name, near);
    else
        gd__fail("models %s: write models list, models download NAME or models convert FILE", name);
    return NULL;
}

static int check(const struct cli_models *m, const struct part *p)
{
    const size_t n = m->words.n ? m->words.n - 1 : 0;
    if (n < p->least || n > p->most)
        return gd__fail("models %s takes %s", p->name, p->takes);
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { m->json && p->run != cli_models_list, "--json is for models list" },
        { m->check && p->run != cli_models_list, "--check is for models list" },
        { m->base && p->run != cli_models_download, "--base is for models download" },
        { m->assets && p->run != cli_models_convert, "--assets is for models convert" },
        { m->model_dir && p->run == cli_models_convert,
          "--model-dir is not for models convert: write the path of the model after the checkpoint" },
        { m->model_dir && !*m->model_dir, "--model-dir needs the name of a directory: --model-dir DIR" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    }
    return 0;
}

static int run(struct cli_models *m, int argc, char **argv)
{
    const bool read = read_line(m, argc, argv) == 0;
    if (read && (m->help || m->list_options)) {
        (m->help ? cli_opts_help : cli_opts_list)(&options);
        return 0;
    }
    const struct part *part = read ? find_part(m) : NULL;
    if (!part || check(m, part) < 0) {
        cli_say("%s", gd__fail_text());
        return CLI_EXIT_ERROR;
    }
    return part->run(m);
}

int cli_models_main(int argc, char **argv)
{
    struct cli_models m = { 0 };
    const int status = run(&m, argc, argv);
    free(m.words.items);
    return status;
}
