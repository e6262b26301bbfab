/* SPDX-License-Identifier: MIT
 *
 * Loads a model. The settings, the model file, the GPU and the version of whisper.cpp are checked first, because
 * whisper.cpp does not handle mistakes well. If the GPU is missing, whisper.cpp uses the CPU. With too many beams, an
 * unknown language or a wrong temperature, it crashes or invents text. It takes its parameters by value, in structs
 * that grow with each version. A library that is newer than the header would read past the end of these structs. */
#include "apps/transcribe/engine/load.h"

#include <ctype.h>
#include <ggml-backend.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include <whisper.h>

#include "apps/transcribe/engine/decoding/limits.h"
#include "apps/transcribe/engine/log.h"
#include "apps/transcribe/engine/pieces.h"
#include "apps/transcribe/model/model.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"

enum {
    MOST_BEAMS = 8,       /* WHISPER_MAX_DECODERS, which is not in the header */
    MOST_GPU_THREADS = 4, /* more threads do not speed up the work that is left for the CPU */
    OTHER_TOKENS = 51765, /* tokens of a multilingual vocabulary - its languages - 1 */
};

/* --- resources -------------------------------------------------------------- */

static unsigned cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
    return n > 0 ? (unsigned)n : 1;
}

unsigned tr_load_cores(const struct tr_settings *s)
{
    const unsigned share = cores() / (s->workers > 0 ? s->workers : 1);
    return share > 0 ? share : 1;
}

int tr_load_threads(const struct tr_settings *s)
{
    const unsigned all = cores(), n = tr_load_cores(s);
    /* ggml's threads spin while they wait for each other, so more threads than cores hardly make progress. */
    if (s->threads > 0)
        return (int)(s->threads < all ? s->threads : all);
    return (int)(!s->no_gpu && n > MOST_GPU_THREADS ? MOST_GPU_THREADS : n);
}

static ggml_backend_dev_t find_gpu(void)
{
    if (ggml_backend_dev_count() == 0)
        ggml_backend_load_all(); /* for a build whose back ends are separate files */
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        const enum ggml_backend_dev_type type = ggml_backend_dev_type(device);
        if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU)
            return device;
    }
    return NULL;
}

static int no_gpu(void)
{
    struct gd__buffer names = { 0 };
    for (size_t i = 0; i < ggml_backend_reg_count(); i++)
        gd__buffer_format(&names, "%s%s", i > 0 ? ", " : "", ggml_backend_reg_name(ggml_backend_reg_get(i)));
    gd__fail("whisper.cpp finds no GPU (its back ends: %.*s): use a whisper.cpp that was built for GPUs (GGML_CUDA=ON; "
             "make transcribe WHISPER=cuda builds one), or --no-gpu",
             (int)names.size, names.data ? names.data : "");
    gd__buffer_free(&names);
    return -1;
}

/* The model's tensors need as much GPU memory as they have bytes in the file. If they do not fit, whisper.cpp ends the
 * process. It also needs some hundred megabytes of other memory. If only that is missing, it usually returns an error.
 */
static int check_gpu(uint64_t model_bytes)
{
    char model[32], left[32], total[32];
    size_t unused = 0, all = 0;
    ggml_backend_dev_t device = find_gpu();
    if (!device)
        return no_gpu();
    ggml_backend_dev_memory(device, &unused, &all);
    if (all == 0 || unused >= model_bytes) /* all == 0: the amount is not known */
        return 0;
    return gd__fail("the model needs %s of GPU memory, but %s of %s are free: end other programs on the GPU "
                    "(nvidia-smi lists them), or use a smaller model or fewer workers",
                    gd__text_size(model, sizeof model, model_bytes), gd__text_size(left, sizeof left, unused),
                    gd__text_size(total, sizeof total, all));
}

int tr_load_on_gpu(void)
{
    const char *why = tr_log_error();
    return why ? gd__fail("the GPU cannot be used: %s", why) : 0;
}

/* --- checks ----------------------------------------------------------------- */

