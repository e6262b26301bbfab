/* SPDX-License-Identifier: MIT
 *
 * Models: which files are accepted and which are refused.
 */
#include "base/failure.h"
#include "base/text/buffer.h"
#include "made_model.h"

static struct tr_model model;

static int check_with(size_t bytes)
{
    struct gd__buffer b = build(bytes);
    write_bytes("ggml-made.bin", b.data, b.size);
    gd__buffer_free(&b);
    tr_model_free(&model);
    return tr_model_check(&model, "ggml-made.bin");
}

static int check(void)
{
    return check_with((size_t)made.side * 4);
}

static void refused(const char *message)
{
    if (check() == 0)
        FAIL("was accepted, without the error \"%s\"", message);
    CHECK_CONTAINS(gd__fail_text(), "ggml-made.bin: ");
    CHECK_CONTAINS(gd__fail_text(), message);
    CHECK(model.path == NULL);
}

/* Checks that a model with this size changed is refused. */
static void refused_size(int which, int32_t value, const char *message)
{
    begin();
    made.sizes[which] = value;
    refused(message);
}

TEST(a_model_is_accepted)
{
    directory_enter();
    begin();
    if (check() < 0)
        FAIL("%s", gd__fail_text());
    CHECK_STR(model.path, "ggml-made.bin");
    CHECK_STR(model.name, "made");
    CHECK(!model.multilingual);
    CHECK_EQ(model.layers, 1);
    CHECK_EQ(model.mels, 2);
    struct stat st;
    CHECK_EQ(stat("ggml-made.bin", &st), 0);
    CHECK_EQ(model.bytes, st.st_size);
    made.sizes[VOCAB] = 51865;
    CHECK_EQ(check(), 0);
    CHECK(model.multilingual);
    made.sizes[VOCAB] = 51866;
    CHECK_EQ(check(), 0);
    CHECK(model.multilingual);
    tr_model_free(&model);
    CHECK(model.path == NULL);
}

TEST(the_number_of_tensors_follows_from_the_layers)
{
    directory_enter();
    begin();
    made.sizes[AUDIO_LAYER] = 3;
    made.sizes[TEXT_LAYER] = 2;
    refused("it ends after 50 of 104 tensors");
    made.tensors = 104;
    CHECK_EQ(check(), 0);
    CHECK_EQ(model.layers, 3);
    tr_model_free(&model);
    made.tensors = 105;
    refused("there is more data after its 104 tensors");
}

TEST(a_model_that_is_cut_off_anywhere)
{
    directory_enter();
    begin();
    struct gd__buffer b = build(16);
    for (size_t n = 0; n < b.size; n++) {
        write_bytes("cut.bin", b.data, n);
        if (tr_model_check(&model, "cut.bin") == 0)
            FAIL("%zu of %zu bytes were accepted", n, b.size);
        CHECK_CONTAINS(gd__fail_text(), n == 0 ? "is empty" : n < 4 ? "is not a model" : "is truncated");
        CHECK_CONTAINS(gd__fail_text(), n < 4 && n > 0 ? "ggml-*.bin" : "download it again");
    }
    gd__buffer_add(&b, "", 1);
    write_bytes("cut.bin", b.data, b.size);
    CHECK_EQ(tr_model_check(&model, "cut.bin"), -1);
    CHECK_CONTAINS(gd__fail_text(), "there is more data after");
    gd__buffer_free(&b);
}

TEST(impossible_sizes)
{
    directory_enter();
    refused_size(VOCAB, 51863, "number of tokens");
    refused_size(VOCAB, 51867, "number of tokens");
    refused_size(VOCAB, 100, "number of tokens (51864 to 51866) is 100");
    refused_size(VOCAB, -1, "number of tokens");
    refused_size(AUDIO_CTX, 0, "length of audio");
    refused_size(AUDIO_CTX, 1 << 30, "length of audio");
    refused_size(AUDIO_STATE, -64, "encoder's width");
    refused_size(AUDIO_STATE, 128, "differ in width");
    refused_size(AUDIO_HEAD, 0, "number of heads");
    refused_size(AUDIO_HEAD, 3, "heads do not divide");
    refused_size(AUDIO_LAYER, 0, "number of layers");
    refused_size(AUDIO_LAYER, 1000000, "number of layers");
    refused_size(TEXT_CTX, 0, "length of text");
    refused_size(TEXT_STATE, 0, "decoder's width");
    refused_size(TEXT_HEAD, 0, "decoder's number of heads");
    refused_size(TEXT_HEAD, 5, "heads do not divide");
    refused_size(TEXT_LAYER, -2, "decoder's number of layers");
    refused_size(MELS, 0, "mel bands");
    refused_size(MELS, 80, "another number of bands: 2");
    refused_size(TYPE, 0, "convert the model to f16");
    refused_size(TYPE, 2000, "convert the model to f16");
    refused_size(TYPE, -1, "type of weights");
}

