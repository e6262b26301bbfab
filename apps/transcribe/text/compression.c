/* SPDX-License-Identifier: MIT
 *
 * Compresses texts with zlib. The library is opened at run time, because only this figure needs it. Nearly every system
 * has it. It is never closed, because other code of the process may use it too.
 */
#include "apps/transcribe/text/compression.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/text/trim.h"

/* As in zlib.h. */
static unsigned long (*bound)(unsigned long size);
static int (*compress_text)(unsigned char *to, unsigned long *to_size, const unsigned char *from, unsigned long size);

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    void *b = library ? dlsym(library, "compressBound") : NULL, *c = library ? dlsym(library, "compress") : NULL;
    if (!b || !c)
        return;
    memcpy(&bound, &b, sizeof bound); /* ISO C has no such cast */
    memcpy(&compress_text, &c, sizeof compress_text);
}

float tr_compression_ratio(const char *text, size_t size)
{
    pthread_once(&once, open_library);
    if (!compress_text)
        return NAN;
    text = tr_trim(text, &size);
    unsigned long packed = bound(size);
    unsigned char *room = malloc(packed);
    const int rc = room ? compress_text(room, &packed, (const unsigned char *)text, size) : -1;
    free(room);
    return rc == 0 ? (float)((double)size / (double)packed) : NAN;
}

bool tr_compression_possible(void)
{
    pthread_once(&once, open_library);
    return compress_text != NULL;
}

bool tr_compresses_too_well(const char *text, size_t size, double most)
{
    return !isinf(most) && (double)tr_compression_ratio(text, size) > most; /* false if the ratio is NAN */
}
