/* SPDX-License-Identifier: MIT
 *
 * Other formats of models.
 *
 *     safetensors    u64 length of a header, then the header, which is a JSON object
 *     GGUF           "GGUF"
 *     CTranslate2    u32 version, u16 length of a name, the name: "WhisperSpec" for Whisper; in a directory: model.bin
 *     PyTorch        a zip archive whose first file is NAME/data.pkl; before PyTorch 1.6 a pickle of a fixed number
 *     ONNX           a protobuf message: field 1 (the version of the format, a small number), then a text or a message
 */
#include "apps/transcribe/model/foreign.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"

#define DOWNLOAD "get the model in whisper.cpp's format with gpu-dispatch models download NAME"
#define CONVERT_TRANSFORMERS                                                                                 \
    "convert its directory with models/convert-h5-to-ggml.py of whisper.cpp (python3 convert-h5-to-ggml.py " \
    "MODEL-DIRECTORY "                                                                                       \
    "DIRECTORY-OF-OPENAI'S-WHISPER OUTPUT-DIRECTORY)"

struct beginning {
    const unsigned char *bytes;
    size_t size;
};

static bool starts_with(const struct beginning *b, const char *text)
{
    const size_t n = strlen(text);
    return b->size >= n && memcmp(b->bytes, text, n) == 0;
}

static bool is_safetensors(const struct beginning *b)
{
    enum { LENGTH = 8, LENGTH_USED = 4 }; /* a header of 4 GiB or more does not occur */
    static const unsigned char zeros[LENGTH - LENGTH_USED];
    return b->size > LENGTH && b->bytes[LENGTH] == '{' && memcmp(b->bytes + LENGTH_USED, zeros, sizeof zeros) == 0;
}

static bool is_gguf(const struct beginning *b)
{
    return starts_with(b, "GGUF");
}

static bool is_ctranslate2(const struct beginning *b)
{
    static const char name[] = "WhisperSpec";
    return b->size >= 6 + sizeof name && memcmp(b->bytes + 6, name, sizeof name) == 0;
}

static bool is_pytorch(const struct beginning *b)
{
    static const char name[] = "data.pkl";
    if (!starts_with(b, "PK\3\4"))
        return false;
    for (size_t i = 30; i + sizeof name - 1 <= b->size; i++) {
        if (memcmp(b->bytes + i, name, sizeof name - 1) == 0)
            return true;
    }
    return false;
}

static bool is_zip(const struct beginning *b)
{
    return starts_with(b, "PK\3\4");
}

static bool is_old_pytorch(const struct beginning *b)
{
    return starts_with(b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
}

static bool is_onnx(const struct beginning *b)
{
    enum { VERSION_FIELD = 0x08, PRODUCER_FIELD = 0x12, GRAPH_FIELD = 0x3a, OPERATORS_FIELD = 0x42, VERSIONS = 64 };
    return b->size > 3 && b->bytes[0] == VERSION_FIELD && b->bytes[1] > 0 && b->bytes[1] < VERSIONS &&
           (b->bytes[2] == PRODUCER_FIELD || b->bytes[2] == GRAPH_FIELD || b->bytes[2] == OPERATORS_FIELD);
}

static bool is_lfs_pointer(const struct beginning *b)
{
    return starts_with(b, "version https://git-lfs");
}

static bool is_page(const struct beginning *b)
{
    size_t i = starts_with(b, "\xef\xbb\xbf") ? 3 : 0;
    while (i < b->size && strchr(" \t\r\n", b->bytes[i]) && b->bytes[i])
        i++;
    return i < b->size && b->bytes[i] == '<';
}

static bool is_text(const struct beginning *b)
{
    return starts_with(b, "{");
}

/* The first row that matches decides. */
static const struct {
    bool (*is)(const struct beginning *b);
    const char *message;
} formats[] = {
    { is_safetensors, "is a safetensors file, which whisper.cpp does not read: " CONVERT_TRANSFORMERS },
    { is_gguf, "is a GGUF file, which whisper.cpp does not read and for which there is no converter: " DOWNLOAD },
    { is_ctranslate2, "is a model for CTranslate2 (faster-whisper), which cannot be converted back: " DOWNLOAD
                      ", or convert the model from which it was made" },
    { is_pytorch, "is a PyTorch file: convert it with gpu-dispatch models convert FILE" },
    { is_old_pytorch,
      "is a file of PyTorch before 1.6: load it and save it again with a newer PyTorch, then convert it "
      "with gpu-dispatch models convert FILE" },
    { is_zip, "is a zip archive: unpack it, and give the file of a model" },
    { is_onnx, "is an ONNX file, which whisper.cpp does not read and for which there is no converter: " DOWNLOAD },
    { is_lfs_pointer, "is only a Git LFS pointer to a file: get the file itself with git lfs pull, or " DOWNLOAD },
    { is_page, "is a web page that was saved as a model: delete it, and " DOWNLOAD },
    { is_text, "is a text file, not a model: delete it, and " DOWNLOAD },
};

int tr_foreign_file(const char *shown, const unsigned char *begin, size_t size)
{
    const struct beginning b = { begin, size };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].is(&b))
            return gd__fail("%s: %s", shown, formats[i].message);
    }
    return gd__fail("%s: is not a model in whisper.cpp's format (ggml-*.bin): " DOWNLOAD, shown);
}

static bool has(int fd, const char *name)
{
    return faccessat(fd, name, F_OK, 0) == 0;
}

int tr_foreign_directory(const char *shown, int fd)
{
    if (has(fd, "config.json") && has(fd, "model.bin"))
        return gd__fail("%s: is the directory of a model for CTranslate2 (faster-whisper), which cannot be converted "
                        "back: " DOWNLOAD ", or convert the model from which it was made",
                        shown);
    if (has(fd, "config.json") && (has(fd, "model.safetensors") || has(fd, "pytorch_model.bin")))
        return gd__fail(
            "%s: is the directory of a model for transformers, which whisper.cpp does not read: " CONVERT_TRANSFORMERS,
            shown);
    return gd__fail("%s: is a directory: give the file of a model", shown);
}