TEST(impossible_filters)
{
    directory_enter();
    begin();
    made.bins = 400;
    refused("of 201 frequencies) have 400");
}

TEST(impossible_tokens)
{
    directory_enter();
    begin();
    made.token = "  ";
    refused("a space is not among its tokens");
    begin();
    made.token = "x";
    refused("a space is not among its tokens");
    begin();
    made.tokens = 0;
    refused("list of tokens has the length 0");
    begin();
    made.tokens = 51865; /* one more than in the file */
    refused("list of tokens has the length 51865");
    begin();
    made.token_size = 1 << 30;
    refused("a token has the length");
    begin();
    made.token_size = 4096; /* possible, but the file is shorter */
    made.tensors = 0;
    refused("is truncated");
    begin();
    made.token = "";
    refused("a space is not among its tokens");
}

TEST(impossible_tensors)
{
    directory_enter();
    static const int32_t dimensions[] = { 0, 4, -1, 1000000 };
    for (int i = 0; i < 4; i++) {
        begin();
        made.dimensions = dimensions[i];
        refused("number of dimensions is");
    }
    begin();
    made.name_size = 0;
    refused("name has the length 0");
    begin();
    made.name_size = 129;
    refused("name has the length 129");
    begin();
    made.side = 0;
    refused("a tensor has the size 0");
    begin();
    made.side = -5;
    made.tensors = 1;
    if (check_with(8) == 0)
        FAIL("a negative size was accepted");
    CHECK_CONTAINS(gd__fail_text(), "a tensor has the size -5");
    static const int32_t unknown[] = { 4, 5, 9, 15, 16, 30, 1000, -1 };
    for (int i = 0; i < 8; i++) {
        begin();
        made.type = unknown[i];
        refused("has an unknown type");
    }
}

TEST(tensors_that_are_too_large)
{
    directory_enter();
    begin();
    struct gd__buffer b = build(16);
    /* The offset of the first size of the first tensor, after the header, the filters, the tokens and the tensor's
     * first fields. */
    const size_t at = 48 + 8 + 2 * 201 * 4 + 4 + (4 + 4) * 2 + 4 + 1 + 12;
    uint32_t size;
    memcpy(&size, b.data + at, 4);
    CHECK_EQ(le32toh(size), 4);
    static const int32_t sizes[] = { 5, 4096, 1 << 20, INT32_MAX };
    for (int i = 0; i < 4; i++) {
        size = htole32((uint32_t)sizes[i]);
        memcpy(b.data + at, &size, 4);
        write_bytes("large.bin", b.data, b.size);
        if (tr_model_check(&model, "large.bin") == 0)
            FAIL("size %d was accepted", sizes[i]);
    }
    CHECK_CONTAINS(gd__fail_text(), "is truncated");
    gd__buffer_free(&b);
}

/* Three sizes whose product is 0 in 64 bits, and a product that is small in 32 bits. */
TEST(sizes_that_wrap_around)
{
    directory_enter();
    static const int32_t sizes[][3] = { { 1 << 22, 1 << 21, 1 << 21 },
                                        { 65536, 65536, 1 },
                                        { INT32_MAX, INT32_MAX, 4 } };
    for (int i = 0; i < 3; i++) {
        begin();
        made.tensors = 0;
        struct gd__buffer b = build(0);
        put(&b, 3);
        put(&b, 1);
        put(&b, 0);
        for (int k = 0; k < 3; k++)
            put(&b, sizes[i][k]);
        gd__buffer_text(&b, "x");
        write_bytes("wrap.bin", b.data, b.size);
        gd__buffer_free(&b);
        CHECK_EQ(tr_model_check(&model, "wrap.bin"), -1);
        CHECK_CONTAINS(gd__fail_text(), "a tensor has the size");
    }
}

