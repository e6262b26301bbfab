/* SPDX-License-Identifier: MIT
 *
 * Files and directories of other formats, given as a model: each is named, with what to do.
 */
#include "apps/transcribe/model/model.h"
#include "base/failure.h"
#include "support/directory.h"

static struct tr_model model;

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        FAIL("%s: %s", path, strerror(errno));
}

/* Bytes that may contain NULs. */
#define BYTES(text) (text), sizeof(text) - 1
#define ZIP         "PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\22\0"

TEST(files_of_other_formats)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *what, *advice;
    } files[] = {
        { BYTES("\x80\1\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"}"), "is a safetensors file",
          "convert-h5-to-ggml.py" },
        { BYTES("GGUF\3\0\0\0\1\0\0\0\0\0\0\0"), "is a GGUF file", "models download NAME" },
        { BYTES("\6\0\0\0\14\0WhisperSpec\0\3\0\0\0"), "is a model for CTranslate2 (faster-whisper)",
          "models download NAME" },
        { BYTES(ZIP "archive/data.pklFB"), "is a PyTorch file", "gpu-dispatch models convert FILE" },
        { BYTES(ZIP "tiny.en/data.pkl"), "is a PyTorch file", "gpu-dispatch models convert FILE" },
        { BYTES(ZIP "mel_80.npy"), "is a zip archive", "unpack it" },
        { BYTES("\x80\2\x8a\12l\xfc\x9c\x46\xf9 j\xa8P\31.\x80\2M"), "is a file of PyTorch before 1.6",
          "models convert" },
        { BYTES("\10\7\22\7pytorch\32\0062.1.0:"), "is an ONNX file", "models download NAME" },
        { BYTES("version https://git-lfs.github.com/spec/v1\n"), "is only a Git LFS pointer", "git lfs pull" },
        { BYTES("<!DOCTYPE html><html>"), "is a web page", "models download NAME" },
        { BYTES("\xef\xbb\xbf\r\n  <html lang=\"en\">"), "is a web page", "models download NAME" },
        { BYTES("{\"error\":\"not found\"}"), "is a text file", "models download NAME" },
        { BYTES("RIFFxxxxWAVEfmt xxxxxxxxxxxxxxxx"), "is not a model in whisper.cpp's format", "models download NAME" },
        { BYTES("x"), "is not a model in whisper.cpp's format", "models download NAME" },
        { BYTES("\0\0\0\0\0\0\0\0"), "is not a model in whisper.cpp's format", "models download NAME" },
    };
    directory_enter();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_bytes("it.bin", files[i].bytes, files[i].size);
        CHECK_EQ(tr_model_check(&model, "it.bin"), -1);
        CHECK_CONTAINS(gd__fail_text(), files[i].what);
        CHECK_CONTAINS(gd__fail_text(), files[i].advice);
        CHECK(strncmp(gd__fail_text(), "it.bin: ", 8) == 0 && !strchr(gd__fail_text(), '\n'));
    }
}

/* Every beginning of every file is refused, without reading past its end. */
TEST(files_that_end_early)
{
    static const char bytes[] = ZIP "archive/data.pkl";
    directory_enter();
    for (size_t n = 1; n < sizeof bytes - 1; n++) {
        write_bytes("it.bin", bytes, n);
        CHECK_EQ(tr_model_check(&model, "it.bin"), -1);
        CHECK(!strstr(gd__fail_text(), "is a PyTorch file"));
    }
}

TEST(directories_of_other_formats)
{
    directory_enter();
    make_file("fast/model.bin", 8);
    CHECK_EQ(tr_model_check(&model, "fast"), -1);
    CHECK_CONTAINS(gd__fail_text(), "fast: is a directory: give the file of a model");
    make_file("fast/config.json", 8);
    CHECK_EQ(tr_model_check(&model, "fast"), -1);
    CHECK_CONTAINS(gd__fail_text(), "fast: is the directory of a model for CTranslate2");
    make_file("hf/config.json", 8);
    make_file("hf/model.safetensors", 8);
    CHECK_EQ(tr_model_check(&model, "hf/"), -1);
    CHECK_CONTAINS(gd__fail_text(), "hf/: is the directory of a model for transformers");
}

TEST_MAIN()
