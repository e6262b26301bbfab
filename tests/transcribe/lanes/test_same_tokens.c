/* The tokens of whisper.cpp's greedy decoding, whatever the number of slots, the order of the files and their neighbours:
 * on the demo model, and on a real one if tools/real_model.sh has fetched it. */
#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <unistd.h>
#include <whisper.h>

#include "apps/transcribe/engine/lanes/batch.h"
#include "base/failure.h"
#include "support/test.h"

enum { MOST = 64, ROOM = 1 << 16, WINDOW = 30 * 16000, PAUSE = 6000 };

struct clip {
    float *samples;
    size_t n;
    char wanted[ROOM]; /* times and tokens, as text */
};

static struct clip clips[MOST];
static int n_clips;

static const char *source_path(const char *relative)
{
    static char path[4096];
    const char *root = getenv("GD_SOURCE_ROOT");
    if (!root)
        SKIP("GD_SOURCE_ROOT is not set");
    snprintf(path, sizeof path, "%s/%s", root, relative);
    return path;
}

static void silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct clip *add_clip(const char *path)
{
    SF_INFO info = { 0 };
    SNDFILE *f = sf_open(path, SFM_READ, &info);
    struct clip *c = &clips[n_clips];
    if (!f)
        FAIL("%s cannot be read", path);
    CHECK_EQ(info.samplerate, 16000);
    CHECK_EQ(info.channels, 1);
    c->n = (size_t)info.frames;
    c->samples = malloc((c->n + 1) * sizeof *c->samples);
    CHECK_EQ(sf_readf_float(f, c->samples, info.frames), info.frames);
    sf_close(f);
    n_clips++;
    return c;
}

static void add_speech(int from, int to)
{
    for (int i = from; i < to; i++) {
        char name[64];
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", i);
        add_clip(source_path(name));
    }
}

/* Adds the clips from first to last as one recording, with pauses. */
static struct clip *join_clips(int first, int last)
{
    struct clip *all = &clips[n_clips];
    size_t n = 0;
    for (int i = first; i <= last; i++)
        n += clips[i].n + PAUSE;
    all->samples = calloc(n, sizeof *all->samples);
    CHECK(all->samples != NULL);
    for (int i = first; i <= last; i++) {
        memcpy(all->samples + all->n, clips[i].samples, clips[i].n * sizeof *all->samples);
        all->n += clips[i].n + PAUSE;
    }
    n_clips++;
    return all;
}

/* Adds the beginning of a recording as another recording. */
static void add_beginning(const struct clip *of, size_t n)
{
    struct clip *c = &clips[n_clips++];
    CHECK(n <= of->n);
    c->samples = malloc(n * sizeof *c->samples);
    CHECK(c->samples != NULL);
    memcpy(c->samples, of->samples, n * sizeof *c->samples);
    c->n = n;
}

/* Removes the clips from first to last. Their samples are freed when the program ends. */
static void leave_out(int first, int last)
{
    memmove(&clips[first], &clips[last + 1], (size_t)(n_clips - last - 1) * sizeof *clips);
    n_clips -= last - first + 1;
}

/* --- whisper.cpp ------------------------------------------------------------------- */

static void add_number(char *text, const char *before, long value, const char *after)
{
    const size_t used = strlen(text);
    CHECK_LT(used + 32, ROOM);
    snprintf(text + used, ROOM - used, "%s%ld%s", before, value, after);
}

static void ask_whisper(const char *model)
{
    struct whisper_context_params c = whisper_context_default_params();
    c.use_gpu = false;
    struct whisper_context *w = whisper_init_from_file_with_params(model, c);
    CHECK(w != NULL);
    struct whisper_full_params p = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    p.print_progress = p.print_timestamps = false;
    p.n_threads = 1;
    p.temperature_inc = 0;
    p.no_context = true;
    p.language = "en";
    for (int i = 0; i < n_clips; i++) {
        char *out = clips[i].wanted;
        CHECK_EQ(whisper_full(w, p, clips[i].samples, (int)clips[i].n), 0);
        for (int s = 0; s < whisper_full_n_segments(w); s++) {
            add_number(out, "[", whisper_full_get_segment_t0(w, s), "-");
            add_number(out, "", whisper_full_get_segment_t1(w, s), "]");
            for (int t = 0; t < whisper_full_n_tokens(w, s); t++)
                add_number(out, " ", whisper_full_get_token_id(w, s, t), "");
        }
    }
    whisper_free(w);
}

/* --- lanes ---------------------------------------------------------------------------- */

/* Windows with text after another window with text. */
static int later_windows(const struct tr_lane *l)
{
    int n = 0;
    for (size_t i = 1; i < l->n_phrases; i++)
        n += l->phrases[i].window > l->phrases[i - 1].window;
    return n;
}

