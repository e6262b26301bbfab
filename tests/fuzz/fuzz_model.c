/* SPDX-License-Identifier: MIT
 *
 * Checks arbitrary bytes as the file of a model. Nothing is read past the end, checking it does not take long, and an
 * accepted model has possible figures. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/transcribe/model/model.h"
#include "base/failure.h"
#include "base/file/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_model model;
    char path[64];
    const int fd = memfd_create("model", MFD_CLOEXEC);
    MUST(fd >= 0 && gd__write_all(fd, data, size) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (tr_model_check(&model, path) == 0) {
        MUST(model.bytes == size && model.layers >= 1 && model.layers <= 128 && model.mels >= 1 && model.mels <= 512);
        tr_model_free(&model);
    } else {
        MUST(model.path == NULL && *gd__fail_text());
    }
    close(fd);
    return 0;
}