TEST(types_of_weights)
{
    /* type, number of values in a block, bytes of a block; from ggml's source */
    static const int types[][3] = { { 0, 1, 4 },      { 1, 1, 2 },      { 2, 32, 18 },    { 3, 32, 20 },
                                    { 6, 32, 22 },    { 7, 32, 24 },    { 8, 32, 34 },    { 10, 256, 84 },
                                    { 11, 256, 110 }, { 12, 256, 144 }, { 13, 256, 176 }, { 14, 256, 210 } };
    directory_enter();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        begin();
        made.type = types[i][0];
        made.side = 512;
        const size_t bytes = (size_t)512 / (size_t)types[i][1] * (size_t)types[i][2];
        if (check_with(bytes) < 0)
            FAIL("type %d: %s", types[i][0], gd__fail_text());
        tr_model_free(&model);
        CHECK_EQ(check_with(bytes + 4), -1);
        CHECK_EQ(check_with(bytes - 2), -1);
        made.side = types[i][1] + 1;
        if (types[i][1] > 1) {
            CHECK_EQ(check_with(bytes), -1);
            CHECK_CONTAINS(gd__fail_text(), "do not divide into blocks");
        }
    }
}

TEST(convolutions_must_be_f16)
{
    directory_enter();
    begin();
    made.conv_type = 0;
    refused("convolution weights are not 16-bit");
}

TEST(paths_that_are_not_files)
{
    directory_enter();
    CHECK_EQ(tr_model_check(&model, "nothing.bin"), -1);
    CHECK_CONTAINS(gd__fail_text(), "nothing.bin: the model cannot be opened: No such file");
    CHECK_EQ(tr_model_check(&model, "."), -1);
    CHECK_CONTAINS(gd__fail_text(), "is a directory");
    CHECK_EQ(mkfifo("pipe.bin", 0644), 0);
    CHECK_EQ(tr_model_check(&model, "pipe.bin"), -1);
    CHECK_CONTAINS(gd__fail_text(), "is not a regular file");
    CHECK_EQ(tr_model_check(&model, "/dev/zero"), -1);
    CHECK_CONTAINS(gd__fail_text(), "is not a regular file");
    CHECK_EQ(tr_model_check(&model, ""), -1);
}

/* Changes any byte of the header. The file may be accepted or refused, but the check must not crash. */
TEST(any_byte_changed)
{
    directory_enter();
    begin();
    struct gd__buffer b = build(16);
    unsigned seed = 1;
    int taken = 0;
    for (int i = 0; i < 3000; i++) {
        const size_t at = (size_t)rand_r(&seed) % b.size;
        const char was = b.data[at];
        b.data[at] = (char)rand_r(&seed);
        write_bytes("odd.bin", b.data, b.size);
        if (tr_model_check(&model, "odd.bin") == 0)
            taken++;
        tr_model_free(&model);
        b.data[at] = was;
    }
    CHECK_GT(taken, 0);
    gd__buffer_free(&b);
}

TEST(names_of_files)
{
    static const char *const names[][2] = {
        { "ggml-base.bin", "base" }, { "x/ggml-a.b.bin", "a.b" }, { "model", "model" }, { "ggml-.bin", ".bin" },
        { "my.bin", "my" },          { "ggml-", "ggml-" },        { ".bin", ".bin" },
    };
    directory_enter();
    begin();
    make_directories("x");
    struct gd__buffer b = build(16);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_bytes(names[i][0], b.data, b.size);
        CHECK_EQ(tr_model_check(&model, names[i][0]), 0);
        CHECK_STR(model.name, names[i][1]);
        tr_model_free(&model);
    }
    char name[210];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    write_bytes(name, b.data, b.size);
    CHECK_EQ(tr_model_check(&model, name), 0);
    CHECK_EQ(strlen(model.name), 63);
    tr_model_free(&model);
    gd__buffer_free(&b);
}

TEST_MAIN()