/* Compares versions. "1.8.5" and "1.8.5-dev" are the same version. */
static int check_version(void)
{
    const char *built = TR_WHISPER_VERSION, *runs = whisper_version();
    const size_t n = strspn(built, "0123456789.");
    if (n == 0 || (strspn(runs, "0123456789.") == n && strncmp(built, runs, n) == 0))
        return 0;
    return gd__fail("this worker was built for whisper.cpp %s but finds version %s: build it again", built, runs);
}

int tr_load_language_number(const struct tr_settings *s)
{
    char name[32] = "";
    for (size_t i = 0; i < sizeof name - 1 && s->language[i]; i++)
        name[i] = (char)tolower((unsigned char)s->language[i]);
    return whisper_lang_id(name);
}

static int check_settings(const struct tr_settings *s)
{
    if (!s->model)
        return gd__fail("no model was given: set model=PATH");
    if (s->beam_size > MOST_BEAMS)
        return gd__fail("a beam size of %u is too large for whisper.cpp: at most %d", s->beam_size, MOST_BEAMS);
    enum tr_decoder decoder;
    const char *why;
    if (tr_decoding_choose(s, &decoder, &why) < 0)
        return -1;
    if (tr_pieces_possible(s->piece_seconds) < 0)
        return -1;
    if (!(s->temperature >= 0 && s->temperature <= 1))
        return gd__fail("a temperature of %g is not between 0 and 1", s->temperature);
    if (s->language && tr_load_language_number(s) < 0)
        return gd__fail("whisper.cpp does not know the language \"%s\": give a code like en or de, or leave it out to "
                        "have it detected",
                        s->language);
    return 0;
}

static int check_english(const struct tr_settings *s)
{
    if (s->translate)
        return gd__fail("%s supports only English and cannot translate: use a model without .en", s->model);
    if (s->language && tr_load_language_number(s) != whisper_lang_id("en"))
        return gd__fail("%s supports only English, not \"%s\": use a model without .en", s->model, s->language);
    return 0;
}

/* Checked first: a broken model may load and abort later. */
static int check_file(const struct tr_settings *s, uint64_t *bytes)
{
    struct tr_model m = { 0 };
    if (tr_model_check(&m, s->model) < 0)
        return -1;
    *bytes = m.bytes;
    const bool multilingual = m.multilingual;
    tr_model_free(&m);
    return multilingual ? 0 : check_english(s);
}

int tr_load_check(const struct tr_settings *s)
{
    uint64_t bytes;
    if (check_version() < 0 || check_settings(s) < 0 || check_file(s, &bytes) < 0)
        return -1;
    return s->no_gpu ? 0 : check_gpu(bytes);
}

/* Checks that the model has the language. Newer models have one language more. */
static int check_language(const struct tr_settings *s, struct whisper_context *model)
{
    if (!whisper_is_multilingual(model))
        return 0;
    const char *language = tr_load_language(s, model);
    if (!language || whisper_lang_id(language) < whisper_model_n_vocab(model) - OTHER_TOKENS - 1)
        return 0;
    return gd__fail("%s does not know \"%s\": use a newer model, like large-v3", s->model, s->language);
}

/* --- loading ---------------------------------------------------------------- */

const char *tr_load_language(const struct tr_settings *s, struct whisper_context *model)
{
    if (!whisper_is_multilingual(model))
        return "en";
    return s->language ? whisper_lang_str(tr_load_language_number(s)) : NULL;
}

struct whisper_context *tr_load_model(const struct tr_settings *s)
{
    if (tr_load_check(s) < 0)
        return NULL;
    struct whisper_context_params p = whisper_context_default_params();
    p.use_gpu = !s->no_gpu;
    p.gpu_device = 0; /* this process sees only one GPU */
    struct whisper_context *model = whisper_init_from_file_with_params_no_state(s->model, p);
    if (!model) {
        const char *why = tr_log_error();
        gd__fail("whisper.cpp cannot load the model %s: %s", s->model, why ? why : "it gives no reason");
        return NULL;
    }
    if (check_language(s, model) < 0) {
        whisper_free(model);
        return NULL;
    }
    return model;
}
