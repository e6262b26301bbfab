/* Lets tests make calls fail and processes die: see fault.h. A library built without GD_TEST_HOOKS contains none of
 * this.
 *
 * GD_FAULT counts calls in every process that has it in its environment, until that process calls gd__fault_worker().
 * From then on only GD_FAULT_WORKER counts, from 1 again.
 */
#include "base/fault.h"

#ifdef GD_TEST_HOOKS

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 64 };

static atomic_ulong calls;
static atomic_ulong fail_at; /* 0: never */

static struct {
    char name[NAME_SIZE]; /* "": the process is not killed */
    unsigned long at;
    atomic_ulong passed;
} kill_at;

static unsigned long number_from(const char *s)
{
    return s ? strtoul(s, NULL, 10) : 0;
}

/* NAME[:N] */
static void read_kill(const char *spec)
{
    size_t length = strcspn(spec, ":");
    if (length >= NAME_SIZE)
        return;
    kill_at.at = spec[length] == ':' ? number_from(spec + length + 1) : 1;
    atomic_store(&kill_at.passed, 0);
    memcpy(kill_at.name, spec, length);
    kill_at.name[length] = '\0';
}

void gd__fault_read_kill(void)
{
    const char *spec = getenv("GD_KILL_DISPATCHER");
    if (spec)
        read_kill(spec);
}

__attribute__((constructor)) static void read_environment(void)
{
    gd__fault_begin(number_from(getenv("GD_FAULT")));
    gd__fault_read_kill();
}

void gd__fault_begin(unsigned long nth)
{
    atomic_store(&fail_at, nth);
    atomic_store(&calls, 0);
}

unsigned long gd__fault_count(void)
{
    return atomic_load(&calls);
}

bool gd__fault(const char *what)
{
    (void)what; /* for a debugger: break here if what is ... */
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fail_at))
        return false;
    errno = ENOMEM;
    return true;
}

void gd__fault_worker(unsigned restarts)
{
    gd__fault_begin(number_from(getenv("GD_FAULT_WORKER")));
    kill_at.name[0] = '\0';
    const char *spec = getenv("GD_KILL"), *always = getenv("GD_KILL_ALWAYS");
    if (spec && (restarts == 0 || (always && strcmp(always, "1") == 0)))
        read_kill(spec);
}

void gd__kill_point(const char *name)
{
    if (strcmp(name, kill_at.name) == 0 && atomic_fetch_add(&kill_at.passed, 1) + 1 == kill_at.at)
        kill(getpid(), SIGKILL);
}

#else

typedef int gd__fault_is_compiled_out; /* a translation unit may not be empty */

#endif