static void describe(const struct tr_lane *l, char *out)
{
    out[0] = '\0';
    for (size_t i = 0; i < l->n_phrases; i++) {
        const struct tr_phrase *p = &l->phrases[i];
        add_number(out, "[", p->start, "-");
        add_number(out, "", p->end, "]");
        for (size_t t = 0; t < p->n; t++)
            add_number(out, " ", l->picks[p->first + t].token, "");
    }
}

/* Where texts begin to differ, with a little text before. */
static const char *first_difference(const char *got, const char *wanted)
{
    size_t n = 0;
    while (got[n] && got[n] == wanted[n])
        n++;
    return got + (n > 40 ? n - 40 : 0);
}

static ggml_backend_t cpu(void)
{
    ggml_backend_load_all();
    ggml_backend_t backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    CHECK(backend != NULL);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    ggml_backend_set_n_threads_t set =
        (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (set)
        set(backend, 1); /* more threads wait for each other */
    return backend;
}

/* Decodes all clips, beginning with clip `first`, and compares the tokens. */
static void check_slots(const struct tr_weights *w, ggml_backend_t backend, int slots, int windows, int first)
{
    static char got[ROOM];
    const struct tr_net_shape shape = { slots < 2 ? 2 : slots, windows, 63 };
    const struct tr_decoding how = { .rules = { &w->vocabulary, true, false, 50, NULL },
                                     .text_positions = w->text_positions,
                                     .use_context = true,
                                     .best_of = 1,
                                     .most_ratio = INFINITY,
                                     .length_penalty = -1,
                                     .least_entropy = 2.4f,
                                     .least_score = -1,
                                     .silence = 0.6f };
    struct tr_net *net = NULL;
    struct tr_batch *b = NULL;
    struct tr_filters *f = NULL;
    if (tr_net_open(&net, w, backend, &shape, NULL) < 0 || tr_batch_open(&b, net, &shape, w->vocabulary.size) < 0 ||
        tr_filters_open(&f, w->filters, w->mels) < 0)
        FAIL("%s", gd__fail_text());
    struct tr_lane *lanes[MOST];
    for (int k = 0; k < n_clips; k++) {
        const int i = (first + k * 7) % n_clips; /* 7 and the number of clips have no common factor */
        struct tr_spectrum s;
        CHECK_EQ(tr_spectrum_make(&s, f, clips[i].samples, clips[i].n), 0);
        lanes[i] = tr_lane_new(&how, &s, TR_NO_LANGUAGE, NULL, 0);
        CHECK(lanes[i] != NULL);
        tr_batch_add(b, lanes[i]);
    }
    int done = 0, later = 0;
    while (tr_batch_size(b) > 0) {
        CHECK_EQ(tr_batch_round(b), 0);
        while (tr_batch_take(b))
            done++;
    }
    CHECK_EQ(done, n_clips);
    for (int i = 0; i < n_clips; i++) {
        describe(lanes[i], got);
        if (strcmp(got, clips[i].wanted) != 0) {
            const char *same = first_difference(got, clips[i].wanted);
            FAIL("%d slots, %d windows, clip %d: ...%.300s\nnot\n...%.300s", slots, windows, i, same,
                 clips[i].wanted + (same - got));
        }
        later += later_windows(lanes[i]);
        tr_lane_free(lanes[i]);
    }
    /* Windows had the text before them as context. It was fed at once. */
    CHECK_GT(later, 0);
    CHECK_GT(tr_batch_counts(b).prefills, 0);
    tr_batch_close(&b);
    tr_net_close(&net);
    tr_filters_close(&f);
}

static void check_model(const char *path, const int (*shapes)[2], int n)
{
    struct tr_weights w;
    whisper_log_set(silent, NULL);
    ask_whisper(path);
    ggml_backend_t backend = cpu();
    if (tr_weights_load(&w, path, backend) < 0)
        FAIL("%s", gd__fail_text());
    for (int i = 0; i < n; i++)
        check_slots(&w, backend, shapes[i][0], shapes[i][1], i * 3);
    tr_weights_free(&w);
    ggml_backend_free(backend);
}

/* --- logits ------------------------------------------------------------------------------ */

/* Feeds the likeliest tokens of whisper.cpp to both, one by one, and at last all at once. */
static void compare_logits(struct whisper_context *whisper, struct tr_net *net, const struct tr_weights *w)
{
    enum { FED = 30, SLOT = 1 };
    const int n = w->vocabulary.size;
    int fed[FED], token = w->vocabulary.sot;
    int32_t tokens[8] = { 0 }, positions[8] = { 0 };
    struct tr_logits unused[8];
    float *all = calloc(2 * (size_t)n, sizeof *all), *last = all + n;
    CHECK(all != NULL);
    for (int i = 0; i < FED; i++) {
        fed[i] = tokens[SLOT] = token;
        positions[SLOT] = i;
        CHECK_EQ(whisper_decode(whisper, &token, 1, i, 1), 0);
        CHECK_EQ(tr_net_step(net, tokens, positions, unused), 0);
        CHECK_EQ(tr_net_all_logits(net, SLOT, all), 0);
        const float *wanted = whisper_get_logits(whisper);
        if (memcmp(all, wanted, (size_t)n * sizeof *all) != 0)
            FAIL("the logits of token %d differ", i);
        token = 0;
        for (int k = 1; k < w->vocabulary.eot; k++)
            token = wanted[k] > wanted[token] ? k : token;
    }
    CHECK_EQ(whisper_decode(whisper, fed, FED, 0, 1), 0);
    CHECK_EQ(tr_net_prefill(net, &(struct tr_feed){ SLOT, fed, FED, 0, all, last }, 1), 0);
    CHECK(memcmp(last, whisper_get_logits(whisper), (size_t)n * sizeof *all) == 0);
    free(all);
}

/* Not only are the tokens equal: every number is, from the spectrum to the logits. Other processors than x86 round in
 * another way where whisper.cpp computes the spectrum. */
TEST_WITHIN(300, demo_model_to_the_last_bit)
{
#if defined(__x86_64__)
    const struct tr_net_shape shape = { 8, 1, 63 };
    const int slot = 1;
    struct tr_weights w;
    struct tr_net *net;
    struct tr_filters *f;
    struct tr_spectrum s;
    add_speech(50, 51);
    const char *path = source_path("models/ggml-demo.bin");
    whisper_log_set(silent, NULL);
    struct whisper_context_params c = whisper_context_default_params();
    c.use_gpu = false;
    struct whisper_context *whisper = whisper_init_from_file_with_params(path, c);
    CHECK(whisper != NULL);
    CHECK_EQ(whisper_pcm_to_mel(whisper, clips[0].samples, (int)clips[0].n, 1), 0);
    CHECK_EQ(whisper_encode(whisper, 0, 1), 0);
    ggml_backend_t backend = cpu();
    if (tr_weights_load(&w, path, backend) < 0 || tr_net_open(&net, &w, backend, &shape, NULL) < 0 ||
        tr_filters_open(&f, w.filters, w.mels) < 0)
        FAIL("%s", gd__fail_text());
    CHECK_EQ(tr_spectrum_make(&s, f, clips[0].samples, clips[0].n), 0);
    tr_spectrum_window(&s, 0, tr_net_frames(net), tr_net_window(net, 0));
    CHECK_EQ(tr_net_encode(net, 1, &slot), 0);
    compare_logits(whisper, net, &w);
    tr_spectrum_free(&s);
    tr_filters_close(&f);
    tr_net_close(&net);
    tr_weights_free(&w);
    ggml_backend_free(backend);
    whisper_free(whisper);
#else
    SKIP("the spectrum is equal to the last bit only on x86-64");
#endif
}

/* --- tokens ------------------------------------------------------------------------------ */

/* One recording is several windows long, another is exactly one. */
TEST_WITHIN(900, demo_model)
{
    static const int shapes[][2] = { { 1, 1 }, { 3, 1 }, { 8, 2 }, { 40, 1 } };
    add_speech(20, 60);
    struct clip *all = join_clips(0, 39);
    CHECK_GT(all->n, 2 * WINDOW);
    add_beginning(all, WINDOW);
    leave_out(10, 39);
    check_model(source_path("models/ggml-demo.bin"), shapes, 4);
}

/* The path that tools/real_model.sh prints, without fetching anything. */
static void find_real(char path[4096], const char *option)
{
    char command[4200];
    snprintf(command, sizeof command, "'%s' --cached %s 2>/dev/null", source_path("tools/real_model.sh"), option);
    FILE *f = popen(command, "re");
    CHECK(f);
    const bool found = fgets(path, 4096, f) != NULL;
    const int status = pclose(f);
    if (!found || status != 0)
        SKIP("no real model: tools/real_model.sh fetches one, if there is a network");
    path[strcspn(path, "\n")] = '\0';
}

/* Three different recordings, two of which are longer than a window, and parts of them. */
TEST_WITHIN(900, real_model)
{
    static const int shapes[][2] = { { 1, 1 }, { 3, 1 }, { 8, 2 }, { 40, 1 } };
    char model[4096], speech[4096];
    find_real(model, "");
    find_real(speech, "--speech");
    for (int i = 0; i < 4; i++)
        add_clip(speech);
    struct clip *address = join_clips(0, 3);
    add_beginning(address, WINDOW);
    add_beginning(address, address->n / 6);
    leave_out(1, 3);
    add_speech(20, 50);
    join_clips(4, 33);
    leave_out(4, 33);
    check_model(model, shapes, 4);
}

TEST_MAIN()
