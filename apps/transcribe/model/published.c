/* SPDX-License-Identifier: MIT
 *
 * The table of published models. The checksums are those that whisper.cpp's authors list next to the files, and for the
 * distilled models those of their repositories. The sum of demo is that of models/ggml-demo.bin in this source tree.
 *
 * The sizes are the exact ones. They follow from a model's tensors, filters and tokens.
 */
#include "apps/transcribe/model/published.h"

#include <string.h>

#define SERVER       "https://huggingface.co/"
#define USUAL        SERVER "ggerganov/whisper.cpp/resolve/main"
#define DISTIL(path) SERVER "distil-whisper/" path

static const struct tr_published real[] = {
    { "tiny", 77691713, "bd577a113a864445d4c299885e0cb97d4ba92b5f", NULL, false },
    { "tiny-q5_1", 32152673, "2827a03e495b1ed3048ef28a6a4620537db4ee51", NULL, false },
    { "tiny-q8_0", 43537433, "19e8118f6652a650569f5a949d962154e01571d9", NULL, false },
    { "tiny.en", 77704715, "c78c86eb1a8faa21b369bcd33207cc90d64ae9df", NULL, true },
    { "tiny.en-q5_1", 32166155, "3fb92ec865cbbc769f08137f22470d6b66e071b6", NULL, true },
    { "tiny.en-q8_0", 43550795, "802d6668e7d411123e672abe4cb6c18f12306abb", NULL, true },
    { "base", 147951465, "465707469ff3a37a2b9b8d8f89f2f99de7299dac", NULL, false },
    { "base-q5_1", 59707625, "a3733eda680ef76256db5fc5dd9de8629e62c5e7", NULL, false },
    { "base-q8_0", 81768585, "7bb89bb49ed6955013b166f1b6a6c04584a20fbe", NULL, false },
    { "base.en", 147964211, "137c40403d78fd54d454da0f9bd998f78703390c", NULL, true },
    { "base.en-q5_1", 59721011, "d26d7ce5a1b6e57bea5d0431b9c20ae49423c94a", NULL, true },
    { "base.en-q8_0", 81781811, "bb1574182e9b924452bf0cd1510ac034d323e948", NULL, true },
    { "small", 487601967, "55356645c2b361a969dfd0ef2c5a50d530afd8d5", NULL, false },
    { "small-q5_1", 190085487, "6fe57ddcfdd1c6b07cdcc73aaf620810ce5fc771", NULL, false },
    { "small-q8_0", 264464607, "bcad8a2083f4e53d648d586b7dbc0cd673d8afad", NULL, false },
    { "small.en", 487614201, "db8a495a91d927739e50b3fc1cc4c6b8f6c2d022", NULL, true },
    { "small.en-q5_1", 190098681, "20f54878d608f94e4a8ee3ae56016571d47cba34", NULL, true },
    { "small.en-q8_0", 264477561, "9d75ff4ccfa0a8217870d7405cf8cef0a5579852", NULL, true },
    { "medium", 1533763059, "fd9727b6e1217c2f614f9b698455c4ffd82463b4", NULL, false },
    { "medium-q5_0", 539212467, "7718d4c1ec62ca96998f058114db98236937490e", NULL, false },
    { "medium-q8_0", 823369779, "e66645948aff4bebbec71b3485c576f3d63af5d6", NULL, false },
    { "medium.en", 1533774781, "8c30f0e44ce9560643ebd10bbe50cd20eafd3723", NULL, true },
    { "medium.en-q5_0", 539225533, "bb3b5281bddd61605d6fc76bc5b92d8f20284c3b", NULL, true },
    { "medium.en-q8_0", 823382461, "b1cf48c12c807e14881f634fb7b6c6ca867f6b38", NULL, true },
    { "large-v1", 3094623691, "b1caaf735c4cc1429223d5a74f0f4d0b9b59a299", NULL, false },
    { "large-v2", 3094623691, "0f4c8e34f21cf1a914c59d8b3ce882345ad349d6", NULL, false },
    { "large-v2-q5_0", 1080732091, "00e39f2196344e901b3a2bd5814807a769bd1630", NULL, false },
    { "large-v2-q8_0", 1656129691, "da97d6ca8f8ffbeeb5fd147f79010eeea194ba38", NULL, false },
    { "large-v3", 3095033483, "ad82bf6a9043ceed055076d0fd39f5f186ff8062", NULL, false },
    { "large-v3-q5_0", 1081140203, "e6e2ed78495d403bef4b7cff42ef4aaadcfea8de", NULL, false },
    { "large-v3-turbo", 1624555275, "4af2b29d7ec73d781377bfd1758ca957a807e941", NULL, false },
    { "large-v3-turbo-q5_0", 574041195, "e050f7970618a659205450ad97eb95a18d69c9ee", NULL, false },
    { "large-v3-turbo-q8_0", 874188075, "01bf15bedffe9f39d65c1b6ff9b687ea91f59e0e", NULL, false },
    { "distil-small.en", 336191657, "7691eb11167ab7aaf6b3e05d8266f2fd9ad89c550e433f86ac266ebdee6c970a",
      DISTIL("distil-small.en/resolve/main/ggml-distil-small.en.bin"), true },
    { "distil-medium.en", 794018180, "ad53ccb618188b210550e98cc32bf5a13188d86635e395bb11115ed275d6e7aa",
      DISTIL("distil-medium.en/resolve/main/ggml-medium-32-2.en.bin"), true },
    { "distil-large-v2", 1519111363, "2ed2bbe6c4138b3757f292b0622981bdb3d02bcac57f77095670dac85fab3cd6",
      DISTIL("distil-large-v2/resolve/main/ggml-large-32-2.en.bin"), true },
    { "distil-large-v3", 1519521155, "2883a11b90fb10ed592d826edeaee7d2929bf1ab985109fe9e1e7b4d2b69a298",
      DISTIL("distil-large-v3-ggml/resolve/main/ggml-distil-large-v3.bin"), true },
    { "distil-large-v3.5", 1519521155, "ec2498919b498c5f6b00041adb45650124b3cd9f26f545fffa8f5d11c28dcf26",
      DISTIL("distil-large-v3.5-ggml/resolve/main/ggml-model.bin"), true },
    { "demo", 2843677, "954490f54334d843c9ec49e7c34635f4c9465284", "", true },
};

static const struct tr_published *table = real;
static size_t count = sizeof real / sizeof *real;

const struct tr_published *tr_published_all(size_t *n)
{
    *n = count;
    return table;
}

void tr_published_replace(const struct tr_published *other, size_t n)
{
    table = other ? other : real;
    count = other ? n : sizeof real / sizeof *real;
}

const char *tr_published_name(const char *name)
{
    static const char *const names[][2] = { { "large", "large-v3" }, { "turbo", "large-v3-turbo" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i][0]) == 0)
            return names[i][1];
    }
    return name;
}

const struct tr_published *tr_published_find(const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, table[i].name) == 0)
            return &table[i];
    }
    return NULL;
}

void tr_published_address(struct gd__buffer *b, const struct tr_published *model, const char *base)
{
    if (!base && model->url) {
        gd__buffer_text(b, model->url);
        return;
    }
    size_t size = base ? strlen(base) : 0;
    while (size > 0 && base[size - 1] == '/')
        size--;
    gd__buffer_add(b, base ? base : USUAL, base ? size : strlen(USUAL));
    gd__buffer_format(b, "/ggml-%s.bin", model->name);
}

const char *tr_published_kind(const char *sum)
{
    return strlen(sum) == 64 ? "SHA-256" : "SHA-1";
}
