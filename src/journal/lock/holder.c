/* The text of a lock file: a line of HOLDER_SIZE bytes that names the holder, and a line with its heartbeat.
 *
 *     PID START NAMESPACE BOOT MACHINE HOST NONCE     (padded with blanks)
 *     BEAT
 *
 * Version 0.1 wrote only the first four words, and reads only these.
 *
 * When is a holder certainly gone? Its process id says so only within one PID namespace of one boot of one machine: the
 * boot id and the namespace must be ours. A machine that was restarted has another boot id. It is recognised by its
 * machine id and its host name together, and only if both processes are in the first PID namespace of their kernel:
 * nodes that were installed from one image may have the same machine id, and a container's id and name come from its
 * image and its description, so that the same ones may exist on two machines at a time.
 */
#include "journal/lock/holder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

enum { HOLDER_SIZE = 384, BEAT_SIZE = 21, TEST_MAX = 64 };
#define FIRST_SPACE UINT64_C(0xEFFFFFFC) /* the first PID namespace of every kernel */

/* --- what a test pretends --- */

/* Copies the value of that name in $GPU_DISPATCH_LOCK_TEST. Returns false if it has none. */
static bool pretended(const char *name, char *out, size_t size)
{
    const char *at = getenv("GPU_DISPATCH_LOCK_TEST");
    const size_t length = strlen(name);
    for (; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        snprintf(out, size, "%.*s", (int)strcspn(at + length + 1, ","), at + length + 1);
        return true;
    }
    return false;
}

void gd__lock_settings_read(struct gd__lock_settings *out)
{
    char text[TEST_MAX];
    *out = (struct gd__lock_settings){ .stale_ms = 60 * 1000, .shared = -1 };
    if (pretended("stale_ms", text, sizeof text) && atoi(text) > 0)
        out->stale_ms = (unsigned)atoi(text);
    if (pretended("locks", text, sizeof text)) {
        out->no_locks = strcmp(text, "none") == 0;
        out->local_locks = strcmp(text, "local") == 0;
    }
    out->no_links = pretended("links", text, sizeof text) && strcmp(text, "none") == 0;
    if (pretended("shared", text, sizeof text))
        out->shared = *text == '1';
    out->beat_ms = out->stale_ms / 12 + 1;
    out->look_ms = out->stale_ms / 60 + 1;
}

/* --- this process --- */

/* Replaces what would end the word in the lock file. */
static void make_word(char *text)
{
    for (char *p = text; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            *p = '_';
    if (!*text)
        memcpy(text, "-", sizeof "-");
}

static void read_machine(char out[GD__MACHINE_MAX])
{
    const int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, GD__MACHINE_MAX - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static void make_nonce(char out[GD__NONCE_MAX])
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) /* too early after boot */
        random = gd__now_ns() * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)getpid() << 32;
    snprintf(out, GD__NONCE_MAX, "%016" PRIx64, random);
}

/* Everything but the nonce. */
static void read_self(struct gd__lock_holder *out)
{
    char text[TEST_MAX];
    *out = (struct gd__lock_holder){ .beat = 1 };
    gd__owner_self(&out->owner);
    gd__owner_boot_id(out->boot);
    read_machine(out->machine);
    if (gethostname(out->host, sizeof out->host - 1) < 0)
        *out->host = '\0';
    if (pretended("space", text, sizeof text))
        out->owner.space = strtoull(text, NULL, 0);
    (void)pretended("boot", out->boot, sizeof out->boot);
    (void)pretended("machine", out->machine, sizeof out->machine);
    (void)pretended("host", out->host, sizeof out->host);
    make_word(out->boot);
    make_word(out->machine);
    make_word(out->host);
}

void gd__lock_holder_self(struct gd__lock_holder *out)
{
    read_self(out);
    make_nonce(out->nonce);
}

/* --- the file --- */

bool gd__lock_holder_write(int fd, const struct gd__lock_holder *h)
{
    char line[HOLDER_SIZE], text[HOLDER_SIZE + BEAT_SIZE + 1];
    snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s %s %s", h->owner.pid, h->owner.start,
             h->owner.space, h->boot, h->machine, h->host, h->nonce);
    const int n = snprintf(text, sizeof text, "%-*s\n%020" PRIu64 "\n", HOLDER_SIZE - 1, line, h->beat);
    return pwrite(fd, text, (size_t)n, 0) == n;
}

bool gd__lock_holder_write_beat(int fd, uint64_t beat)
{
    char text[BEAT_SIZE + 1];
    snprintf(text, sizeof text, "%020" PRIu64 "\n", beat);
    return pwrite(fd, text, BEAT_SIZE, HOLDER_SIZE) == BEAT_SIZE && fdatasync(fd) == 0;
}

void gd__lock_holder_read(int fd, struct gd__lock_holder *out)
{
    char text[HOLDER_SIZE + BEAT_SIZE + 1] = "";
    *out = (struct gd__lock_holder){ .boot = "" };
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    (void)sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %63s %39s %64s %16s", &out->owner.pid, &out->owner.start,
                 &out->owner.space, out->boot, out->machine, out->host, out->nonce);
    if (n > HOLDER_SIZE)
        out->beat = strtoull(text + HOLDER_SIZE, NULL, 10);
}

/* --- what is known about it --- */

static bool is_known(const char *word)
{
    return *word && strcmp(word, "-") != 0;
}

static bool is_same_boot(const struct gd__lock_holder *h, const struct gd__lock_holder *me)
{
    return is_known(me->boot) && strcmp(me->boot, h->boot) == 0;
}

static bool was_restarted(const struct gd__lock_holder *h, const struct gd__lock_holder *me)
{
    return is_known(h->boot) && is_known(me->boot) && strcmp(h->boot, me->boot) != 0 && is_known(h->machine) &&
           strcmp(h->machine, me->machine) == 0 && is_known(h->host) && strcmp(h->host, me->host) == 0 &&
           h->owner.space == FIRST_SPACE && me->owner.space == FIRST_SPACE;
}

bool gd__lock_holder_is_here(const struct gd__lock_holder *h)
{
    struct gd__lock_holder me;
    read_self(&me);
    return h->owner.pid > 0 && h->owner.start > 0 && h->owner.space > 0 && h->owner.space == me.owner.space &&
           is_same_boot(h, &me);
}

bool gd__lock_holder_is_gone(const struct gd__lock_holder *h)
{
    struct gd__lock_holder me;
    read_self(&me);
    if (h->owner.pid == 0)
        return false;
    return was_restarted(h, &me) || (gd__lock_holder_is_here(h) && !gd__owner_alive(&h->owner));
}

const char *gd__lock_holder_describe(const struct gd__lock_holder *h, char out[GD__LOCK_HOLDER_TEXT])
{
    struct gd__lock_holder me;
    read_self(&me);
    const bool is_elsewhere = is_known(h->host) && !is_same_boot(h, &me);
    *out = '\0';
    if (h->owner.pid > 0)
        snprintf(out, GD__LOCK_HOLDER_TEXT, "process %llu%s%s", (unsigned long long)h->owner.pid,
                 is_elsewhere ? " on " : "", is_elsewhere ? h->host : "");
    return out;
}
