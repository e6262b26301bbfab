/* Opens libnats: see library.h. A loop over a table finds its functions. */
#include "queue/nats/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"

#define HOW_TO_INSTALL                                                                                          \
    "Install libnats: on Debian and Ubuntu with \"apt install libnats3.4\" (or a later libnats3.x), elsewhere " \
    "from https://github.com/nats-io/nats.c"

static const struct {
    size_t slot; /* offset in struct gd__nats */
    const char *name;
} symbols[] = {
#define SYMBOL(field, result, name, parameters) { offsetof(struct gd__nats, field), name },
    GD__NATS_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gd__nats api; /* protected by the lock until started is true, then constant */
static bool started;        /* protected by the lock */

static void *open_library(void)
{
    static const char *const names[] = { "libnats.so.3.4", "libnats.so.3", "libnats.so" };
    const char *path = getenv(GD__ENV_LIBNATS);
    if (path && *path)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

static int find_symbols(struct gd__nats *out)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(out->library, symbols[i].name);
        if (!symbol)
            return gd__error(GD_E_UNSUPPORTED, "this libnats cannot be used: it lacks %s. " HOW_TO_INSTALL,
                             symbols[i].name);
        memcpy((char *)out + symbols[i].slot, &symbol, sizeof symbol); /* ISO C has no such cast */
    }
    return 0;
}

/* libnats starts threads, and ignores SIGPIPE in the whole program. The threads shall receive no signals, and the program
 * keeps its own setting: sender.c blocks SIGPIPE while it writes. */
static int start_library(const struct gd__nats *n)
{
    struct sigaction pipe_before;
    sigset_t before;
    const bool saved = sigaction(SIGPIPE, NULL, &pipe_before) == 0;
    gd__signals_block(&before);
    const int status = n->open(-1); /* NOLINT(clang-analyzer-core.CallAndMessage): find_symbols() has set it */
    gd__signals_restore(&before);
    if (saved)
        sigaction(SIGPIPE, &pipe_before, NULL);
    return status == GD__NATS_OK ? 0 : gd__error(GD_E_UNSUPPORTED, "libnats cannot start: %s", n->status_text(status));
}

static bool start(void)
{
    struct gd__nats found = { .library = open_library() };
    if (!found.library) {
        (void)gd__error(GD_E_UNSUPPORTED, "a queue on a server needs libnats, the client library of NATS, and it was "
                                          "not found. " HOW_TO_INSTALL);
        return false;
    }
    if (find_symbols(&found) < 0 || start_library(&found) < 0) {
        dlclose(found.library);
        return false;
    }
    api = found;
    return true;
}

const struct gd__nats *gd__nats_library(void)
{
    pthread_mutex_lock(&lock);
    started = started || start();
    const struct gd__nats *n = started ? &api : NULL;
    pthread_mutex_unlock(&lock);
    return n;
}
